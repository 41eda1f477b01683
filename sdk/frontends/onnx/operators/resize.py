"""Images in another size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.sym import Dim
from sdk.frontends.onnx.context import OnnxNode, onnx_op
from sdk.frontends.resampling import Axis, Filter, scaled_size
from sdk.frontends.resizing import mixed, nearest

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
        return nearest(node, x, axes, "asymmetric", "floor")
    return mixed(node, x, axes, Filter(mode.removeprefix("bi").removeprefix("tri"), "asymmetric"))


@onnx_op("Resize")
def resize(node: OnnxNode) -> Value:
    """An image of other sizes, each element the nearest one or a mix of those around its place."""
    x = node.x(0)
    mode = node.text("mode", "nearest")
    given = "coordinate_transformation_mode"
    coordinates = node.text(given, "asymmetric" if node.opset < 11 else "half_pixel")
    axes, beyond = _axes(node, x), node.float("extrapolation_value", 0.0)
    if mode == "nearest":
        rounding = node.text("nearest_mode", "floor" if node.opset < 11 else "round_prefer_floor")
        if rounding not in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"):
            node.fail(f"the nearest_mode {rounding} is not supported")
        return nearest(node, x, axes, coordinates, rounding, beyond)
    how = Filter(
        mode, coordinates, node.float("cubic_coeff_a", -0.75),
        bool(node.int("antialias", 0)), bool(node.int("exclude_outside", 0)),
    )  # fmt: skip
    return mixed(node, x, axes, how, beyond)


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
