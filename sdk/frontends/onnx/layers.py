"""What the nodes of an ONNX file make, as values of the imported module."""

from __future__ import annotations

from collections.abc import Mapping

from sdk.compiler.ir.graph import Value, node_outs
from sdk.compiler.ir.module import Module
from sdk.frontends.base import ModelFile
from sdk.frontends.onnx.custom_node import converters_of
from sdk.frontends.onnx.externals import Externals
from sdk.frontends.onnx.importer import import_onnx
from sdk.frontends.onnx.reader import read_model
from sdk.frontends.outline import Layer

__all__ = ["onnx_layers"]


def onnx_layers(file: ModelFile, name: str, dims: Mapping[str, tuple[int, ...]]) -> tuple[Module, tuple[Layer, ...]]:
    """The module of a file, and each tensor that a node of its main graph computes in a run, by its name.

    Raises:
        BuildError, UsageError: as of the import.
    """
    externals, custom = file.beside if isinstance(file.beside, Externals) else None, converters_of(file.custom)
    tensors: dict[str, Value] = {}
    module = import_onnx(file.data, name, dims=dims, custom_ops=custom, externals=externals, tensors=tensors)
    made = {out.name for node in module.graphs["main"].body for out in node_outs(node)}
    nodes = read_model(file.data, None, externals).model.graph.node
    return module, tuple(
        Layer(node.op_type, out, out, tensors[out])
        for node in nodes for out in node.output if out in tensors and tensors[out].name in made
    )  # fmt: skip
