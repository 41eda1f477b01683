"""Transposed convolutions of quantised images, as convolutions whose channels are the pixels of a block."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.types import I8, I16, I32, I64
from sdk.compiler.sym import ceildiv
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.operators import contraction

__all__ = ["TABLE"]

Array = NDArray[Any]


def _block_weights(weights: Array, stride: tuple[int, int]) -> Array:
    """[o, kh, kw, c] as [sh * sw * o, ceil(kh / sh), ceil(kw / sw), c]: for each place in a block its own taps."""
    out, kh, kw, depth = weights.shape
    taps = (-(-kh // stride[0]), -(-kw // stride[1]))
    whole = np.zeros((out, taps[0] * stride[0], taps[1] * stride[1], depth), weights.dtype)
    whole[:, :kh, :kw] = weights
    blocks = whole.reshape(out, taps[0], stride[0], taps[1], stride[1], depth)[:, ::-1, :, ::-1]
    return np.ascontiguousarray(blocks.transpose(2, 4, 0, 1, 3, 5)).reshape(-1, *taps, depth)


def transpose_conv(node: OpNode) -> None:
    """TRANSPOSE_CONV: inputs (shape of the output, weights [o, kh, kw, c], x, bias)."""
    x, weights, shape = node.input(2, I8, I16), node.constant(1), node.integers(0)
    node.out_dtype(x.type.dtype)
    contraction.check_types(node, 2)
    if x.type.rank != 4 or weights.ndim != 4 or weights.dtype != np.int8 or len(shape) != 4:
        raise BuildError(f"images of rank {x.type.rank}, weights {weights.dtype} of rank {weights.ndim}")
    channels, kh, kw, depth = weights.shape
    height, width = x.type.shape[1:3]
    if x.type.shape[3] != depth or not isinstance(height, int) or not isinstance(width, int):
        raise BuildError(f"an image of shape {list(x.type.shape)} does not fit weights {list(weights.shape)}")
    stride = (node.positive("StrideH"), node.positive("StrideW"))
    if max(stride) > 64:
        raise BuildError(f"strides {stride} are too large")
    scales = contraction.channel_scales(node, 1, channels, 0)
    factors = contraction.factors(node, weights, split=False)
    blocks = _block_weights(factors.stored, stride)
    wide = x.type.dtype == I16
    kind = I64 if wide else I32
    given_bias = node.constant(3) if node.has(3) else np.zeros(channels, kind.numpy)
    if given_bias.shape != (channels,) or given_bias.dtype not in (np.int32, np.int64):
        raise BuildError(f"the bias is {given_bias.dtype}{list(given_bias.shape)} for {channels} channels")
    copies = stride[0] * stride[1]
    bias = np.tile(given_bias, copies)
    zero = node.quant(node.tensor(2)).zero_point
    before, pads = [], []
    for size, extent, taps, step in zip((height, width), shape[1:3], (kh, kw), stride, strict=True):
        cut, _ = contraction.padding(int(node.option("Padding")), extent, taps, step, 1)
        rows = ceildiv(cut + extent, step)
        assert isinstance(rows, int)
        before.append(cut)
        pads.append((-(-taps // step) - 1, max(rows - size, 0)))
    acc = node.call(
        "conv2d", x, node.const("blocks", blocks), node.const("bias", bias.astype(kind.numpy)), to="acc",
        stride=(1, 1), dilation=(1, 1), pad=(pads[0][0], pads[1][0], pads[0][1], pads[1][1]),
        x_offset=-zero, pad_value=zero,
    )  # fmt: skip
    ratios = contraction.ratios(node, scales, 2)
    per_block = ratios if len(ratios) == 1 else np.tile(ratios, copies)
    flat = _block_weights(factors.exact, stride).reshape(copies * channels, -1)
    bounds = contraction.bounds(flat, -zero, x.type.dtype, np.abs(bias.astype(object)))
    result = contraction.requantize(node, acc, per_block, bounds, "blocks_stored")
    spread = node.call("depth_to_space", result, to="whole", block=stride)
    whole = (spread.type.shape[0], shape[1], shape[2], channels)
    fixed = tuple(d if isinstance(d, int) else -1 for d in whole)
    node.call("slice", spread, begin=(0, before[0], before[1], 0), size=fixed, strides=(1, 1, 1, 1))


TABLE: Table = {"TRANSPOSE_CONV": transpose_conv}
