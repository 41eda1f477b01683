"""ONNX operators that read images at computed places: GridSample, RoiAlign, DeformConv."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np

from sdk.budget import AXIS_TABLE, check_limit
from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F16, F32, DType
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.sym import Dim
from sdk.frontends.grids import sampled, space_first, space_last, summed
from sdk.frontends.moves import part
from sdk.frontends.onnx.context import OnnxNode, in_single, onnx_op
from sdk.frontends.places import Tap, linear_taps, number, weighed

__all__ = ["over_regions"]


# --- GridSample ---------------------------------------------------------------------------------------------------

_MODES = {"bilinear": "linear", "bicubic": "cubic", "linear": "linear", "cubic": "cubic", "nearest": "nearest"}


@onnx_op("GridSample")
def grid_sample(node: OnnxNode) -> Value:
    """An image at the places of a grid, whose coordinates run from -1 to 1 over each axis, the last axis first."""
    x, grid = (node.call("cast", v, to=str(F32)) if v.type.dtype == F16 else v for v in (node.x(0), node.x(1)))
    mode, aligned = _MODES.get(node.text("mode", "linear")), bool(node.int("align_corners", 0))
    if mode is None:
        node.fail(f"the mode {node.text('mode', '')} is not one of {', '.join(_MODES)}")
    y = sampled(node, x, grid, mode, node.text("padding_mode", "zeros"), aligned)
    return y if y.type.dtype == node.type(0).dtype else node.call("cast", y, to=str(node.type(0).dtype))


# --- RoiAlign -----------------------------------------------------------------------------------------------------


@onnx_op("RoiAlign")
@in_single
def roi_align(node: OnnxNode) -> Value:
    """Regions of an image in one size: each cell is the mean (or maximum) of samples spread over it."""
    x, rois, batches = node.x(0), node.x(1), node.x(2)
    rows, columns, samples = (
        node.int(name, default) for name, default in (("output_height", 1), ("output_width", 1), ("sampling_ratio", 0))
    )
    mode = node.text("mode", "avg")
    if samples < 1:
        node.fail(
            "how many samples it takes depends on the size of each region",
            hint="export it with a sampling_ratio of 1 or more, such as 2",
        )
    if mode not in ("avg", "max") or x.type.rank != 4:
        node.fail(f"the mode {mode} on a tensor of rank {x.type.rank}")
    count, kind = rois.type.shape[0], x.type.dtype
    half = node.text("coordinate_transformation_mode", "half_pixel" if node.opset >= 16 else "") == "half_pixel"
    taps = []
    for axis, cells in ((1, rows), (0, columns)):
        places = _roi_places(node, rois, axis, cells, samples, half)
        taps.append(_roi_taps(node, places, x.type.shape[3 - axis]))
    wide = (count, rows * samples, columns * samples)
    spread = over_regions(node, batches, wide, taps)
    parts = weighed(node, space_first(node, x), spread, 0)
    met = summed(node, parts) if mode == "avg" else reduce(lambda a, b: node.call("maximum", a, b), parts)
    cells = node.call("reshape", met, shape=(count, rows, samples, columns, samples, x.type.shape[1]))
    found = node.call("reduce_mean" if mode == "avg" else "reduce_max", cells, axes=(2, 4))
    y = node.call("reshape", found, shape=(count, rows, columns, x.type.shape[1]))
    return space_last(node, y if y.type.dtype == kind else node.call("cast", y, to=str(kind)))


def over_regions(
    node: OnnxNode, batches: Value, wide: tuple[Dim, Dim, Dim], taps: Sequence[Sequence[Tap]]
) -> list[list[Tap]]:
    """Neighbours in images, rows [regions, rows] and columns [regions, columns] of regions as those of all places
    ``wide`` [regions, rows, columns]."""
    numbers = node.call("cast", batches, to=str(taps[0][0].at.type.dtype))
    spread = [[Tap(_spread(node, numbers, (wide[0], 1, 1), wide), None)]]
    for line, shape in zip(taps, ((wide[0], wide[1], 1), (wide[0], 1, wide[2])), strict=True):
        spread.append(
            [Tap(_spread(node, t.at, shape, wide), t.weight and _spread(node, t.weight, shape, wide)) for t in line]
        )
    return spread


def _spread(node: OnnxNode, value: Value, shape: tuple[Dim, ...], wide: tuple[Dim, ...]) -> Value:
    return node.call("broadcast_to", node.call("reshape", value, shape=shape), shape=wide)


def _roi_places(node: OnnxNode, rois: Value, axis: int, cells: int, samples: int, half: bool) -> Value:
    """Where the samples of each region lie along an axis (0: x, 1: y): [regions, cells * samples]."""
    scale, offset = node.float("spatial_scale", 1.0), 0.5 if half else 0.0
    start, end = (
        node.call("sub", node.call("mul", part(node, rois, 1, k, 1), node.scalar(scale, rois.type)),
                  node.scalar(offset, rois.type))
        for k in (axis, axis + 2)
    )  # fmt: skip
    extent = node.call("sub", end, start)
    if not half:
        extent = node.call("maximum", extent, node.scalar(1, rois.type))
    check_limit(AXIS_TABLE, cells * samples, "sampling along an axis")
    steps = (np.arange(cells * samples) + 0.5) / (cells * samples)
    fractions = node.const(steps.astype(rois.type.dtype.numpy).reshape(1, -1), "samples")
    return node.call("add", start, node.call("mul", extent, fractions))


def _roi_taps(node: OnnxNode, places: Value, size: Dim) -> list[Tap]:
    """Neighbours of samples and their weights: a sample more than one element outside counts as 0, one at the border
    as what is there."""
    kind = places.type.dtype
    extent, zero = number(node, size, kind), node.scalar(0, kind)
    last = node.call("sub", extent, node.scalar(1, kind))
    held = node.call("minimum", node.call("maximum", places, zero), last)
    below, above = node.call("less", places, node.scalar(-1, kind)), node.call("greater", places, extent)
    outside = node.call("or", below, above)
    taps = linear_taps(node, held)
    return [
        Tap(node.call("minimum", t.at, last), node.call("where", outside, zero, t.weight))
        for t in taps
        if t.weight is not None
    ]


# --- DeformConv ---------------------------------------------------------------------------------------------------


@onnx_op("DeformConv")
@in_single
def deform_conv(node: OnnxNode) -> Value:
    """A convolution whose taps are moved by offsets, one per place and tap, and weighed by a mask."""
    x, weights, offset = node.x(0), node.x(1), node.x(2)
    axes = x.type.rank - 2
    shape = tuple(d for d in weights.type.shape if isinstance(d, int))
    if len(shape) != axes + 2 or axes < 1:
        node.fail(f"weights {list(weights.type.shape)} for an image of rank {x.type.rank}")
    kernel, groups, sets = shape[2:], node.int("group", 1), node.int("offset_group", 1)
    n, c, *sizes = x.type.shape
    taps, out = int(np.prod(kernel)), offset.type.shape[2:]
    fits = same_extent(c, shape[1] * groups) and shape[0] % groups == 0 and shape[1] * groups % sets == 0
    if not fits or not same_extent(offset.type.shape[1], sets * taps * axes) or offset.type.rank != axes + 2:
        node.fail(f"offsets {list(offset.type.shape)} and weights {list(shape)} do not fit {c} channels")
    # [n, sets, c / sets, ..] -> [n, sets, .., c / sets]
    depth = shape[1] * groups // sets
    split = node.call("reshape", x, shape=(n, sets, depth, *sizes))
    image = node.call("transpose", split, perm=(0, 1, *range(3, axes + 3), 2))
    moved = node.call("reshape", offset, shape=(n, sets, taps, axes, *out))
    lines = []
    for k in range(axes):
        given = node.call("reshape", part(node, moved, 3, k, 1), shape=(n, sets, taps, *out))
        lines.append(linear_taps(node, node.call("add", given, _taps_at(node, k, kernel, out, given.type.dtype))))
    mix = summed(node, weighed(node, image, lines, 2))
    if node.given_input(4):
        mask = node.call("reshape", node.x(4), shape=(n, sets, taps, *out, 1))
        mix = node.call("mul", mix, mask)
    # [n, sets, taps, .., c / sets] -> [n, c, taps, ..] -> a product with the weights of each group
    flat = node.call("transpose", mix, perm=(0, 1, axes + 3, 2, *range(3, axes + 3)))
    places: Dim = 1
    for d in out:
        places = places * d
    columns = node.call("reshape", flat, shape=(n, groups, shape[1] * taps, places))
    rows = node.call("reshape", weights, shape=(groups, shape[0] // groups, shape[1] * taps))
    y = node.call("reshape", node.call("matmul", rows, columns), shape=(n, shape[0], *out))
    if not node.given_input(3):
        return y
    return node.call("add", y, node.call("reshape", node.x(3), shape=(shape[0], *(1 for _ in out))))


def _taps_at(node: OnnxNode, axis: int, kernel: tuple[int, ...], out: tuple[Dim, ...], kind: DType) -> Value:
    """Where each tap lies along an axis without offsets: floats that broadcast to [taps, out..]."""
    axes = len(kernel)
    stride, dilation = node.ints("strides", (1,) * axes), node.ints("dilations", (1,) * axes)
    pads = node.ints("pads", (0,) * 2 * axes)
    check_limit(AXIS_TABLE, math.prod(kernel), "a kernel")
    at = np.indices(kernel)[axis].reshape(-1) * dilation[axis] - pads[axis]
    first = node.const(at.astype(kind.numpy).reshape(-1, *(1 for _ in kernel)), "taps")
    steps = node.call("iota", extent=out[axis], start=0, step=1, dtype="i64")
    wide = node.call("mul", node.call("cast", steps, to=str(kind)), node.scalar(stride[axis], kind))
    shape = tuple(out[axis] if k == axis else 1 for k in range(axes))
    return node.call("add", first, node.call("reshape", wide, shape=shape))
