"""Images in another size, of quantised elements: bilinear in fixed point of 10 bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.types import I8
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode, Table

__all__ = ["TABLE"]

_ONE = 1 << 10


def _taps(size: int, extent: int, corners: bool, centers: bool) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Positions and weights [extent, 2] that make an axis of ``size`` one of ``extent``; two weights add to 1024."""
    step = (_ONE * size + extent // 2) // extent
    if corners and extent > 1:
        step = (_ONE * (size - 1) + (extent - 1) // 2) // (extent - 1)
    at = np.arange(extent, dtype=np.int64) * step + (step // 2 - _ONE // 2 if centers else 0)
    first = np.maximum(np.trunc(at / _ONE).astype(np.int64), 0)
    last = np.minimum(np.trunc((at + _ONE - 1) / _ONE).astype(np.int64), size - 1)
    part = at - first * _ONE
    return np.stack([first, last], 1).astype(np.int32), np.stack([_ONE - part, part], 1).astype(np.int32)


def resize_bilinear(node: OpNode) -> None:
    """RESIZE_BILINEAR of i8: rows, then columns, in 32 bits."""
    x, sizes = node.input(0, I8), node.integers(1)
    kind = node.out_dtype(x.type.dtype)
    shape = x.type.shape
    if x.type.rank != 4 or len(sizes) != 2 or min(sizes) < 1:
        raise BuildError(f"sizes {list(sizes)} for an image of rank {x.type.rank}")
    if node.quant(node.tensor(0)) != node.quant(node.output()):
        raise BuildError("input and output must share one scale and zero point")
    if node.was_unsigned(node.tensor(0)):
        raise BuildError("RESIZE_BILINEAR of u8 is not supported")
    corners, centers = bool(node.option("AlignCorners")), bool(node.option("HalfPixelCenters"))
    if corners and centers:
        raise BuildError("aligned corners and half-pixel centers exclude each other")
    value = x
    for axis, extent in ((1, sizes[0]), (2, sizes[1])):
        size = shape[axis]
        if not isinstance(size, int):
            raise BuildError(f"the open extent {size} cannot be resized")
        index, weight = _taps(size, extent, corners, centers)
        consts = node.const(f"index{axis}", index), node.const(f"weight{axis}", weight)
        value = node.call("resample", value, *consts, to=f"mixed{axis}", axis=axis)
    node.call("pool_result", value, count=_ONE * _ONE, out=str(kind))


TABLE: Table = {"RESIZE_BILINEAR": resize_bilinear}
