"""Loops that look for the best of values, and remember where it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sdk.compiler.ir.intrinsics import op
from sdk.compiler.ir.loops import For, Let, Load, Op, Ref, Store, ValueExpr
from sdk.compiler.ir.types import DType
from sdk.compiler.ir.walk import walk

__all__ = ["Best", "best_of"]


@dataclass(frozen=True)
class Best:
    """``better = v cmp value; at = select(better, ..., at); value = select(better, v, value)``: the variable with the
    best value, all that change with it, each with what it becomes, the comparison, and whether a NaN is better than all
    numbers."""

    value: str
    taken: Mapping[str, ValueExpr]
    compare: str
    nan: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return tuple(self.taken)

    def better(self, later: ValueExpr, value: ValueExpr) -> ValueExpr:
        """Whether a later value takes the place of the best one so far."""
        found = op(self.compare, later, value)
        if not self.nan:
            return found
        if self.compare in ("ge", "le"):
            return op("or", found, op("isnan", later))
        return op("or", found, op("and", op("isnan", later), op("not", op("isnan", value))))


def best_of(loop: For, scalars: Mapping[str, DType]) -> Best | None:
    """What a loop looks for; None where it does something else."""
    first, *rest = loop.body.body
    if not isinstance(first, Let) or not rest or not all(isinstance(s, Store) and s.buffer in scalars for s in rest):
        return None
    taken: dict[str, ValueExpr] = {}
    for store in rest:
        assert isinstance(store, Store)
        match store.value:
            case Op("select", (Ref(name), later, Load(buffer))) if name == first.name and buffer == store.buffer:
                taken[store.buffer] = later
            case _:
                return None
    read = {n.buffer for later in taken.values() for n in walk(later) if isinstance(n, Load)}
    if len(taken) != len(rest) or read & taken.keys():
        return None
    for value, later in taken.items():
        for compare in ("gt", "ge", "lt", "le"):
            for nan in (False, True):
                best = Best(value, taken, compare, nan)
                held = Load(value, (), scalars[value])
                if (not nan or held.dtype.is_float) and first.value == best.better(later, held):
                    return best
    return None
