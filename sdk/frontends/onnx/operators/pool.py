"""Pooling over windows and over whole images."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I16, U8
from sdk.frontends.images import channels_first, channels_last
from sdk.frontends.onnx.context import OnnxNode, onnx_op
from sdk.frontends.onnx.images import window_of

__all__: list[str] = []


def _window(node: OnnxNode) -> tuple[dict[str, Any], int]:
    """The attributes of a pooling of ours, and the axes of the image."""
    sizes = node.type(0).shape[2:]
    kernel = node.ints("kernel_shape", None)
    if kernel is None:
        node.fail("the attribute kernel_shape is missing")
    window = window_of(node, sizes, kernel)
    pad = window.fixed_pad
    if pad is None:
        node.fail("its padding depends on the size of the image", hint="make the size a multiple of the stride")
    given: dict[str, Any] = {"kernel": window.kernel, "stride": window.stride, "pad": pad}
    if max(window.dilation) > 1:
        given["dilation"] = window.dilation
    # VALID: the formula of ONNX's text leaves the last window out, its shape inference and onnxruntime do not
    if node.int("ceil_mode", 0) and not node.text("auto_pad", "NOTSET").startswith("SAME"):
        given["ceil"] = True
    return given, len(sizes)


def _pooled(node: OnnxNode, x: Value, op: str, given: dict[str, Any], axes: int) -> Value:
    y = node.call(f"{op}{len(given['kernel'])}d", channels_last(node, x), **given)
    return channels_first(node, y, axes)


@onnx_op("MaxPool")
def max_pool(node: OnnxNode) -> Value | tuple[Value, ...]:
    """The largest element of each window; as a second result its place in the whole tensor."""
    given, axes = _window(node)
    x = node.x(0)
    if node.outputs > 1:
        byte = x.type.dtype == U8
        values, places = _max_and_place(node, node.call("cast", x, to=str(I16)) if byte else x, given, axes)
        return (node.call("cast", values, to=str(U8)) if byte else values), places
    if x.type.dtype.kind == "u" and x.type.dtype.bits == 8:  # the order of bytes is kept by a shift of 128
        whole = {"mult": 1 << 30, "shift": 1}
        low = node.call("rescale", x, out="i8", in_zp=128, zp=0, lo=-128, hi=127, **whole)
        maximum = _pooled(node, low, "max_pool", given, axes)
        return node.call("rescale", maximum, out="u8", in_zp=0, zp=128, lo=0, hi=255, **whole)
    return _pooled(node, x, "max_pool", given, axes)


def _max_and_place(node: OnnxNode, x: Value, given: dict[str, Any], axes: int) -> tuple[Value, Value]:
    sizes = x.type.shape
    if axes > 2 or not all(isinstance(d, int) for d in sizes):
        node.fail("the places of maxima are told of images of fixed size with one or two axes")
    image = channels_last(node, x)
    values, places = node.calls("argmax_pool2d", image, **given)
    n, c, *space = (d for d in sizes if isinstance(d, int))
    places = node.call("cast", channels_first(node, places, axes), to="i64")
    if node.int("storage_order", 0) and axes == 2:
        rows, cols = (node.scalar(d, places.type) for d in space)
        row, col = node.call("div", places, cols), node.call("mod", places, cols)
        places = node.call("add", node.call("mul", col, rows), row)
    first = np.arange(n * c, dtype=np.int64).reshape(n, c, *(1 for _ in space)) * int(np.prod(space))
    return channels_first(node, values, axes), node.call("add", places, node.const(first, "first"))


@onnx_op("AveragePool")
def average_pool(node: OnnxNode) -> Value:
    """The mean of each window, over what is inside the image or also over the padding."""
    given, axes = _window(node)
    if node.int("count_include_pad", 0):
        given["include_pad"] = True
    return _pooled(node, node.x(0), "avg_pool", given, axes)


@onnx_op("LpPool")
def lp_pool(node: OnnxNode) -> Value:
    """The p-norm of each window."""
    given, axes = _window(node)
    x = node.x(0)
    p = float(node.int("p", 2))
    powers = node.call("pow", node.call("abs", x), node.scalar(p, x.type))
    total = _pooled(node, powers, "sum_pool", given, axes)
    return node.call("pow", total, node.scalar(1.0 / p, x.type))


def _image_axes(node: OnnxNode) -> tuple[int, ...]:
    return tuple(range(2, node.type(0).rank))


@onnx_op("GlobalAveragePool")
def global_average_pool(node: OnnxNode) -> Value:
    """The mean of each channel."""
    return node.call("reduce_mean", node.x(0), axes=_image_axes(node))


@onnx_op("GlobalMaxPool")
def global_max_pool(node: OnnxNode) -> Value:
    """The largest element of each channel."""
    return node.call("reduce_max", node.x(0), axes=_image_axes(node))


@onnx_op("GlobalLpPool")
def global_lp_pool(node: OnnxNode) -> Value:
    """The p-norm of each channel."""
    x, p = node.x(0), float(node.int("p", 2))
    powers = node.call("pow", node.call("abs", x), node.scalar(p, x.type))
    total = node.call("reduce_sum", powers, axes=_image_axes(node))
    return node.call("pow", total, node.scalar(1.0 / p, x.type))
