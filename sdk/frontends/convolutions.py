"""Convolutions of images [n, c, ..], transposed ones, and what is learnt of each channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.sym import Dim
from sdk.frontends.emit import Emitter
from sdk.frontends.images import Window, channels_first, channels_last

__all__ = ["convolved", "normalized_channels", "transposed_convolved", "weight_shape"]


def weight_shape(node: Emitter, w: Value) -> tuple[int, ...]:
    """The shape of weights.

    Raises:
        BuildError: it is not known in numbers.
    """
    found = tuple(d for d in w.type.shape if isinstance(d, int))
    if len(found) != w.type.rank:
        node.fail("weights of an open size are not supported")
    return found


def _moved(node: Emitter, value: Value, shape: Sequence[int], perm: Sequence[int], stem: str) -> Value:
    """Weights in another shape, then with their axes permuted: at build time where they are known."""
    data = node.numbers(value)
    if data is not None:
        return node.const(np.ascontiguousarray(data.reshape(shape).transpose(perm)), stem)
    value = node.value(value)
    if tuple(shape) != value.type.shape:
        value = node.call("reshape", value, shape=tuple(shape))
    return value if list(perm) == list(range(len(perm))) else node.call("transpose", value, perm=tuple(perm))


def _padded(node: Emitter, x: Value, window: Window) -> tuple[Value, tuple[int, ...]]:
    """The channels-last image, and what is left to pad: symbolic padding becomes a ``pad``."""
    pad = window.fixed_pad
    if pad is not None and min(pad) >= 0:
        return x, pad
    axes = len(window.kernel)
    pairs = zip(window.pad[:axes], window.pad[axes:], strict=True)
    return node.call("pad", x, pads=((0, 0), *pairs, (0, 0)), value=0.0), (0,) * 2 * axes


def convolved(node: Emitter, x: Value, w: Value, b: Value | None, window: Window, groups: int) -> Value:
    """The convolution of the float image ``x[n, c, ..]`` with the weights ``w[o, c / groups, ..]``.

    Raises:
        BuildError: the weights do not fit the image, or have an open size.
    """
    shape = weight_shape(node, w)
    if len(shape) != x.type.rank or len(shape) < 3:
        node.fail(f"weights of rank {len(shape)} for an image of rank {x.type.rank}")
    out, depth = shape[:2]
    if groups < 1 or out % groups or not same_extent(x.type.shape[1], depth * groups):
        node.fail(f"weights {list(shape)} in {groups} groups do not fit {x.type.shape[1]} channels")
    if b is None:
        b = node.const(np.zeros(out, x.type.dtype.numpy), "bias")
    image, pad = _padded(node, channels_last(node, x), window)
    given: dict[str, Any] = {"stride": window.stride, "dilation": window.dilation, "pad": pad}
    axes = len(window.kernel)
    if depth == 1 and groups > 1 and axes == 2:
        weights = _moved(node, w, (out, *window.kernel), (1, 2, 0), "taps")
        y = node.call("depthwise_conv2d", image, weights, b, multiplier=out // groups, **given)
    else:
        weights = _moved(node, w, (out, depth, *window.kernel), (0, *range(2, axes + 2), 1), "taps")
        if groups > 1:
            given["groups"] = groups
        y = node.call(f"conv{axes}d", image, weights, b, **given)
    return channels_first(node, y, len(shape) - 2)


def transposed_convolved(
    node: Emitter,
    x: Value,
    w: Value,
    b: Value | None,
    stride: Sequence[int],
    dilation: Sequence[int],
    pads: Sequence[int],
    more: Sequence[int],
    groups: int,
) -> Value:
    """The transposed convolution of ``x[n, c, ..]`` with weights ``w[c, o / groups, ..]``: ``pads`` rows are cut off
    before all axes and after all axes, ``more`` added after each.

    Raises:
        BuildError: the weights do not fit the image, or have an open size.
    """
    shape = weight_shape(node, w)
    if len(shape) != x.type.rank or not same_extent(x.type.shape[1], shape[0]) or groups < 1 or shape[0] % groups:
        node.fail(f"weights {list(shape)} in {groups} groups do not fit {x.type.shape[1]} channels")
    kernel = shape[2:]
    axes, out = len(kernel), shape[1] * groups
    b = b or node.const(np.zeros(out, x.type.dtype.numpy), "bias")
    image = channels_last(node, x)
    if axes == 1:
        kernel, stride, dilation = (1, *kernel), (1, *stride), (1, *dilation)
        pads, more = [0, pads[0], 0, pads[1]], [0, more[0]]
    ours = len(kernel)
    # [g, c/g, o/g, ..] -> [g, o/g, .., c/g]
    split = (groups, shape[0] // groups, shape[1], *kernel)
    weights = _moved(node, w, split, (0, 2, *range(3, 3 + ours), 1), "taps")
    given: dict[str, Any] = {"stride": tuple(stride), "dilation": tuple(dilation), "pad": tuple(pads)}
    if groups > 1:
        given["groups"] = groups
    flat = (out, *kernel, shape[0] // groups)
    data = node.numbers(weights)
    weights = node.const(data.reshape(flat), "taps") if data is not None else node.call("reshape", weights, shape=flat)
    y = node.call(f"conv_transpose{ours}d", image, weights, b, more=tuple(more), **given)
    return channels_first(node, y, axes)


def normalized_channels(
    node: Emitter, x: Value, gamma: Value, beta: Value, mean: Value, var: Value, epsilon: float
) -> Value:
    """``(x - mean) / sqrt(var + epsilon) * gamma + beta`` with one number each per channel, which is axis 1."""
    shape: tuple[Dim, ...] = (x.type.shape[1],) + (1,) * (x.type.rank - 2) if x.type.rank > 1 else x.type.shape
    numbers = [node.numbers(v) for v in (gamma, beta, mean, var)]
    known = [n for n in numbers if n is not None]
    if len(known) == 4:
        factor = known[0].astype(np.float64) / np.sqrt(known[3].astype(np.float64) + epsilon)
        shift = known[1] - known[2] * factor
        kind, fixed = x.type.dtype.numpy, (-1, *(1 for _ in shape[1:]))
        y = node.call("mul", x, node.const(factor.astype(kind).reshape(fixed), "scale"))
        return node.call("add", y, node.const(shift.astype(kind).reshape(fixed), "shift"))
    parts = [node.call("reshape", v, shape=shape) for v in (gamma, beta, mean, var)]
    parts = [v if v.type.dtype == x.type.dtype else node.call("cast", v, to=str(x.type.dtype)) for v in parts]
    spread = node.call("sqrt", node.call("add", parts[3], node.scalar(epsilon, x.type)))
    centred = node.call("div", node.call("sub", x, parts[2]), spread)
    return node.call("add", node.call("mul", centred, parts[0]), parts[1])
