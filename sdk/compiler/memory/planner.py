"""Offsets near the lower bound: a portfolio of greedy orders, then a seeded search over orders, no clock."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sdk.compiler.memory.problem import Block, Placement, aligned, lower_bound
from sdk.errors import BuildError

__all__ = ["plan_offsets"]

EFFORT: Final = 40_000
_UNPLACED: Final = -1


@dataclass(frozen=True)
class _Problem:
    """The blocks with, for each, the indices of the others that are live at the same time."""

    blocks: Sequence[Block]
    rivals: list[list[int]]
    bound: int


def plan_offsets(blocks: Sequence[Block], *, effort: int = EFFORT, seed: int = 0) -> Placement:
    """Places every block; the same blocks, effort and seed give the same offsets.

    Args:
        blocks: what to place; names are unique.
        effort: how many single placements the search may spend after the greedy orders (0 = none).
        seed: of the search.

    Raises:
        BuildError: two blocks at fixed offsets overlap while both are live.
    """
    order = sorted((b for b in blocks if b.size > 0), key=lambda b: b.name)
    problem = _Problem(order, _rivals(order), lower_bound(order))
    _check_fixed(problem)
    best: tuple[int, list[int], list[int]] | None = None
    for key in _ORDERS:
        start = sorted(range(len(order)), key=lambda k, key=key: (order[k].fixed is None, key(order[k]), k))
        for fit in (_best_gap, _first_gap):
            offsets = _place_all(problem, start, fit)
            peak = _peak(problem, offsets)
            if best is None or peak < best[0]:
                best = peak, offsets, start
            if peak == problem.bound:
                break
        if best is not None and best[0] == problem.bound:
            break
    if best is None:
        return Placement({b.name: 0 for b in blocks}, 0, 0)
    if best[0] > problem.bound and effort > 0:
        best = _Search(problem, effort, seed).run(best)
    places = {b.name: at for b, at in zip(order, best[1], strict=True)}
    return Placement({b.name: places.get(b.name, 0) for b in blocks}, best[0], problem.bound)


def _rivals(blocks: Sequence[Block]) -> list[list[int]]:
    first = np.array([b.first for b in blocks], dtype=np.int64)
    last = np.array([b.last for b in blocks], dtype=np.int64)
    out = []
    for k in range(len(blocks)):
        live = (first <= last[k]) & (last >= first[k])
        live[k] = False
        out.append([int(j) for j in np.flatnonzero(live)])
    return out


def _check_fixed(problem: _Problem) -> None:
    for k, a in enumerate(problem.blocks):
        for j in problem.rivals[k]:
            b = problem.blocks[j]
            if a.fixed is None or b.fixed is None or j > k:
                continue
            if a.fixed < b.fixed + b.size and b.fixed < a.fixed + a.size:
                raise BuildError(f"{a.name} and {b.name} are fixed at overlapping bytes while both are live")


# Which block goes first: large, long, both, early, late; then the widest live sets from the outside in.
_ORDERS: Final[tuple[Callable[[Block], tuple[int, ...]], ...]] = (
    lambda b: (-b.size, b.first),
    lambda b: (-(b.last - b.first), -b.size),
    lambda b: (-b.size * (b.last - b.first + 1), b.first),
    lambda b: (b.first, -b.last, -b.size),
    lambda b: (-b.last, b.first, -b.size),
    lambda b: (b.first - b.last - 1, -b.size),
)

_Gap = Callable[[list[tuple[int, int]], int, int], int]


def _first_gap(taken: list[tuple[int, int]], size: int, align: int) -> int:
    """The lowest offset where ``size`` bytes fit between the ``taken`` ``(start, end)`` ranges, sorted by start."""
    at = 0
    for start, end in taken:
        if start - at >= size:
            return at
        if end > at:
            at = aligned(end, align)
    return at


def _best_gap(taken: list[tuple[int, int]], size: int, align: int) -> int:
    """The offset in the tightest gap that fits, the lowest of equals; above everything where none does."""
    at, best, best_slack = 0, -1, 0
    for start, end in taken:
        slack = start - at - size
        if slack >= 0 and (best < 0 or slack < best_slack):
            best, best_slack = at, slack
        if end > at:
            at = aligned(end, align)
    return at if best < 0 else best


def _place_all(
    problem: _Problem, order: Sequence[int], fit: _Gap, offsets: list[int] | None = None, skip: int = 0
) -> list[int]:
    """Offsets by block, placing in order; the first ``skip`` of the order keep theirs from ``offsets``."""
    blocks, rivals = problem.blocks, problem.rivals
    out = [_UNPLACED] * len(blocks)
    if offsets is not None:
        for k in order[:skip]:
            out[k] = offsets[k]
    for k in order[skip:]:
        block = blocks[k]
        if block.fixed is not None:
            out[k] = block.fixed
            continue
        taken = [(out[j], out[j] + blocks[j].size) for j in rivals[k] if out[j] >= 0]
        taken.sort()
        out[k] = fit(taken, block.size, block.align)
    return out


def _peak(problem: _Problem, offsets: Sequence[int]) -> int:
    return max((at + b.size for at, b in zip(offsets, problem.blocks, strict=True)), default=0)


class _Search:
    """Hill climbing over placement orders: blocks that carry the peak move to the front of what holds them up."""

    def __init__(self, problem: _Problem, effort: int, seed: int) -> None:
        self.problem = problem
        self.effort = effort
        self.rng = random.Random(seed)

    def run(self, start: tuple[int, list[int], list[int]]) -> tuple[int, list[int], list[int]]:
        """The best ``(peak, offsets, order)`` found, at least as good as ``start``."""
        best = start
        order = list(start[2])
        offsets = _place_all(self.problem, order, _first_gap)
        score = self._score(offsets)
        stale = 0
        while self.effort > 0 and best[0] > self.problem.bound:
            moved, since = self._move(order, offsets)
            found = _place_all(self.problem, moved, _first_gap, offsets, since)
            self.effort -= len(order) - since + 1
            new = self._score(found)
            if new <= score or self.rng.random() < 0.002:
                stale = 0 if new < score else stale + 1
                order, offsets, score = moved, found, new
            else:
                stale += 1
            if score[0] < best[0]:
                best = score[0], offsets, order
        return best

    def _score(self, offsets: Sequence[int]) -> tuple[int, int]:
        """The peak, then how many bytes stand above the bound, so that progress below the peak counts."""
        bound, over, peak = self.problem.bound, 0, 0
        for at, block in zip(offsets, self.problem.blocks, strict=True):
            top = at + block.size
            peak = max(peak, top)
            if top > bound:
                over += (top - bound) * (block.last - block.first + 1)
        return peak, over

    def _move(self, order: list[int], offsets: list[int]) -> tuple[list[int], int]:
        """A neighbour of ``order`` and how many leading entries it keeps."""
        blocks, rng = self.problem.blocks, self.rng
        peak = _peak(self.problem, offsets)
        tops = [
            k
            for k, b in enumerate(blocks)
            if offsets[k] + b.size > max(self.problem.bound, peak - (peak - self.problem.bound) // 2)
        ]
        chosen = rng.choice(tops)
        while rng.random() < 0.4:
            below = [j for j in self.problem.rivals[chosen] if offsets[j] < offsets[chosen]]
            if not below:
                break
            chosen = rng.choice(below)
        at = order.index(chosen)
        ahead = [
            i
            for i, k in enumerate(order[:at])
            if blocks[k].fixed is None and k in set(self.problem.rivals[chosen])
        ]
        to = rng.choice(ahead) if ahead else rng.randrange(len(order))
        moved = list(order)
        if rng.random() < 0.5:
            moved.insert(to, moved.pop(at))
        else:
            moved[to], moved[at] = moved[at], moved[to]
        return moved, min(to, at)
