"""Values of a model under construction: typed, with Python's operators as ops."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import DType, TensorType
from sdk.compiler.sym import Dim, Expr
from sdk.errors import BuildError

__all__ = ["Caller", "Operand", "Scalar", "Tensor", "show"]

Scalar = int | float | Expr
Operand: TypeAlias = "Tensor | Scalar"


class Caller(Protocol):
    """What puts calls of ops somewhere: an entry."""

    name: str

    def call(self, callee: str, *args: Operand, name: str = "", **given: Any) -> Tensor:
        """The result of an op that has one."""
        ...

    def scalar(self, value: Scalar, dtype: DType) -> Tensor:
        """A tensor of rank 0."""
        ...


class Tensor:
    """A value of an entry, or a constant of the module (``entry`` is None). ``+ - * / @`` and ``-x`` are ops.

    The other operand of ``+ - * /`` may be a number or, on the right, a dim; it becomes a scalar of the same element
    type.
    """

    __slots__ = ("entry", "value")
    __array_ufunc__ = None  # numpy leaves operators to us

    def __init__(self, value: Value, entry: Caller | None) -> None:
        self.value, self.entry = value, entry

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Extents, outermost first: numbers and dims."""
        return self.value.type.shape

    @property
    def dtype(self) -> DType:
        """Type of an element."""
        return self.value.type.dtype

    def __repr__(self) -> str:
        return f"{self.value}: {show(self.value.type)}"

    def _binary(self, op: str, other: Operand, swap: bool = False) -> Tensor:
        entry = self.entry or (other.entry if isinstance(other, Tensor) else None)
        if entry is None:
            raise BuildError(f"{op} of constants alone", hint="compute it with numpy, or use one value of an entry")
        right = other if isinstance(other, Tensor) else entry.scalar(other, self.dtype)
        return entry.call(op, *((right, self) if swap else (self, right)))

    def __add__(self, other: Operand) -> Tensor:
        return self._binary("add", other)

    def __radd__(self, other: Operand) -> Tensor:
        return self._binary("add", other, swap=True)

    def __sub__(self, other: Operand) -> Tensor:
        return self._binary("sub", other)

    def __rsub__(self, other: Operand) -> Tensor:
        return self._binary("sub", other, swap=True)

    def __mul__(self, other: Operand) -> Tensor:
        return self._binary("mul", other)

    def __rmul__(self, other: Operand) -> Tensor:
        return self._binary("mul", other, swap=True)

    def __truediv__(self, other: Operand) -> Tensor:
        return self._binary("div", other)

    def __rtruediv__(self, other: Operand) -> Tensor:
        return self._binary("div", other, swap=True)

    def __matmul__(self, other: Tensor) -> Tensor:
        return self._binary("matmul", other)

    def __neg__(self) -> Tensor:
        if self.entry is None:
            raise BuildError("neg of a constant", hint="compute it with numpy")
        return self.entry.call("neg", self)


def show(type_: TensorType) -> str:
    """A type in the words of the text form."""
    return f"{type_.dtype}[{', '.join(map(str, type_.shape))}]"
