"""Which of several schedules a function gets: the one that is expected to execute least, if by enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sdk.compiler.ir.loops import Loops
from sdk.compiler.schedules.cost import predict

__all__ = ["GAIN", "cheapest", "expected"]

GAIN: Final = 0.04  # what another way than the first must save, as a part: less is not known so exactly


def expected(loops: Loops, capabilities: frozenset[str]) -> float | None:
    """Instructions of a call for all rows, dims at their upper bounds; None on cores without prices."""
    return predict(loops, {v: v.most for v in loops.dims}, capabilities)


def cheapest(costs: Sequence[float]) -> int:
    """Which of the ways of a function is taken: the first, unless another is expected to cost less by ``GAIN``."""
    best = min(range(len(costs)), key=lambda k: costs[k])
    return best if costs[best] < costs[0] * (1 - GAIN) else 0
