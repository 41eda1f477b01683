"""Scales, zero points and stored values of tensors of tests, drawn from a generator."""

from __future__ import annotations

import numpy as np

Rng = np.random.Generator


def real(rng: Rng, lo: float, hi: float) -> float:
    return float(np.float32(rng.uniform(lo, hi)))


def meaning(rng: Rng, dtype: str, lo: float = 0.01, hi: float = 0.1) -> tuple[float, int]:
    """A scale and a zero point."""
    if dtype == "int16":
        return real(rng, lo / 200, hi / 200), 0
    low = 0 if dtype == "uint8" else -128
    return real(rng, lo, hi), int(rng.choice([low, low + 255, low + 128, *rng.integers(low, low + 256, 5)]))


def bytes_of(rng: Rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(0, 256, shape) if dtype == "uint8" else rng.integers(-127, 128, shape)
