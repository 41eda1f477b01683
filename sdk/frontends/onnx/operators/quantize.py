"""Quantised tensors: to integers and back, and the operators on integers.

Products of quantised tensors are emitted on reals between ``dequantize`` and ``quantize``: the pass ``integer`` makes
integer kernels of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from onnx import TensorProto

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, I8, I16, I32, U8, U16, DType, TensorType
from sdk.compiler.sym import Dim
from sdk.frontends.images import channels_first, channels_last
from sdk.frontends.onnx.context import OnnxNode, onnx_op
from sdk.frontends.onnx.images import window_of
from sdk.frontends.onnx.narrow import narrow_limits, rounded
from sdk.frontends.onnx.operators.conv import convolution
from sdk.frontends.onnx.reader import WIDER_TYPES, element_name, element_type

__all__ = ["dequantize_linear", "matmul_integer", "qlinear_conv", "quantize_linear", "real", "stored"]


def _spread(node: OnnxNode, value: Value, x: TensorType, axis: int, block: int) -> Value:
    """Scales or zero points in a shape that broadcasts to ``x``: one, one per index of an axis, or one per block."""
    if value.type.rank == 0 or value.type.shape == (1,):
        return value if value.type.rank == 0 else node.call("reshape", value, shape=())
    if block:
        maps = [(1, 0, block) if k == axis else () for k in range(x.rank)]
        return node.call("resize_nearest", value, sizes=x.shape, maps=tuple(maps))
    if value.type.rank != 1:
        node.fail(f"scales of rank {value.type.rank} without blocks")
    shape: tuple[Dim, ...] = (value.type.shape[0], *(1 for _ in range(x.rank - axis - 1)))
    return node.call("reshape", value, shape=shape)


def _constant(node: OnnxNode, k: int, x: TensorType, axis: int, block: int) -> Value | None:
    """Scales or zero points that are known, broadcast at build time."""
    data = node.data(k)
    if data is None:
        return None
    if data.size == 1:
        return node.const(data.reshape(()), f"q{k}")
    if block:
        wide = np.repeat(data, block, axis=axis)
        extent = x.shape[axis]
        return node.const(wide.take(range(extent), axis=axis), f"q{k}") if isinstance(extent, int) else None
    return node.const(data.reshape(-1, *(1 for _ in range(x.rank - axis - 1))), f"q{k}") if data.ndim == 1 else None


def _check_scale(node: OnnxNode, k: int) -> None:
    """Refuses scales known at import that nothing can be divided by."""
    data = node.data(k)
    bad = None if data is None else data[~(np.isfinite(data) & (data > 0))]
    if bad is not None and bad.size:
        node.fail(f"the scale of input {k - 1} is {bad.reshape(-1)[0]}, scales must be positive and finite")


def _parameters(node: OnnxNode, x: TensorType, scale: int, zero: int, kind: DType) -> tuple[Value, Value]:
    """Scale and zero point of a tensor of type ``x``: values that broadcast to it; zeros where none are given."""
    _check_scale(node, scale)
    axis = node.axis(node.int("axis", 1), x.rank) if node.type(scale).size != 1 else 0
    block = node.int("block_size", 0)
    s = _constant(node, scale, x, axis, block) or _spread(node, node.x(scale), x, axis, block)
    if node.given_input(zero):
        return s, _constant(node, zero, x, axis, block) or _spread(node, node.x(zero), x, axis, block)
    return s, node.const(np.zeros((), kind.numpy), "zero")


@onnx_op("QuantizeLinear")
def quantize_linear(node: OnnxNode) -> Value:
    """Reals to integers or small floats, by one scale, one per channel, or one per block."""
    x, codes = node.x(0), node.builder.narrow
    given = node.int("output_dtype", 0)
    code = codes.get(node.raw(2).name, 0) if node.given_input(2) else given
    kind = node.type(2).dtype if node.given_input(2) else element_type(given or TensorProto.UINT8)
    if kind is None or (not kind.is_float and kind not in (I8, U8, I16, U16)):
        node.fail(f"quantised tensors of type {element_name(given)} are not supported")
    if x.type.dtype == I32:
        x = node.call("cast", x, to=str(node.type(1).dtype))
    if kind.is_float:
        return _small_floats(node, x, code, kind)
    scale, zero = _parameters(node, x.type, 1, 2, kind)
    y = node.call("quantize", x, scale, zero, out=str(kind))
    limits = narrow_limits(code)
    if limits is not None:
        y = node.call("clip", y, lo=limits[0], hi=limits[1])
        codes[y.name] = code
    return y


def _small_floats(node: OnnxNode, x: Value, code: int, kind: DType) -> Value:
    """The quotients by a scale, in a small float type."""
    if code not in WIDER_TYPES:
        node.fail(f"quantised tensors of {kind} are not supported")
    scale, zero = _parameters(node, x.type, 1, 2, kind)
    wide, by = (v if v.type.dtype == F32 else node.call("cast", v, to=str(F32)) for v in (x, scale))
    y = node.call("div", wide, by)
    if node.given_input(2):
        y = node.call("add", y, zero)
    y = rounded(node, y, code)
    node.builder.narrow[y.name] = code
    return y


@onnx_op("DequantizeLinear")
def dequantize_linear(node: OnnxNode) -> Value:
    """Integers or small floats to reals."""
    x = node.x(0)
    scale, zero = _parameters(node, x.type, 1, 2, x.type.dtype)
    if not x.type.dtype.is_float:
        y = node.call("dequantize", x, scale, zero)
    else:
        if node.given_input(2):
            x = node.call("sub", x, zero)
        by = scale if scale.type.dtype == F32 else node.call("cast", scale, to=str(F32))
        y = node.call("mul", x, by)
        y = y if scale.type.dtype == F32 else node.call("cast", y, to=str(scale.type.dtype))
    return _as_stated(node, y)


def _as_stated(node: OnnxNode, y: Value) -> Value:
    """``y`` in the type that the attribute output_dtype names."""
    code = node.int("output_dtype", 0)
    kind = element_type(code) if code else y.type.dtype
    if kind is None or not kind.is_float:
        node.fail(f"reals of type {element_name(code)} are not supported")
    y = y if kind == y.type.dtype else node.call("cast", y, to=str(kind))
    if code in WIDER_TYPES:
        y = rounded(node, y, code)
        node.builder.narrow[y.name] = code
    return y


# --- operators on quantised tensors -----------------------------------------------------------------------------------


def real(node: OnnxNode, k: int, per: int | None = None) -> Value:
    """The reals of the quantised input ``k``, whose scale and zero point follow it; ``per`` is their axis."""
    x = node.x(k)
    _check_scale(node, k + 1)
    parts: list[Value] = []
    for n in (k + 1, k + 2):
        if n == k + 2 and not node.given_input(n):
            parts.append(node.const(np.zeros((), x.type.dtype.numpy), "zero"))
            continue
        data, rank = node.data(n), x.type.rank
        if data is not None and (data.size == 1 or per is None):
            parts.append(node.const(data.reshape(()) if data.size == 1 else data, f"q{n}"))
        elif data is not None and per is not None:
            parts.append(node.const(data.reshape(-1, *(1 for _ in range(rank - per - 1))), f"q{n}"))
        else:
            value = node.x(n)
            tail = () if value.type.size == 1 else (value.type.shape[0], *(1 for _ in range(rank - (per or 0) - 1)))
            parts.append(node.call("reshape", value, shape=tail) if value.type.shape != tail else value)
    return node.call("dequantize", x, *parts)


def stored(node: OnnxNode, y: Value, scale: int) -> Value:
    """``y`` quantised by the scale and zero point of inputs ``scale`` and ``scale + 1``; without a zero
    point by 0, in the type of the first tensor of bytes."""
    _check_scale(node, scale)
    parts = []
    for n in (scale, scale + 1):
        if not node.given_input(n) and n == scale + 1:
            kinds = (v.type.dtype for v in node.inputs if v is not None and v.type.dtype in (I8, U8))
            parts.append(node.const(np.zeros((), next(kinds, U8).numpy), "zero"))
            continue
        data = node.data(n)
        if data is not None and data.size == 1:
            parts.append(node.const(data.reshape(()), f"q{n}"))
        else:
            parts.append(node.x(n))
    return node.call("quantize", y, *parts, out=str(parts[1].type.dtype))


@onnx_op("QLinearConv")
def qlinear_conv(node: OnnxNode) -> Value:
    """A convolution of quantised images."""
    x, b = node.x(0), node.optional(8)
    taps = real(node, 3, per=0)
    if b is not None:
        xs, ws = node.data(1), node.data(4)
        if xs is not None and ws is not None:
            both = (xs.reshape(()) * ws.reshape(-1)).astype(np.float32)
            scales = node.const(both.reshape(()) if ws.size == 1 else both, "bias_scale")
        else:
            scales = node.call("mul", node.x(1), node.x(4))
        b = node.call("dequantize", b, scales, node.const(np.zeros((), np.int32), "zero"))
    image = real(node, 0)
    if x.type.rank != node.type(3).rank:
        node.fail(f"weights of rank {node.type(3).rank} for an image of rank {x.type.rank}")
    inner = replace(node, inputs=(image, taps, b), outputs=1)
    return stored(node, convolution(inner, image, 1, b), 6)


@onnx_op("QLinearMatMul")
def qlinear_matmul(node: OnnxNode) -> Value:
    """A product of quantised matrices."""
    rows = max(node.type(0).rank - 2, 0)
    a = real(node, 0, per=rows if node.type(1).size != 1 else None)
    b = real(node, 3, per=max(node.type(3).rank - 1, 0) if node.type(4).size != 1 else None)
    return stored(node, node.call("matmul", a, b), 6)


def _difference(node: OnnxNode, k: int, zero: int, per: tuple[Any, ...] = ()) -> Value:
    """Input ``k`` less its zero point, as i16; as i8 where it is known and fits."""
    data, at = node.data(k), node.data(zero) if node.given_input(zero) else np.zeros((), np.int8)
    if data is not None and at is not None:
        shape = per if at.size > 1 else ()
        exact = data.astype(np.int32) - at.astype(np.int32).reshape(shape)
        small = exact.min(initial=0) >= -128 and exact.max(initial=0) <= 127
        return node.const(exact.astype(np.int8 if small else np.int16), "less_zero")
    x = node.x(k)
    if at is not None and not at.any() and x.type.dtype == I8:
        return x
    wide = node.call("cast", x, to="i16")
    if not node.given_input(zero):
        return wide
    value = node.call("cast", node.x(zero), to="i16")
    tail = per if value.type.size != 1 else ()
    if value.type.shape != tail:
        value = node.call("reshape", value, shape=tuple(value.type.size if d == -1 else d for d in tail))
    return node.call("sub", wide, value)


@onnx_op("MatMulInteger")
def matmul_integer(node: OnnxNode) -> Value:
    """The exact product of two integer matrices, less their zero points."""
    a = _difference(node, 0, 2, (-1, 1))
    b = _difference(node, 1, 3, (-1,))
    if b.type.rank == 2 and a.type.rank >= 2:
        weights = node.call("transpose", b, perm=(1, 0))
        outputs = b.type.shape[1]
        if isinstance(outputs, int):
            bias = node.const(np.zeros(outputs, np.int32), "bias")
            return node.call("dense", a, weights, bias, x_offset=0, w_offset=0)
    return node.call("matmul", node.call("cast", a, to="i32"), node.call("cast", b, to="i32"))


@onnx_op("ConvInteger")
def conv_integer(node: OnnxNode) -> Value:
    """The exact convolution of an integer image, both sides less their zero points."""
    image = _difference(node, 0, 2)
    rank = node.type(1).rank
    weights = _difference(node, 1, 3, (-1, *(1 for _ in range(rank - 1))))
    shape = tuple(d for d in weights.type.shape if isinstance(d, int))
    window = window_of(node, node.type(0).shape[2:], shape[2:])
    pad = window.fixed_pad
    if pad is None or len(shape) != rank:
        node.fail("its padding or weights depend on the size of the image")
    axes = len(window.kernel)
    flat = node.call("reshape", weights, shape=(shape[0], shape[1], *window.kernel))
    taps = node.call("transpose", flat, perm=(0, *range(2, axes + 2), 1))
    bias = node.const(np.zeros(shape[0], np.int32), "bias")
    given: dict[str, Any] = {"stride": window.stride, "dilation": window.dilation, "pad": pad}
    groups = node.int("group", 1)
    if groups > 1:
        given["groups"] = groups
    last = channels_last(node, image)
    y = node.call(f"conv{axes}d", last, taps, bias, x_offset=0, pad_value=0, **given)
    return channels_first(node, y, rank - 2)
