"""The float model that is quantised, as ONNX: a file of that format as it is, another one written anew."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from sdk.driver.files import read_model_file
from sdk.driver.importing import import_model
from sdk.driver.options import BuildOptions
from sdk.errors import UsageError
from sdk.frontends import frontends
from sdk.frontends.base import ModelFile
from sdk.frontends.onnx.externals import Externals
from sdk.frontends.onnx.reader import embedded, read_model
from sdk.quantizer.export import exported

__all__ = ["float_model", "model_file"]


def model_file(model: object, example: Any = None) -> ModelFile:
    """A model as the file that it is in, or would be in.

    Raises:
        UsageError: it cannot be read, or is no model.
    """
    if isinstance(model, ModelFile):
        return model
    if isinstance(model, (str, Path)):
        return read_model_file(Path(model))
    for frontend in frontends():
        known = frontend.objects
        packed = known and (known.pack(model) if example is None else known.trace(model, example, None))
        if packed:
            name, data = packed
            return ModelFile(Path(f"{name or 'model'}{frontend.suffixes[0]}"), data, frontend)
    what = [frontend.objects.what for frontend in frontends() if frontend.objects]
    raise UsageError(f"a {type(model).__name__} is no model", hint=f"give the path of a model file, {', '.join(what)}")


def float_model(file: ModelFile, dims: Mapping[str, tuple[int, ...]]) -> onnx.ModelProto:
    """The model of a file as ONNX.

    Raises:
        BuildError: it is damaged, or cannot be imported, or has what cannot be written as ONNX.
    """
    if file.frontend.name == "onnx":
        beside = file.beside if isinstance(file.beside, Externals) else None
        data = file.data if beside is None else embedded(file.data, beside)
        model: onnx.ModelProto = read_model(data, None).model
        return model
    return exported(import_model(file, BuildOptions(dims=dict(dims)), "model"))
