"""The outline of an ONNX file, nodes that cannot be imported included; sizes as the file and ONNX's inference know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

import onnx

from sdk.frontends.onnx.reader import element_name, element_type, read_model
from sdk.frontends.outline import Outline, OutlineNode, OutlineTensor

__all__ = ["constant_elements", "outline_onnx"]

_SIZES: Final = frozenset({"Shape", "Size", "Constant"})
_INFER_BYTES: Final = 1 << 28  # inference copies the model


def outline_onnx(data: bytes) -> Outline:
    """The main graph of a file.

    Raises:
        BuildError: the file is damaged.
    """
    model = read_model(data, None).model
    known = {d.dim_param.strip() for p in model.graph.input for d in p.type.tensor_type.shape.dim}
    reader = _Reader({info.name: info for info in _infos(model)}, known - {""})
    for initializer in model.graph.initializer:
        kind = element_type(initializer.data_type)
        size = prod(initializer.dims) * (kind.nbytes if kind else 0)
        dtype, shape = element_name(initializer.data_type), tuple(initializer.dims)
        reader.add(initializer.name, OutlineTensor(initializer.name, dtype, shape, size))
    held = set(reader.numbers)
    inputs = tuple(reader.number(p.name) for p in model.graph.input if p.name not in held)
    nodes = tuple(reader.node(k, node) for k, node in enumerate(model.graph.node))
    outputs = tuple(reader.number(p.name) for p in model.graph.output)
    return Outline(inputs, outputs, tuple(reader.tensors), nodes, _folded(reader.tensors, nodes), checks_all=False)


def constant_elements(data: bytes) -> int:
    """Elements of the initializers and of the constants among the nodes of the main graph.

    Raises:
        BuildError: the file is damaged.
    """
    graph = read_model(data, None).model.graph
    held = [a.t for node in graph.node if node.op_type == "Constant" for a in node.attribute if a.HasField("t")]
    return sum(prod(tensor.dims) for tensor in (*graph.initializer, *held))


def _infos(model: Any) -> Iterator[Any]:
    """What is told of types and shapes, by the file and by ONNX's own inference where that understands the model."""
    graph = model.graph
    if model.ByteSize() < _INFER_BYTES:
        try:
            graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
            graph = model.graph  # the file contradicts itself: what it says is all there is
    yield from (*graph.value_info, *graph.output, *graph.input)


@dataclass
class _Reader:
    """Tensors by number, as names come along."""

    infos: Mapping[str, Any]
    sizes: set[str]  # names of the inputs' open sizes; others were made up on the way
    tensors: list[OutlineTensor] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, tensor: OutlineTensor) -> None:
        """Gives a tensor the next number."""
        self.numbers[name] = len(self.tensors)
        self.tensors.append(tensor)

    def number(self, name: str) -> int:
        """The number of a tensor."""
        if name not in self.numbers:
            self.add(name, _described(name, self.infos.get(name), self.sizes))
        return self.numbers[name]

    def node(self, index: int, node: Any) -> OutlineNode:
        """A node; what its sub-graphs read from outside counts as inputs."""
        outer = [n for n in _captured(node) if n in self.numbers]
        inputs = tuple(dict.fromkeys(self.number(n) for n in (*node.input, *outer) if n))
        outputs = tuple(self.number(n) for n in node.output if n)
        kind = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"
        return OutlineNode(index, kind, node.name or next(filter(None, node.output), ""), inputs, outputs)


def _described(name: str, info: Any, sizes: set[str]) -> OutlineTensor:
    if info is None or info.type.WhichOneof("value") != "tensor_type":
        return OutlineTensor(name, "?", None)
    tensor = info.type.tensor_type
    shape = tuple(_extent(dim, sizes) for dim in tensor.shape.dim) if tensor.HasField("shape") else None
    return OutlineTensor(name, element_name(tensor.elem_type), shape)


def _extent(dim: Any, sizes: set[str]) -> int | str:
    if dim.WhichOneof("value") == "dim_value":
        return int(dim.dim_value)
    return dim.dim_param.strip() if dim.dim_param.strip() in sizes else "?"


def _captured(node: Any) -> Iterator[str]:
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from inner.input
                yield from _captured(inner)


def _folded(tensors: list[OutlineTensor], nodes: tuple[OutlineNode, ...]) -> frozenset[int]:
    known = {k for k, t in enumerate(tensors) if t.constant is not None}
    found = set()
    for node in nodes:
        if node.kind in _SIZES or (node.inputs and known.issuperset(node.inputs)):
            found.add(node.index)
            known.update(node.outputs)
    return frozenset(found)
