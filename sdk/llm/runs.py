"""Layers that are alike: how a decoder's layers fall into runs of a few that follow each other again and again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

__all__ = ["Run", "runs_of"]


@dataclass(frozen=True)
class Run:
    """``iterations`` times ``period`` layers from ``first`` on: the layer at one place of each
    iteration is like the others'."""

    first: int
    period: int
    iterations: int

    def alike(self, layer: int) -> tuple[int, ...]:
        """The layers that one of the first iteration stands for, itself the first."""
        return tuple(range(layer, layer + self.period * self.iterations, self.period))


def runs_of(kinds: Sequence[Hashable]) -> tuple[Run, ...]:
    """Runs for layers of these kinds with as few layers to compile as there can be, of these with the fewest runs."""
    count = len(kinds)
    best: list[tuple[int, int, tuple[Run, ...]]] = [(0, 0, ())] * (count + 1)  # layers, runs and these, from each on
    for first in reversed(range(count)):
        found = []
        for period in range(1, count - first + 1):
            iteration = kinds[first : first + period]
            after, iterations = first + period, 1
            while True:
                layers, runs, rest = best[after]
                found.append((layers + period, runs + 1, (Run(first, period, iterations), *rest)))
                if kinds[after : after + period] != iteration:
                    break
                after, iterations = after + period, iterations + 1
        best[first] = min(found, key=lambda one: one[:2])
    return best[0][2]
