"""A seeded search over orders for problems of relations: squeaky wheels, then hill climbing, no clock."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from sdk.compiler.memory.planner.greedy import first_gap, largest_area, longest, ordered, place_all
from sdk.compiler.memory.planner.task import Found, Task, peak_of

__all__ = ["Climb"]

SQUEAK: Final = 0.15  # of the order's length a block may jump at once
UPHILL: Final = 0.002  # chance to keep a worse order
DEEPER: Final = 0.4  # chance to look one block further down for the cause


class Climb:
    """Squeaky wheels, then hill climbing, over the orders that first fit places blocks in."""

    def __init__(self, problem: Task, node_limit: int, seed: int) -> None:
        self.problem = problem
        self.nodes_left = node_limit
        self.rng = random.Random(seed)

    def run(self, start: Found) -> Found:
        """The best placement found, at least as good as ``start``."""
        order: list[int] = []
        best = start
        share = self.nodes_left // 4
        for key in (longest, largest_area):
            found, by = self._squeak(ordered(self.problem, key), share)
            if found.peak < best.peak or not order:
                order, best = by, min(best, found, key=lambda f: f.peak)
        return min(best, self._climb(order), key=lambda f: f.peak)

    def _squeak(self, order: list[int], budget: int) -> tuple[Found, list[int]]:
        """Blocks that end above the bound move forward by how much they exceed it; the best, and the order it had."""
        blocks, bound, rng = self.problem.blocks, self.problem.bound, self.rng
        best: Found | None = None
        its = order
        while True:
            offsets = place_all(self.problem, order, first_gap)
            found = Found(peak_of(self.problem, offsets), offsets)
            if best is None or found.peak < best.peak:
                best, its = found, order
            budget -= len(order)
            if best.peak <= bound or budget < len(order):
                return best, its
            reach = SQUEAK * len(order) / (found.peak - bound)
            place = [
                (i - rng.random() * reach * max(0, offsets[k] + blocks[k].size - bound) + 2 * rng.random(), k)
                for i, k in enumerate(order)
            ]
            self.nodes_left -= len(order)
            order = [k for _, k in sorted(place)]

    def _climb(self, order: list[int]) -> Found:
        """Moves a block near the peak, or one below it, ahead of a rival; keeps what is no worse."""
        offsets = place_all(self.problem, order, first_gap)
        best, score = Found(peak_of(self.problem, offsets), offsets), self._score(offsets)
        while self.nodes_left > 0 and best.peak > self.problem.bound:
            moved, kept = self._move(order, offsets)
            found = place_all(self.problem, moved, first_gap, offsets, kept)
            self.nodes_left -= len(order) - kept + 1
            new = self._score(found)
            if new <= score or self.rng.random() < UPHILL:
                order, offsets, score = moved, found, new
            if score[0] < best.peak:
                best = Found(score[0], offsets)
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
        level = (peak_of(self.problem, offsets) + self.problem.bound) // 2
        chosen = rng.choice([k for k, b in enumerate(blocks) if offsets[k] + b.size > level])
        while rng.random() < DEEPER:
            below = [j for j, _, _ in rivals[chosen] if offsets[j] < offsets[chosen]]
            if not below:
                break
            chosen = rng.choice(below)
        at = order.index(chosen)
        near = {j for j, _, _ in rivals[chosen]}
        ahead = [i for i, k in enumerate(order[:at]) if k in near]
        to = rng.choice(ahead) if ahead else rng.randrange(len(order))
        moved = list(order)
        if rng.random() < 0.5:
            moved.insert(to, moved.pop(at))
        else:
            moved[to], moved[at] = moved[at], moved[to]
        return moved, min(to, at)
