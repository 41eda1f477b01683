"""What a converter of an ATen operator sees: arguments as values, dims and numbers, what PyTorch says of results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import BOOL, F32, I64, DType, TensorType
from sdk.compiler.sym import Dim, Expr
from sdk.errors import BuildError
from sdk.frontends.emit import Emitter

__all__ = ["OPERATORS", "Converter", "Number", "TorchNode", "aten", "operator"]

Number = Value | Dim | float | bool


@dataclass
class TorchNode(Emitter):
    """One call of an operator. ``target`` is its name (``aten.add.Tensor``), ``results`` the types that PyTorch found
    for its results, None for what is no tensor and for what only the run knows the size of; ``in_order`` whether the
    elements of every tensor that it is given lie in memory in order, the first one at its beginning; ``kept`` are
    constants that other operators read as they are, of which a copy in another order would be one more; ``complex``
    whether the first result is one of complex numbers, whose parts then have the type in ``results``."""

    target: str
    results: tuple[TensorType | None, ...]
    in_order: bool = True
    kept: frozenset[str] = frozenset()
    complex: bool = False

    @property
    def out(self) -> TensorType:
        """The type of the first result."""
        found = self.results[0] if self.results else None
        if found is None:
            self.fail("its result is no tensor")
        return found

    @property
    def kind(self) -> DType:
        """The element type of the first result."""
        return self.out.dtype

    def cast(self, value: Value, kind: DType) -> Value:
        """A tensor in an element type."""
        if value.type.dtype == kind:
            return value
        integers = value.type.dtype.is_float and kind.kind in "iu"
        return self.call("cast", value, to=str(kind), **({"wraps": True} if integers else {}))

    def tensor(self, number: Number, kind: DType) -> Value:
        """A tensor, a number or a size as a tensor of an element type."""
        if isinstance(number, Value):
            return self.cast(number, kind)
        if isinstance(number, Expr):
            return self.cast(self.call("full", shape=(), value=number, dtype=str(I64)), kind)
        return self.scalar(number, kind)

    def common(self, *given: Number) -> DType:
        """The type in which PyTorch computes with operands: tensors with axes count before those without, these before
        numbers, and of those the widest kind and then the widest type."""
        classes: list[list[DType]] = [[], [], []]
        for one in given:
            if isinstance(one, Value):
                classes[0 if one.type.rank else 1].append(one.type.dtype)
            else:
                classes[2].append(BOOL if isinstance(one, bool) else F32 if isinstance(one, float) else I64)
        found: DType | None = None
        for types in classes:
            best = _promoted(types)
            if best is not None and (found is None or _rank(best) > _rank(found)):
                found = best
        return found or F32

    def axes(self, given: Sequence[int] | int | None, rank: int) -> tuple[int, ...]:
        """Axes in order; all where none are named."""
        if given is None or (not isinstance(given, int) and not len(given)):
            return tuple(range(rank))
        return tuple(sorted({self.axis(k, rank) for k in ([given] if isinstance(given, int) else given)}))


def _rank(kind: DType) -> int:
    return {"b": 0, "u": 1, "i": 1, "f": 2}[kind.kind]


def _promoted(types: Sequence[DType]) -> DType | None:
    """The type of one class of operands: the widest of the widest kind."""
    if not types:
        return None
    maximum = max(map(_rank, types))
    same = [t for t in types if _rank(t) == maximum]
    widest = max(same, key=lambda t: (t.bits, t.kind == "i"))
    if maximum == 1 and widest.kind == "u" and any(t.kind == "i" for t in same):
        return DType("i", min(2 * widest.bits, 64))
    return widest


Converter = Callable[..., Value | tuple[Value, ...]]
One = TypeVar("One", bound=Converter)
OPERATORS: Final[dict[str, Converter]] = {}


def operator(*names: str) -> Callable[[One], One]:
    """Registers a converter of overloads, by their names. It is called with the node and the arguments of the schema:
    positional ones in order with their defaults, those that are given by name as they are given."""

    def register(function: One) -> One:
        for name in names:
            if name in OPERATORS:
                raise BuildError(f"the operator {name} has two converters")
            OPERATORS[name] = function
        return function

    return register


def aten(*names: str) -> Callable[[One], One]:
    """The same for overloads of ATen, by names without ``aten.``."""
    return operator(*(f"aten.{name}" for name in names))
