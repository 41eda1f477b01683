"""Convolutions, and the normalisation of their channels."""

from __future__ import annotations

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.sym import Dim
from sdk.frontends.onnx.context import OnnxNode, onnx_op
from sdk.frontends.onnx.images import Window, channels_first, channels_last, moved, window_of

__all__ = ["convolution"]


def _shape(node: OnnxNode, k: int) -> tuple[int, ...]:
    """The shape of weights, which must be numbers."""
    found = tuple(d for d in node.type(k).shape if isinstance(d, int))
    if len(found) != node.type(k).rank:
        node.fail("weights of an open size are not supported")
    return found


def _padded(node: OnnxNode, x: Value, window: Window) -> tuple[Value, tuple[int, ...]]:
    """The channels-last image, and what is left to pad: symbolic padding becomes a ``pad``."""
    pad = window.fixed_pad
    if pad is not None and min(pad) >= 0:
        return x, pad
    axes = len(window.kernel)
    pairs = zip(window.pad[:axes], window.pad[axes:], strict=True)
    return node.call("pad", x, pads=((0, 0), *pairs, (0, 0)), value=0.0), (0,) * 2 * axes


def convolution(node: OnnxNode, x: Value, w: int, b: Value | None) -> Value:
    """Emits the convolution of the float image ``x[n, c, ..]`` with the weights of input ``w``."""
    shape = _shape(node, w)
    if len(shape) != x.type.rank or len(shape) < 3:
        node.fail(f"weights of rank {len(shape)} for an image of rank {x.type.rank}")
    kernel = node.ints("kernel_shape", shape[2:])
    if tuple(kernel) != shape[2:]:
        node.fail(f"the attribute kernel_shape {list(kernel)} is not that of the weights, {list(shape[2:])}")
    window = window_of(node, x.type.shape[2:], kernel)
    groups = node.int("group", 1)
    out, depth = shape[:2]
    if groups < 1 or out % groups or not same_extent(x.type.shape[1], depth * groups):
        node.fail(f"weights {list(shape)} in {groups} groups do not fit {x.type.shape[1]} channels")
    if b is None:
        b = node.const(np.zeros(out, x.type.dtype.numpy), "bias")
    image, pad = _padded(node, channels_last(node, x), window)
    given = {"stride": window.stride, "dilation": window.dilation, "pad": pad}
    axes = len(window.kernel)
    if depth == 1 and groups > 1 and axes == 2:
        weights = moved(node, w, (out, *window.kernel), (1, 2, 0), "taps")
        y = node.call("depthwise_conv2d", image, weights, b, multiplier=out // groups, **given)
    else:
        weights = moved(node, w, (out, depth, *window.kernel), (0, *range(2, axes + 2), 1), "taps")
        if groups > 1:
            given["groups"] = groups
        y = node.call(f"conv{axes}d", image, weights, b, **given)
    return channels_first(node, y, len(kernel))


@onnx_op("Conv")
def conv(node: OnnxNode) -> Value:
    """Convolution over 1, 2 or 3 axes, in groups."""
    return convolution(node, node.x(0), 1, node.optional(2))


def _transposed_pads(node: OnnxNode, sizes: tuple[Dim, ...], kernel: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Rows cut off before and after, and rows added after, along each axis: the pads and the output padding."""
    axes = len(kernel)
    stride, dilation = node.ints("strides", (1,) * axes), node.ints("dilations", (1,) * axes)
    more = list(node.ints("output_padding", (0,) * axes))
    pads = list(node.ints("pads", (0,) * 2 * axes))
    auto = node.text("auto_pad", "NOTSET")
    wanted = node.ints("output_shape", None)
    if wanted is not None:
        wanted = wanted[-axes:]
    if auto == "VALID":
        pads = [0] * 2 * axes
    elif wanted is not None or auto != "NOTSET":
        for k in range(axes):
            target: Dim = wanted[k] if wanted is not None else sizes[k] * stride[k]
            total = (sizes[k] - 1) * stride[k] + more[k] + (kernel[k] - 1) * dilation[k] + 1 - target
            if not isinstance(total, int):
                node.fail(f"its padding {total} depends on the size of the image")
            more[k] += max(-total, 0)
            number = max(total, 0)
            before = number // 2 if auto == "SAME_UPPER" else number - number // 2
            pads[k], pads[k + axes] = before, number - before
    return pads, more


@onnx_op("ConvTranspose")
def conv_transpose(node: OnnxNode) -> Value:
    """Transposed convolution over 1, 2 or 3 axes, in groups: weights [c, o / groups, ..]."""
    x, shape = node.x(0), _shape(node, 1)
    groups = node.int("group", 1)
    if len(shape) != x.type.rank or not same_extent(x.type.shape[1], shape[0]) or groups < 1 or shape[0] % groups:
        node.fail(f"weights {list(shape)} in {groups} groups do not fit {x.type.shape[1]} channels")
    kernel = shape[2:]
    axes, out = len(kernel), shape[1] * groups
    stride, dilation = node.ints("strides", (1,) * axes), node.ints("dilations", (1,) * axes)
    pads, more = _transposed_pads(node, x.type.shape[2:], kernel)
    b = node.optional(2) or node.const(np.zeros(out, x.type.dtype.numpy), "bias")
    image = channels_last(node, x)
    if axes == 1:
        kernel, stride, dilation = (1, *kernel), (1, *stride), (1, *dilation)
        pads, more = [0, pads[0], 0, pads[1]], [0, more[0]]
    ours = len(kernel)
    # [g, c/g, o/g, ..] -> [g, o/g, .., c/g]
    split = (groups, shape[0] // groups, shape[1], *kernel)
    weights = moved(node, 1, split, (0, 2, *range(3, 3 + ours), 1), "taps")
    given = {"stride": tuple(stride), "dilation": tuple(dilation), "pad": tuple(pads), "more": tuple(more)}
    if groups > 1:
        given["groups"] = groups
    flat = (out, *kernel, shape[0] // groups)
    data = node.builder.contents_of(weights)
    if data is not None and data.numbers is not None:
        weights = node.const(data.numbers.reshape(flat), "taps")
    else:
        weights = node.call("reshape", weights, shape=flat)
    y = node.call(f"conv_transpose{ours}d", image, weights, b, **given)
    return channels_first(node, y, axes)


@onnx_op("BatchNormalization")
def batch_normalization(node: OnnxNode) -> Value:
    """A scale and a shift per channel, as learnt."""
    if node.int("training_mode", 0) or node.outputs > 1:
        node.fail("batch normalisation in training mode is not supported", hint="export the model for inference")
    x, epsilon = node.x(0), node.float("epsilon", 1e-5)
    shape = (x.type.shape[1],) + (1,) * (x.type.rank - 2) if x.type.rank > 1 else x.type.shape
    known = [node.data(k) for k in range(1, 5)]
    gamma, beta, mean, var = known
    if gamma is not None and beta is not None and mean is not None and var is not None:
        factor = gamma.astype(np.float64) / np.sqrt(var.astype(np.float64) + epsilon)
        shift = beta - mean * factor
        kind, fixed = x.type.dtype.numpy, (-1, *shape[1:])
        y = node.call("mul", x, node.const(factor.astype(kind).reshape(fixed), "scale"))
        return node.call("add", y, node.const(shift.astype(kind).reshape(fixed), "shift"))
    parts = [node.call("reshape", node.x(k), shape=shape) for k in range(1, 5)]
    parts = [v if v.type.dtype == x.type.dtype else node.call("cast", v, to=str(x.type.dtype)) for v in parts]
    spread = node.call("sqrt", node.call("add", parts[3], node.scalar(epsilon, x.type)))
    centred = node.call("div", node.call("sub", x, parts[2]), spread)
    return node.call("add", node.call("mul", centred, parts[0]), parts[1])
