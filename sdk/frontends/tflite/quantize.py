"""Scales to fixed-point parameters, with the floating-point width that TensorFlow Lite uses at each place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.types import DType, Quant
from sdk.compiler.ops.fixed import (
    exp_on_negative,
    input_radius,
    logistic,
    multiply_quantized,
    quantize_multiplier,
    tanh,
)
from sdk.errors import BuildError

__all__ = ["activation_range", "exp_table", "logistic_table", "real_table", "round_away", "tanh_table"]

Array = NDArray[Any]
ACTIVATIONS: Final = {0: "NONE", 1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH", 5: "SIGN_BIT"}
_REAL_RANGE: Final[dict[str, tuple[float | None, float | None]]] = {
    "NONE": (None, None), "RELU": (0.0, None), "RELU_N1_TO_1": (-1.0, 1.0), "RELU6": (0.0, 6.0),
}  # fmt: skip
_SOFTMAX_BITS: Final = 5
_SIGMOID_BITS: Final = 4


def activation_range(activation: int, scale: float, zero_point: int, kind: DType) -> tuple[int, int]:
    """The stored values a fused activation clamps to.

    Raises:
        BuildError: an activation that is not a clamp.
    """
    name = ACTIVATIONS.get(activation, f"number {activation}")
    if name not in _REAL_RANGE:
        raise BuildError(f"the fused activation {name} is not supported")
    lo, hi = kind.limits
    low, high = _REAL_RANGE[name]
    lo = lo if low is None else max(lo, stored(low, scale, zero_point))
    hi = hi if high is None else min(hi, stored(high, scale, zero_point))
    if lo > hi:
        raise BuildError(
            f"the fused activation {name} leaves no value at scale {scale}, zero point {zero_point}"
        )
    return lo, hi


def stored(real: float, scale: float, zero_point: int) -> int:
    """``real`` as a stored value, in single precision as TensorFlow Lite computes it."""
    value = float(np.float32(real) / np.float32(scale))
    return zero_point + math.floor(abs(value) + 0.5) * (1 if value >= 0 else -1)


def round_away(reals: Array) -> Array:
    """Reals to nearest integers, halves away from zero."""
    whole = np.trunc(reals.astype(np.float64))
    return np.asarray(whole + np.sign(reals) * (np.abs(reals - whole) >= 0.5)).astype(np.int64)


def real_table(function: Callable[[float], float], source: Quant, target: Quant, kind: DType) -> Array:
    """The stored results of ``function`` for each stored value of i8 or u8, lowest first, as LiteRT fills its tables:
    in single precision, halves away from zero. NaN is the stored zero."""
    lo, hi = kind.limits
    x = np.float32(source.scale) * (np.arange(lo, hi + 1) - source.zero_point).astype(np.float32)
    with np.errstate(all="ignore"):
        y = np.asarray([function(float(v)) for v in x], np.float32) * (np.float32(1) / np.float32(target.scale))
    steps = np.clip(np.nan_to_num(y, nan=0.0).astype(np.float64), -(2.0**30), 2.0**30)
    return np.asarray(np.clip(round_away(steps) + target.zero_point, lo, hi)).astype(kind.numpy)


def exp_table(scale: float, beta: float) -> Array:
    """e**(-beta * scale * d) for d of 0..255, i32 without integer bits; 0 where it leaves the range.

    Raises:
        BuildError: ``scale * beta`` is too small for TensorFlow Lite's fixed-point softmax.
    """
    scaled, inside = _differences(scale, beta)
    return np.where(inside, exp_on_negative(scaled, _SOFTMAX_BITS), 0).astype(np.int32)


def difference_table(scale: float) -> Array:
    """-scale * d for d of 0..255, i32 with 5 integer bits; the lowest where it leaves the range.

    Raises:
        BuildError: ``scale`` is too small for TensorFlow Lite's fixed-point softmax.
    """
    scaled, inside = _differences(scale, 1.0)
    return np.where(inside, scaled, -np.iinfo(np.int32).max).astype(np.int32)


def _differences(scale: float, beta: float) -> tuple[Array, Array]:
    """-beta * scale * d for d of 0..255, and which of them stay in the range."""
    real = min(beta * scale * (1 << (31 - _SOFTMAX_BITS)), (1 << 31) - 1.0)
    if not real > 1:
        raise BuildError(f"softmax cannot represent an input scale of {scale} with beta {beta}")
    radius = input_radius(_SOFTMAX_BITS, math.frexp(real)[1])
    steps = np.arange(256)
    inside = steps <= radius
    return _scaled(-np.where(inside, steps, 0), real, radius), inside


def _scaled(inside: Array, real: float, radius: int) -> Array:
    """Differences of at most ``radius`` times ``real``, which stays in 32 bits; a radius of 0 leaves only 0, and no
    multiplier is asked for, which has no room for a ``real`` as large as that."""
    if radius == 0:
        return np.zeros(inside.shape, np.int32)
    return multiply_quantized(inside, *quantize_multiplier(real))


def _sigmoid_inputs(scale: float, zero_point: int) -> tuple[Array, Array, int]:
    """Centred inputs for each stored i8 value, the same with 4 integer bits, and the radius of saturation."""
    real = scale * (1 << (31 - _SIGMOID_BITS))
    radius = input_radius(_SIGMOID_BITS, math.frexp(real)[1])
    centred = np.arange(-128, 128) - zero_point
    inside = np.where(np.abs(centred) < radius, centred, 0)
    return centred, _scaled(inside, real, radius), radius


def _saturated(centred: Array, radius: int, values: Array) -> Array:
    inside = np.where(centred <= -radius, -128, np.where(centred >= radius, 127, values))
    return np.clip(inside, -128, 127).astype(np.int8)


def logistic_table(scale: float, zero_point: int) -> Array:
    """The i8 logistic of every i8 input; output scale 1/256, zero point -128."""
    centred, inputs, radius = _sigmoid_inputs(scale, zero_point)
    raw = logistic(inputs, _SIGMOID_BITS).astype(np.int64)
    return _saturated(centred, radius, _round_shift(raw, 23) - 128)


def tanh_table(scale: float, zero_point: int) -> Array:
    """The i8 tanh of every i8 input; output scale 1/128, zero point 0."""
    centred, inputs, radius = _sigmoid_inputs(scale, zero_point)
    raw = tanh(inputs, _SIGMOID_BITS).astype(np.int64)
    return _saturated(centred, radius, _round_shift(raw, 24))


def _round_shift(x: Array, bits: int) -> Array:
    """x / 2**bits to nearest, halves away from zero."""
    half = np.int64(1) << (bits - 1)
    return np.where(x >= 0, (x + half) >> bits, -((-x + half) >> bits))
