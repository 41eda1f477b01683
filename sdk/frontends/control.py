"""What branches and loops become that the run decides: all branches, or passes, are computed, and results chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from sdk.budget import ENDINGS
from sdk.compiler.ir.graph import Call, Value, WriteState
from sdk.compiler.ir.types import BOOL
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.sym import Expr, max_value, min_value
from sdk.frontends.emit import Emitter

__all__ = ["Passes", "chosen", "scalar_condition"]

Interval = tuple[float, float]
UNBOUNDED: Final = (
    "how often it runs is known only at run time",
    "give it an end that is known too, as LOGICAL_AND of its condition and a counter that stays below a number; or "
    "export it with a count that is a number (Keras: unroll=True), or loop around the model in your program",
)


def scalar_condition(node: Emitter, condition: Value) -> Value:
    """A condition as a scalar.

    Raises:
        BuildError: it is no truth value, or several.
    """
    if condition.type.dtype != BOOL or condition.type.size != 1:
        node.fail(f"its condition is {condition.type.dtype} of {condition.type.size} elements")
    return node.call("reshape", condition, shape=())


def chosen(node: Emitter, condition: Value, yes: Value, no: Value) -> Value:
    """One of two tensors, by a scalar.

    Raises:
        BuildError: they differ in type or shape.
    """
    if not _alike(yes, no):
        node.fail("its condition is known only at run time, and its branches give tensors of different types")
    return node.call("where", condition, yes, no)


def _alike(a: Value, b: Value) -> bool:
    same = a.type.rank == b.type.rank and all(map(same_extent, a.type.shape, b.type.shape))
    return a.type.dtype == b.type.dtype and same


# Of two intervals: whether a comparison surely holds; None where it may or may not.
_ORDERS: Final[Mapping[str, Callable[[Interval, Interval], bool | None]]] = {
    "less": lambda a, b: True if a[1] < b[0] else False if a[0] >= b[1] else None,
    "less_equal": lambda a, b: True if a[1] <= b[0] else False if a[0] > b[1] else None,
    "greater": lambda a, b: True if a[0] > b[1] else False if a[1] <= b[0] else None,
    "greater_equal": lambda a, b: True if a[0] >= b[1] else False if a[1] < b[0] else None,
    "not_equal": lambda a, b: False if a == b and a[0] == a[1] else None,
}


@dataclass
class Passes:
    """The passes of a loop that may end by what the run computes. Each pass is given what the one before gives, as if
    it surely ran, so that what is known of its values at import stays known; what the loop gives in the end, ``kept``,
    is that of the last pass that runs: ``running`` tells it, None as long as that is known."""

    node: Emitter
    kept: tuple[Value, ...]
    running: Value | None = None
    _made: dict[str, Call] = field(default_factory=dict)
    _seen: int = 0

    def goes_on(self, condition: Value, *, bounded: bool = False) -> bool:
        """Whether another pass may run, by the condition before it; ``bounded`` where something else ends the loop.

        Raises:
            BuildError: nothing bounds how many there are; or the condition is no truth value.
        """
        known = self.node.builder.contents_of(condition)
        if known is not None and known.numbers is not None:
            if known.numbers.size != 1:
                self.node.fail(f"its condition has {known.numbers.size} elements")
            return bool(np.all(known.numbers))
        body = self.node.builder.body
        self._made.update((v.name, one) for one in body[self._seen :] if isinstance(one, Call) for v in one.outs)
        self._seen = len(body)
        parts = [self._decided(part) for part in self._conjuncts(condition)]
        if any(found is False for found, _ in parts):
            return False
        if not bounded and not any(ends for _, ends in parts):
            why, hint = UNBOUNDED
            self.node.fail(why, hint=hint)
        self.node.builder.budget.spend(ENDINGS, 1, self.node.source)
        scalar = scalar_condition(self.node, condition)
        self.running = scalar if self.running is None else self.node.call("and", self.running, scalar)
        return True

    def ran(self, results: Sequence[Value], since: int) -> None:
        """Takes what a pass gives for the values it carries; ``since`` is how many nodes there were before it.

        Raises:
            BuildError: the run decides whether it runs, and it changes the type of a value, or assigns a variable.
        """
        if self.running is None:
            self.kept = tuple(results)
            return
        if any(isinstance(one, WriteState) for one in self.node.builder.body[since:]):
            self.node.fail("its end is known only at run time, and a pass assigns a variable")
        kept = []
        for new, old in zip(results, self.kept, strict=True):
            if not _alike(new, old):
                self.node.fail("its end is known only at run time, and a pass changes the type or shape of a value")
            kept.append(old if new.name == old.name else self.node.call("where", self.running, new, old))
        self.kept = tuple(kept)

    def _conjuncts(self, value: Value) -> list[Value]:
        """The truth values that must all hold."""
        one = self._made.get(value.name)
        if one is not None and one.callee == "reshape":
            return self._conjuncts(one.args[0])
        if one is not None and one.callee == "and":
            return [part for arg in one.args for part in self._conjuncts(arg)]
        return [value]

    def _decided(self, value: Value) -> tuple[bool | None, bool]:
        """What a truth value surely is, and whether numbers and sizes of inputs alone decide it."""
        known = self.node.builder.contents_of(value)
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
        known = self.node.builder.contents_of(value)
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
