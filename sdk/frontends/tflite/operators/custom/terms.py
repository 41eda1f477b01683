"""Arithmetic of kernels that are written in integers of C: terms that become calls, every width stated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import DType
from sdk.errors import BuildError
from sdk.frontends.emit import Emitter
from sdk.frontends.tflite.context import OpNode

__all__ = ["Term", "given", "row", "whole"]


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """A value to compute with: elementwise, integers wrap in their own width, both sides have one type (a number takes
    that of the other side). A comparison gives a term of booleans for ``where``."""

    emit: Emitter
    value: Value

    def _with(self, op: str, other: Term | float) -> Term:
        right = other.value if isinstance(other, Term) else self.emit.scalar(other, self.value.type)
        return Term(self.emit, self.emit.call(op, self.value, right))

    def __add__(self, other: Term | float) -> Term:
        return self._with("add", other)

    def __sub__(self, other: Term | float) -> Term:
        return self._with("sub", other)

    def __mul__(self, other: Term | float) -> Term:
        return self._with("mul", other)

    def __lshift__(self, other: Term | int) -> Term:
        return self._with("shift_left", other)

    def __rshift__(self, other: Term | int) -> Term:
        return self._with("shift_right", other)

    def __and__(self, other: Term | int) -> Term:
        return self._with("and", other)

    def __gt__(self, other: Term | float) -> Term:
        return self._with("greater", other)

    def __lt__(self, other: Term | float) -> Term:
        return self._with("less", other)

    def __ge__(self, other: Term | float) -> Term:
        return self._with("greater_equal", other)

    def __neg__(self) -> Term:
        return self.number(0) - self

    def same(self, other: Term | float) -> Term:
        """Where the two are equal."""
        return self._with("equal", other)

    def minimum(self, other: Term | float) -> Term:
        """The smaller one of the two."""
        return self._with("minimum", other)

    def maximum(self, other: Term | float) -> Term:
        """The larger one of the two."""
        return self._with("maximum", other)

    def number(self, number: float) -> Term:
        """A number in the type of the term."""
        return Term(self.emit, self.emit.scalar(number, self.value.type))

    def to(self, kind: DType) -> Term:
        """In another type; an integer keeps the low bits."""
        return self if self.value.type.dtype == kind else self.call("cast", to=str(kind))

    def where(self, yes: Term, no: Term | float) -> Term:
        """``yes`` where this is true, ``no`` elsewhere."""
        other = no if isinstance(no, Term) else yes.number(no)
        return Term(self.emit, self.emit.call("where", self.value, yes.value, other.value))

    def call(self, op: str, *args: Term, **options: str | int | bool | tuple[int, ...]) -> Term:
        """The result of another op on it."""
        return Term(self.emit, self.emit.call(op, self.value, *(a.value for a in args), **options))

    def table(self, data: np.typing.ArrayLike, kind: DType, stem: str) -> Term:
        """A constant beside the term."""
        return Term(self.emit, self.emit.const(np.asarray(data, kind.numpy), stem))

    def at(self, places: Term) -> Term:
        """The elements of the first axis at these places."""
        return self.call("gather", places, axis=0)


def given(node: OpNode, k: int, *kinds: DType) -> Term:
    """Input ``k`` as a term.

    Raises:
        BuildError: it is of another type, or has sizes that only the run knows.
    """
    value = node.input(k, *kinds)
    if not all(isinstance(d, int) for d in value.type.shape):
        raise BuildError(f"the sizes of input {k} ({node.tensor(k).title}) must be known when the model is built")
    return Term(node.emitter, value)


def row(node: OpNode, k: int, kind: DType, count: int | None = None) -> Term:
    """Input ``k`` as a term of rank 1, of ``count`` elements where that is given.

    Raises:
        BuildError: it is something else.
    """
    found = given(node, k, kind)
    shape = found.value.type.shape
    if len(shape) != 1 or shape[0] == 0 or (count is not None and shape[0] != count):
        wanted = "one axis" if count is None else f"{count} elements in a row"
        raise BuildError(f"input {k} ({node.tensor(k).title}) has the shape {list(shape)}, {wanted} is wanted")
    return found


def whole(node: OpNode, inputs: int, outputs: int) -> None:
    """Refuses an operator with other numbers of tensors.

    Raises:
        BuildError: it has more or fewer.
    """
    found = len(node.operator.inputs), len(node.operator.outputs)
    if found != (inputs, outputs):
        raise BuildError(f"it has {found[0]} inputs and {found[1]} outputs, not {inputs} and {outputs}")
