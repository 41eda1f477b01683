"""Layers of floats whose weights are i8 ("dynamic range"): each run quantises what they read, as LiteRT's kernels do.
Weights of 4 bits are i8 here; fully connected layers may have a scale for each block of a row of weights.

The largest and smallest number of an image (of a row, of a fully connected layer) say how it is stored in 8 bits; sums
of products are integers, and become floats with a scale for each channel. Weights stay as small as in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, F64, I8, I16, I32, I64
from sdk.compiler.sym import Dim
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode, usable
from sdk.frontends.tflite.operators.real.common import apply
from sdk.frontends.tflite.operators.transposed import blocks_of
from sdk.frontends.tflite.rounding import rounded

__all__ = [
    "Steps", "block_scales", "channel_scales", "has_stored_weights", "products", "spread", "summed",
    "summed_by_blocks",
]  # fmt: skip

_LOW, _HIGH = -128.0, 127.0


def has_stored_weights(node: OpNode) -> bool:
    """Whether the weights, input 1, are of i8."""
    return node.tensor(1).dtype == I8


@dataclass(frozen=True, slots=True)
class Steps:
    """A tensor in steps, integers at first, and what one step is worth: a scale for each image or row."""

    value: Value
    scale: Value


def summed(
    node: OpNode, op: str, x: Value, weights: Value, axis: int, axes: tuple[int, ...], bias: Value | None,
    view: tuple[Dim, ...] | None = None, **window: Any,
) -> None:  # fmt: skip
    """Emits ``op`` of a float tensor and weights of i8 whose channels are ``axis`` in the file, then scales, bias and
    the fused activation. ``axes`` of the tensor are stored together, with a zero point where LiteRT's kernels have one:
    in fully connected layers that ask for it, in convolutions with several scales, in all that are depthwise."""
    scales = channel_scales(node, 1, axis)
    asymmetric = op == "depthwise_conv2d" or (op == "conv2d" and len(scales) > 1)
    if op == "dense":
        asymmetric = bool(node.option("AsymmetricQuantizeInputs"))
    channels = node.tensor(1).shape[axis]
    scaled = _scaled(node, op, x, weights, scales, axes, channels, asymmetric, window)
    if bias is None:
        apply(node, "mul", scaled.value, scaled.scale, view=view)
    else:
        apply(node, "add", node.call("mul", scaled.value, scaled.scale, to="real"), bias, view=view)


def spread(node: OpNode, x: Value, shape: tuple[int, ...], bias: Value | None) -> None:
    """Emits a transposed convolution of float images and weights of i8 to images of ``shape``, then scales, bias and
    the fused activation; each image is stored with a zero point."""
    scales, blocks, data = channel_scales(node, 1, 0), blocks_of(node, x, shape), node.data(1)
    taps = blocks.computed_weights(node, node.input(1)) if data is None else node.const("blocks", blocks.weights(data))
    steps = _asymmetric(node, x, (1, 2, 3))
    zeros = node.const("zeros", np.zeros(blocks.copies * blocks.shape[0], np.int32))
    acc = node.call(
        "conv2d", steps.value, taps, zeros, to="acc", stride=(1, 1), dilation=(1, 1), pad=blocks.pads, x_offset=0,
        pad_value=0,
    )  # fmt: skip
    sums = node.cast(blocks.image(node, acc, "image"), F32, "sums")
    scaled = node.call("mul", sums, node.const("scales", scales), to="scaled")
    if bias is None:
        apply(node, "mul", scaled, steps.scale)
    else:
        apply(node, "add", node.call("mul", scaled, steps.scale, to="real"), bias)


def products(node: OpNode, x: Value, weights: Value, scales: np.ndarray, asymmetric: bool) -> Steps:
    """Rows of floats times the rows of a matrix of i8: what is left is to multiply by the scale of each row."""
    channels = weights.type.static_shape[0]
    axes, given = (x.type.rank - 1,), {"x_offset": 0, "w_offset": 0}
    return _scaled(node, "dense", x, weights, scales, axes, channels, asymmetric, given)


def summed_by_blocks(
    node: OpNode, x: Value, bias: Value | None, view: tuple[Dim, ...] | None = None
) -> None:  # fmt: skip
    """Emits rows of floats times the rows of a matrix of i8 with a scale for each block of a row, then the bias and the
    fused activation. Rows are stored with a zero point; the sums of a block are exact."""
    scales, weights = block_scales(node, 1), node.constant(1)
    channels, count = scales.shape
    size, rows = weights.shape[1] // count, x.type.shape[0]
    steps = _asymmetric(node, x, (1,))
    blocks = node.call("reshape", steps.value, to="blocks", shape=(rows, count, size))
    turned = node.call("transpose", blocks, to="turned", perm=(1, 0, 2))
    taps = node.const("weights", np.ascontiguousarray(weights.reshape(channels, count, size).swapaxes(0, 1)))
    wide = size * (1 << 8) * (1 << 7) >= 1 << 31
    acc = node.call(
        "matmul_sum", turned, taps, to="acc", a_offset=0, b_offset=0, trans_a=False, trans_b=True,
        out=str(I64 if wide else I32),
    )  # fmt: skip
    table = node.const("scales", np.ascontiguousarray(scales.T.reshape(count, 1, channels)))
    scaled = node.call("mul", node.cast(acc, F32, "sums"), table, to="scaled")
    total = node.call("reduce_sum", scaled, to="total", axes=(0,))
    flat = node.call("reshape", total, to="flat", shape=(rows, channels))
    if bias is None:
        apply(node, "mul", flat, steps.scale, view=view)
    else:
        apply(node, "add", node.call("mul", flat, steps.scale, to="real"), bias, view=view)


def block_scales(node: OpNode, k: int) -> np.ndarray:
    """The scales [rows, blocks] of a matrix of i8 with one for each block of a row, input ``k``.

    Raises:
        BuildError: it is no constant matrix of i8, or its scales are not such.
    """
    tensor = node.tensor(k)
    assert tensor.blocks is not None, "asked of a tensor with blocks"
    if tensor.dtype != I8 or tensor.data is None or len(tensor.shape) != 2:
        raise BuildError(f"{tensor.title} has scales for blocks, and is no constant matrix of 4 or 8 bits")
    tensors, (rows, columns), size = node.builder.graph.tensors, tensor.shape, tensor.blocks.size
    given = None if tensor.blocks.scales < 0 else tensors[tensor.blocks.scales].data
    zeros = None if tensor.blocks.zero_points < 0 else tensors[tensor.blocks.zero_points]
    if zeros is not None and (zeros.data is None or zeros.data.any()):
        raise BuildError(f"the blocks of {tensor.title} have zero points")
    if size < 1 or columns % size or columns == 0:
        raise BuildError(f"{tensor.title} has rows of {columns} elements, in blocks of {size}")
    if given is None or given.dtype.kind != "f" or given.size != rows * (columns // size):
        found = "no scales" if given is None else f"{given.size} scales of {given.dtype}"
        raise BuildError(f"{tensor.title} has {found} for {rows} rows of {columns // size} blocks")
    scales = given.reshape(rows, columns // size).astype(np.float32)
    if not (np.isfinite(scales) & (scales > 0)).all():
        raise BuildError(f"{tensor.title} must have positive finite scales")
    return scales


def _scaled(
    node: OpNode, op: str, x: Value, weights: Value, scales: np.ndarray, axes: tuple[int, ...], channels: int,
    asymmetric: bool, given: Mapping[str, Any],
) -> Steps:  # fmt: skip
    steps = (_asymmetric if asymmetric else _symmetric)(node, x, axes)
    zeros = node.const("zeros", np.zeros(channels, np.int32))
    acc = node.call(op, steps.value, weights, zeros, to="acc", **given)
    value = node.cast(acc, F32, "sums")
    return Steps(node.call("mul", value, node.const("scales", scales), to="scaled"), steps.scale)


def channel_scales(node: OpNode, k: int, axis: int) -> np.ndarray:
    """The scales of the weights, input ``k``, one or one for each channel.

    Raises:
        BuildError: they have none, bad ones, or a zero point.
    """
    tensor = node.tensor(k)
    count = len(tensor.scales)
    bad = [s for s in tensor.scales if not usable(s)]
    if not count or bad or any(tensor.zero_points):
        raise BuildError(f"weights {tensor.name} of i8 must have positive finite scales and no zero point")
    if count not in (1, tensor.shape[axis]) or (count > 1 and tensor.axis != axis):
        channels = tensor.shape[axis]
        raise BuildError(f"weights {tensor.name} have {count} scales on axis {tensor.axis} for {channels} channels")
    return np.asarray(tensor.scales, np.float32)


def _ends(node: OpNode, x: Value, axes: tuple[int, ...]) -> tuple[Value, Value]:
    return node.call("reduce_min", x, to="minimum", axes=axes), node.call("reduce_max", x, to="largest", axes=axes)


def _symmetric(node: OpNode, x: Value, axes: tuple[int, ...]) -> Steps:
    """Steps of -127 to 127, the largest magnitude at an end."""
    low, high = _ends(node, x, axes)
    maximum = node.call("maximum", node.call("neg", low, to="low"), high, to="maximum")
    none = node.call("equal", maximum, node.scalar(0, x), to="none")
    one, limit = node.scalar(1, x), node.scalar(_HIGH, x)
    scale = node.call("where", none, one, node.call("div", maximum, limit, to="step"), to="scale")
    by = node.call("where", none, one, node.call("div", limit, maximum, to="steps"), to="by")
    whole = rounded(node, node.call("mul", x, by, to="quotient"))
    held = node.call("clip", whole, to="held", lo=-_HIGH, hi=_HIGH)
    return Steps(node.cast(held, I8, "stored"), scale)


def _asymmetric(node: OpNode, x: Value, axes: tuple[int, ...]) -> Steps:
    """Steps of -128 to 127 that cover what there is and 0, less the step that 0 is."""
    zero, one = node.scalar(0, x), node.scalar(1, x)
    low, high = _ends(node, x, axes)
    low = node.cast(node.call("minimum", low, zero, to="low"), F64, "wide_low")
    high = node.cast(node.call("maximum", high, zero, to="high"), F64, "wide_high")
    none = node.call("equal", low, high, to="none")
    step = node.call("div", node.call("sub", high, low, to="span"), node.scalar(_HIGH - _LOW, low), to="step")
    first, last = (node.call("div", end, step, to="place") for end in (low, high))
    # of the two ends, the zero point is counted from the one nearer to 0
    sizes = [node.call("abs", place, to="size") for place in (first, last)]
    below, above = (node.call("add", s, node.scalar(abs(k), low), to="error")
                    for s, k in zip(sizes, (_LOW, _HIGH), strict=True))  # fmt: skip
    at_low, at_high = (node.call("sub", node.scalar(k, low), place, to="zero_at")
                       for k, place in ((_LOW, first), (_HIGH, last)))  # fmt: skip
    nearer = node.call("less", below, above, to="nearer")
    exact = node.call("where", nearer, at_low, at_high, to="exact")
    point = rounded(node, node.call("clip", exact, to="inside", lo=_LOW, hi=_HIGH))
    point = node.call("where", none, zero, node.cast(point, F32, "near"), to="point")
    scale = node.call("where", none, one, node.cast(step, F32, "narrow"), to="scale")
    by = node.call("div", one, scale, to="by")
    whole = rounded(node, node.call("add", point, node.call("mul", x, by, to="quotient"), to="place"))
    held = node.call("clip", whole, to="held", lo=_LOW, hi=_HIGH)
    return Steps(node.cast(node.call("sub", held, point, to="centred"), I16, "stored"), scale)
