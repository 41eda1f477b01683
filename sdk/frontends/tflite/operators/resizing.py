"""Images in another size, of quantised elements: bilinear in fixed point of 10 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, F64, I8, I16
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.rounding import rounded

__all__ = ["TABLE"]

Reals = NDArray[Any]
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
    """RESIZE_BILINEAR of i8: rows, then columns, in 32 bits; of i16 in double precision, which holds its sums; of u8 in
    single precision."""
    x, sizes = node.input(0, I8, I16), node.integers(1)
    kind = node.out_dtype(x.type.dtype)
    shape = x.type.shape
    if x.type.rank != 4 or len(sizes) != 2 or min(sizes) < 1:
        raise BuildError(f"sizes {list(sizes)} for an image of rank {x.type.rank}")
    if node.quant(node.tensor(0)) != node.quant(node.output()):
        raise BuildError("input and output must share one scale and zero point")
    corners, centers = bool(node.option("AlignCorners")), bool(node.option("HalfPixelCenters"))
    if corners and centers:
        raise BuildError("aligned corners and half-pixel centers exclude each other")
    if node.was_unsigned(node.tensor(0)):
        _mixed_reals(node, x, sizes, corners, centers)
        return
    wide = kind == I16
    value = node.cast(x, F64, "reals") if wide else x
    for axis, extent in ((1, sizes[0]), (2, sizes[1])):
        size = shape[axis]
        if not isinstance(size, int):
            raise BuildError(f"the open extent {size} cannot be resized")
        index, weight = _taps(size, extent, corners, centers)
        if wide:
            value = _mixed_exactly(node, value, axis, index, weight)
            continue
        consts = node.const(f"index{axis}", index), node.const(f"weight{axis}", weight)
        value = node.call("resample", value, *consts, to=f"mixed{axis}", axis=axis)
    if wide:
        one = node.const("one", np.asarray([1 / _ONE**2]))
        node.cast(rounded(node, node.call("mul", value, one, to="mixed")), kind)
    else:
        node.call("pool_result", value, count=_ONE * _ONE, out=str(kind))


def _mixed_exactly(node: OpNode, x: Value, axis: int, index: Reals, weight: Reals) -> Value:
    """Two elements along an axis at each place, each times its weight: whole numbers, as f64."""
    shape = tuple(-1 if k == axis else 1 for k in range(4))
    taps = []
    for k in range(2):
        tap = node.call("gather", x, node.const(f"place{axis}{k}", index[:, k]), to="tap", axis=axis)
        factor = node.const(f"part{axis}{k}", weight[:, k].astype(np.float64).reshape(shape))
        taps.append(node.call("mul", tap, factor, to="weighted"))
    return node.call("add", *taps, to="mixed")


def _real_taps(size: int, extent: int, corners: bool, centers: bool) -> tuple[Reals, Reals, Reals]:
    """Positions before and after each place of an axis, and the weight of the second, in single precision."""
    scale = np.float32(size) / np.float32(extent)
    if corners and extent > 1:
        scale = np.float32(size - 1) / np.float32(extent - 1)
    at = np.arange(extent, dtype=np.float32)
    at = (at + np.float32(0.5)) * scale - np.float32(0.5) if centers else at * scale
    first = np.maximum(np.floor(at), 0).astype(np.int32)
    last = np.minimum(np.ceil(at), size - 1).astype(np.int32)
    return first, last, (at - first.astype(np.float32)).astype(np.float32)


def _mixed_reals(node: OpNode, x: Value, sizes: tuple[int, ...], corners: bool, centers: bool) -> None:
    """RESIZE_BILINEAR of u8, which TensorFlow Lite mixes in single precision, in this order, and rounds halves up."""
    ends = []
    for axis, extent in ((1, sizes[0]), (2, sizes[1])):
        size = x.type.shape[axis]
        if not isinstance(size, int):
            raise BuildError(f"the open extent {size} cannot be resized")
        first, last, part = _real_taps(size, extent, corners, centers)
        shape = (1, extent, 1, 1) if axis == 1 else (1, 1, extent, 1)
        weights = (np.float32(1) - part).reshape(shape), part.reshape(shape)
        ends.append([
            (node.const(f"place{axis}{k}", place), node.const(f"part{axis}{k}", weight))
            for k, (place, weight) in enumerate(zip((first, last), weights, strict=True))
        ])  # fmt: skip
    rise = node.const("rise", np.asarray([128.0], np.float32))
    reals = node.call("add", node.cast(x, F32, "reals"), rise, to="raised")
    total: Value | None = None
    for place_x, part_x in ends[1]:
        for place_y, part_y in ends[0]:
            row = node.call("gather", reals, place_y, to="row", axis=1)
            tap = node.call("gather", row, place_x, to="tap", axis=2)
            tap = node.call("mul", node.call("mul", tap, part_y, to="in_row"), part_x, to="weighted")
            total = tap if total is None else node.call("add", total, tap, to="mixed")
    assert total is not None
    up = node.call("add", total, node.const("half", np.asarray([0.5], np.float32)), to="up")
    steps = node.call("floor", up, to="steps")
    node.cast(node.call("add", steps, node.const("lower", np.asarray([-128.0], np.float32)), to="stored"), I8)


TABLE: Table = {"RESIZE_BILINEAR": resize_bilinear}
