"""Functions of i16 as tables with lines between their entries, as TensorFlow Lite fills them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.types import Quant
from sdk.compiler.ops.curves import ENTRIES, HALF_ENTRIES
from sdk.errors import BuildError
from sdk.frontends.tflite.quantize import round_away

__all__ = ["EXP", "INVERSE", "Scaled", "sigmoid_scale", "sigmoid_table", "word_table"]

Array = NDArray[Any]
_LO, _HI = -(1 << 15), (1 << 15) - 1
_STEPS: Final = ENTRIES - 1


def word_table(function: Callable[[float], float], source: Quant, target: Quant) -> Array:
    """``function`` at both ends of 512 steps over all of i16, in single precision: what a line between them is off in
    the middle is spread over both sides. What is beyond i16, and NaN, is held to it."""
    kind, one = np.float32, np.float32(1)
    scale, out = kind(source.scale), kind(target.scale)
    first, last = (scale * kind(end - source.zero_point) for end in (_LO, _HI))
    ends = [out * kind(end - target.zero_point) for end in (_LO, _HI)]
    steps = kind(_HI - _LO + 1) / (ends[1] - ends[0])
    step = (last - first) / kind(_STEPS)
    half = step / kind(2)
    at = np.arange(_STEPS).astype(kind)
    places = first + at * step, first + at * step + half, first + (at + one) * step
    with np.errstate(all="ignore"):
        here, middle, after = (np.asarray([function(float(v)) for v in p], kind) * steps for p in places)
        sample = _rounded(here)
        off = _rounded((after + sample) / kind(2)) - _rounded(middle)
        end = _rounded(kind(function(float(last))) * steps)
        table = np.append(sample - _rounded(off / kind(2)), end)
    return np.asarray(np.clip(np.nan_to_num(table, nan=_HI), _LO, _HI)).astype(np.int16)


def _rounded(reals: Any) -> Any:
    """Halves away from zero, in the type that they have."""
    kind = np.asarray(reals).dtype
    held = np.clip(reals, -(2.0**60), 2.0**60)
    return round_away(np.asarray(held)).astype(kind)


# What softmax raises e to, -10 to 0, and the inverse of what is between 1 and 2: in single precision as in
# tflite-micro; LiteRT makes these tables in double precision.
_RANGE: Final = float(_HI - _LO)
EXP: Final = word_table(math.exp, Quant(10.0 / _RANGE, _HI), Quant(2.0 / _RANGE, 0))
INVERSE: Final = word_table(lambda x: 1 / (1 + x), Quant(1.0 / _RANGE, _LO), Quant(2.0 / _RANGE, 0))


def sigmoid_table() -> Array:
    """1 / (1 + e**-(k / 24)) in 16 bits for k of 0..255: half of what the line to the next entry is off is added, so
    that it is off as much at its ends as in the middle."""
    x = np.arange(HALF_ENTRIES) / 24
    here, middle, after = (65536 / (1 + np.exp(-p)) for p in (x, x + 1 / 48, x + 1 / 24))
    table = np.floor(here - ((here + after) / 2 - middle) / 2 + 0.5)
    table[255:] = 65535
    return np.minimum(table, 65535).astype(np.int32)


@dataclass(frozen=True, slots=True)
class Scaled:
    """x * mult / 2**shift, rounded, is x in steps of 1 / (3 * 4096)."""

    mult: int
    shift: int


def sigmoid_scale(scale: float, exact: int) -> Scaled:
    """How ``sigmoid16`` gets from stored values to its steps; scales of 2**-12 and up to ``exact`` powers of two more
    stay what they are.

    Raises:
        BuildError: the scale is so large that the product leaves 32 bits.
    """
    power = round(math.log2(scale))
    if abs(math.log2(scale) - power) < 1e-3 and 0 <= power + 12 <= exact:
        return Scaled(3 << (power + 12), 0)
    factor, shift = scale * 4096.0 * 3.0, 0
    while factor <= 32767.0 / 2.0 and shift <= 30:
        factor, shift = factor * 2, shift + 1
    if factor >= 1 << 16:
        raise BuildError(f"the input's scale {scale} is too large for a curve of 16 bits")
    return Scaled(int(factor), shift)
