"""Images in another size, by positions computed as LiteRT's kernels do, in single precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.budget import AXIS_TABLE, check_limit
from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode, Table

__all__ = ["TABLE"]

Array = NDArray[Any]


def _sizes(node: OpNode, *kinds: Any) -> tuple[Value, list[tuple[int, int, int]]]:
    """The image, and (axis, size, new size) of its rows and columns."""
    x, wanted = node.input(0, *kinds), node.integers(1)
    if x.type.rank != 4 or len(wanted) != 2 or min(wanted) < 1:
        raise BuildError(f"sizes {list(wanted)} of an image of rank {x.type.rank}")
    found = []
    for axis, new in zip((1, 2), wanted, strict=True):
        size = x.type.shape[axis]
        if not isinstance(size, int):
            raise BuildError(f"resizing the open extent {size} is not supported")
        check_limit(AXIS_TABLE, new, f"resizing an axis of {size}")
        found.append((axis, size, new))
    return x, found


def _at(node: OpNode, size: int, new: int, offset: float) -> Array:
    """Where each output lies in the input: (i + offset) * scale, as f32."""
    corners = bool(node.option("AlignCorners")) and new > 1
    scale = np.float32(size - 1) / np.float32(new - 1) if corners else np.float32(size) / np.float32(new)
    return np.asarray((np.arange(new, dtype=np.float32) + np.float32(offset)) * scale, np.float32)


def resize_bilinear(node: OpNode) -> None:
    """RESIZE_BILINEAR: a mix of the two elements around a place, along rows, then along columns."""
    x, axes = _sizes(node, F32)
    half = bool(node.option("HalfPixelCenters"))
    for axis, size, new in axes:
        at = _at(node, size, new, 0.5 if half else 0.0)
        at = at - np.float32(0.5) if half else at
        low = np.maximum(np.floor(at), 0).astype(np.int32)
        high = np.minimum(np.ceil(at), size - 1).astype(np.int32)
        part = at - low.astype(np.float32)
        places, weights = np.stack([low, high], 1), np.stack([np.float32(1) - part, part], 1)
        index, weight = node.const("places", places), node.const("weights", weights.astype(np.float32))
        x = node.call("resample", x, index, weight, to="rows" if axis == 1 else 0, axis=axis)


def resize_nearest(node: OpNode) -> None:
    """RESIZE_NEAREST_NEIGHBOR: the element at a place rounded down, or to nearest with ``align_corners``."""
    x, axes = _sizes(node)
    half = bool(node.option("HalfPixelCenters"))
    for axis, size, new in axes:
        at = _at(node, size, new, 0.5 if half else 0.0)
        near = np.floor(at + np.float32(0.5)) if node.option("AlignCorners") else np.floor(at)
        places = np.clip(near, 0, size - 1).astype(np.int32)
        x = node.call("gather", x, node.const("places", places), to="rows" if axis == 1 else 0, axis=axis)


TABLE: Table = {"RESIZE_BILINEAR": resize_bilinear, "RESIZE_NEAREST_NEIGHBOR": resize_nearest}
