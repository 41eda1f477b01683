"""What a converter of one ONNX operator sees: its inputs as values, numbers or dims, its attributes, calls to emit."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr, Value
from sdk.compiler.ir.types import F16, F32, TensorType
from sdk.compiler.ops import get_op
from sdk.compiler.ops.traits import Elementwise
from sdk.compiler.sym import Dim, Expr
from sdk.errors import BuildError
from sdk.frontends.builder import Contents
from sdk.frontends.emit import Emitter
from sdk.frontends.onnx.spread import spread_operands

__all__ = ["OPERATORS", "Converter", "OnnxNode", "in_single", "onnx_op"]

Array = NDArray[Any]


@dataclass
class OnnxNode(Emitter):
    """One node being imported. ``inputs`` are the values of its inputs, None where left out; ``given`` its attributes
    as Python values (numbers, text, tuples, arrays, sub-graphs); ``outputs`` the number of outputs wanted."""

    op: str
    name: str
    opset: int
    inputs: tuple[Value | None, ...]
    outputs: int
    given: Mapping[str, Any]
    inline: Callable[[Any, tuple[Value, ...]], tuple[Value, ...]]

    @property
    def count(self) -> builtins.int:
        """Number of inputs given; trailing ones left out do not count."""
        return len(self.inputs)

    def calls(self, op: str, *args: Value, **given: Attr) -> tuple[Value, ...]:
        """Appends a call of an op; operands of open sizes that may be 1 broadcast, and the run checks what no proof
        gives."""
        if len(args) > 1:
            kind = get_op(op).kind
            if isinstance(kind, Elementwise):
                count = len(args) - kind.tables
                args = (*spread_operands(self, args[:count]), *args[count:])
            elif op == "matmul":
                args = spread_operands(self, args, kept=2)
        return super().calls(op, *args, **given)

    # -- attributes ---------------------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Whether the attribute ``name`` is given."""
        return name in self.given

    def _attribute(self, name: str, kind: builtins.type | tuple[builtins.type, ...], default: Any) -> Any:
        value = self.given.get(name, default)
        if value is not default and not isinstance(value, kind):
            self.fail(f"the attribute {name} has the wrong type")
        return value

    def int(self, name: str, default: builtins.int | None = None) -> Any:
        """An integer attribute, or ``default``."""
        return self._attribute(name, int, default)

    def float(self, name: str, default: builtins.float | None = None) -> Any:
        """A float attribute, or ``default``."""
        return self._attribute(name, (float, int), default)

    def text(self, name: str, default: str | None = None) -> Any:
        """A text attribute, or ``default``."""
        return self._attribute(name, str, default)

    def ints(self, name: str, default: Sequence[builtins.int] | None = None) -> Any:
        """A tuple of integers, or ``default``."""
        return self._list(name, int, default)

    def floats(self, name: str, default: Sequence[builtins.float] | None = None) -> Any:
        """A tuple of floats, or ``default``."""
        return self._list(name, float, default)

    def texts(self, name: str, default: Sequence[str] | None = None) -> Any:
        """A tuple of texts, or ``default``."""
        return self._list(name, str, default)

    def _list(self, name: str, kind: builtins.type, default: Any) -> Any:
        value = self._attribute(name, tuple, default)
        if value is not default and not all(isinstance(v, kind) for v in value):
            self.fail(f"the attribute {name} has the wrong type")
        return value

    def array(self, name: str) -> Array | None:
        """A tensor attribute as an array; None without it."""
        found: Array | None = self._attribute(name, np.ndarray, None)
        return found

    def branch(self, name: str, *args: Value) -> tuple[Value, ...]:
        """The outputs of the sub-graph attribute ``name`` on ``args``, its nodes imported here.

        Raises:
            BuildError: there is no such attribute.
        """
        if name not in self.given:
            self.fail(f"the attribute {name} is missing")
        return self.inline(self.given[name], args)

    # -- inputs -------------------------------------------------------------------------------------------------

    def raw(self, k: builtins.int) -> Value:
        """Input ``k`` as it is, perhaps a value known at import that stands nowhere in the graph yet.

        Raises:
            BuildError: it is not given.
        """
        if k >= len(self.inputs):
            self.fail(f"input {k} is missing")
        value = self.inputs[k]
        if value is None:
            self.fail(f"input {k} is missing")
        return value

    def given_input(self, k: builtins.int) -> bool:
        """Whether input ``k`` is given."""
        return k < len(self.inputs) and self.inputs[k] is not None

    def x(self, k: builtins.int) -> Value:
        """Input ``k`` as a graph value; what is known at import becomes a constant, or calls that compute it.

        Raises:
            BuildError: it is not given.
        """
        return self.builder.materialize(self.raw(k), self.source)

    def optional(self, k: builtins.int) -> Value | None:
        """Input ``k`` as a graph value, or None when it is left out."""
        return self.x(k) if self.given_input(k) else None

    def type(self, k: builtins.int) -> TensorType:
        """The type of input ``k``."""
        return self.raw(k).type

    def contents(self, k: builtins.int) -> Contents | None:
        """What is known of the contents of input ``k`` at import: numbers or dims."""
        return self.builder.contents_of(self.raw(k)) if self.given_input(k) else None

    def data(self, k: builtins.int) -> Array | None:
        """The contents of input ``k`` when they are numbers at import; None when not, or when it is left out."""
        found = self.contents(k)
        return found.numbers if found is not None else None

    def known_dims(self, k: builtins.int) -> tuple[Dim, ...] | None:
        """The contents of input ``k``, a scalar or 1-D integer tensor, as dims; None when only known at run time."""
        found = self.contents(k)
        if found is None or found.array.ndim > 1 or found.dtype.kind not in "iub":
            return None
        return tuple(d if isinstance(d, Expr) else int(d) for d in found.array.reshape(-1).tolist())

    def dims(self, k: builtins.int) -> tuple[Dim, ...]:
        """The contents of input ``k``, a scalar or 1-D integer tensor, as dims.

        Raises:
            BuildError: they are only known at run time.
        """
        found = self.known_dims(k)
        if found is None:
            self.fail(f"input {k} must be known when the model is built, as numbers or sizes of inputs")
        return found


Converter = Callable[[OnnxNode], Value | tuple[Value, ...]]
OPERATORS: Final[dict[str, Converter]] = {}


def onnx_op(*names: str, domain: str = "") -> Callable[[Converter], Converter]:
    """Registers a converter for the operators ``names`` of a domain; ``node.op`` tells which one it is."""

    def register(function: Converter) -> Converter:
        for name in names:
            key = f"{domain}::{name}" if domain else name
            if key in OPERATORS:
                raise BuildError(f"the ONNX operator {key} has two converters")
            OPERATORS[key] = function
        return function

    return register


def in_single(converter: Converter) -> Converter:
    """A converter whose ops know no half floats: they are computed as single ones."""

    @wraps(converter)
    def run(node: OnnxNode) -> Value | tuple[Value, ...]:
        if not any(v is not None and v.type.dtype == F16 for v in node.inputs):
            return converter(node)
        inputs = (node.call("cast", v, to=str(F32)) if v and v.type.dtype == F16 else v for v in node.inputs)
        found = converter(replace(node, inputs=tuple(inputs)))
        results = found if isinstance(found, tuple) else (found,)
        return tuple(node.call("cast", v, to=str(F16)) if v.type.dtype == F32 else v for v in results)

    return run
