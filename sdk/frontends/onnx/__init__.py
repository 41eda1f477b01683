"""The ONNX frontend: a model with fixed or symbolic sizes becomes a module of our operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sdk.frontends.base import Beside, Engine, Frontend, ModelFile, Objects, Reference
from sdk.frontends.onnx.sniff import is_onnx

if TYPE_CHECKING:
    from sdk.compiler.ir.graph import Graph
    from sdk.compiler.ir.module import Module
    from sdk.frontends.outline import Layer, Outline, Refusal
    from sdk.frontends.tensors import Tensors

__all__ = ["FRONTEND"]


def _load(file: ModelFile, name: str, dims: Mapping[str, tuple[int, ...]], refusals: list[Refusal]) -> Module:
    from sdk.frontends.onnx.custom_node import converters_of
    from sdk.frontends.onnx.externals import Externals
    from sdk.frontends.onnx.importer import import_onnx

    externals, custom = file.beside if isinstance(file.beside, Externals) else None, converters_of(file.custom)
    return import_onnx(file.data, name, dims=dims, custom_ops=custom, refusals=refusals, externals=externals)


def _beside(path: Path, data: bytes) -> Beside | None:
    if b"location" not in data:  # the onnx package takes long to import, so only a model that names a file loads it
        return None
    from sdk.frontends.onnx.reader import externals_of

    return externals_of(data, path.parent)


def _outline(data: bytes) -> Outline:
    from sdk.frontends.onnx.outline import outline_onnx

    return outline_onnx(data)


def _constants(data: bytes) -> int:
    from sdk.frontends.onnx.outline import constant_elements

    return constant_elements(data)


def _open(file: ModelFile, graph: Graph) -> Reference:
    from sdk.frontends.onnx.engine import OnnxRuntime

    return OnnxRuntime(file, graph)


def _pack(model: object) -> tuple[str, bytes] | None:
    import onnx

    return (model.graph.name, model.SerializeToString()) if isinstance(model, onnx.ModelProto) else None


def _layers(
    file: ModelFile, name: str, dims: Mapping[str, tuple[int, ...]], entry: str | None
) -> tuple[Module, tuple[Layer, ...]]:
    from sdk.frontends.onnx.layers import onnx_layers

    return onnx_layers(file, name, dims)


def _open_layers(file: ModelFile, graph: Graph, keys: Sequence[str]) -> Reference:
    from sdk.frontends.onnx.engine import OnnxRuntimeLayers

    return OnnxRuntimeLayers(file, graph, keys)


def _retensor(data: bytes, tensors: Tensors) -> bytes:
    from sdk.frontends.onnx.weights import retensored

    return retensored(data, tensors)


FRONTEND = Frontend(
    name="onnx",
    title="ONNX model",
    suffixes=(".onnx",),
    sniff=is_onnx,
    load=_load,
    retensor=_retensor,
    beside=_beside,
    outline=_outline,
    constants=_constants,
    layers=_layers,
    engines=(Engine("onnxruntime", "onnxruntime", _open, lambda graph: True, _open_layers),),
    objects=Objects("an onnx.ModelProto", _pack),
    custom=True,
)
