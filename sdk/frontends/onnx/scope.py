"""Names of a graph while it is imported: what each stands for, here or in the graphs around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from onnx import AttributeProto

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import dtype_of
from sdk.errors import BuildError
from sdk.frontends.builder import Builder, Contents
from sdk.frontends.onnx.externals import Externals
from sdk.frontends.onnx.reader import WIDER_TYPES, malformed, tensor_array

__all__ = ["Scope", "attribute_values"]


@dataclass
class Scope:
    """``values`` by ONNX name, None for the result of a node that failed; ``attributes`` those of the function call
    that the nodes are the body of, ``absent`` those of its parameters that the call leaves out; ``outer`` names the
    node that the nodes stand for, "" in the model's own graph."""

    builder: Builder
    opsets: Mapping[str, int]
    externals: Externals
    parent: Scope | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outer: str = ""
    depth: int = 0
    values: dict[str, Value | None] = field(default_factory=dict)
    initializers: dict[str, Any] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)

    def present(self, name: str) -> str:
        """``name``, or "" for a parameter of the function around that its call leaves out."""
        if name in self.absent:
            return ""
        return self.parent.present(name) if self.parent is not None and name not in self.values else name

    def lookup(self, name: str) -> Value | None:
        """What ``name`` stands for; None when the node that computes it failed.

        Raises:
            BuildError: nothing has that name here, or it is a constant that cannot be read.
        """
        if name in self.values:
            return self.values[name]
        if name in self.initializers:
            tensor = self.initializers[name]
            array = tensor_array(tensor, self.externals)
            found = self.values[name] = self.builder.known(Contents(dtype_of(array), array), name)
            if tensor.data_type in WIDER_TYPES:
                self.builder.narrow[found.name] = tensor.data_type
            return found
        if self.parent is not None:
            return self.parent.lookup(name)
        raise malformed(f"{name!r} is used before it is computed: nodes are out of order, in a cycle, or missing")

    def bind(self, name: str, value: Value | None) -> None:
        """Gives ``name`` its meaning.

        Raises:
            BuildError: it has one already.
        """
        if name in self.values or name in self.initializers:
            raise malformed(f"{name!r} is computed twice")
        self.values[name] = value


def attribute_values(scope: Scope, protos: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes as Python values: numbers, text, arrays, tuples; sub-graphs as they are.

    Raises:
        BuildError: one is of a kind that is not supported.
    """
    return {name: _attribute(scope, proto) for name, proto in protos.items()}


def _attribute(scope: Scope, proto: Any) -> Any:
    match proto.type:
        case AttributeProto.INT:
            return int(proto.i)
        case AttributeProto.FLOAT:
            return float(proto.f)
        case AttributeProto.STRING:
            return proto.s.decode("utf-8", "replace")
        case AttributeProto.TENSOR:
            return tensor_array(proto.t, scope.externals)
        case AttributeProto.GRAPH:
            return proto.g
        case AttributeProto.INTS:
            return tuple(int(v) for v in proto.ints)
        case AttributeProto.FLOATS:
            return tuple(float(v) for v in proto.floats)
        case AttributeProto.STRINGS:
            return tuple(v.decode("utf-8", "replace") for v in proto.strings)
        case AttributeProto.TYPE_PROTO:
            return proto.tp
    kind = AttributeProto.AttributeType.Name(proto.type).lower().replace("_", " ")
    raise BuildError(f"the attribute {proto.name} is a {kind}, which is not supported")

