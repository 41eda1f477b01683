"""Quantised tensors: to integers and back, and the operators on integers.

Products of quantised tensors are emitted on reals between ``dequantize`` and ``quantize``: the pass ``integer`` makes
integer kernels of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I8, I16, I32, U8, DType, TensorType, dtype_of
from sdk.compiler.sym import Dim
from sdk.frontends.images import channels_first, channels_last
from sdk.frontends.onnx.context import OnnxNode, onnx_op
from sdk.frontends.onnx.images import window_of
from sdk.frontends.onnx.operators.conv import convolution

__all__: list[str] = []


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


_OUTPUTS = {2: "u8", 3: "i8", 4: "u16", 5: "i16"}  # ONNX's numbers of types


@onnx_op("QuantizeLinear")
def quantize_linear(node: OnnxNode) -> Value:
    """Reals to integers, by one scale, one per channel, or one per block."""
    x = node.x(0)
    given = node.int("output_dtype", 0)
    if given and given not in _OUTPUTS:
        node.fail(f"quantised tensors of ONNX type {given} are not supported")
    kind = node.type(2).dtype if node.given_input(2) else U8
    if given and not node.given_input(2):
        kind = {"u8": U8, "i8": I8, "i16": I16}.get(_OUTPUTS[given], dtype_of(np.zeros(0, np.uint16)))
    if x.type.dtype == I32:
        x = node.call("cast", x, to=str(node.type(1).dtype))
    scale, zero = _parameters(node, x.type, 1, 2, kind)
    return node.call("quantize", x, scale, zero, out=str(kind))


@onnx_op("DequantizeLinear")
def dequantize_linear(node: OnnxNode) -> Value:
    """Integers to reals."""
    x = node.x(0)
    return node.call("dequantize", x, *_parameters(node, x.type, 1, 2, x.type.dtype))


# --- operators on quantised tensors -----------------------------------------------------------------------------------


def _real(node: OnnxNode, k: int, per: int | None = None) -> Value:
    """The reals of the quantised input ``k``, whose scale and zero point follow it; ``per`` is their axis."""
    x = node.x(k)
    _check_scale(node, k + 1)
    parts: list[Value] = []
    for n in (k + 1, k + 2):
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


def _stored(node: OnnxNode, y: Value, scale: int) -> Value:
    """``y`` quantised by the scale and zero point of inputs ``scale`` and ``scale + 1``."""
    parts = []
    _check_scale(node, scale)
    for n in (scale, scale + 1):
        data = node.data(n)
        value = node.const(data.reshape(()), f"q{n}") if data is not None and data.size == 1 else node.x(n)
        parts.append(value)
    return node.call("quantize", y, *parts, out=str(node.type(scale + 1).dtype))


@onnx_op("QLinearConv")
def qlinear_conv(node: OnnxNode) -> Value:
    """A convolution of quantised images."""
    x, b = node.x(0), node.optional(8)
    taps = _real(node, 3, per=0)
    if b is not None:
        xs, ws = node.data(1), node.data(4)
        if xs is not None and ws is not None:
            both = (xs.reshape(()) * ws.reshape(-1)).astype(np.float32)
            scales = node.const(both.reshape(()) if ws.size == 1 else both, "bias_scale")
        else:
            scales = node.call("mul", node.x(1), node.x(4))
        b = node.call("dequantize", b, scales, node.const(np.zeros((), np.int32), "zero"))
    real = _real(node, 0)
    if x.type.rank != node.type(3).rank:
        node.fail(f"weights of rank {node.type(3).rank} for an image of rank {x.type.rank}")
    inner = replace(node, inputs=(real, taps, b), outputs=1)
    return _stored(node, convolution(inner, real, 1, b), 6)


@onnx_op("QLinearMatMul")
def qlinear_matmul(node: OnnxNode) -> Value:
    """A product of quantised matrices."""
    rows = max(node.type(0).rank - 2, 0)
    a = _real(node, 0, per=rows if node.type(1).size != 1 else None)
    b = _real(node, 3, per=max(node.type(3).rank - 1, 0) if node.type(4).size != 1 else None)
    return _stored(node, node.call("matmul", a, b), 6)


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
