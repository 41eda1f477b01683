"""The anytime search: many short exact searches over different orders, at the bound and between it and the best yet."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from math import gcd
from typing import Final

import numpy as np

from sdk.compiler.memory.planner.lower_bounds import Ints, Packing
from sdk.compiler.memory.planner.native import search_packing
from sdk.compiler.memory.planner.niche import Budget
from sdk.compiler.memory.planner.task import Found, Task, peak_of
from sdk.compiler.memory.problem import Block, aligned, live_profile

__all__ = ["Restarts"]

_FIRST: Final = 3  # times the square of the number of blocks: what the first search may spend
_LONGER: Final = (1, 1, 1, 1, 1, 1, 2, 2, 2, 4, 4, 8)  # times that, in rounds; each round doubles them
_GOALS: Final = (0.0, 0.5, 0.0, 0.25, 0.0, 0.75)  # how far from the bound to the best yet, in turn
_UNTIMED: Final = 5_000  # blocks to look at before their number in a second is known
_NOISE: Final = (0.1, 0.5, 2.0)


class _Clock:
    """A limit on time, kept by looking at no more blocks than fit what is left of it."""

    def __init__(self, seconds: float | None) -> None:
        self.start, self.seconds, self.looked = time.monotonic(), seconds, 0

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self.seconds is not None and time.monotonic() - self.start >= self.seconds

    def allowed(self, share: int) -> int:
        """``share``, or as many blocks as are likely to be looked at in the time that is left."""
        if self.seconds is None:
            return share
        spent = time.monotonic() - self.start
        if not self.looked:
            return min(share, _UNTIMED)
        return max(1, min(share, int(self.looked / spent * (self.seconds - spent))))


class Restarts:
    """Searches of a task by lifetimes: the unit of its offsets and the sections of its blocks are worked out once."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.blocks = blocks = task.blocks
        self.loose = [k for k, b in enumerate(blocks) if b.fixed is None]
        step = gcd(*(b.align for b in blocks))
        self.unit = _unit([aligned(blocks[k].size, step) for k in self.loose], blocks)
        padding = [aligned(blocks[k].size, step) - blocks[k].size for k in self.loose]
        self.size = np.array([aligned(b.size, step) // self.unit for b in blocks], dtype=np.int64)
        self.align = np.array([max(1, b.align // self.unit) for b in blocks], dtype=np.int64)
        self.first, self.last = _sections([blocks[k] for k in self.loose])
        self.unpadded = np.zeros(int(self.last.max()) + 1, dtype=np.int64)
        for first, last, more in zip(self.first, self.last, padding, strict=True):
            mine = self.unpadded[first : last + 1]
            np.maximum(mine, more, out=mine)
        self.walls = [self._walls(k) for k in self.loose]

    def run(self, best: Found, node_limit: int, seed: int, seconds: float | None = None) -> tuple[Found, int]:
        """The best placement found, at least as good as ``best``, and the bytes that no placement goes below as far
        as is proved then.

        Args:
            best: what there is already.
            node_limit: blocks that may be looked at.
            seed: of the orders after the first few.
            seconds: a limit on time besides, which makes the result depend on the machine.
        """
        rng, clock, bound = random.Random(seed), _Clock(seconds), self.task.bound
        restart = 0
        while node_limit > 0 and best.peak > bound and not clock.over:
            goal = bound
            if restart >= len(_KEYS):
                goal += int((best.peak - bound) * _GOALS[restart % len(_GOALS)])
            share = _FIRST * len(self.loose) ** 2 * _LONGER[restart % len(_LONGER)] << restart // len(_LONGER)
            allowed = min(node_limit, clock.allowed(share))
            budget = Budget(allowed)
            offsets = self._search(goal, self._order(restart, rng), budget)
            node_limit -= allowed - max(0, budget.left)
            clock.looked += allowed - budget.left
            restart += 1
            if offsets is not None:
                best = Found(peak_of(self.task, offsets), offsets)
            elif budget.left >= 0:
                bound = min(best.peak, self._next(goal))
        return best, bound

    def _next(self, goal: int) -> int:
        """The lowest peak above ``goal`` that offsets in whole units can have."""
        sizes = {self.blocks[k].size for k in self.loose}
        return min((goal - s) // self.unit * self.unit + self.unit + s for s in sizes)

    def _search(self, goal: int, order: list[int], budget: Budget) -> list[int] | None:
        """Offsets in bytes of all blocks with no end above ``goal``."""
        chosen = [self.loose[k] for k in order]
        latest = np.array([(goal - self.blocks[k].size) // self.unit for k in chosen], dtype=np.int64)
        # the topmost block of a section needs no padding: at best the one that has the most
        by_section = (goal + self.unpadded) // self.unit
        capacity = int(by_section.max())
        packing = Packing(
            self.size[chosen],
            self.first[order],
            self.last[order],
            self.align[chosen],
            latest,
            capacity - by_section,
            [self.walls[k] for k in order],
            capacity,
        )
        found = search_packing(packing, budget)
        if found is None:
            return None
        out = [b.fixed or 0 for b in self.blocks]
        for k, at in zip(chosen, found, strict=True):
            out[k] = int(at) * self.unit
        return out

    def _walls(self, k: int) -> list[tuple[int, int]]:
        """The offsets, in units, that blocks at fixed offsets keep a block from, as open ranges."""
        mine = self.blocks[k]
        out = []
        for b in self.blocks:
            if b.fixed is not None and b.first <= mine.last and mine.first <= b.last:
                out.append(((b.fixed - mine.size) // self.unit, -(-(b.fixed + b.size) // self.unit)))
        return sorted(out)

    def _order(self, restart: int, rng: random.Random) -> list[int]:
        """Which blocks to try first: long-lived and large ones, then more and more at random."""
        key = _KEYS[restart % len(_KEYS)]
        noise = 0.0 if restart < len(_KEYS) else _NOISE[restart // len(_KEYS) % len(_NOISE)]
        span = self.last - self.first + 1
        weight = [
            int(self.size[k]) ** key[0] * int(span[i]) ** key[1] * (1 + noise * rng.random())
            for i, k in enumerate(self.loose)
        ]
        return sorted(range(len(weight)), key=lambda i: (-weight[i], i))


# Powers of the size and of the number of sections a block covers.
_KEYS: Final = ((0, 1), (1, 0), (1, 2), (2, 1), (1, 4), (4, 1))


def _unit(sizes: Sequence[int], blocks: Sequence[Block]) -> int:
    """Bytes that all sizes are multiples of, and that divide each alignment or are a multiple of it."""
    unit = gcd(*sizes)
    while True:
        odd = [b.align for b in blocks if unit % b.align and b.align % unit]
        if not odd:
            return unit
        unit = gcd(unit, *odd)


def _sections(blocks: Sequence[Block]) -> tuple[Ints, Ints]:
    """The first and last of the largest live sets that each block is in."""
    profile = live_profile(blocks)
    steps: list[int] = []
    for k, (step, live) in enumerate(profile):
        # a set that the next birth only adds to is no largest one
        if k + 1 == len(profile) or any(b.last < profile[k + 1][0] for b in live):
            steps.append(step)
    at = np.array(steps, dtype=np.int64)
    first = np.searchsorted(at, np.array([b.first for b in blocks]), side="left")
    last = np.searchsorted(at, np.array([b.last for b in blocks]), side="right") - 1
    return first.astype(np.int64), last.astype(np.int64)
