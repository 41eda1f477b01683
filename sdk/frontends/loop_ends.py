"""Conditions of loops: what of them numbers and sizes of inputs alone decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from sdk.compiler.ir.graph import Call, Value
from sdk.compiler.sym import Expr, max_value, min_value
from sdk.frontends.builder import Builder

__all__ = ["Ends"]

Interval = tuple[float, float]
# Of two intervals: whether a comparison surely holds; None where it may or may not.
_ORDERS: Final[Mapping[str, Callable[[Interval, Interval], bool | None]]] = {
    "less": lambda a, b: True if a[1] < b[0] else False if a[0] >= b[1] else None,
    "less_equal": lambda a, b: True if a[1] <= b[0] else False if a[0] > b[1] else None,
    "greater": lambda a, b: True if a[0] > b[1] else False if a[1] <= b[0] else None,
    "greater_equal": lambda a, b: True if a[0] >= b[1] else False if a[1] < b[0] else None,
    "not_equal": lambda a, b: False if a == b and a[0] == a[1] else None,
}


@dataclass
class Ends:
    """The condition of a loop, pass after pass. ``bounded`` says whether a part of the last one, which must hold for it
    to hold, is made of numbers and sizes alone: then it is that part that ends the loop at last."""

    builder: Builder
    bounded: bool = False
    _made: dict[str, Call] = field(default_factory=dict)
    _seen: int = 0

    def decided(self, condition: Value) -> bool | None:
        """What a condition surely is; None where only the run knows."""
        body = self.builder.body
        self._made.update((v.name, one) for one in body[self._seen :] if isinstance(one, Call) for v in one.outs)
        self._seen = len(body)
        known = self.builder.contents_of(condition)
        if known is not None and known.numbers is not None:
            return bool(np.all(known.numbers))
        parts = [self._part(part) for part in self._conjuncts(condition)]
        self.bounded = any(bounded for _, bounded in parts)
        return False if any(found is False for found, _ in parts) else None

    def _conjuncts(self, value: Value) -> list[Value]:
        """The truth values that must all hold."""
        one = self._made.get(value.name)
        if one is not None and one.callee == "reshape":
            return self._conjuncts(one.args[0])
        if one is not None and one.callee == "and":
            return [part for arg in one.args for part in self._conjuncts(arg)]
        return [value]

    def _part(self, value: Value) -> tuple[bool | None, bool]:
        """What a truth value surely is, and whether numbers and sizes of inputs alone decide it."""
        known = self.builder.contents_of(value)
        if known is not None and known.numbers is not None:
            return bool(np.all(known.numbers)), True
        one = self._made.get(value.name)
        if one is None or one.callee not in _ORDERS:
            return None, False
        first, second = (self._interval(arg) for arg in one.args)
        if first is None or second is None:
            return None, False
        return _ORDERS[one.callee](first, second), True

    def _interval(self, value: Value) -> Interval | None:
        """Where a scalar made of numbers and sizes of inputs lies."""
        known = self.builder.contents_of(value)
        if known is not None and known.numbers is not None and known.numbers.size == 1:
            number = float(known.numbers.reshape(-1)[0])
            return number, number
        one = self._made.get(value.name)
        if one is None or value.type.size != 1:
            return None
        if one.callee in ("reshape", "cast") and value.type.dtype.kind == "i":
            return self._interval(one.args[0])
        size = dict(one.attrs).get("value") if one.callee == "full" else None
        if not isinstance(size, Expr):
            return None
        low, high = min_value(size), max_value(size)
        return None if low is None or high is None else (float(low), float(high))
