"""An ONNX graph under edit: nodes in order, constants as arrays, and who makes and reads each tensor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from sdk.compiler.ir.graph import fresh_name
from sdk.frontends.onnx.externals import NOTHING_BESIDE
from sdk.frontends.onnx.reader import tensor_array

__all__ = ["Array", "Net", "attribute", "captured"]

Array = NDArray[Any]


def attribute(node: onnx.NodeProto, name: str, default: Any = None) -> Any:
    """The value of an attribute, text as str."""
    found = next((a for a in node.attribute if a.name == name), None)
    if found is None:
        return default
    value = helper.get_attribute_value(found)
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def captured(node: onnx.NodeProto) -> Iterator[str]:
    """The names that graphs inside a node read; those of their own are among them."""
    for one in node.attribute:
        for graph in (*([one.g] if one.HasField("g") else []), *one.graphs):
            yield from (p.name for p in graph.output)
            for inner in graph.node:
                yield from inner.input
                yield from captured(inner)


@dataclass
class Net:
    """``model`` has what is not edited: inputs, outputs, opsets; its nodes and constants are those here."""

    model: onnx.ModelProto
    nodes: list[onnx.NodeProto]
    tensors: dict[str, onnx.TensorProto]
    _arrays: dict[str, Array] = field(default_factory=dict)

    @classmethod
    def of(cls, model: onnx.ModelProto) -> Net:
        """The graph of a model with all its data inside."""
        shell, graph = onnx.ModelProto(), model.graph
        shell.CopyFrom(model)
        tensors = {t.name: t for t in graph.initializer}
        for name in ("node", "initializer", "value_info"):
            shell.graph.ClearField(name)
        inputs = [p for p in graph.input if p.name not in tensors]
        shell.graph.ClearField("input")
        shell.graph.input.extend(inputs)
        return cls(shell, [_copy(n) for n in graph.node], tensors)

    @property
    def inputs(self) -> list[str]:
        """Names of what is given to a run."""
        return [p.name for p in self.model.graph.input]

    @property
    def outputs(self) -> list[str]:
        """Names of what a run gives."""
        return [p.name for p in self.model.graph.output]

    def array(self, name: str) -> Array | None:
        """The contents of a constant; None for what is none.

        Raises:
            BuildError: the file holds no proper contents of it.
        """
        if name not in self.tensors:
            return None
        if name not in self._arrays:
            self._arrays[name] = tensor_array(self.tensors[name], NOTHING_BESIDE)
        return self._arrays[name]

    def reals(self, name: str) -> Array | None:
        """The contents of a constant of single floats; None for all else."""
        kind = self.tensors[name].data_type if name in self.tensors else None
        return self.array(name) if kind == onnx.TensorProto.FLOAT else None

    def floats(self, name: str) -> Array:
        """The contents of a constant that is one of single floats."""
        found = self.reals(name)
        assert found is not None, name
        return found

    def const(self, stem: str, data: Array, kind: int | None = None) -> str:
        """A new constant; its name. ``kind`` is an element type of ONNX's that numpy lacks."""
        name = self.fresh(stem)
        if kind is None:
            self.tensors[name] = numpy_helper.from_array(np.ascontiguousarray(data), name)
        else:
            self.tensors[name] = helper.make_tensor(name, kind, data.shape, data.reshape(-1).tolist())
        return name

    def fresh(self, stem: str) -> str:
        """A name that nothing has."""
        return fresh_name(stem, self.names())

    def names(self) -> set[str]:
        """All names of tensors."""
        made = {name for node in self.nodes for name in node.output}
        read = {name for node in self.nodes for name in (*node.input, *captured(node))}
        return made | read | {*self.tensors} | {*self.inputs} | {*self.outputs}

    def makers(self) -> dict[str, int]:
        """The number of the node that makes each tensor."""
        return {name: k for k, node in enumerate(self.nodes) for name in node.output if name}

    def readers(self) -> dict[str, list[int]]:
        """The numbers of the nodes that read each tensor, those inside of which a graph does included."""
        found: dict[str, list[int]] = {}
        for k, node in enumerate(self.nodes):
            for name in dict.fromkeys((*node.input, *captured(node))):
                found.setdefault(name, []).append(k)
        return found

    def alone(self, name: str, readers: Mapping[str, list[int]]) -> int | None:
        """The one node that reads a tensor which nothing else does, and which is no output."""
        found = readers.get(name, [])
        inside = [k for k in found if name in set(captured(self.nodes[k]))]
        return found[0] if len(found) == 1 and not inside and name not in self.outputs else None

    def drop(self, numbers: Iterable[int]) -> None:
        """Removes nodes."""
        gone = set(numbers)
        self.nodes = [node for k, node in enumerate(self.nodes) if k not in gone]

    def copy(self) -> Net:
        """Another net, to be edited; contents of constants are shared."""
        shell = onnx.ModelProto()
        shell.CopyFrom(self.model)
        return Net(shell, [_copy(n) for n in self.nodes], dict(self.tensors), self._arrays)

    def proto(self) -> onnx.ModelProto:
        """The whole as a model, without constants that nothing reads."""
        read = {name for node in self.nodes for name in (*node.input, *captured(node))} | set(self.outputs)
        made = onnx.ModelProto()
        made.CopyFrom(self.model)
        made.graph.node.extend(self.nodes)
        made.graph.initializer.extend(t for name, t in self.tensors.items() if name in read)
        return made


def _copy(node: onnx.NodeProto) -> onnx.NodeProto:
    made = onnx.NodeProto()
    made.CopyFrom(node)
    return made
