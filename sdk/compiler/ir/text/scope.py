"""Which dim, value, buffer or scalar a name means at a place in the text, for writing and for reading."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from sdk.compiler.ir.intrinsics import INTRINSICS
from sdk.compiler.ir.loops import Buffer, ValueExpr
from sdk.compiler.ir.types import BOOL, SCALARS, DType, TensorType
from sdk.compiler.sym import Dim, Var, interval

__all__ = ["Scope", "implied_dtype", "implied_var", "is_word"]

_DTYPE: Final = re.compile(rf"(?:{'|'.join(SCALARS)})(?:x[0-9]+)?")


@dataclass(slots=True)
class Scope:
    """Declarations visible here. ``values`` holds the types of ``%value`` and ``@const`` of a graph."""

    dims: dict[str, Var] = field(default_factory=dict)
    values: dict[str, TensorType] = field(default_factory=dict)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    lets: dict[str, DType] = field(default_factory=dict)

    def let(self, name: str, dtype: DType) -> None:
        """Declares a scalar, which as an index is a variable of the range of its type."""
        self.lets[name] = dtype
        if dtype.lanes == 1 and not dtype.is_float:
            self.dims[name] = Var(name, *dtype.limits)

    def child(self) -> Scope:
        """A scope for a block of loops: what it declares ends with it."""
        return Scope(dict(self.dims), self.values, dict(self.buffers), dict(self.lets))


def implied_var(name: str, hi: Dim) -> Var | None:
    """The variable of a loop that ends before ``hi`` when the text gives no bounds; None where it must."""
    maximum = interval(hi)[1]
    return None if maximum is None else Var(name, 0, max(maximum - 1, 0))


def implied_dtype(name: str, args: tuple[ValueExpr, ...]) -> DType | None:
    """The type of an operation when the text gives none; None where it must."""
    row = INTRINSICS.get(name)
    if row is None or not args:
        return None
    if name == "select":
        return args[1].dtype if len(args) > 1 else None
    if row.result == "bool":
        return BOOL.with_lanes(args[0].dtype.lanes)
    return args[0].dtype if row.result == "same" else None


def is_word(name: str) -> bool:
    """Whether ``name(…)`` in an expression is a conversion or an index, not an operation of that name."""
    return name == "idx" or _DTYPE.fullmatch(name) is not None
