"""Ranges of tensors: what runs of the samples saw of each, and the limits that are chosen from that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import onnx

from sdk import steps
from sdk.errors import BuildError
from sdk.quantizer.data import Samples
from sdk.quantizer.engine import Engine
from sdk.quantizer.net import Array

__all__ = ["Grid", "How", "Seen", "calibrate", "chosen", "merged"]

How = Literal["minmax", "percentile", "mse"]
BINS: Final = 2048
_CANDIDATES: Final = 40  # parts of a range that are tried for the least error
_MIN_PART: Final = 0.2


@dataclass(frozen=True)
class Grid:
    """The integers that reals are stored as: from ``lo`` to ``hi``, around 0 where ``symmetric``."""

    lo: int
    hi: int
    symmetric: bool

    def step(self, low: float, high: float) -> tuple[float, int]:
        """Scale and zero point for reals from ``low`` to ``high``, of which 0 is stored exactly."""
        low, high = min(low, 0.0), max(high, 0.0)
        if self.symmetric:
            scale = np.float32(max(-low, high) / self.hi)
        else:
            scale = np.float32((high - low) / (self.hi - self.lo))
        if not scale > np.finfo(np.float32).tiny:  # a tensor of zeros
            return float(np.float32(1.0 / self.hi)), 0
        zero = 0 if self.symmetric else round(self.lo - low / float(scale))
        return float(scale), int(min(max(zero, self.lo), self.hi))

    def rounded(self, reals: Array, low: float, high: float) -> Array:
        """Reals as they come back from these integers."""
        scale, zero = self.step(low, high)
        found: Array = (np.clip(np.rint(reals / scale) + zero, self.lo, self.hi) - zero) * scale
        return found


@dataclass(frozen=True)
class Seen:
    """What was seen of a tensor: its extremes, and where asked for how many elements lie in each of ``BINS`` equal
    parts between them."""

    low: float
    high: float
    counts: Array | None = None

    @property
    def centres(self) -> Array:
        """The middle of each part."""
        return self.low + (np.arange(BINS) + 0.5) * ((self.high - self.low) / BINS)


def calibrate(model: onnx.ModelProto, samples: Samples, names: Sequence[str], how: How) -> dict[str, Seen]:
    """What the samples make of these tensors.

    Raises:
        BuildError: a tensor is NaN or infinite for some sample, or the model cannot be run.
    """
    engine = Engine(model, samples.shapes, names)
    low = dict.fromkeys(names, np.inf)
    high = dict.fromkeys(names, -np.inf)
    with steps.step("calibrating"):
        for k, inputs in enumerate(samples.runs()):
            steps.update(f"calibrating: {k * samples.batch} of {samples.count} samples")
            for name, array in engine.run(inputs).items():
                low[name] = min(low[name], float(array.min(initial=np.inf)))
                high[name] = max(high[name], float(array.max(initial=-np.inf)))
                if not np.isfinite(array).all():
                    raise BuildError(
                        f"the tensor {name} is not finite", why=f"for a sample from {k * samples.batch} on",
                        hint="find the samples that the float model fails on, and leave them out",
                    )  # fmt: skip
        seen = {name: Seen(*((low[name], high[name]) if low[name] <= high[name] else (0.0, 0.0))) for name in names}
        return seen if how == "minmax" else _counted(engine, samples, seen)


def _counted(engine: Engine, samples: Samples, seen: Mapping[str, Seen]) -> dict[str, Seen]:
    """The same with counts, in a second pass."""
    counts = {name: np.zeros(BINS) for name in seen}
    for k, inputs in enumerate(samples.runs()):
        steps.update(f"counting: {k * samples.batch} of {samples.count} samples")
        for name, array in engine.run(inputs).items():
            counts[name] += _histogram(array, seen[name].low, seen[name].high)
    return {name: Seen(one.low, one.high, counts[name]) for name, one in seen.items()}


def _histogram(values: Array, low: float, high: float, weights: Array | None = None) -> Array:
    """How many values lie in each of ``BINS`` equal parts from ``low`` to ``high``, however close these are."""
    flat = values.reshape(-1).astype(np.float64)
    place = np.zeros(flat.shape) if low == high else (flat - low) * (BINS / (high - low))
    parts = np.clip(np.nan_to_num(place), 0, BINS - 1).astype(np.int64)
    return np.bincount(parts, weights, BINS).astype(np.float64)


def merged(parts: Iterable[Seen]) -> Seen:
    """What was seen of tensors that share their integers."""
    several = list(parts)
    low, high = min(p.low for p in several), max(p.high for p in several)
    if len(several) == 1 or any(p.counts is None for p in several):
        return several[0] if len(several) == 1 else Seen(low, high)
    counts = np.zeros(BINS)
    for p in several:
        assert p.counts is not None
        counts += _histogram(p.centres, low, high, p.counts)
    return Seen(low, high, counts)


def chosen(seen: Seen, how: How, percentile: float, grid: Grid) -> tuple[float, float]:
    """The limits to store a tensor with: all that was seen, all but the outermost elements, or what makes the least
    mean squared error. 0 is always inside."""
    low, high = min(seen.low, 0.0), max(seen.high, 0.0)
    if how == "minmax" or seen.counts is None or low == high or not seen.counts.sum():
        return low, high
    if how == "percentile":
        return _percentile(seen, percentile)
    return _min_error(seen, grid, low, high)


def _percentile(seen: Seen, percentile: float) -> tuple[float, float]:
    """Limits that ``percentile`` of a hundred elements lie within, as many cut off at either end."""
    assert seen.counts is not None
    total = np.cumsum(seen.counts) / seen.counts.sum()
    cut = (1.0 - percentile / 100.0) / 2.0
    width = (seen.high - seen.low) / BINS
    first = int(np.searchsorted(total, cut, side="right"))
    last = int(np.searchsorted(total, 1.0 - cut, side="left"))
    low = seen.low + width * min(first, BINS - 1)
    high = seen.low + width * (min(last, BINS - 1) + 1)
    return min(low, 0.0), max(high, 0.0)


def _min_error(seen: Seen, grid: Grid, low: float, high: float) -> tuple[float, float]:
    """Limits with the least sum of squared errors over the counts: each end is moved in turn while the other stays."""
    assert seen.counts is not None
    used = seen.counts > 0
    centres, counts = seen.centres[used], seen.counts[used]

    def error(lo: float, hi: float) -> float:
        return float(np.sum(counts * (grid.rounded(centres, lo, hi) - centres) ** 2))

    parts = np.linspace(_MIN_PART, 1.0, _CANDIDATES)[::-1]
    if grid.symmetric:
        best = min(parts, key=lambda p: error(low * p, high * p))
        return low * best, high * best
    ends = (low, high)
    for _ in range(2):
        ends = min(((ends[0], high * p) for p in parts), key=lambda e: error(*e))
        ends = min(((low * p, ends[1]) for p in parts), key=lambda e: error(*e))
    return ends
