"""Orders in which blocks are stacked, and a search for one whose arena follows the largest live set at all dims."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.memory.problem import Block

__all__ = ["Stacks", "better_order"]

Grid = NDArray[np.int64]
Score = tuple[float, float, float]
Order = list[int]
GOOD: Final = 1.01  # a worst ratio that needs no further search
STALE: Final = 60  # rounds without progress before the best order is disturbed
MAX_STALE_ROUNDS: Final = 3  # such times before the search ends
LOOKED_AT: Final = 3  # points, the worst ones, whose critical paths give moves
TRIED: Final = 12  # moves a round, by chance


@dataclass(frozen=True)
class Stacks:
    """Blocks with their bytes at sample points, block by point, and the bytes that are no waste at each point.

    At the last point the sizes are the largest ones, and ``room`` is what the arena must not exceed there. The blocks
    of a group stand next to each other in an order: an order is one of the groups.
    """

    blocks: Sequence[Block]
    sizes: Grid
    room: Grid
    groups: Sequence[Sequence[int]]

    @cached_property
    def rivals(self) -> list[NDArray[np.intp]]:
        """For each block those that live at a step at which it lives."""
        first, last = (np.array([getattr(b, end) for b in self.blocks]) for end in ("first", "last"))
        meet = (first[:, None] <= last) & (first <= last[:, None])
        np.fill_diagonal(meet, False)
        return [np.flatnonzero(row) for row in meet]

    def ends(self, order: Sequence[int], known: Grid | None = None, kept: int = 0) -> Grid:
        """Where each block ends at each point when, in this order, each lies on the highest end of its rivals so far;
        ``known`` gives the ends for an order that begins with the same ``kept`` groups."""
        out = np.zeros_like(self.sizes) if known is None else known.copy()
        rest = [b for g in order[kept:] for b in self.groups[g]]
        out[rest] = 0
        for k in rest:
            at = out[self.rivals[k]].max(axis=0, initial=0)
            align = self.blocks[k].align
            out[k] = -(-at // align) * align + self.sizes[k]
        return out

    def ratios(self, ends: Grid) -> NDArray[np.float64]:
        """The arena over what is no waste, by point."""
        found: NDArray[np.float64] = ends.max(axis=0, initial=0) / np.maximum(self.room, 1)
        return found

    def score(self, ends: Grid) -> Score:
        """What an order is judged by: bytes over the room at the last point, the worst ratio, how many are bad."""
        ratios = self.ratios(ends)
        over, worst = max(float(ratios[-1]) - 1, 0.0), float(ratios.max(initial=1.0))
        return round(over, 6), round(worst, 4), float(((ratios - 1) ** 4).sum())

    def critical(self, ends: Grid, rank: Sequence[int], point: int) -> Iterator[int]:
        """The blocks that make the arena as large as it is at a point, from the top to the ground; each lies on the
        next."""
        ending = ends[:, point]
        block = int(ending.argmax())
        while True:
            yield block
            at = ending[block] - self.sizes[block, point]
            align = self.blocks[block].align
            below = [
                int(j) for j in self.rivals[block]
                if rank[j] < rank[block] and -(-ending[j] // align) * align == at and ending[j] > 0
            ]  # fmt: skip
            if at == 0 or not below:
                return
            block = below[0]


def better_order(stacks: Stacks, start: Order, node_limit: int, seed: int = 0) -> tuple[Order, float]:
    """An order with a smaller worst ratio than ``start``, or ``start``, and that ratio; no time but ``node_limit``, the
    placements of single blocks, bounds the search, so that it gives the same every time.

    A tabu search: what makes a point bad is a path of blocks that lie on each other, so every move takes a block of
    such a path somewhere else.
    """
    search = _Search(stacks, node_limit, seed)
    return search.run(start)


class _Search:
    def __init__(self, stacks: Stacks, node_limit: int, seed: int) -> None:
        self.stacks, self.nodes_left = stacks, node_limit
        self.rng = random.Random(seed)
        self.group = {b: g for g, members in enumerate(stacks.groups) for b in members}

    def run(self, start: Order) -> tuple[Order, float]:
        order = start
        ends = self._ends(order)
        best, score = order, self.stacks.score(ends)
        tabu: dict[int, int] = {}
        progress = stale = iteration = 0
        while self.nodes_left > 0 and (score[0] > 0 or score[1] > GOOD):
            iteration += 1
            found = self._step(order, ends, {g for g, until in tabu.items() if until >= iteration})
            if found is not None:
                order, ends, moved = found
                tabu[moved] = iteration + self.rng.randrange(3, 9)
                new = self.stacks.score(ends)
                if new < score:
                    best, score, progress = order, new, iteration
            if iteration - progress > STALE:
                stale += 1
                if stale == MAX_STALE_ROUNDS:
                    break
                order, progress = self._disturbed(best), iteration
                ends = self._ends(order)
        return best, score[1]

    def _ends(self, order: Order, known: Grid | None = None, kept: int = 0) -> Grid:
        self.nodes_left -= sum(len(self.stacks.groups[g]) for g in order[kept:])
        return self.stacks.ends(order, known, kept)

    def _step(self, order: Order, ends: Grid, tabu: set[int]) -> tuple[Order, Grid, int] | None:
        """The best of the moves, with the ends and the group that moved."""
        best: tuple[Score, Order, Grid, int] | None = None
        for group, to in self._moves(order, ends):
            if group in tabu:
                continue
            at = order.index(group)
            moved = [g for g in order if g != group]
            moved.insert(to, group)
            found = self._ends(moved, ends, min(at, to))
            score = self.stacks.score(found)
            if best is None or score < best[0]:
                best = score, moved, found, group
        return None if best is None else best[1:]

    def _moves(self, order: Order, ends: Grid) -> list[tuple[int, int]]:
        """``(group, place)``: along the critical paths of the worst points, each block below the one under it, that one
        above it, and each at a place of chance; some of these."""
        ratios = self.stacks.ratios(ends)
        ratios[-1] += 10 * (ratios[-1] > 1)
        place = {g: k for k, g in enumerate(order)}
        rank = [0] * len(self.stacks.blocks)
        for k, block in enumerate(b for g in order for b in self.stacks.groups[g]):
            rank[block] = k
        moves: dict[tuple[int, int], None] = {}
        for point in np.argsort(-ratios, kind="stable")[:LOOKED_AT]:
            path = [self.group[b] for b in self.stacks.critical(ends, rank, int(point))]
            for upper, lower in pairwise(path):
                moves[upper, place[lower]] = None
                moves[lower, place[upper]] = None
            for group in path:
                moves[group, self.rng.randrange(len(order))] = None
        found = [m for m in moves if place[m[0]] != m[1]]
        return found if len(found) <= TRIED else self.rng.sample(found, TRIED)

    def _disturbed(self, order: Order) -> Order:
        out = list(order)
        for _ in range(self.rng.randrange(2, 6)):
            group = out.pop(self.rng.randrange(len(out)))
            out.insert(self.rng.randrange(len(out) + 1), group)
        return out
