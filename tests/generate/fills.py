"""Contents of constants: the same on every machine, from a style and a seed, whatever numpy's version."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["FILLS", "Fill", "floats", "integers", "scales"]

Array = NDArray[Any]
Fill = tuple[str, int]
# as often as they are drawn
FILLS = (
    *("random",) * 12, *("small", "alternating", "sparse") * 2, "maximum", "minimum", "zero"
)  # fmt: skip


def _raw(count: int, seed: int) -> Array:
    # the bits of a PCG64 are promised to stay, the distributions of a Generator are not
    return np.random.PCG64(seed).random_raw(max(count, 1))[:count]


def integers(shape: tuple[int, ...], fill: Fill, minimum: int, maximum: int) -> Array:
    """i64 values of ``minimum`` to ``maximum`` by a style of ``FILLS`` (or "one")."""
    style, seed = fill
    count = math.prod(shape)
    raw = _raw(count, seed)
    span = maximum - minimum + 1
    values = (raw % np.uint64(span)).astype(np.int64) + minimum
    if style == "small":
        values = np.clip((raw % np.uint64(7)).astype(np.int64) - 3, minimum, maximum)
    elif style in ("maximum", "minimum"):
        values = np.full(count, maximum if style == "maximum" else minimum)
    elif style == "alternating":
        values = np.where(np.arange(count) % 2 == seed % 2, maximum, minimum)
    elif style == "zero":
        values = np.full(count, min(max(0, minimum), maximum))
    elif style == "one":
        values = np.full(count, min(max(1, minimum), maximum))
    elif style == "sparse":
        values = np.where(raw >> np.uint64(62) == 0, values, min(max(0, minimum), maximum))
    elif style != "random":
        raise ValueError(f"no fill {style!r}")
    return values.astype(np.int64).reshape(shape)


def floats(shape: tuple[int, ...], fill: Fill, maximum: float = 1.0) -> Array:
    """f32 values of ``-most`` to ``maximum``, by a style of ``FILLS`` (or "one")."""
    steps = integers(shape, fill, -(1 << 12), 1 << 12)
    if fill[0] == "one":
        return np.ones(shape, np.float32)
    return (steps.astype(np.float64) / (1 << 12) * maximum).astype(np.float32)


def scales(count: int, seed: int, first: float, spread: int) -> list[float]:
    """``count`` scales, the largest near ``first``, others down to 2**-spread of it; all floats of 32 bits."""
    raw = _raw(2 * count, seed)
    found = []
    for k in range(count):
        part = 0.5 + int(raw[2 * k] >> np.uint64(44)) / (1 << 21)
        found.append(float(np.float32(math.ldexp(first * part, -int(raw[2 * k + 1] % np.uint64(spread + 1))))))
    return found
