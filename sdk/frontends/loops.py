"""Loops as all their passes one after another: of those that data end, each pass has a condition that says whether it
counts, and what it would change is taken only where that holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sdk.budget import ENDINGS, TRIPS
from sdk.compiler.ir.graph import BindDim, Value, fresh_name
from sdk.compiler.ir.types import I32, I64
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.sym import Dim, Expr, Var, max_value, prove_ge
from sdk.frontends.base import OpenSizesError, UnknownDimsError
from sdk.frontends.control import scalar_condition
from sdk.frontends.emit import Emitter
from sdk.frontends.loop_bounds import Passes
from sdk.frontends.moves import part, type_text
from sdk.frontends.names import identifier

__all__ = ["Step", "check_passes", "cut", "loop_passes"]

# A pass: its number, and what is carried to it; whether there is one more (None: yes), what is carried on, and what
# the pass gives beside that.
Step = Callable[[int, tuple[Any, ...]], tuple[Value | None, Sequence[Any], Sequence[Value]]]
_ALONE = "or make the body an entry of its own, and loop in your program"


@dataclass
class _Loop:
    """A loop under way. ``alive`` is whether the next pass counts: None for surely, False for surely not."""

    node: Emitter
    name: str
    trips: Value | Dim | None
    guards: tuple[tuple[Value, bool], ...]
    itself: Callable[[], bool]  # whether the condition alone says that it ends at last
    alive: Value | bool | None = None
    by_data: bool = False  # whether something else than a size of inputs ends it
    guarded: bool = False  # whether ``alive`` holds the guards: only then the run may refuse a pass too many
    limit: int | None = None  # the user's
    maximum: int | None = None  # what the count says, at most
    flags: list[Value | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.limit = self.node.builder.passes.maximum(self.name)
        self.maximum = None if self.trips is None or isinstance(self.trips, Value) else max_value(self.trips)

    def reached(self) -> bool:
        """Whether there is no further pass."""
        done = len(self.flags)
        if self.alive is False or (self.maximum is not None and done >= self.maximum):
            return True
        return isinstance(self.alive, Value) and not self.unlimited and done >= self.bound()

    def foreseen(self) -> int | None:
        """How many passes there will be, as far as that can be said before the first one."""
        if self.alive is False:
            return 0
        if isinstance(self.alive, Value):
            return None if self.unlimited else self.bound()
        return self.maximum if self.maximum is not None and self.maximum <= TRIPS.maximum else None

    def bound(self) -> int:
        """How many passes are written at most, of a loop that the run ends.

        A name without bounds is noted, and one pass written to find further ones.
        """
        counted = self.counted
        if self.limit is None and counted is None:
            self.node.builder.passes.missing[self.name] = None
            self.node.builder.passes.asked |= self.node.builder.asked
            return 1
        return min(n for n in (self.limit, counted) if n is not None)

    @property
    def counted(self) -> int | None:
        """How many passes the count allows, where these may be written."""
        return self.maximum if self.maximum is not None and self.maximum <= TRIPS.maximum else None

    @property
    def unlimited(self) -> bool:
        """Whether nothing but its condition, which does so at last, ends it."""
        return self.limit is None and self.counted is None and self.itself()

    @property
    def checked(self) -> bool:
        """Whether the run may find more passes than are written."""
        return isinstance(self.alive, Value) and (self.maximum is None or len(self.flags) < self.maximum)

    def ends(self, again: Value | None) -> None:
        """What the condition after a pass, and the count, say of the next one."""
        self.alive = _both(self.node, self.alive, self._truth(again))
        done = len(self.flags)
        if self.alive is False or self.trips is None or isinstance(self.trips, int):
            return
        if isinstance(self.trips, Value):
            self.alive = _both(self.node, self.alive, self._truth(self._more(self.trips, done)))
        elif prove_ge(self.trips, done + 1) is not True:
            count = self.node.value(self.node.call("full", shape=(), value=self.trips, dtype=str(I64)))
            self.alive = _both(self.node, self.alive, self._truth(self._more(count, done), by_data=False))

    def _more(self, count: Value, done: int) -> Value:
        count = self.node.call("reshape", self.node.value(count), shape=())
        return self.node.call("greater", count, self.node.scalar(done, count.type))

    def _truth(self, condition: Value | None, by_data: bool = True) -> Value | bool | None:
        if condition is None:
            return None
        known = self.node.numbers(condition)
        if known is not None:
            return None if bool(np.all(known)) else False
        found = scalar_condition(self.node, self.node.value(condition))
        self.by_data |= by_data
        if not self.guarded and (by_data or self.limit is not None):
            self.guarded = True
            for guard, holds in self.guards:
                found = self.node.call("and", found, guard if holds else self.node.call("not", guard))
        return found

    def count(self) -> Value:
        """How many passes counted, i32[1]; one more than are written where the run wants more."""
        node = self.node
        flags = [f for f in (*self.flags, self.alive if self.checked else None) if isinstance(f, Value)]
        total = node.scalar(sum(f is None for f in self.flags), I32)
        for flag in flags:
            total = node.call("add", total, node.call("cast", flag, to=str(I32)))
        return node.value(node.call("reshape", total, shape=(1,)))

    def length(self, wanted: bool) -> Dim:
        """How many passes counted: the size that counts them, or a dim of the run, which checks it."""
        node, written = self.node, len(self.flags)
        if not self.checked and all(f is None for f in self.flags):
            return written
        if isinstance(self.trips, Expr) and not self.by_data and not self.checked and prove_ge(self.trips, 0) is True:
            return self.trips
        if not self.checked and not wanted:
            return written
        var = Var(fresh_name(self.name, node.builder.names | set(node.builder.dims)), 0, written)
        node.builder.names.add(var.name)
        node.builder.body.append(BindDim(var, self.count(), node.source))
        return var.expr


def loop_passes(
    node: Emitter, title: str, carried: Sequence[Any], first: Value | None, trips: Value | Dim | None, step: Step,
    itself: Callable[[], bool] = lambda: False,
) -> tuple[tuple[Any, ...], list[tuple[Value, ...]], Dim]:
    """All passes of a loop: what it carries in the end, what each pass gave, and how many of these count.

    ``first`` says whether there is a first pass, ``trips`` how many there are at most (None: yes, any number). A loop
    that the run ends has as many passes written as the count allows, or as the user says with ``--dim TITLE_passes``;
    a run that wants more ends with the error of that dim. ``itself`` says that neither is needed, for ``step`` gives a
    condition that is known to be false at last. Passes beyond the end are computed and change nothing.

    Raises:
        BuildError: its passes are too many, or what it carries changes in type or shape while data end it.
    """
    budget, passes = node.builder.budget, node.builder.passes
    loop = _Loop(node, f"{identifier(title)}_passes", trips, tuple(passes.guards), itself)
    loop.ends(first)
    state = feed = tuple(carried)
    before_last = state
    rows: list[tuple[Value, ...]] = []
    foreseen = loop.foreseen()
    budget.spend(TRIPS, foreseen or 0, node.source)
    before = dict(budget.spent)
    while not loop.reached():
        if foreseen is None or len(rows) >= foreseen:
            budget.spend(TRIPS, 1, node.source)
        alive = loop.alive
        if isinstance(alive, Value) and loop.unlimited:
            budget.spend(ENDINGS, 1, node.source)
        with passes.counts_if(alive) if isinstance(alive, Value) else nullcontext():
            again, new, given = step(len(rows), feed)
        if not rows and foreseen:
            budget.foresee(before, foreseen, node.source)
        loop.flags.append(alive if isinstance(alive, Value) else None)
        rows.append(tuple(given))
        if again is None and alive is None and foreseen is None and loop.maximum is not None:
            # nothing but the count can end it, and that is too large
            budget.spend(TRIPS, loop.maximum - len(rows), node.source)
        before_last, newest = state, tuple(new)
        state = _taken(node, alive, newest, state)
        feed = tuple(n if _is_known(node, n) else s for n, s in zip(newest, state, strict=True))
        loop.ends(again)
    length = loop.length(wanted=bool(rows and rows[0]))
    if loop.checked and rows:  # the last choice hangs on the dim, which the run checks
        ran = node.value(node.call("full", shape=(), value=length, dtype=str(I32)))
        last = node.call("greater_equal", ran, node.scalar(len(rows), I32))
        state = _taken(node, last, newest, before_last)
    return state, rows, length


def check_passes(passes: Passes, offered: Sequence[str]) -> None:
    """Refuses an import that lacks bounds of loops, or was given some for no loop.

    Raises:
        OpenSizesError: loops have none.
        UnknownDimsError: there is no such loop, nor a size of that name; ``offered`` are the names of sizes.
    """
    unknown = sorted(set(passes.given) - passes.used)
    if unknown:
        names = [*offered, *sorted(passes.used), *passes.missing]
        hint = f"open sizes: {', '.join(names)}" if names else "every size of this model is fixed"
        raise UnknownDimsError(tuple(unknown), hint)
    if passes.missing:
        raise OpenSizesError((), tuple(passes.missing))


def cut(node: Emitter, stacked: Value, length: Dim, axis: int = 0, backward: bool = False) -> Value:
    """What the passes that count have stacked along an axis: the first of it, of what runs backward the last."""
    extent = stacked.type.shape[axis]
    return part(node, stacked, axis, extent - length if backward else 0, length)


def _both(node: Emitter, a: Value | bool | None, b: Value | bool | None) -> Value | bool | None:
    if a is False or b is False:
        return False
    if isinstance(a, Value) and isinstance(b, Value):
        return node.call("and", a, b)
    return a if b is None else b


def _is_known(node: Emitter, value: Any) -> bool:
    """Whether a value is told by the number of the pass: where that counts, it is this."""
    if not isinstance(value, Value):
        return True
    found = node.builder.contents_of(value)
    return found is not None and value.name not in node.builder.sequences


def _taken(node: Emitter, alive: Value | bool | None, new: Sequence[Any], old: Sequence[Any]) -> tuple[Any, ...]:
    if not isinstance(alive, Value):
        return tuple(new)
    return tuple(_choice(node, alive, a, b, k) for k, (a, b) in enumerate(zip(new, old, strict=True)))


def _choice(node: Emitter, alive: Value, new: Any, old: Any, k: int) -> Any:
    """What is carried on of a value that a pass may change."""
    if new is old or (not isinstance(new, Value) and not isinstance(old, Value) and new == old):
        return old
    sequences = node.builder.sequences
    if not isinstance(new, Value) or not isinstance(old, Value):
        new, old = (v if isinstance(v, Value) else node.scalar(v, I64) for v in (new, old))
    if new.name in sequences or old.name in sequences:
        lacks = [name in sequences and sequences[name] is None for name in (new.name, old.name)]
        if all(lacks):
            return old
        if any(lacks) or not (new.name in sequences and old.name in sequences):
            hint = f"set every element of a list before the loop, {_ALONE}"
            node.fail("data end it, and a pass makes something of what is not there yet", hint=hint)
        parts = [sequences.get(v.name) or () for v in (new, old)]
        if len(parts[0]) != len(parts[1]):
            hint = f"stack what it gives, {_ALONE}"
            node.fail("data end it, and each pass changes how long a sequence is", hint=hint)
        chosen = tuple(_choice(node, alive, a, b, k) for a, b in zip(*parts, strict=True))
        return node.builder.sequence(chosen, node.stem)
    new, old = node.value(new), node.value(old)
    same = new.type.rank == old.type.rank and all(map(same_extent, new.type.shape, old.type.shape))
    if new.type.dtype != old.type.dtype or not same:
        node.fail(
            f"data end it, and a pass makes {type_text(new)} of its value {k}, {type_text(old)}",
            hint=f"carry a tensor of the largest shape, {_ALONE}",
        )
    return node.call("where", alive, new, old)
