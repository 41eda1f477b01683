"""How much of results is chance: what a model makes of the last bits of its inputs, which no two engines have alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["moved_by"]

Array = NDArray[Any]
NUDGES: Final = 4  # times that inputs are moved by their last bit


def moved_by(
    steps: Sequence[Callable[[Mapping[str, Array]], Mapping[str, Array]]], inputs: Mapping[str, Array]
) -> dict[str, float] | None:
    """How far floats of outputs move, at most, from those of the first of ``steps``, which all run one model without
    state: by another of them, or where the last bits of float inputs move. None where no input is a float."""
    if not any(a.dtype.kind == "f" for a in inputs.values()):
        return None
    rng, found = np.random.default_rng(0), dict[str, list[Array]]()
    for step in steps:
        for nudge in range(NUDGES + 1):
            given = {name: _nudged(a, rng) if nudge else a for name, a in inputs.items()}
            for name, a in step(given).items():
                found.setdefault(name, []).append(a)
    return {name: _apart(arrays) for name, arrays in found.items()}


def _nudged(a: Array, rng: np.random.Generator) -> Array:
    if a.dtype.kind != "f":
        return a
    found: Array = np.nextafter(a, np.where(rng.random(a.shape) < 0.5, -np.inf, np.inf).astype(a.dtype))
    return found


def _apart(arrays: Sequence[Array]) -> float:
    """How far floats of the first array and of others are apart, where both are numbers."""
    first, maximum = arrays[0], 0.0
    for other in arrays[1:]:
        if first.dtype.kind == "f" and first.shape == other.shape:
            with np.errstate(invalid="ignore"):
                gap = np.abs(first.astype(np.float64) - other.astype(np.float64))
            maximum = max(maximum, float(gap[np.isfinite(gap)].max(initial=0.0)))
    return maximum
