"""Images in another size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.sym import Dim
from sdk.frontends.onnx.context import OnnxNode, onnx_op
from sdk.frontends.onnx.resampling import (
    Axis,
    Filter,
    nearest_map,
    nearest_positions,
    place,
    positions,
    scaled_size,
)

__all__: list[str] = []


@onnx_op("Upsample")
def upsample(node: OnnxNode) -> Value:
    """An image scaled up, by what Resize calls asymmetric coordinates."""
    x = node.x(0)
    data = node.data(1) if node.opset >= 9 else np.asarray(node.floats("scales", ()))
    if data is None or len(data) != x.type.rank:
        node.fail("its scales must be known when the model is built, one per axis")
    axes = {k: _scaled(node, d, float(s)) for k, (d, s) in enumerate(zip(x.type.shape, data, strict=True))}
    mode = node.text("mode", "nearest")
    if mode == "nearest":
        return _nearest(node, x, axes, "asymmetric", "floor")
    return _mixed(node, x, axes, Filter(mode.removeprefix("bi").removeprefix("tri"), "asymmetric"))


@onnx_op("Resize")
def resize(node: OnnxNode) -> Value:
    """An image of other sizes, each element the nearest one or a mix of those around its place."""
    x = node.x(0)
    mode = node.text("mode", "nearest")
    given = "coordinate_transformation_mode"
    coordinates = node.text(given, "asymmetric" if node.opset < 11 else "half_pixel")
    axes = _axes(node, x)
    if mode == "nearest":
        rounding = node.text("nearest_mode", "floor" if node.opset < 11 else "round_prefer_floor")
        if rounding not in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"):
            node.fail(f"the nearest_mode {rounding} is not supported")
        return _nearest(node, x, axes, coordinates, rounding)
    how = Filter(
        mode, coordinates, node.float("cubic_coeff_a", -0.75),
        bool(node.int("antialias", 0)), bool(node.int("exclude_outside", 0)),
    )  # fmt: skip
    return _mixed(node, x, axes, how)


def _scaled(node: OnnxNode, size: Dim, scale: float) -> Axis:
    extent = scaled_size(size, scale)
    if extent is None:
        node.fail(f"a scale of {scale} of the open size {size} is no simple fraction")
    return Axis(size, extent, scale)


def _axes(node: OnnxNode, x: Value) -> dict[int, Axis]:
    """The axes that the node resizes, by number."""
    rank = x.type.rank
    which = [node.axis(a, rank) for a in node.ints("axes", range(rank))]
    scales, sizes = (1, None) if node.opset < 11 else (2, 3)
    roi = node.data(1) if node.opset >= 11 else None
    data = node.data(scales)
    if data is not None and data.size:
        if data.size != len(which):
            node.fail(f"{data.size} scales for {len(which)} axes")
        found = {k: _scaled(node, x.type.shape[k], float(s)) for k, s in zip(which, data.reshape(-1), strict=True)}
    elif sizes is not None and node.given_input(sizes):
        wanted = node.dims(sizes)
        if len(wanted) != len(which):
            node.fail(f"{len(wanted)} sizes for {len(which)} axes")
        found = _sized(node, x, dict(zip(which, wanted, strict=True)))
    else:
        node.fail("its scales or sizes must be known when the model is built, as numbers or sizes of inputs")
    if roi is not None and roi.size == 2 * len(which):
        count = len(which)
        found = {k: replace(found[k], roi=(float(roi[n]), float(roi[n + count]))) for n, k in enumerate(which)}
    return found


def _sized(node: OnnxNode, x: Value, wanted: dict[int, Dim]) -> dict[int, Axis]:
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return {k: Axis(x.type.shape[k], d, None) for k, d in wanted.items()}
    ratios = []
    for k, d in wanted.items():
        size = x.type.shape[k]
        if not isinstance(size, int) or not isinstance(d, int):
            node.fail("a kept aspect ratio needs sizes that are numbers")
        ratios.append(d / size)
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    fixed = {k: d for k in wanted if isinstance(d := x.type.shape[k], int)}
    return {k: Axis(d, int(np.floor(scale * d + 0.5)), scale) for k, d in fixed.items()}


def _unchanged(axis: Axis, coordinates: str) -> bool:
    """Whether the axis stays as it is."""
    same = isinstance(axis.size - axis.extent, int) and axis.size - axis.extent == 0
    return same and axis.scale in (None, 1.0) and coordinates != "tf_crop_and_resize"


def _nearest(node: OnnxNode, x: Value, axes: dict[int, Axis], coordinates: str, rounding: str) -> Value:
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
    return _extrapolated(node, y, outside, coordinates)


def _mixed(node: OnnxNode, x: Value, axes: dict[int, Axis], how: Filter) -> Value:
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
    x = _extrapolated(node, x, outside, how.coordinates)
    if kind.is_float:
        return x
    if how.antialias:
        x = node.call("round", x)
    return node.call("cast", x, to=str(kind))  # cut off, as onnxruntime does; cubic weights may leave the range


def _extrapolated(node: OnnxNode, y: Value, outside: dict[int, np.ndarray], coordinates: str) -> Value:
    """``y`` with the given value at outputs that lie outside of the part that is cropped."""
    if coordinates != "tf_crop_and_resize" or not any(m.any() for m in outside.values()):
        return y
    shape = [d if k in outside else 1 for k, d in enumerate(y.type.shape)]
    mask = np.zeros([d for d in shape if isinstance(d, int)], dtype=bool)
    for k, found in outside.items():
        mask |= found.reshape([-1 if n == k else 1 for n in range(len(shape))])
    value = node.scalar(node.float("extrapolation_value", 0.0), y.type)
    return node.call("where", node.const(mask, "outside"), value, y)
