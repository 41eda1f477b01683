"""Offsets near the lower bound: a portfolio of greedy orders, then a seeded search over orders, no clock."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sdk.compiler.memory.problem import Block, Placement, aligned, lower_bound
from sdk.errors import BuildError

__all__ = ["placements", "plan_offsets"]

EFFORT: Final = 20_000
SQUEAK: Final = 0.15  # of the order's length a block may jump at once
UPHILL: Final = 0.002  # chance to keep a worse order
DEEPER: Final = 0.4  # chance to look one block further down for the cause
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
    held = sorted((b for b in blocks if b.size > 0), key=lambda b: b.name)
    problem = _Problem(held, _rivals(held), lower_bound(held))
    _check_fixed(problem)
    best = _greedy(problem)
    if best.peak > problem.bound and effort > 0:
        best = _Search(problem, effort, seed).run(best)
    places = {b.name: at for b, at in zip(held, best.offsets, strict=True)}
    return Placement({b.name: places.get(b.name, 0) for b in blocks}, best.peak, problem.bound)


def placements(blocks: Sequence[Block]) -> list[Placement]:
    """The placement that ``plan_offsets`` gives, and other ones that are as good: those of the greedy orders."""
    best = plan_offsets(blocks)
    held = sorted((b for b in blocks if b.size > 0), key=lambda b: b.name)
    problem = _Problem(held, _rivals(held), best.lower_bound)
    out = [best]
    for key in _ORDERS:
        for fit in (_best_gap, _first_gap):
            offsets = _place_all(problem, _sorted(problem, key), fit)
            if _peak(problem, offsets) == best.peak:
                places = {b.name: at for b, at in zip(held, offsets, strict=True)}
                out.append(Placement({b.name: places.get(b.name, 0) for b in blocks}, best.peak, best.lower_bound))
    return out


@dataclass(frozen=True)
class _Found:
    """Offsets by block index, the order that gave them, and their peak."""

    peak: int
    offsets: list[int]
    order: list[int]


def _greedy(problem: _Problem) -> _Found:
    """The best of every order and fit; stops at the bound."""
    best: _Found | None = None
    for key in _ORDERS:
        order = _sorted(problem, key)
        for fit in (_best_gap, _first_gap):
            offsets = _place_all(problem, order, fit)
            found = _Found(_peak(problem, offsets), offsets, order)
            if best is None or found.peak < best.peak:
                best = found
            if found.peak == problem.bound:
                return found
    assert best is not None  # there are orders
    return best


def _sorted(problem: _Problem, key: _Key) -> list[int]:
    """Block indices by ``key``."""
    return sorted(range(len(problem.blocks)), key=lambda k: (key(problem.blocks[k]), k))


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


_Key = Callable[[Block], tuple[int, ...]]


def _longest(b: Block) -> tuple[int, ...]:
    return (b.first - b.last, -b.size)


def _largest_area(b: Block) -> tuple[int, ...]:
    return (-b.size * (b.last - b.first + 1), b.first)


def _largest(b: Block) -> tuple[int, ...]:
    return (-b.size, b.first)


def _earliest(b: Block) -> tuple[int, ...]:
    return (b.first, -b.last, -b.size)


def _latest(b: Block) -> tuple[int, ...]:
    return (-b.last, b.first, -b.size)


_ORDERS: Final[tuple[_Key, ...]] = (_largest, _longest, _largest_area, _earliest, _latest)

_Gap = Callable[[list[tuple[int, int]], int, int], int]


def _first_gap(taken: list[tuple[int, int]], size: int, align: int) -> int:
    """The lowest offset where ``size`` bytes fit between the ``(start, end)`` ranges, sorted by start."""
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
    out = [_UNPLACED if b.fixed is None else b.fixed for b in blocks]
    if offsets is not None:
        for k in order[:skip]:
            out[k] = offsets[k]
    for k in order[skip:]:
        block = blocks[k]
        if block.fixed is not None:
            continue
        taken = [(out[j], out[j] + blocks[j].size) for j in rivals[k] if out[j] >= 0]
        taken.sort()
        out[k] = fit(taken, block.size, block.align)
    return out


def _peak(problem: _Problem, offsets: Sequence[int]) -> int:
    return max((at + b.size for at, b in zip(offsets, problem.blocks, strict=True)), default=0)


class _Search:
    """Squeaky wheels, then hill climbing, over the orders that first fit places blocks in."""

    def __init__(self, problem: _Problem, effort: int, seed: int) -> None:
        self.problem = problem
        self.effort = effort
        self.rng = random.Random(seed)

    def run(self, start: _Found) -> _Found:
        """The best placement found, at least as good as ``start``."""
        best = start
        share = self.effort // 4
        for key in (_longest, _largest_area):
            best = min(best, self._squeak(_sorted(self.problem, key), share), key=lambda f: f.peak)
        return min(best, self._climb(best), key=lambda f: f.peak)

    def _squeak(self, order: list[int], budget: int) -> _Found:
        """Blocks that end above the bound move forward by how much they exceed it; repeat."""
        blocks, bound, rng = self.problem.blocks, self.problem.bound, self.rng
        best: _Found | None = None
        while True:
            offsets = _place_all(self.problem, order, _first_gap)
            found = _Found(_peak(self.problem, offsets), offsets, order)
            if best is None or found.peak < best.peak:
                best = found
            budget -= len(order)
            if best.peak == bound or budget < len(order):
                return best
            reach = SQUEAK * len(order) / (found.peak - bound)
            place = [
                (i - rng.random() * reach * max(0, offsets[k] + blocks[k].size - bound) + 2 * rng.random(), k)
                for i, k in enumerate(order)
            ]
            self.effort -= len(order)
            order = [k for _, k in sorted(place)]

    def _climb(self, start: _Found) -> _Found:
        """Moves a block near the peak, or one below it, ahead of a rival; keeps what is no worse."""
        order = start.order
        offsets = _place_all(self.problem, order, _first_gap)
        best, score = _Found(_peak(self.problem, offsets), offsets, order), self._score(offsets)
        while self.effort > 0 and best.peak > self.problem.bound:
            moved, kept = self._move(order, offsets)
            found = _place_all(self.problem, moved, _first_gap, offsets, kept)
            self.effort -= len(order) - kept + 1
            new = self._score(found)
            if new <= score or self.rng.random() < UPHILL:
                order, offsets, score = moved, found, new
            if score[0] < best.peak:
                best = _Found(score[0], offsets, order)
        return best

    def _score(self, offsets: Sequence[int]) -> tuple[int, int]:
        """The peak, then what stands above the bound and how long, so that progress below the peak counts."""
        bound, over, peak = self.problem.bound, 0, 0
        for at, block in zip(offsets, self.problem.blocks, strict=True):
            top = at + block.size
            peak = max(peak, top)
            if top > bound:
                over += (top - bound) * (block.last - block.first + 1)
        return peak, over

    def _move(self, order: list[int], offsets: list[int]) -> tuple[list[int], int]:
        """A neighbour of ``order``, and how many of its leading entries are as they were."""
        blocks, rivals, rng = self.problem.blocks, self.problem.rivals, self.rng
        level = (_peak(self.problem, offsets) + self.problem.bound) // 2
        chosen = rng.choice([k for k, b in enumerate(blocks) if offsets[k] + b.size > level])
        while rng.random() < DEEPER:
            below = [j for j in rivals[chosen] if offsets[j] < offsets[chosen]]
            if not below:
                break
            chosen = rng.choice(below)
        at = order.index(chosen)
        near = set(rivals[chosen])
        ahead = [i for i, k in enumerate(order[:at]) if k in near]
        to = rng.choice(ahead) if ahead else rng.randrange(len(order))
        moved = list(order)
        if rng.random() < 0.5:
            moved.insert(to, moved.pop(at))
        else:
            moved[to], moved[at] = moved[at], moved[to]
        return moved, min(to, at)
