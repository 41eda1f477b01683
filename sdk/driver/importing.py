"""Model files as modules of stage "imported": all that commands need which compile nothing, so it loads quickly."""

from __future__ import annotations

from pathlib import Path

from sdk.compiler.ir.module import Module
from sdk.driver.files import read_model_file
from sdk.driver.options import BuildOptions
from sdk.errors import BuildError
from sdk.frontends import readable
from sdk.frontends.base import ModelFile
from sdk.frontends.outline import Refusal

__all__ = ["import_model"]


def import_model(
    model: ModelFile | Path, options: BuildOptions, prefix: str, refusals: list[Refusal] | None = None
) -> Module:
    """Reads a model file into a module of stage "imported"; what cannot be imported is put into ``refusals`` too.

    Raises:
        UsageError: the file cannot be read or is of no known kind.
        BuildError: the file is damaged or uses what the importer does not know.
    """
    file = read_model_file(model, options.importers, options.tensors)
    try:
        return file.frontend.load(file, prefix, options.dims, [] if refusals is None else refusals)
    except BuildError as err:
        err.where = err.where or str(file.path)
        err.hint = err.hint or "export the model anew without it; sdk help operators lists what is imported"
        if not file.frontend.sniff(file.data):  # nothing but its name made it a file of this format
            err.hint = f"{err.hint}; what is read: {readable()}"
        raise
