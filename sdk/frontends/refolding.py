"""Blocks of images, summed at their places."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Value
from sdk.compiler.sym import floordiv
from sdk.frontends.emit import Emitter
from sdk.frontends.moves import part

__all__ = ["refolded"]


def refolded(
    node: Emitter, x: Value, image: Sequence[int], block: Sequence[int], strides: Sequence[int],
    dilations: Sequence[int], pads: Sequence[int],
) -> Value:  # fmt: skip
    """Blocks ``x[n, c * elements of a block, blocks]`` summed at their places in an image [n, c, *image]: a scatter to
    places known when the model is built. ``pads`` are the borders, all those before and then all those after.

    Raises:
        BuildError: there are not as many blocks as cover the image.
    """
    rank = len(image)
    padded = [d + pads[k] + pads[k + rank] for k, d in enumerate(image)]
    batch, columns, count = x.type.shape
    if min(*padded, *block, *strides, *dilations) < 1 or count != math.prod(
        _blocks(*along) for along in zip(padded, block, strides, dilations, strict=True)
    ):
        node.fail(f"{count} blocks of {block} do not cover an image of {image}")
    channels = floordiv(columns, math.prod(block))
    places = _places(padded, block, strides, dilations).astype(np.int64)
    lines = batch * channels
    at = node.call("broadcast_to", node.const(places.reshape(1, -1), "places"), shape=(lines, places.size))
    zeros = node.call("full", shape=(lines, math.prod(padded)), value=0.0, dtype=str(x.type.dtype))
    blocks = node.call("reshape", x, shape=(lines, places.size))
    found = node.call("scatter_elements", zeros, at, blocks, axis=1, reduction="add")
    out = node.call("reshape", found, shape=(batch, channels, *padded))
    for k, extent in enumerate(image):
        out = part(node, out, 2 + k, pads[k], extent)
    return out


def _blocks(size: int, kernel: int, stride: int, dilation: int) -> int:
    """How many blocks lie along an axis."""
    return (size - dilation * (kernel - 1) - 1) // stride + 1


def _places(
    padded: Sequence[int], block: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> NDArray[np.int64]:
    """Where in the flat image each element of each block lies: [elements of a block, blocks]."""
    out = np.zeros((1, 1), np.int64)
    for size, kernel, stride, dilation in zip(padded, block, strides, dilations, strict=True):
        count = _blocks(size, kernel, stride, dilation)
        own = np.arange(kernel)[:, None] * dilation + np.arange(count) * stride
        out = (out[:, None, :, None] * size + own[None, :, None, :]).reshape(out.shape[0] * kernel, -1)
    return out
