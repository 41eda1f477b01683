"""Transposed convolutions of integers, as convolutions whose channels are the pixels of a block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I8, I16, I32, I64
from sdk.compiler.sym import Dim, ceildiv
from sdk.errors import BuildError
from sdk.frontends.moves import padded, reshaped, shape_text, swap_axes
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.operators import contraction

__all__ = ["TABLE", "Blocks", "blocks_of", "result_numbers", "result_shape"]

Array = NDArray[Any]
_MAX_STRIDE = 64


@dataclass(frozen=True, slots=True)
class Blocks:
    """A transposed convolution as one whose channels are the pixels of a block of ``stride``: its ``pads``, what of the
    image of blocks stands ``before`` the result, which is ``extents`` high and wide; weights are [o, taps.., c]."""

    stride: tuple[int, int]
    pads: tuple[int, int, int, int]
    before: tuple[int, int]
    extents: tuple[int, int]
    shape: tuple[int, int, int, int]

    @property
    def copies(self) -> int:
        """The pixels of a block."""
        return self.stride[0] * self.stride[1]

    @property
    def taps(self) -> tuple[int, int]:
        """The window over the image, of the taps for one pixel of a block."""
        return -(-self.shape[1] // self.stride[0]), -(-self.shape[2] // self.stride[1])

    def weights(self, weights: Array) -> Array:
        """[o, kh, kw, c] as [sh * sw * o, ceil(kh / sh), ceil(kw / sw), c]: for each place in a block its own taps."""
        out, kh, kw, depth = weights.shape
        taps, stride = self.taps, self.stride
        whole = np.zeros((out, taps[0] * stride[0], taps[1] * stride[1], depth), weights.dtype)
        whole[:, :kh, :kw] = weights
        blocks = whole.reshape(out, taps[0], stride[0], taps[1], stride[1], depth)[:, ::-1, :, ::-1]
        return np.ascontiguousarray(blocks.transpose(2, 4, 0, 1, 3, 5)).reshape(-1, *taps, depth)

    def computed_weights(self, node: OpNode, weights: Value) -> Value:
        """The same of weights that the run computes."""
        emit, (out, kh, kw, depth), taps = node.emitter, self.shape, self.taps
        more = [(0, 0), (0, taps[0] * self.stride[0] - kh), (0, taps[1] * self.stride[1] - kw), (0, 0)]
        whole = padded(emit, weights, more, value=0)
        blocks = reshaped(emit, whole, (out, taps[0], self.stride[0], taps[1], self.stride[1], depth))
        turned = emit.call(
            "slice", blocks, begin=(0, taps[0] - 1, 0, taps[1] - 1, 0, 0), size=blocks.type.shape,
            strides=(1, -1, 1, -1, 1, 1),
        )  # fmt: skip
        return reshaped(emit, swap_axes(emit, turned, (2, 4, 0, 1, 3, 5)), (self.copies * out, *taps, depth))

    def image(self, node: OpNode, blocks: Value, to: int | str) -> Value:
        """The result of blocks as channels."""
        spread = node.call("depth_to_space", blocks, to="whole", block=self.stride)
        whole = (spread.type.shape[0], *self.extents, self.shape[0])
        fixed = tuple(d if isinstance(d, int) else -1 for d in whole)
        return node.call("slice", spread, to=to, begin=(0, *self.before, 0), size=fixed, strides=(1, 1, 1, 1))


def blocks_of(node: OpNode, x: Value, shape: Sequence[int]) -> Blocks:
    """How TRANSPOSE_CONV of an image to one of ``shape`` is one of blocks.

    Raises:
        BuildError: image, weights and shape do not fit each other, or sizes are open.
    """
    kernel = tuple(d for d in node.input(1).type.shape if isinstance(d, int))
    if x.type.rank != 4 or len(kernel) != 4 or node.input(1).type.rank != 4 or len(shape) != 4:
        raise BuildError(f"images of rank {x.type.rank}, weights {shape_text(node.input(1).type.shape)}")
    height, width = x.type.shape[1:3]
    if x.type.shape[3] != kernel[3] or not isinstance(height, int) or not isinstance(width, int):
        raise BuildError(f"an image of shape {list(x.type.shape)} does not fit weights {list(kernel)}")
    stride = (node.positive("StrideH"), node.positive("StrideW"))
    if max(stride) > _MAX_STRIDE:
        raise BuildError(f"strides {stride} are too large")
    before, pads = [], []
    for size, extent, taps, step in zip((height, width), shape[1:3], kernel[1:3], stride, strict=True):
        cut, _ = contraction.padding(int(node.option("Padding")), extent, taps, step, 1)
        rows = ceildiv(cut + extent, step)
        assert isinstance(rows, int)
        before.append(cut)
        pads.append((-(-taps // step) - 1, max(rows - size, 0)))
    around = (pads[0][0], pads[1][0], pads[0][1], pads[1][1])
    out, kh, kw, depth = kernel
    return Blocks(stride, around, (before[0], before[1]), (shape[1], shape[2]), (out, kh, kw, depth))


def result_shape(node: OpNode) -> tuple[Dim, ...]:
    """The shape of the result, input 0; where only the run knows that, the one that the file states, as
    tflite-micro takes it.

    Raises:
        BuildError: neither is known when the model is built.
    """
    out = node.output()
    if node.contents(0) is None and out.ranked and -1 not in out.signature:
        return out.shape
    return node.dims(0)


def result_numbers(node: OpNode) -> tuple[int, ...]:
    """The same in numbers.

    Raises:
        BuildError: it is not known when the model is built, or has open extents.
    """
    shape = result_shape(node)
    found = tuple(d for d in shape if isinstance(d, int))
    if len(found) != len(shape):
        raise BuildError(f"a result of the open shape {shape_text(shape)} is not supported")
    return found


def transpose_conv(node: OpNode) -> None:
    """TRANSPOSE_CONV: inputs (shape of the output, weights [o, kh, kw, c], x, bias)."""
    x, shape, weights = node.input(2, I8, I16), result_numbers(node), node.data(1)
    node.out_dtype(x.type.dtype)
    contraction.check_types(node, 2)
    if node.input(1).type.dtype != I8:
        raise BuildError(f"weights of {node.tensor(1).type_name} are not supported")
    blocks = blocks_of(node, x, shape)
    channels, copies = blocks.shape[0], blocks.copies
    scales = contraction.channel_scales(node, 1, channels, 0)
    wide = x.type.dtype == I16
    kind = I64 if wide else I32
    given_bias = node.constant(3) if node.has(3) else np.zeros(channels, kind.numpy)
    if given_bias.shape != (channels,) or given_bias.dtype not in (np.int32, np.int64):
        raise BuildError(f"the bias is {given_bias.dtype}{list(given_bias.shape)} for {channels} channels")
    bias = np.tile(given_bias, copies)
    maximum = np.abs(bias.astype(object))
    zero = node.quant(node.tensor(2)).zero_point
    if weights is None:
        taps = blocks.computed_weights(node, contraction.computed(node))
        count = blocks.taps[0] * blocks.taps[1] * blocks.shape[3]
        bounds = contraction.largest_sums(node, count, -zero, x.type.dtype, maximum)
    else:
        factors = contraction.factors(node, weights, split=False)
        taps = node.const("blocks", blocks.weights(factors.stored))
        flat = blocks.weights(factors.exact).reshape(copies * channels, -1)
        bounds = contraction.bounds(flat, -zero, x.type.dtype, maximum)
    acc = node.call(
        "conv2d", x, taps, node.const("bias", bias.astype(kind.numpy)), to="acc",
        stride=(1, 1), dilation=(1, 1), pad=blocks.pads, x_offset=-zero, pad_value=zero,
    )  # fmt: skip
    ratios = contraction.ratios(node, scales, 2)
    per_block = ratios if len(ratios) == 1 else np.tile(ratios, copies)
    blocks.image(node, contraction.requantize(node, acc, per_block, bounds, "blocks_stored"), 0)


TABLE: Table = {"TRANSPOSE_CONV": transpose_conv}
