"""Convolutions and fully connected layers: an exact accumulator, then a requantisation per channel.

Weights of i8 have the zero point 0. Those of u8, from before that was a rule, have any: what their factors
``stored - zero point`` do not have in common with i8 is one sum over the window more, or makes them i16.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I8, I16, I32, I64, DType
from sdk.compiler.ops.multipliers import channel_multipliers
from sdk.compiler.sym import Dim, ceildiv
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode, Table, usable
from sdk.frontends.tflite.quantize import activation_range

__all__ = ["TABLE", "bounds", "channel_scales", "factors", "padding", "ratios", "requantize", "rescaled"]

Array = NDArray[Any]
SAME = 0


def padding(kind: int, size: Dim, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Rows (or columns) of padding before and after.

    Raises:
        BuildError: SAME padding of an open extent whose amount depends on the extent.
    """
    if kind != SAME:
        return 0, 0
    reach = (kernel - 1) * dilation + 1
    total = (ceildiv(size, stride) - 1) * stride + reach - size
    if not isinstance(total, int):
        raise BuildError(f"SAME padding with stride {stride} of the open extent {size} depends on its value")
    total = max(total, 0)
    return total // 2, total - total // 2


def channel_scales(node: OpNode, k: int, channels: int, axis: int) -> Array:
    """The weight scales, one or one per channel; of u8 one."""
    weights = node.tensor(k)
    scales = np.asarray(weights.scales, dtype=np.float64)
    if len(scales) not in (1, channels) or (len(scales) > 1 and weights.axis != axis):
        raise BuildError(
            f"weights {weights.name} have {len(scales)} scales on axis {weights.axis} for {channels} channels"
        )
    bad = [s for s in weights.scales if not usable(s)]
    if bad:
        raise BuildError(f"weights {weights.name} have the scale {bad[0]}, scales must be positive and finite")
    if node.was_unsigned(weights):
        if len(scales) != 1:
            raise BuildError(f"weights {weights.name} of u8 have {len(scales)} scales instead of one")
    elif any(weights.zero_points):
        raise BuildError(f"weights {weights.name} have a zero point")
    return scales


def ratios(node: OpNode, scales: Array, k: int = 0) -> Array:
    """What sums of input ``k`` are multiplied by; TensorFlow Lite rounds products of scales of u8 to single precision,
    but not those of dense layers."""
    source, target = node.quant(node.tensor(k)).scale, node.quant(node.output()).scale
    if node.was_unsigned(node.tensor(1)) and node.operator.name != "FULLY_CONNECTED":
        return np.asarray((np.float32(source) * scales.astype(np.float32)).astype(np.float64) / target)
    return source * scales / target


def _bias(node: OpNode, channels: int, kind: DType) -> tuple[Value, Array]:
    """The bias and its magnitude per channel; zeros of type ``kind`` when the operator has none."""
    if not node.has(2):
        zeros = np.zeros(channels, dtype=kind.numpy)
        return node.const("bias", zeros), zeros.astype(object)
    value = node.input(2, I32, I64)
    data = node.constant(2)
    if data.shape != (channels,):
        raise BuildError(f"the bias has the shape {list(data.shape)} for {channels} channels")
    return value, np.abs(data.astype(object))


def bounds(weights: Array, x_offset: int, kind: DType, bias: Array) -> Array:
    """The largest |accumulator| per channel; ``weights`` is [channels, taps]."""
    lo, hi = kind.limits
    maximum = max(abs(lo + x_offset), abs(hi + x_offset))
    return np.asarray(np.abs(weights.astype(np.int64)).sum(axis=1).astype(object) * maximum + bias)


def requantize(node: OpNode, acc: Value, by: Array, limit: Array, to: int | str) -> Value:
    """Sums times ``by`` as the output is stored; ``limit`` is the largest |sum| of each channel."""
    kind = node.out_dtype(I8, I16)
    quant = node.quant(node.output())
    held = activation_range(
        int(node.option("FusedActivationFunction")), quant.scale, quant.zero_point, kind
    )
    return rescaled(node, acc, by, limit, to, kind, quant.zero_point, held)


def rescaled(
    node: OpNode, acc: Value, by: Array, limit: Array, to: int | str, kind: DType, zero: int, held: tuple[int, int]
) -> Value:
    """The same as ``kind`` with a zero point, held to two stored values."""
    m = channel_multipliers(by, limit, wide=acc.type.dtype == I64)
    return node.call(
        "requantize", acc, node.const("mult", m.mult), node.const("shift", m.shift), to=to,
        out=str(kind), zp=zero, lo=held[0], hi=held[1],
        shift_lo=m.shift_lo, shift_hi=m.shift_hi, acc_bits=m.acc_bits,
    )  # fmt: skip


def _accumulator(node: OpNode) -> DType:
    """The type of the sums when no bias gives it."""
    return I32 if node.tensor(0).dtype == I8 else I64


def _window(node: OpNode, x: Value, kernel: tuple[int, int]) -> dict[str, Any]:
    """The attributes that both kinds of convolution share."""
    stride = (node.positive("StrideH"), node.positive("StrideW"))
    dilation = (node.positive("DilationHFactor"), node.positive("DilationWFactor"))
    kind = int(node.option("Padding"))
    top, bottom = padding(kind, x.type.shape[1], kernel[0], stride[0], dilation[0])
    left, right = padding(kind, x.type.shape[2], kernel[1], stride[1], dilation[1])
    zero_point = node.quant(node.tensor(0)).zero_point
    return {
        "stride": stride, "dilation": dilation, "pad": (top, left, bottom, right),
        "x_offset": -zero_point, "pad_value": zero_point,
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Factors:
    """``stored - zero point`` of weights, ``exact``: as ``stored + rest``, with one number for all in ``rest``."""

    exact: Array
    stored: Array
    rest: int


def factors(node: OpNode, weights: Array, split: bool) -> _Factors:
    """The factors of ``weights``: in i8, or else in i16 or, where they may be ``split``, as i8 and a rest."""
    zero = node.tensor(1).zero_points[0] if node.was_unsigned(node.tensor(1)) else 0
    exact = weights.astype(np.int16) - np.int16(zero)
    if zero == 0:
        return _Factors(exact, weights, 0)
    if exact.min(initial=0) >= -128 and exact.max(initial=0) <= 127:
        return _Factors(exact, exact.astype(np.int8), 0)
    return _Factors(exact, weights, -zero) if split else _Factors(exact, exact, 0)


def _sum_of(node: OpNode, op: str, x: Value, found: _Factors, bias: Value, **given: Any) -> Value:
    """The accumulators of weights [o, ..]: the sum of a window is taken once for all channels."""
    weights = node.builder.const(node.tensor(1).name, found.stored)
    if not found.rest:
        return node.call(op, x, weights, bias, to="acc", **given)
    narrow = np.int8 if -128 <= found.rest <= 127 else np.int16
    none = node.const("none", np.zeros(1, np.int32))
    *kernel, depth = found.stored.shape[1:]
    rest = node.const("rest", np.full((1, *([1] * len(kernel)), depth), found.rest, narrow))
    if max(kernel, default=1) == 1:
        window = node.call(op, x, rest, none, to="window", **given)
    else:  # the channels of each pixel first: one number a pixel is what windows share
        still = {"stride": (1, 1), "dilation": (1, 1), "pad": (0, 0, 0, 0)}
        pixels = node.call(op, x, rest, none, to="pixels", **{**given, **still})
        ones = node.const("ones", np.ones((1, *kernel, 1), np.int8))
        window = node.call(op, pixels, ones, none, to="window", **{**given, "x_offset": 0, "pad_value": 0})
    return node.call("add", node.call(op, x, weights, bias, to="part", **given), window, to="acc")


def _images(node: OpNode) -> Value:
    x = node.input(0, I8, I16)
    if x.type.rank != 4:
        raise BuildError(f"the input has rank {x.type.rank} instead of 4")
    return x


def _weights(node: OpNode, rank: int) -> Array:
    weights = node.constant(1)
    if weights.dtype != np.int8 or weights.ndim != rank:
        raise BuildError(
            f"the weights are {weights.dtype} of rank {weights.ndim}; supported: int8 of rank {rank}"
        )
    return weights


def conv_2d(node: OpNode) -> None:
    """CONV_2D: weights [o, kh, kw, c]."""
    x, weights = _images(node), _weights(node, 4)
    channels, kh, kw, depth = weights.shape
    if x.type.shape[3] != depth:
        raise BuildError(
            f"grouped convolution ({x.type.shape[3]} channels, weights for {depth}) is not supported"
        )
    scales = channel_scales(node, 1, channels, 0)
    bias, maximum = _bias(node, channels, _accumulator(node))
    given = _window(node, x, (kh, kw))
    found = factors(node, weights, split=True)
    acc = _sum_of(node, "conv2d", x, found, bias, **given)
    limit = bounds(found.exact.reshape(channels, -1), given["x_offset"], x.type.dtype, maximum)
    requantize(node, acc, ratios(node, scales), limit, 0)


def depthwise_conv_2d(node: OpNode) -> None:
    """DEPTHWISE_CONV_2D: weights [1, kh, kw, c * multiplier]."""
    x, weights = _images(node), _weights(node, 4)
    one, kh, kw, channels = weights.shape
    depth = x.type.shape[3]
    if one != 1 or not isinstance(depth, int) or channels % depth:
        raise BuildError(f"weights of shape {list(weights.shape)} do not fit {depth} input channels")
    scales = channel_scales(node, 1, channels, 3)
    bias, maximum = _bias(node, channels, _accumulator(node))
    given = _window(node, x, (kh, kw))
    found = factors(node, weights, split=False)
    packed = node.builder.const(node.tensor(1).name, found.stored.reshape(kh, kw, channels))
    acc = node.call("depthwise_conv2d", x, packed, bias, to="acc", multiplier=channels // depth, **given)
    limit = bounds(found.exact.reshape(-1, channels).T, given["x_offset"], x.type.dtype, maximum)
    requantize(node, acc, ratios(node, scales), limit, 0)


def fully_connected(node: OpNode) -> None:
    """FULLY_CONNECTED: the input flattened to rows of k, weights [n, k]."""
    if int(node.option("WeightsFormat")) != 0:
        raise BuildError("shuffled weights are not supported")
    x, weights = node.input(0, I8, I16), _weights(node, 2)
    channels, inner = weights.shape
    scales = channel_scales(node, 1, channels, 0)
    bias, maximum = _bias(node, channels, _accumulator(node))
    flat = (
        x
        if x.type.rank == 2 and x.type.shape[1] == inner
        else node.call("reshape", x, to="rows", shape=(-1, inner))
    )
    offset = -node.quant(node.tensor(0)).zero_point
    found = factors(node, weights, split=True)
    acc = _sum_of(node, "dense", flat, found, bias, x_offset=offset, w_offset=0)
    limit = bounds(found.exact, offset, x.type.dtype, maximum)
    rank = len(node.output().shape)
    result = requantize(node, acc, ratios(node, scales), limit, 0 if rank == 2 else "flat")
    if rank != 2:
        shape = (*x.type.shape[:-1], channels) if rank == x.type.rank else node.output().shape
        node.call("reshape", result, shape=_static(shape))


def _static(shape: tuple[Dim, ...]) -> tuple[int, ...]:
    """A target shape for reshape: at most one open extent, which becomes -1."""
    return tuple(d if isinstance(d, int) else -1 for d in shape)


TABLE: Table = {
    "CONV_2D": conv_2d,
    "DEPTHWISE_CONV_2D": depthwise_conv_2d,
    "FULLY_CONNECTED": fully_connected,
}
