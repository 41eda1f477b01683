"""Convolutions and fully connected layers: an exact accumulator, then a requantisation per channel.

Weights of i8 have the zero point 0. Those of u8, from before that was a rule, have any: what their factors
``stored - zero point`` do not have in common with i8 is one sum over the window more, or makes them i16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F64, I8, I16, I32, I64, DType
from sdk.compiler.ops.fixed import multiply_quantized
from sdk.compiler.ops.multipliers import channel_multipliers
from sdk.compiler.sym import Dim, ceildiv, max_value
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode, Table, usable
from sdk.frontends.tflite.quantize import activation_range, round_away
from sdk.frontends.tflite.rounding import rounded

__all__ = [
    "TABLE", "bounds", "channel_scales", "check_types", "computed", "factors", "largest_sums", "padding", "ratios",
    "requantize", "rescaled",
]  # fmt: skip

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
    elif any(weights.zero_points) and (len(scales) != 1 or node.operator.name != "FULLY_CONNECTED"):
        raise BuildError(f"weights {weights.name} have a zero point")
    return scales


def check_types(node: OpNode, k: int = 0) -> None:
    """Refuses layers whose result has another type than their input ``k``, or weights of i8 beside u8: LiteRT's kernels
    read one as the other."""
    x, weights, out = node.tensor(k), node.tensor(1), node.output()
    unsigned = {node.was_unsigned(t) for t in (x, weights, out)}
    if x.dtype != out.dtype or len(unsigned) > 1:
        types = f"{x.type_name}, weights of {weights.type_name} and a result of {out.type_name}"
        raise BuildError(f"a layer of {types} is not supported")


def ratios(node: OpNode, scales: Array, k: int = 0) -> Array:
    """What sums of input ``k`` are multiplied by; TensorFlow Lite rounds products of scales of u8 to single precision,
    but not those of dense layers."""
    source, target = node.quant(node.tensor(k)).scale, node.quant(node.output()).scale
    if node.was_unsigned(node.tensor(1)) and node.operator.name != "FULLY_CONNECTED":
        return np.asarray((np.float32(source) * scales.astype(np.float32)).astype(np.float64) / target)
    return source * scales / target


def _bias(node: OpNode, channels: int, kind: DType) -> tuple[Value, Array]:
    """The bias, of any shape, and its magnitude per channel; zeros of type ``kind`` when the operator has none."""
    if not node.has(2):
        zeros = np.zeros(channels, dtype=kind.numpy)
        return node.const("bias", zeros), zeros.astype(object)
    value = node.input(2, *((I32,) if kind == I32 else (I32, I64)))
    data = node.constant(2)
    if data.size != channels:
        raise BuildError(f"the bias has the shape {list(data.shape)} for {channels} channels")
    flat = data.reshape(channels)
    return value if data.ndim == 1 else node.const("bias", flat), np.abs(flat.astype(object))


def bounds(weights: Array, x_offset: int, kind: DType, bias: Array) -> Array:
    """The largest |accumulator| per channel; ``weights`` is [channels, taps]."""
    lo, hi = kind.limits
    maximum = max(abs(lo + x_offset), abs(hi + x_offset))
    return np.asarray(np.abs(weights.astype(np.int64)).sum(axis=1).astype(object) * maximum + bias)


def largest_sums(node: OpNode, taps: int, x_offset: int, kind: DType, bias: Array) -> Array:
    """The same of weights that only the run knows."""
    lo, hi = kind.limits
    zero = node.tensor(1).zero_points[0]
    return np.asarray(taps * max(abs(lo + x_offset), abs(hi + x_offset)) * (128 + abs(zero)) + bias)


def requantize(node: OpNode, acc: Value, by: Array, limit: Array, to: int | str) -> Value:
    """Sums times ``by`` as the output is stored; ``limit`` is the largest |sum| of each channel."""
    kind = node.out_dtype(I8, I16)
    quant = node.quant(node.output())
    held = activation_range(
        int(node.option("FusedActivationFunction")), quant.scale, quant.zero_point, kind
    )
    if node.operator.name == "FULLY_CONNECTED" and node.was_unsigned(node.output()):
        m = channel_multipliers(by, limit, wide=False)
        steps = np.arange(held[0] - quant.zero_point, held[1] - quant.zero_point + 2)
        if not _agrees(float(by[0]), int(m.mult[0]), int(m.shift[0]), int(limit.max()), steps):
            return _rounded_once(node, acc, float(by[0]), held, to)
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


def _agrees(ratio: float, mult: int, shift: int, limit: int, steps: Array) -> bool:
    """Whether sums of up to ``limit`` times a ratio, rounded once as LiteRT's reference kernel of u8 does, are what
    fixed point makes of them: both never fall, so what is around the ends of each of its ``steps`` says it."""
    ends = np.ceil((steps - 0.5) / ratio)
    sums = (ends[:, None] + np.arange(-2, 3)).reshape(-1)
    sums = sums[np.abs(sums) <= min(limit, (1 << 31 - max(shift, 0)) - 1)].astype(np.int64)
    once = np.clip(round_away(sums * ratio), steps[0], steps[-1])
    return bool((np.clip(multiply_quantized(sums, mult, shift), steps[0], steps[-1]) == once).all())


def _rounded_once(node: OpNode, acc: Value, ratio: float, held: tuple[int, int], to: int | str) -> Value:
    """Sums times a ratio in double precision, to the nearest whole number."""
    reals = node.call("mul", node.cast(acc, F64, "sums"), node.const("ratio", np.asarray([ratio])), to="reals")
    zero = node.const("zero", np.asarray([float(node.quant(node.output()).zero_point)]))
    moved = node.call("add", rounded(node, reals), zero, to="moved")
    return node.cast(node.call("clip", moved, to="held", lo=float(held[0]), hi=float(held[1])), I8, to)


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
    zero = node.tensor(1).zero_points[0]
    if not I8.limits[0] <= zero <= I8.limits[1]:
        raise BuildError(f"the weights have the zero point {zero}, outside of i8")
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
        plain = {"stride": (1, 1), "dilation": (1, 1), "pad": (0, 0, 0, 0)}
        pixels = node.call(op, x, rest, none, to="pixels", **{**given, **plain})
        ones = node.const("ones", np.ones((1, *kernel, 1), np.int8))
        window = node.call(op, pixels, ones, none, to="window", **{**given, "x_offset": 0, "pad_value": 0})
    return node.call("add", node.call(op, x, weights, bias, to="part", **given), window, to="acc")


def _images(node: OpNode) -> Value:
    x = node.input(0, I8, I16)
    if x.type.rank != 4:
        raise BuildError(f"the input has rank {x.type.rank} instead of 4")
    check_types(node)
    return x


def _weights(node: OpNode, rank: int) -> tuple[tuple[int, ...], Array | None]:
    """The shape of the weights, and their contents where these are known."""
    data, type = node.data(1), node.input(1).type
    shape = tuple(d for d in type.shape if isinstance(d, int))
    if type.dtype != I8 or len(shape) != rank or type.rank != rank:
        raise BuildError(f"the weights are {type.dtype} of rank {type.rank}; supported: i8 of rank {rank}")
    return shape, data


def conv_2d(node: OpNode) -> None:
    """CONV_2D: weights [o, kh, kw, c / groups]."""
    x, (shape, weights) = _images(node), _weights(node, 4)
    channels, kh, kw, depth = shape
    have = x.type.shape[3]
    if not isinstance(have, int) or depth < 1 or have % depth:
        raise BuildError(f"weights {list(shape)} do not fit {have} input channels")
    scales = channel_scales(node, 1, channels, 0)
    bias, maximum = _bias(node, channels, _accumulator(node))
    given = _window(node, x, (kh, kw)) | ({"groups": have // depth} if have != depth else {})
    if weights is None:
        limit = largest_sums(node, kh * kw * depth, given["x_offset"], x.type.dtype, maximum)
        acc = node.call("conv2d", x, computed(node), bias, to="acc", **given)
    else:
        found = factors(node, weights, split="groups" not in given)
        limit = bounds(found.exact.reshape(channels, -1), given["x_offset"], x.type.dtype, maximum)
        acc = _sum_of(node, "conv2d", x, found, bias, **given)
    requantize(node, acc, ratios(node, scales), limit, 0)


def computed(node: OpNode) -> Value:
    """Weights that the run computes, which must have the zero point 0."""
    if node.tensor(1).zero_points[0]:
        raise BuildError(f"weights {node.tensor(1).title} that are computed must have the zero point 0")
    return node.input(1)


def depthwise_conv_2d(node: OpNode) -> None:
    """DEPTHWISE_CONV_2D: weights [1, kh, kw, c * multiplier]."""
    x, (shape, weights) = _images(node), _weights(node, 4)
    one, kh, kw, channels = shape
    depth = x.type.shape[3]
    if one != 1 or not isinstance(depth, int) or channels % max(depth, 1):
        raise BuildError(f"weights of shape {list(shape)} do not fit {depth} input channels")
    scales = channel_scales(node, 1, channels, 3)
    bias, maximum = _bias(node, channels, _accumulator(node))
    given = _window(node, x, (kh, kw))
    if weights is None:
        limit = largest_sums(node, kh * kw, given["x_offset"], x.type.dtype, maximum)
        packed = node.call("reshape", computed(node), to="taps", shape=(kh, kw, channels))
    else:
        found = factors(node, weights, split=False)
        limit = bounds(found.exact.reshape(-1, channels).T, given["x_offset"], x.type.dtype, maximum)
        packed = node.builder.const(node.tensor(1).name, found.stored.reshape(kh, kw, channels))
    acc = node.call("depthwise_conv2d", x, packed, bias, to="acc", multiplier=channels // depth, **given)
    requantize(node, acc, ratios(node, scales), limit, 0)


def fully_connected(node: OpNode) -> None:
    """FULLY_CONNECTED: the input flattened to rows of k, weights [n, k]."""
    if int(node.option("WeightsFormat")) != 0:
        raise BuildError("shuffled weights are not supported")
    x, (shape, weights) = node.input(0, I8, I16), _weights(node, 2)
    check_types(node)
    channels, inner = shape
    scales = channel_scales(node, 1, channels, 0)
    bias, maximum = _bias(node, channels, _accumulator(node))
    flat = (
        x
        if x.type.rank == 2 and x.type.shape[1] == inner
        else node.call("reshape", x, to="rows", shape=(-1, inner))
    )
    offset = -node.quant(node.tensor(0)).zero_point
    if weights is None:
        limit = largest_sums(node, inner, offset, x.type.dtype, maximum)
        w_offset = -node.tensor(1).zero_points[0]
        acc = node.call("dense", flat, node.input(1), bias, to="acc", x_offset=offset, w_offset=w_offset)
    else:
        found = factors(node, weights, split=True)
        limit = bounds(found.exact, offset, x.type.dtype, maximum)
        acc = _sum_of(node, "dense", flat, found, bias, x_offset=offset, w_offset=0)
    rank = len(node.output().shape)
    result = requantize(node, acc, ratios(node, scales), limit, 0 if rank == 2 else "flat")
    if rank != 2:
        node.call("reshape", result, shape=_static(
            (*x.type.shape[:-1], channels) if rank == x.type.rank else node.output().shape
        ))  # fmt: skip


def batch_matmul(node: OpNode) -> None:
    """BATCH_MATMUL: products of matrices, each perhaps transposed, over the axes before; as i32 where that is asked."""
    a, b = node.input(0, I8, I16), node.input(1, I8, I16)
    kind = node.out_dtype(I8, I16, I32)
    taken = {(I8, I8): (I8, I32), (I16, I16): (I16,), (I16, I8): (I16,)}
    if kind not in taken.get((a.type.dtype, b.type.dtype), ()):
        raise BuildError(f"a product of {a.type.dtype} and {b.type.dtype} to {kind} is not supported")
    unsigned = [t for t in (node.tensor(0), node.tensor(1), node.output()) if node.was_unsigned(t)]
    if unsigned:
        raise BuildError(f"a product of matrices of UINT8 ({unsigned[0].title}) is not supported")
    turned = {"trans_a": bool(node.option("AdjX")), "trans_b": bool(node.option("AdjY"))}
    if kind == I32:
        node.call("matmul_sum", a, b, a_offset=0, b_offset=0, out="i32", **turned)
        return
    columns = _column_scales(node, turned["trans_b"])
    zeros = [node.quant(node.tensor(0)).zero_point, 0 if columns else node.quant(node.tensor(1)).zero_point]
    wide, extent = kind == I16, a.type.shape[-2 if turned["trans_a"] else -1]
    acc = _matrix_sums(node, a, b, zeros, turned, "i64" if wide else "i32")
    if columns:
        by = node.quant(node.tensor(0)).scale * np.asarray(columns) / node.quant(node.output()).scale
    else:
        left, right = (np.float32(node.quant(node.tensor(k)).scale) for k in (0, 1))
        by = np.asarray([float(left * right) / node.quant(node.output()).scale])
    maximum = max_value(extent)
    assert maximum is not None, "every dim of a .tflite file has bounds"
    bits = kind.bits + 1
    limit = np.asarray([maximum << 2 * bits - 2] * len(by), object)
    rescaled(node, acc, by, limit, 0, kind, node.quant(node.output()).zero_point, kind.limits)


def _column_scales(node: OpNode, turned: bool) -> tuple[float, ...]:
    """The scales of a right side that has one for each column of the result, else none. LiteRT's kernel takes one scale
    alone; what these mean is what FULLY_CONNECTED makes of such weights.

    Raises:
        BuildError: they are of another axis or number, no positive numbers, or have zero points.
    """
    weights = node.tensor(1)
    if len(weights.scales) < 2:
        return ()
    axis = len(weights.shape) - (2 if turned else 1)
    if len(weights.shape) < 2:
        raise BuildError(f"the matrix {weights.title} has the shape {list(weights.shape)}")
    if weights.axis != axis or len(weights.scales) != weights.shape[axis]:
        raise BuildError(
            f"the matrix {weights.title} has {len(weights.scales)} scales on axis {weights.axis}; supported: one, or "
            f"one for each of the {weights.shape[axis]} columns of the result, on axis {axis}"
        )
    if any(weights.zero_points) or not all(usable(s) for s in weights.scales):
        raise BuildError(f"the matrix {weights.title} must have positive finite scales and no zero points")
    return weights.scales


def _matrix_sums(
    node: OpNode, a: Value, b: Value, zeros: Sequence[int], turned: Mapping[str, bool], out: str
) -> Value:
    """The sums of a product: by ``dense`` where the right side is one constant matrix."""
    data, plain = node.data(1), not turned["trans_a"] and a.type.dtype == I8
    if data is not None and data.ndim == 2 and plain:
        matrix = np.ascontiguousarray(data if turned["trans_b"] else data.T)
        none = node.const("none", np.zeros(matrix.shape[0], np.int32))
        weights = node.const("weights", matrix)
        return node.call("dense", a, weights, none, to="acc", x_offset=-zeros[0], w_offset=-zeros[1])
    offsets = {"a_offset": -zeros[0], "b_offset": -zeros[1]}
    return node.call("matmul_sum", a, b, to="acc", out=out, **offsets, **turned)


def _static(shape: tuple[Dim, ...]) -> tuple[int, ...]:
    """A target shape for reshape: at most one open extent, which becomes -1."""
    return tuple(d if isinstance(d, int) else -1 for d in shape)


TABLE: Table = {
    "CONV_2D": conv_2d,
    "DEPTHWISE_CONV_2D": depthwise_conv_2d,
    "FULLY_CONNECTED": fully_connected,
    "BATCH_MATMUL": batch_matmul,
}
