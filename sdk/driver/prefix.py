"""The prefix of all names in the C of a model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from sdk.driver.options import BuildOptions
from sdk.errors import UsageError
from sdk.frontends.base import ModelFile

__all__ = ["prefix_of"]

RUNTIME_PREFIX: Final = "sdk_rt"


def prefix_of(model: ModelFile | Path, options: BuildOptions) -> str:
    """The C prefix: the option's, or the file's name made an identifier.

    Raises:
        UsageError: the given name is no C identifier.
    """
    if options.name is not None:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", options.name):
            raise UsageError(f"{options.name!r} is not a C identifier", hint="letters, digits and _, a letter first")
        if options.name.lower().startswith(RUNTIME_PREFIX):
            raise UsageError(f"{options.name!r} begins like the runtime's own names", hint="choose another --name")
        return options.name
    stem = model.stem if isinstance(model, Path) else model.path.stem
    name = re.sub(r"[^A-Za-z0-9_]+", "_", stem).strip("_")
    return name if name[:1].isalpha() and not name.lower().startswith(RUNTIME_PREFIX) else f"m_{name}"
