"""Scale ratios as fixed-point multipliers, with the bounds that choose the cheapest exact kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ops.fixed import quantize_multiplier
from sdk.errors import BuildError

__all__ = ["Multipliers", "channel_multipliers"]

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Multipliers:
    """Fixed-point multipliers, one or per channel, the range of shifts, and the bits after the left shift."""

    mult: Array
    shift: Array
    shift_lo: int
    shift_hi: int
    acc_bits: int


def channel_multipliers(ratios: Array, bounds: Array, wide: bool) -> Multipliers:
    """Multipliers for real ``ratios`` (one, or one a channel) where |accumulator| <= ``bounds`` per channel.

    ``wide`` says that accumulators are i64.

    Raises:
        BuildError: a ratio cannot be represented.
    """
    pairs = [quantize_multiplier(float(r)) for r in ratios]
    mult = np.asarray([m for m, _ in pairs], dtype=np.int32)
    shift = np.asarray([s for _, s in pairs], dtype=np.int32)
    if (mult == 0).any() and (mult != 0).any():
        # zero times any power of two is zero: keep the range of shifts tight
        shift = np.where(mult == 0, shift[mult != 0].max(), shift).astype(np.int32)
    if wide and int(shift.max()) > 7:
        raise BuildError(f"the scale ratio {float(ratios.max())} is too large for 16-bit activations")
    left = np.broadcast_to(np.maximum(shift, 0), bounds.shape)
    maximum = max(int(b) << int(s) for b, s in zip(bounds, left, strict=True))
    bits = min(max(maximum.bit_length(), 1), 63 if wide else 31)
    return Multipliers(mult, shift, int(shift.min()), int(shift.max()), bits)
