"""Axes of tensors in another size, as Resize of ONNX and ``interpolate`` of PyTorch make them."""

from __future__ import annotations

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.sym import Dim
from sdk.frontends.emit import Emitter
from sdk.frontends.resampling import Axis, Filter, nearest_map, nearest_positions, place, positions

__all__ = ["mixed", "nearest"]


def _unchanged(axis: Axis, coordinates: str) -> bool:
    """Whether the axis stays as it is."""
    same = isinstance(axis.size - axis.extent, int) and axis.size - axis.extent == 0
    return same and axis.scale in (None, 1.0) and coordinates != "tf_crop_and_resize"


def nearest(
    node: Emitter, x: Value, axes: dict[int, Axis], coordinates: str, rounding: str, beyond: float = 0.0
) -> Value:
    """``x`` with some axes resized, each the nearest element to its place; ``beyond`` lies outside of a crop."""
    sizes = list(x.type.shape)
    maps: list[tuple[Dim, ...]] = [() for _ in sizes]
    outside: dict[int, np.ndarray] = {}
    for k, axis in axes.items():
        if _unchanged(axis, coordinates):
            continue
        where = place(axis, coordinates)
        found = nearest_map(where, rounding) if where is not None else None
        if found is not None:
            sizes[k], maps[k] = axis.extent, found
        elif axis.fixed:
            index, inside = nearest_positions(axis, coordinates, rounding)
            x = node.call("gather", x, node.const(index, "places"), axis=k)
            sizes[k] = axis.extent
            outside[k] = ~inside
        else:
            node.fail(f"{coordinates} and {rounding} of the open size {axis.size} are not supported")
    y = node.call("resize_nearest", x, sizes=tuple(sizes), maps=tuple(maps)) if any(maps) else x
    return _extrapolated(node, y, outside, coordinates, beyond)


def mixed(node: Emitter, x: Value, axes: dict[int, Axis], how: Filter, beyond: float = 0.0) -> Value:
    """``x`` with some axes resized, each element a mix of those around its place."""
    if how.mode not in ("linear", "cubic"):
        node.fail(f"the mode {how.mode} is not supported")
    kind = x.type.dtype
    if not kind.is_float:
        x = node.call("cast", x, to="f32")
    outside: dict[int, np.ndarray] = {}
    for k, axis in axes.items():
        if _unchanged(axis, how.coordinates):
            continue
        if axis.fixed:
            index, weight, inside = positions(axis, how)
            outside[k] = ~inside
            x = node.call("resample", x, node.const(index, "places"), node.const(weight, "weights"), axis=k)
            continue
        where = place(axis, how.coordinates)
        if where is None or how.antialias or how.exclude_outside:
            node.fail(f"this resampling of the open size {axis.size} is not supported")
        cubic = {"cubic": how.cubic} if how.mode == "cubic" else {}
        taps = 4 if how.mode == "cubic" else 2
        made = node.calls("resize_taps", size=axis.size, extent=axis.extent, place=where, taps=taps, **cubic)
        x = node.call("resample", x, *made, axis=k)
    x = _extrapolated(node, x, outside, how.coordinates, beyond)
    if kind.is_float:
        return x
    if how.antialias:
        x = node.call("round", x)
    return node.call("cast", x, to=str(kind))  # cut off, as onnxruntime does; cubic weights may leave the range


def _extrapolated(
    node: Emitter, y: Value, outside: dict[int, np.ndarray], coordinates: str, beyond: float
) -> Value:
    """``y`` with the given value at outputs that lie outside of the part that is cropped."""
    if coordinates != "tf_crop_and_resize" or not any(m.any() for m in outside.values()):
        return y
    shape = [d if k in outside else 1 for k, d in enumerate(y.type.shape)]
    mask = np.zeros([d for d in shape if isinstance(d, int)], dtype=bool)
    for k, found in outside.items():
        mask |= found.reshape([-1 if n == k else 1 for n in range(len(shape))])
    value = node.scalar(beyond, y.type)
    return node.call("where", node.const(mask, "outside"), value, y)
