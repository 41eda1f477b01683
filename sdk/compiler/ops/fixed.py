"""Fixed-point functions as gemmlowp and TensorFlow Lite compute them: scales, exponential, logistic, tanh.

A raw value with ``i`` integer bits stands for ``raw / 2**(31 - i)``. All of it runs at build time.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import rdbpot, srdhm
from sdk.errors import BuildError

__all__ = [
    "HALF_SQRT_2", "INT32_MAX", "NEG_32_OVER_17", "RECIPROCAL_START", "exp_on_negative", "input_radius",
    "inverse_root", "logistic", "multiply_quantized", "quantize_multiplier", "reciprocal_one_plus", "tanh",
]  # fmt: skip

Array = NDArray[Any]
INT32_MAX: Final = (1 << 31) - 1
RECIPROCAL_START: Final = 1515870810  # 48/17 with two integer bits
NEG_32_OVER_17: Final = -1010580540
HALF_SQRT_2: Final = 1518500250  # without integer bits
# e**-(2**k) for k = -2 … 4, without integer bits
_EXP_STEPS: Final = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)


def quantize_multiplier(real: float) -> tuple[int, int]:
    """``(mult, shift)``, real ~ mult / 2**31 * 2**shift: mult 0 or in 2**30..2**31-1, shift in -31..30.

    Raises:
        BuildError: ``real`` is negative, not finite, or 2**31 and more.
    """
    if not math.isfinite(real) or real < 0:
        raise BuildError(f"the scale ratio {real} cannot be a fixed-point multiplier")
    if real == 0:
        return 0, 0
    fraction, shift = math.frexp(real)
    mult = math.floor(fraction * (1 << 31) + 0.5)
    if mult == 1 << 31:
        mult, shift = mult // 2, shift + 1
    if shift < -31:
        return 0, 0
    if shift > 30:
        raise BuildError(f"the scale ratio {real} is too large for a fixed-point multiplier")
    return mult, shift


def multiply_quantized(x: Array, mult: Array | int, shift: Array | int) -> Array:
    """MultiplyByQuantizedMultiplier on int32 arrays: rounds twice; shift in -31..30, positive = left."""
    shifts = np.asarray(shift, dtype=np.int64)
    wide = (np.asarray(x).astype(np.int64) << np.maximum(shifts, 0)).astype(np.int32)
    return rdbpot(srdhm(wide, np.asarray(mult)), np.maximum(-shifts, 0))


def input_radius(integer_bits: int, shift: int) -> int:
    """The largest input difference that still fits ``integer_bits`` after a left shift of ``shift``."""
    scaled = float((1 << integer_bits) - 1) * (1 << (31 - integer_bits))
    return math.floor(scaled / 2.0**shift)


def _half_sum_with_one(a: Array) -> Array:
    """(a + 1) / 2 for a >= 0 without integer bits, 1 being 2**31 - 1; rounded."""
    return ((a.astype(np.int64) + (1 << 31)) >> 1).astype(np.int32)


def _newton(a: Array) -> Array:
    """2 / (1 + a) with two integer bits, for a in 0..1 without integer bits: three Newton steps."""
    half = _half_sum_with_one(a)
    x = np.int32(RECIPROCAL_START) + srdhm(half, np.full_like(half, NEG_32_OVER_17))
    for _ in range(3):
        error = np.int32(1 << 29) - srdhm(half, x)
        x = x + (srdhm(x, error) << np.int32(2))
    return x


def _double_saturated(x: Array) -> Array:
    """2 * x, saturated to int32."""
    return np.asarray(np.clip(x.astype(np.int64) << 1, -(1 << 31), INT32_MAX)).astype(np.int32)


def reciprocal_one_plus(a: Array) -> Array:
    """1 / (1 + a) for a in 0..1, both without integer bits."""
    return _double_saturated(_newton(a))


def _exp_quarter(a: Array) -> Array:
    """e**a for a in -1/4..0 without integer bits."""
    third, constant = np.full_like(a, 715827883), np.full_like(a, 1895147668)
    x = a + np.int32(1 << 28)
    x2 = srdhm(x, x)
    x3, x4 = srdhm(x2, x), srdhm(x2, x2)
    quarter = rdbpot(x4, np.full_like(a, 2))
    tail = rdbpot(srdhm(quarter + x3, third) + x2, np.full_like(a, 1))
    return np.asarray(constant + srdhm(constant, x + tail))


def exp_on_negative(a: Array, integer_bits: int) -> Array:
    """e**a without integer bits, for a <= 0 with ``integer_bits`` (at most 5) integer bits."""
    fraction = 31 - integer_bits
    quarter = 1 << (fraction - 2)
    part = (a.astype(np.int64) & (quarter - 1)) - quarter
    result = _exp_quarter((part << integer_bits).astype(np.int32))
    rest = part - a
    for k, step in enumerate(_EXP_STEPS, start=-2):
        if k < integer_bits:
            scaled = srdhm(result, np.full_like(result, step))
            result = np.where(rest & (1 << (fraction + k)), scaled, result)
    return np.where(a == 0, np.int32(INT32_MAX), result).astype(np.int32)


def logistic(a: Array, integer_bits: int) -> Array:
    """1 / (1 + e**-a) without integer bits."""
    positive = reciprocal_one_plus(exp_on_negative(-np.abs(a), integer_bits))
    negative = np.int32(INT32_MAX) - positive
    return np.where(a == 0, 1 << 30, np.where(a > 0, positive, negative)).astype(np.int32)


def tanh(a: Array, integer_bits: int) -> Array:
    """tanh(a) without integer bits: from (1 - e) / (1 + e) with e = e**(-2|a|)."""
    # doubling is exact: the same raw value with one integer bit more
    e = exp_on_negative(-np.abs(a), integer_bits + 1)
    magnitude = np.clip((_newton(e).astype(np.int64) - (1 << 29)) << 2, -(1 << 31), INT32_MAX)
    return np.where(a == 0, 0, np.where(a < 0, -magnitude, magnitude)).astype(np.int32)


def _shifted_up(a: Array, bits: int) -> Array:
    """a * 2**bits, saturated to int32."""
    return np.asarray(np.clip(a.astype(np.int64) << bits, -(1 << 31), INT32_MAX)).astype(np.int32)


def inverse_root(x: Array) -> tuple[Array, Array]:
    """``(mult, right)``, 1 / sqrt(x) ~ mult / 2**31 / 2**right of i32 from 0 on (0 as 1): five Newton steps from 1,
    with three integer bits, on x shifted by pairs of bits into 2**27..2**29."""
    whole = np.asarray(x, np.int64)
    large = whole >= 1 << 29
    inside = np.where(large, whole // 4, np.maximum(whole, 2))
    zeros = np.asarray([32 - int(v).bit_length() for v in inside.reshape(-1)], np.int64).reshape(inside.shape)
    pairs = (zeros - 1) // 2 - 1
    right = 11 + large - pairs
    value = (inside << 2 * pairs >> 1).astype(np.int32)
    half = rdbpot(value, np.full_like(value, 1))
    root = np.full_like(value, 1 << 28)
    for _ in range(5):
        cube = _shifted_up(srdhm(srdhm(root, root), root), 6)
        step = srdhm(np.full_like(root, (1 << 28) + (1 << 27)), root) - srdhm(half, cube)
        root = _shifted_up(step, 3)
    root = srdhm(root, np.full_like(root, HALF_SQRT_2))
    mult = np.where(whole <= 1, INT32_MAX, root.astype(np.int64) << np.maximum(-right, 0)).astype(np.int32)
    return mult, np.where(whole <= 1, 0, np.maximum(right, 0)).astype(np.int32)
