"""Which loops functions may compute their rows in parts side by side, and where to cut."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from sdk.compiler.analysis.access import Access, Same, accesses
from sdk.compiler.analysis.path_conditions import PathConditions
from sdk.compiler.ir.loops import (
    Atomic,
    Barrier,
    Buffer,
    Eval,
    For,
    Loops,
    Rows,
)
from sdk.compiler.ir.walk import statements, walk
from sdk.compiler.sym import (
    Dim,
    Expr,
    Func,
    flat_index,
    floordiv,
    free_vars,
    product,
    prove_eq,
    substitute,
)
from sdk.compiler.sym.dim import from_terms

__all__ = ["row_granule", "shared_params"]

REMEMBERED: Final = 1 << 10  # answers: a kernel that many layers share is asked for by the planner and the verifier
_MAX_GRANULE: Final = 256


def row_granule(loops: Loops, shared: frozenset[str] = frozenset()) -> int | None:
    """Rows between places where a call may be cut: parts cut at its multiples run in any order, or at once, and
    give every bit that one call gives. None where that is not proved.

    Proved where what a part touches of each parameter that is written is the part's own (where these take over the
    bytes of parameters that are read, ``shared``: the same bytes of all of them), and where tiles of rows, known by
    divisions of the row range, start at the same rows with and without cuts.
    """
    return _granule(Same(loops), shared)


@lru_cache(maxsize=REMEMBERED)
def _granule(same: Same, shared: frozenset[str]) -> int | None:
    loops = same.loops
    if loops.rows is None or any(isinstance(n, Eval | Barrier | Atomic) for n in statements(loops.body)):
        return None
    if any(isinstance(n, For) and n.until is not None for n in walk(loops.body)):
        return None
    watched = {p.buffer.name: p.buffer for p in loops.params if p.mode != "read" or p.buffer.name in shared}
    touched = _touches(loops, loops.rows, watched)
    owned = [_owned(found, watched[name], loops.rows) for name, found in touched.items()]
    if not (_common(owned) if shared else all(any(True for _ in each) for each in owned)):
        return None
    tiles = {
        t for n in statements(loops.body) if isinstance(n, For) for d in (n.lo, n.hi) for t in _tiles(d, loops.rows)
    }
    granule = math.lcm(*tiles)
    return granule if granule <= _MAX_GRANULE else None


def shared_params(loops: Loops, args: Sequence[str], alias: Mapping[str, str]) -> frozenset[str]:
    """The parameters read whose bytes one that is written takes over, in a call on buffers ``args``; ``alias`` gives
    each buffer the one whose bytes it shares ("" = none)."""

    def root(name: str) -> str:
        while alias.get(name):
            name = alias[name]
        return name

    held = [(p, root(name)) for p, name in zip(loops.params, args, strict=True)]
    written = {r for p, r in held if p.mode != "read"}
    return frozenset(p.buffer.name for p, r in held if p.mode == "read" and r in written)


# --- what parts touch --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Touch:
    """An access, and what holds there."""

    access: Access
    conditions: PathConditions


def _row_conditions(rows: Rows) -> PathConditions:
    return PathConditions().with_range(rows.lo, 0, rows.extent + 1).with_range(rows.hi, rows.lo.expr, rows.extent + 1)


def _touches(loops: Loops, rows: Rows, watched: Mapping[str, Buffer]) -> dict[str, list[_Touch]]:
    """The accesses of the buffers ``watched``, by buffer."""
    start = _row_conditions(rows)
    known: dict[tuple[int, int], PathConditions] = {}  # one object where the same holds: it remembers what it proved
    found = [access for access in accesses(loops.body) if access.buffer in watched]
    out: dict[str, list[_Touch]] = {}
    for access in found:
        place = id(access.loops), id(access.guards)
        if place not in known:
            ranges = ((loop.var, loop.lo, loop.hi) for loop in access.loops)
            known[place] = PathConditions((*start.ranges, *ranges), access.guards)
        out.setdefault(access.buffer, []).append(_Touch(access, known[place]))
    return out


@dataclass(frozen=True, slots=True)
class _Slab:
    """What rows ``lo..hi`` own of a buffer: the places ``step*lo..step*hi`` of an axis; with ``on``, of the elements
    that this axis and those behind it number in order."""

    axis: int
    step: Dim
    on: bool = False

    def holds(self, touch: _Touch, buffer: Buffer, rows: Rows) -> bool:
        """Whether an access stays in what the rows of its part own."""
        index, lanes, used = touch.access.index, touch.access.lanes, touch.access.count
        conditions = touch.conditions if used is None else touch.conditions.with_guards([used - 1])
        last, at = len(buffer.shape) - 1, self.place(index, buffer)
        spans: tuple[Dim, ...] = (lanes,) if used is None else (used, lanes)
        if self.on or self.axis == last:
            return any(self._between(conditions, at, span, rows) for span in spans)
        line = buffer.shape[last] - index[last]
        within = lanes == 1 or any(conditions.nonnegative(line - span) is True for span in spans)
        return within and self._between(conditions, at, 1, rows)

    def place(self, index: tuple[Dim, ...], buffer: Buffer) -> Dim:
        """Where an access begins."""
        return flat_index(index[self.axis :], buffer.shape[self.axis :]) if self.on else index[self.axis]

    def _between(self, conditions: PathConditions, at: Dim, span: Dim, rows: Rows) -> bool:
        """Whether places ``at..at + span`` are of rows ``lo..hi``, taken together or as those of one row."""
        lo, hi = rows.lo.expr, rows.hi.expr
        if _all(conditions, at - lo * self.step, hi * self.step - span - at):
            return True
        if conditions.nonnegative(self.step - 1) is not True:
            return False
        row = floordiv(_whole_steps(at, self.step), self.step)
        rest = at - row * self.step
        return _all(conditions, row - lo, hi - 1 - row, rest, self.step - span - rest)


def _whole_steps(at: Dim, step: Dim) -> Dim:
    """The terms of a dim that a number divides; all of it where the step is symbolic."""
    if isinstance(at, int) or not isinstance(step, int):
        return at
    divided = tuple((term, c) for term, c in at.terms if c % step == 0)
    return from_terms(divided) if divided else 0


def _all(conditions: PathConditions, *dims: Dim) -> bool:
    return all(conditions.nonnegative(dim) is True for dim in dims)


def _owned(found: Sequence[_Touch], buffer: Buffer, rows: Rows) -> Iterator[Hashable]:
    """Which bytes of a buffer rows may own so that no row touches what is another's."""
    if buffer.ring is None and buffer.dtype.lanes == 1:
        for slab in _slabs(found, buffer, rows):
            if all(slab.holds(touch, buffer, rows) for touch in found):
                yield _bytes(slab, buffer)


def _common(owned: Sequence[Iterable[Hashable]]) -> bool:
    """Whether rows may own the same bytes of all buffers."""
    found = [set(each) for each in owned]
    return not found or bool(found[0].intersection(*found[1:]))


def _bytes(slab: _Slab, buffer: Buffer) -> Hashable:
    """A name for the bytes of a slab: equal where they are the same, in buffers at one place."""
    nbytes = buffer.dtype.nbytes
    if prove_eq(product(buffer.shape[: slab.axis]), 1) is not True:
        return slab.axis, slab.step, slab.on, buffer.shape, nbytes
    return slab.step * nbytes * (1 if slab.on else product(buffer.shape[slab.axis + 1 :]))


def _slabs(found: Sequence[_Touch], buffer: Buffer, rows: Rows) -> Iterator[_Slab]:
    """What rows may own: the axis of their extent, axes that they count together, blocks of an axis."""
    axes = range(len(buffer.shape))
    for axis in axes:
        if prove_eq(buffer.shape[axis], rows.extent) is True:
            yield _Slab(axis, 1)
        for last in axes[axis:]:
            if prove_eq(product(buffer.shape[axis : last + 1]), rows.extent) is True:
                yield _Slab(axis, product(buffer.shape[last + 1 :]), on=True)
    for axis in axes:
        for step in dict.fromkeys(_step(touch.access.index[axis], touch.conditions, rows) for touch in found):
            if step > 1:
                yield _Slab(axis, step)


def _step(at: Dim, conditions: PathConditions, rows: Rows) -> int:
    """How far apart neighbouring rows begin, 0 where that is no number."""
    for var, lo, _ in reversed(conditions.ranges):
        if var not in (rows.lo, rows.hi):
            at = substitute(at, {var: lo})
    step = substitute(at, {rows.lo: rows.lo.expr + 1}) - at
    return step if isinstance(step, int) else 0


def _tiles(dim: Dim, rows: Rows) -> Iterator[int]:
    """The divisors of the row range in a dim."""
    if not isinstance(dim, Expr):
        return
    for term, _ in dim.terms:
        for factor, _ in term:
            if isinstance(factor, Func):
                if factor.name == "floordiv" and {rows.lo, rows.hi} & free_vars(factor.a):
                    yield factor.b if isinstance(factor.b, int) else _MAX_GRANULE + 1
                yield from _tiles(factor.a, rows)
                yield from _tiles(factor.b, rows)
