"""Functions of one stored byte as tables, with the arithmetic that TensorFlow Lite computes each by."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.types import DType, Quant
from sdk.compiler.ops.fixed import inverse_root, multiply_quantized, quantize_multiplier
from sdk.errors import BuildError

__all__ = [
    "REAL_FUNCTIONS", "abs_table", "hard_swish_table", "leaky_relu_multipliers", "leaky_relu_table", "rsqrt_table",
    "single_ratio", "sqrt_table",
]  # fmt: skip

Array = NDArray[Any]
_F32 = np.float32


def _gelu(x: float) -> float:
    half, wide = _F32(0.5), _F32(x)
    return float(half * wide * (_F32(1) + _F32(math.erf(float(wide * _F32(math.sqrt(0.5)))))))


def _gelu_by_tanh(x: float) -> float:
    wide = _F32(x)
    inner = _F32(math.sqrt(2 / math.pi)) * (wide + _F32(0.044715) * _F32(math.pow(x, 3)))
    return float(_F32(0.5) * wide * (_F32(1) + _F32(math.tanh(float(inner)))))


def _exp(x: float) -> float:
    return math.exp(min(x, 80.0))


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


# Those that LiteRT makes tables of in single precision.
REAL_FUNCTIONS: Final[dict[str, Callable[[float], float]]] = {
    "ELU": lambda x: x if x >= 0 else math.expm1(x),
    "EXP": _exp,
    "GELU": _gelu,
    "GELU_BY_TANH": _gelu_by_tanh,
    "LOG": _log,
}


def leaky_relu_multipliers(
    alpha: float, source: Quant, target: Quant, single: bool
) -> tuple[tuple[int, int], tuple[int, int]]:
    """The multipliers of stored values below the zero point and of the others; ``single`` is the precision of ratios.

    Raises:
        BuildError: a negative slope.
    """
    if not 0 <= alpha < math.inf:
        raise BuildError(f"the slope {alpha} below zero is not supported")
    kind = np.float32 if single else np.float64
    scale, slope, out = (kind(v) for v in (source.scale, alpha, target.scale))
    return quantize_multiplier(float(scale * slope / out)), quantize_multiplier(float(scale / out))


def _centred(source: Quant, kind: DType) -> Array:
    """What stored values stand for, in steps of the scale."""
    lo, hi = kind.limits
    return (np.arange(lo, hi + 1) - source.zero_point).astype(np.int32)


def _stored(values: Array, target: Quant, kind: DType) -> Array:
    return np.asarray(np.clip(values.astype(np.int64) + target.zero_point, *kind.limits)).astype(kind.numpy)


def leaky_relu_table(alpha: float, source: Quant, target: Quant, kind: DType, single: bool) -> Array:
    """LEAKY_RELU of each stored value, lowest first."""
    x = _centred(source, kind)
    below, above = leaky_relu_multipliers(alpha, source, target, single)
    return _stored(np.where(x >= 0, multiply_quantized(x, *above), multiply_quantized(x, *below)), target, kind)


def single_ratio(source: Quant, target: Quant) -> tuple[int, int]:
    """The multiplier of a ratio of scales in single precision; of equal scales one that leaves all as it is."""
    if source.scale == target.scale:
        return 1 << 30, 1
    return quantize_multiplier(float(_F32(source.scale) / _F32(target.scale)))


def abs_table(source: Quant, target: Quant, kind: DType) -> Array:
    """ABS of each stored value, lowest first."""
    return _stored(multiply_quantized(np.abs(_centred(source, kind)), *single_ratio(source, target)), target, kind)


def sqrt_table(source: Quant, target: Quant, kind: DType) -> Array:
    """SQRT of each stored value, lowest first, cut off; below 0, where LiteRT stops, it is 0."""
    reals = _F32(source.scale) * np.maximum(_centred(source, kind), 0).astype(_F32)
    return _stored(np.trunc(np.sqrt(reals) / _F32(target.scale)), target, kind)


def rsqrt_table(source: Quant, target: Quant, kind: DType) -> Array:
    """RSQRT of each stored value, lowest first, in fixed point; the largest at 0 and below, where LiteRT stops."""
    x, bits = np.maximum(_centred(source, kind), 0), 20
    real = 1.0 / float(np.sqrt(_F32(source.scale)) * _F32(target.scale))
    mult, shift = quantize_multiplier(real)
    if shift > bits:
        raise BuildError(f"the output's scale {target.scale} is too small for RSQRT at scale {source.scale}")
    inverse, right = inverse_root(x)
    root = multiply_quantized(np.ones_like(x), inverse, bits - right)
    values = multiply_quantized(root, mult, max(shift - bits, -31))
    return np.where(x == 0, kind.limits[1], _stored(values, target, kind)).astype(kind.numpy)


def hard_swish_table(source: Quant, target: Quant, kind: DType) -> Array:
    """HARD_SWISH of each stored value, lowest first, in fixed point of 16 bits.

    Raises:
        BuildError: the output's scale is too small beside the input's.
    """
    fine = _F32(1 / 128) * _F32(source.scale)
    out_mult, out_shift = _multiplier16(float(fine / _F32(target.scale)))
    mult, shift = _multiplier16(float(fine / (_F32(3) / _F32(32768))))
    if out_shift > 0:
        raise BuildError(f"HARD_SWISH from scale {source.scale} to {target.scale} is not supported")
    x = _centred(source, kind).astype(np.int64) * 128
    scaled = _high_product(x, out_mult)
    gate = _high_product(_saturated(x << (shift - 1)) if shift > 0 else x, mult)
    if shift > 0:
        gate = _saturated(gate << 1)
    elif shift < 0:
        gate = _rounded_shift(gate, -shift)
    product = (gate + (1 << 15) >> 1) * scaled
    return _stored(_rounded_shift(np.trunc(product / (1 << 15)).astype(np.int64), -out_shift), target, kind)


def _multiplier16(real: float) -> tuple[int, int]:
    mult, shift = quantize_multiplier(real)
    return min(mult + (1 << 15) >> 16, (1 << 15) - 1), shift


def _saturated(x: Array) -> Array:
    return np.clip(x, -(1 << 15), (1 << 15) - 1)


def _high_product(x: Array, mult: int) -> Array:
    """x * mult / 2**15 to nearest, halves up where the product is positive, else down."""
    product = x * mult
    nudge = np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    return np.trunc((product + nudge) / (1 << 15)).astype(np.int64)


def _rounded_shift(x: Array, bits: int) -> Array:
    """x / 2**bits to nearest, halves away from zero, as words of 16 bits compute it: with more bits than these have, a
    step away from zero."""
    if bits == 0:
        return x
    mask = (1 << bits) - 1 if bits < 16 else -1
    rest, half = x & mask, (mask >> 1) + (x < 0)
    return (x >> bits) + (rest > half)
