"""Statistics of measurements: what a cost is in its unit, how sure its median is, and whether it drifted."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

__all__ = ["cost", "drift", "median_interval"]

_SURE = 0.95
_ENOUGH_TO_DRIFT = 9  # samples


def cost(samples: Sequence[float], counter: str, emulated: bool) -> dict[str, Any]:
    """The samples in their unit; an emulator's time is nobody's."""
    ordered = sorted(samples)
    median = statistics.median(ordered)
    p90 = ordered[-(-9 * len(ordered) // 10) - 1]
    timed = counter == "time" and not emulated
    return {
        "min_ms": ordered[0] / 1e6 if timed else None,
        "median_ms": median / 1e6 if timed else None,
        "p90_ms": p90 / 1e6 if timed else None,
        "instructions": round(median) if counter == "instructions" else None,
        "cycles": round(median) if counter == "cycles" else None,
    }


def median_interval(samples: Sequence[float]) -> tuple[float, float] | None:
    """Between which two samples the true median lies, 19 times in 20 at least, whatever their distribution: that of the
    number of samples below it is binomial. None for fewer than 6 samples, which cannot tell."""
    count, ordered = len(samples), sorted(samples)
    rank, below = 0, 0.0
    while rank < count // 2:
        below += math.comb(count, rank) / 2**count
        if 2 * below > 1 - _SURE:
            break
        rank += 1
    return (ordered[rank - 1], ordered[count - rank]) if rank else None


def drift(samples: Sequence[float]) -> float | None:
    """By which part of the first third's median the last third's is above it; None where there are too few."""
    third = len(samples) // 3
    if len(samples) < _ENOUGH_TO_DRIFT:
        return None
    first, last = statistics.median(samples[:third]), statistics.median(samples[-third:])
    return (last - first) / first if first else None
