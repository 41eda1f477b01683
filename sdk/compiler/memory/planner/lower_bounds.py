"""Lowest offsets of the blocks still to place: what lies below them, and what their sections must hold besides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.memory.problem import aligned

__all__ = ["BIG", "Bools", "Ints", "LowerBounds", "Packing", "Subproblem", "lower_bounds"]

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
BIG: Final = 1 << 40


@dataclass(frozen=True)
class Packing:
    """Blocks, in the order in which they are tried, and what they have to fit in; all in one unit of bytes.

    A block covers the sections ``first`` to ``last`` and starts at ``latest`` or below. In each section any offset, the
    blocks above it and what is ``taken`` of the section make no more than ``capacity``. ``walls``: the ranges that the
    offset of a block is never strictly inside of, sorted, because of blocks at fixed offsets.
    """

    size: Ints
    first: Ints
    last: Ints
    align: Ints
    latest: Ints
    taken: Ints
    walls: Sequence[Sequence[tuple[int, int]]]
    capacity: int

    @cached_property
    def cover(self) -> Bools:
        """Whether a block (row) covers a section (column)."""
        sections = np.arange(int(self.last.max()) + 1)
        return (self.first[:, None] <= sections) & (sections <= self.last[:, None])

    @cached_property
    def rivals(self) -> Bools:
        """Whether two blocks have a section in common."""
        common = (self.first[:, None] <= self.last) & (self.first <= self.last[:, None])
        np.fill_diagonal(common, False)
        return common

    @cached_property
    def plain(self) -> bool:
        """Whether every end of a block is a place where any other can start."""
        return not any(self.walls) and bool((self.align == 1).all())

    def fit(self, ids: Ints, floor: Ints) -> Ints:
        """For each block the lowest_rival offset at its floor or above where it can be."""
        if self.plain:
            return floor
        out = floor.copy()
        for i, k in enumerate(ids):
            at = aligned(int(floor[i]), int(self.align[k]))
            for low, high in self.walls[k]:
                if low < at < high:
                    at = aligned(high, int(self.align[k]))
            out[i] = at
        return out


@dataclass(frozen=True)
class Subproblem:
    """Blocks still to place, by index in ascending order: where each would lie now, and whether it is held back from
    there, so that it ends up on another that is still to come."""

    ids: Ints
    at: Ints
    held: Bools


@dataclass(frozen=True)
class LowerBounds:
    """Lowest offsets of the blocks of a part, the sections they cover, and the bytes that these hold at the end."""

    lowest: Ints
    cover: Bools
    left: Ints


def lower_bounds(packing: Packing, part: Subproblem) -> LowerBounds | None:
    """The lowest offset that each block can have; None where they cannot all be placed."""
    ids, size = part.ids, packing.size[part.ids]
    start, stop = int(packing.first[ids].min()), int(packing.last[ids].max()) + 1
    cover = packing.cover[ids, start:stop]
    lowest, latest = part.at + part.held, packing.latest[ids]
    held = np.flatnonzero(part.held)
    others = packing.rivals[ids[held][:, None], ids] if len(held) else None
    weight = cover * size[:, None]
    taken = packing.taken[start:stop]
    left = weight.sum(axis=0) + taken
    while True:
        if (lowest > latest).any() or not _fits(packing.capacity - taken, lowest, cover, weight):
            return None
        before = lowest
        ends = lowest + size
        if others is not None:
            above = np.where(others, np.maximum(ends, (part.at[held] + 1)[:, None]), BIG).min(axis=1)
            lowest = lowest.copy()
            lowest[held] = np.maximum(lowest[held], above)
        lowest = _above_another(packing.capacity, lowest, ends, cover, left)
        if (lowest == before).all():
            break
    if others is not None:
        lowest_rival = np.where(others, lowest, BIG).min(axis=1)
        if (lowest_rival >= (part.at + size)[held]).any():  # it could lie where it is held back from after all
            return None
    return LowerBounds(lowest, cover, left)


def _fits(capacity: Ints, lowest: Ints, cover: Bools, weight: Ints) -> bool:
    """Whether in each section the blocks that start at any offset or above fit between it and the top."""
    order = np.argsort(-lowest, kind="stable")
    above = np.cumsum(weight[order], axis=0)
    above += lowest[order][:, None]
    return not ((above > capacity) & cover[order]).any()


def _above_another(capacity: int, lowest: Ints, ends: Ints, cover: Bools, left: Ints) -> Ints:
    """A block that cannot be the next of one of its sections lies above another block to come of that section."""
    not_next = (lowest[:, None] + left > capacity) & cover
    rows = np.flatnonzero(not_next.any(axis=1))
    if not len(rows):
        return lowest
    end = np.where(cover, ends[:, None], BIG)
    columns = np.arange(end.shape[1])
    owner = end.argmin(axis=0)
    lowest_end = end[owner, columns]
    end[owner, columns] = BIG
    second = end.min(axis=0)
    above = np.where(owner == rows[:, None], second, lowest_end)
    out = lowest.copy()
    out[rows] = np.maximum(out[rows], np.where(not_next[rows], above, 0).max(axis=1))
    return out
