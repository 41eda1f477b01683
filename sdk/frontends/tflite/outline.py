"""The outline of a .tflite file, operators that cannot be imported included."""

from __future__ import annotations

from sdk.frontends.outline import Outline, OutlineNode, OutlineTensor
from sdk.frontends.tflite.operators import OPERATORS
from sdk.frontends.tflite.reader import Operator, Subgraph, Tensor, read_model

__all__ = ["outline_tflite"]


def outline_tflite(data: bytes) -> Outline:
    """The main subgraph of a file.

    Raises:
        BuildError: the file is damaged.
    """
    graph = read_model(data, {op: (spec.options, spec.fields) for op, spec in OPERATORS.items()})[0]
    nodes = tuple(_node(graph, operator) for operator in graph.operators)
    return Outline(graph.inputs, graph.outputs, tuple(map(_tensor, graph.tensors)), nodes)


def _tensor(tensor: Tensor) -> OutlineTensor:
    open_axes = zip(tensor.shape, tensor.signature, strict=True)
    shape = tuple("?" if signed == -1 else extent for extent, signed in open_axes)
    constant = None if tensor.data is None else tensor.data.nbytes
    return OutlineTensor(tensor.title, tensor.type_name.lower(), shape, constant)


def _node(graph: Subgraph, operator: Operator) -> OutlineNode:
    outputs = tuple(k for k in operator.outputs if k >= 0)
    name = graph.tensors[outputs[0]].title if outputs else ""
    inputs = tuple(k for k in operator.inputs if k >= 0)
    return OutlineNode(operator.index, operator.name, name, inputs, outputs)
