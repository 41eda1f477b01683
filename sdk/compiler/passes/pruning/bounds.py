"""The least and the most that each channel of a value can hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.types import DType

__all__ = ["Bounds", "full", "hull"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Bounds:
    """One pair a channel: integers as i64, floats as doubles, -inf to inf where nothing is known (NaN included)."""

    lo: Array
    hi: Array

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Which channels hold one value everywhere. 0.0 and -0.0 count as one."""
        return np.asarray((self.lo == self.hi) & np.isfinite(self.lo))

    def only(self, known: NDArray[np.bool_], kind: DType) -> Bounds:
        """These where ``known``, all values of the type elsewhere."""
        rest = full(kind, len(self.lo))
        return Bounds(np.where(known, self.lo, rest.lo), np.where(known, self.hi, rest.hi))


def full(kind: DType, channels: int) -> Bounds:
    """Every value of a type."""
    if kind.is_float:
        return Bounds(np.full(channels, -np.inf), np.full(channels, np.inf))
    lo, hi = (min(max(v, -(1 << 63)), (1 << 63) - 1) for v in kind.limits)
    return Bounds(np.full(channels, lo, np.int64), np.full(channels, hi, np.int64))


def hull(*parts: Bounds) -> Bounds:
    """What holds for each of ``parts``."""
    return Bounds(np.min([p.lo for p in parts], axis=0), np.max([p.hi for p in parts], axis=0))
