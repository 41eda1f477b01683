"""Which of several schedules functions get: those that are expected to execute least, if by enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sdk.compiler.ir.loops import Loops
from sdk.compiler.schedules.cost import predict
from sdk.compiler.schedules.rules.ways import FIRST, Way

__all__ = ["GAIN", "cheapest", "chosen", "expected"]

GAIN: Final = 0.04  # what another way than the first must save, as a part: less is not known so exactly


def expected(loops: Loops, capabilities: frozenset[str]) -> float | None:
    """Instructions of a call for all rows, dims at their upper bounds; None on cores without prices."""
    return predict(loops, {v: v.most for v in loops.dims}, capabilities)


def cheapest(costs: Sequence[float]) -> int:
    """Which of the ways of a function is taken: the first, unless another is expected to cost less by ``GAIN``."""
    best = min(range(len(costs)), key=lambda k: costs[k])
    return best if costs[best] < costs[0] * (1 - GAIN) else 0


def chosen(costs: Mapping[str, Mapping[Way, float]], apart: float) -> tuple[Way, dict[str, Way]]:
    """The way that functions of one structure go together, by what each way of each is expected to cost, and the ways
    of those that go another, which saves ``apart``. A function that has not a way goes its first instead."""
    ways = list(dict.fromkeys([FIRST, *(way for of in costs.values() for way in of)]))
    totals = [sum(of.get(way, of[FIRST]) for of in costs.values()) for way in ways]
    together = ways[cheapest(totals)]
    own = {}
    for name, of in costs.items():
        best = list(of)[cheapest(list(of.values()))]
        if best != together and of[best] <= of.get(together, of[FIRST]) - apart:
            own[name] = best
    return together, own
