"""The outline of a .tflite file, operators that cannot be imported included."""

from __future__ import annotations

from sdk.frontends.outline import Outline, OutlineNode, OutlineTensor
from sdk.frontends.tflite.operators import OPERATORS
from sdk.frontends.tflite.reader import Operator, Subgraph, Tensor, read_model

__all__ = ["constant_elements", "outline_tflite"]


def outline_tflite(data: bytes) -> Outline:
    """The main subgraph of a file.

    Raises:
        BuildError: the file is damaged.
    """
    graph = read_model(data, {op: (spec.options, spec.fields) for op, spec in OPERATORS.items()})[0]
    nodes = tuple(_node(graph, operator) for operator in graph.operators)
    return Outline(graph.inputs, graph.outputs, tuple(map(_tensor, graph.tensors)), nodes)


def constant_elements(data: bytes) -> int:
    """Elements of all constant tensors of a file.

    Raises:
        BuildError: the file is damaged.
    """
    graphs = read_model(data, {op: (spec.options, spec.fields) for op, spec in OPERATORS.items()})
    return sum(tensor.data.size for graph in graphs for tensor in graph.tensors if tensor.data is not None)


def _tensor(tensor: Tensor) -> OutlineTensor:
    open_axes = zip(tensor.shape, tensor.signature, strict=True)
    shape = tuple("?" if signed == -1 else extent for extent, signed in open_axes)
    constant = None if tensor.data is None else tensor.data.nbytes
    quant = (tensor.scales[0], tensor.zero_points[0]) if len(tensor.scales) == 1 else None
    return OutlineTensor(tensor.title, tensor.type_name.lower(), shape, constant, quant)


def _node(graph: Subgraph, operator: Operator) -> OutlineNode:
    outputs = tuple(k for k in operator.outputs if k >= 0)
    name = graph.tensors[outputs[0]].title if outputs else ""
    inputs = tuple(k for k in operator.inputs if k >= 0)
    return OutlineNode(operator.index, operator.name, name, inputs, outputs)
