"""Exact search for offsets within a capacity: which block comes next in the tightest niche of the skyline.

Blocks are dropped: each lies on the highest end of the blocks placed in its sections, so that only placements are met
that gravity leaves as they are. A *section* is a largest set of blocks that are live at once; a block covers a range
of sections. Each block to come has a lowest offset, raised by what its sections must still hold. A *niche* is a run of
sections whose lowest block to come is lower than on both sides: in one section of it, either one of the blocks that
can start at its level is next, or none is and bytes are wasted; these cases exclude each other and are all. Parts that
no block connects any more are searched one by one, and a part that fails takes back the choice that made it, not those
in other parts. States that failed are remembered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

import numpy as np

from sdk.compiler.memory.planner.lower_bounds import BIG, Bools, Ints, LowerBounds, Packing, Subproblem, lower_bounds

__all__ = ["MEMORY", "Budget", "search"]

MEMORY: Final = 1 << 19  # failed states that are remembered

_CHOICE: Final = 1 << 40  # one more thing to try weighs more than any bytes to waste


@dataclass
class Budget:
    """What a search may still look at, in blocks; below 0 once it gave up."""

    left: int


@dataclass(frozen=True)
class _Todo:
    """A part to place, the number of the choice that made it, and what else is to place."""

    part: Subproblem
    maker: int
    rest: _Todo | None


@dataclass
class _Choice:
    """What is left to try in a part."""

    todo: _Todo
    part: Subproblem
    key: bytes
    options: list[int] = field(default_factory=list)  # to place next, the best last
    held: Ints | None = None  # to hold back when no option is left; none of them = nothing more to try


def search(packing: Packing, budget: Budget) -> Ints | None:
    """Offsets of all blocks within the capacity; None where there are none or, the budget below 0, none was found."""
    out = np.zeros(len(packing.size), dtype=np.int64)
    ids = np.arange(len(out))
    everything = Subproblem(ids, packing.fit(ids, out), np.zeros(len(out), dtype=np.bool_))
    failed: set[bytes] = set()
    stack: list[_Choice] = []
    fits, todo = _split(packing, everything, -1, None, out)
    while fits and todo is not None:
        top = todo.maker
        key = _key(todo.part)
        if key not in failed:
            top = len(stack)
            stack.append(_Choice(todo, todo.part, key, held=ids[:0]))
        fits = False
        while top >= 0 and not fits:
            del stack[top + 1 :]
            choice = stack[top]
            if not choice.options and not _decide(packing, choice, budget):
                if budget.left < 0:
                    return None
                if len(failed) < MEMORY:
                    failed.add(choice.key)
                top = choice.todo.maker
                continue
            fits, todo = _place(packing, choice, top, out)
    return out if fits else None


def _key(part: Subproblem) -> bytes:
    """Tells states of parts apart."""
    return blake2b(part.ids.tobytes() + part.at.tobytes() + part.held.tobytes(), digest_size=16).digest()


def _decide(packing: Packing, choice: _Choice, budget: Budget) -> bool:
    """Finds what can be next in one section; False where nothing is left to try."""
    while not choice.options:
        if choice.held is None:
            return False
        part = choice.part
        held = part.held.copy()
        held[choice.held] = True
        choice.part = part = Subproblem(part.ids, part.at, held)
        budget.left -= len(part.ids)
        bounds = lower_bounds(packing, part) if budget.left >= 0 else None
        if bounds is None:
            return False
        free = ~held & (bounds.lowest == part.at)
        column, slack = _tightest(packing, bounds, free)
        level = bounds.lowest[bounds.cover[:, column]].min()
        options = np.flatnonzero(bounds.cover[:, column] & free & (bounds.lowest == level))
        choice.options = [int(k) for k in options[::-1]]
        choice.held = options if slack > 0 and len(options) else None
    return True


def _tightest(packing: Packing, bounds: LowerBounds, free: Bools) -> tuple[int, int]:
    """The section of a niche with the fewest things to try, of these the one with the fewest bytes to waste."""
    level = np.where(bounds.cover, bounds.lowest[:, None], BIG).min(axis=0)
    count = ((bounds.lowest[:, None] == level) & bounds.cover & free[:, None]).sum(axis=0)
    slack = packing.capacity - level - bounds.left
    starts = np.concatenate(([0], np.flatnonzero(level[1:] != level[:-1]) + 1))
    levels = np.concatenate(([BIG], level[starts], [BIG]))
    lower = (levels[1:-1] < levels[:-2]) & (levels[1:-1] < levels[2:])
    in_niche = np.repeat(lower, np.diff(np.concatenate((starts, [len(level)]))))
    score = np.where(in_niche, (count + (slack > 0)) * _CHOICE + slack, 1 << 62)
    column = int(score.argmin())
    return column, int(slack[column])


def _place(packing: Packing, choice: _Choice, number: int, out: Ints) -> tuple[bool, _Todo | None]:
    """Puts the next option where it lies; whether the rest may still fit, and what is to place then."""
    part, k = choice.part, choice.options.pop()
    block = part.ids[k]
    out[block] = part.at[k]
    ids = np.delete(part.ids, k)
    at, held = np.delete(part.at, k), np.delete(part.held, k)
    top = out[block] + packing.size[block]
    moved = np.flatnonzero(packing.rivals[block][ids] & (at < top))
    at[moved] = packing.fit(ids[moved], np.full(len(moved), top))
    held[moved] = False
    return _split(packing, Subproblem(ids, at, held), number, choice.todo.rest, out)


def _split(packing: Packing, part: Subproblem, maker: int, rest: _Todo | None, out: Ints) -> tuple[bool, _Todo | None]:
    """The parts that no block connects, the smallest first; what shares its sections with no other is placed."""
    if not len(part.ids):
        return True, rest
    order = np.argsort(packing.first[part.ids], kind="stable")
    reach = np.maximum.accumulate(packing.last[part.ids][order])
    cuts = np.flatnonzero(packing.first[part.ids][order][1:] > reach[:-1]) + 1
    if not len(cuts) and len(order) > 1:
        return True, _Todo(part, maker, rest)
    for members in sorted(np.split(order, cuts), key=len, reverse=True):
        members.sort()
        mine = Subproblem(part.ids[members], part.at[members], part.held[members])
        if len(members) > 1:
            rest = _Todo(mine, maker, rest)
        elif mine.held[0] or mine.at[0] > packing.latest[mine.ids[0]]:
            return False, None
        else:
            out[mine.ids] = mine.at
    return True, rest
