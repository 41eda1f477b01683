"""ATen's convolutions, poolings, normalisations and resizings."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, I64, U8
from sdk.compiler.sym import Dim, product
from sdk.frontends.convolutions import convolved, normalized_channels, transposed_convolved
from sdk.frontends.images import Window, channels_first, channels_last
from sdk.frontends.moves import reshaped, spread
from sdk.frontends.normalisations import normalized, per_channel, rows
from sdk.frontends.resampling import Axis, Filter, positions
from sdk.frontends.resizing import mixed, nearest
from sdk.frontends.torch.context import TorchNode, aten

__all__: list[str] = []

Ints = Sequence[int]


def _each(given: Ints | int, axes: int) -> tuple[int, ...]:
    """One number per axis of an image, of which one may stand for all."""
    found = (given,) if isinstance(given, int) else tuple(given)
    return found * axes if len(found) == 1 else found


def _batched(node: TorchNode, x: Value, axes: int) -> Value:
    """An image without a batch as a batch of one."""
    return node.call("reshape", x, shape=(1, *x.type.shape)) if x.type.rank == axes + 1 else x


def _as_given(node: TorchNode, y: Value) -> Value:
    """The result in the rank that PyTorch gives it."""
    return reshaped(node, y, y.type.shape[1:]) if y.type.rank == node.out.rank + 1 else y


# --- convolutions ----------------------------------------------------------------------------------------------


@aten("conv1d.default", "conv2d.default", "conv3d.default", "conv1d.padding", "conv2d.padding", "conv3d.padding")
def conv(
    node: TorchNode, x: Value, w: Value, b: Value | None = None, stride: Ints | int = 1, padding: Ints | int | str = 0,
    dilation: Ints | int = 1, groups: int = 1,
) -> Value:  # fmt: skip
    """Convolution over 1, 2 or 3 axes, in groups; "same" pads the odd row after the image."""
    axes = w.type.rank - 2
    step, spread = _each(stride, axes), _each(dilation, axes)
    kernel = tuple(d for d in w.type.shape[2:] if isinstance(d, int))
    before: tuple[int, ...]
    if isinstance(padding, str):
        total = [s * (k - 1) if padding == "same" else 0 for s, k in zip(spread, kernel, strict=True)]
        before, after = tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    else:
        before = after = _each(padding, axes)
    window = Window(kernel, step, spread, (*before, *after))
    if axes == 1:
        window = Window((1, *kernel), (1, *step), (1, *spread), (0, *before, 0, *after))
    return _as_given(node, convolved(node, _batched(node, x, axes), w, b, window, groups))


@aten("conv_transpose1d.default", "conv_transpose2d.input", "conv_transpose3d.input")
def conv_transpose(
    node: TorchNode, x: Value, w: Value, b: Value | None = None, stride: Ints | int = 1, padding: Ints | int = 0,
    output_padding: Ints | int = 0, groups: int = 1, dilation: Ints | int = 1,
) -> Value:  # fmt: skip
    """Transposed convolution over 1, 2 or 3 axes, in groups."""
    axes = w.type.rank - 2
    step, spread, pads, more = (_each(v, axes) for v in (stride, dilation, padding, output_padding))
    image = _batched(node, x, axes)
    return _as_given(node, transposed_convolved(node, image, w, b, step, spread, (*pads, *pads), more, groups))


@aten("convolution.default")
def convolution(
    node: TorchNode, x: Value, w: Value, b: Value | None, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, output_padding: Ints, groups: int,
) -> Value:  # fmt: skip
    """A convolution of either kind."""
    if transposed:
        return conv_transpose(node, x, w, b, stride, padding, output_padding, groups, dilation)
    return conv(node, x, w, b, stride, padding, dilation, groups)


# --- pooling ---------------------------------------------------------------------------------------------------


def _axes_of(node: TorchNode) -> int:
    found = re.search(r"(\d)d", node.target)
    assert found is not None
    return int(found[1])


def _pooled(
    node: TorchNode, op: str, x: Value, kernel: Ints | int, stride: Ints | int, padding: Ints | int,
    dilation: Ints | int = 1, **given: Any,
) -> Value:  # fmt: skip
    (found,) = _pooled_all(node, op, x, kernel, stride, padding, dilation, **given)
    return found


def _pooled_all(
    node: TorchNode, op: str, x: Value, kernel: Ints | int, stride: Ints | int, padding: Ints | int,
    dilation: Ints | int = 1, **given: Any,
) -> tuple[Value, ...]:  # fmt: skip
    axes = _axes_of(node)
    size = _each(kernel, axes)
    step = _each(stride, axes) if not isinstance(stride, Sequence) or len(stride) else size
    pad, spread = _each(padding, axes), _each(dilation, axes)
    if axes == 1:
        size, step, pad, spread = (1, *size), (1, *step), (0, *pad), (1, *spread)
    if max(spread) > 1:
        given["dilation"] = spread
    image = channels_last(node, _batched(node, x, axes))
    found = node.calls(f"{op}{len(size)}d", image, kernel=size, stride=step, pad=(*pad, *pad), **given)
    return tuple(_as_given(node, channels_first(node, y, axes)) for y in found)


@aten("max_pool1d.default", "max_pool2d.default", "max_pool3d.default")
def max_pool(
    node: TorchNode, x: Value, kernel: Ints, stride: Ints = (), padding: Ints | int = 0, dilation: Ints | int = 1,
    ceil_mode: bool = False,
) -> Value:  # fmt: skip
    """The largest element of each window."""
    return _pooled(node, "max_pool", x, kernel, stride, padding, dilation, **({"ceil": True} if ceil_mode else {}))


@aten("max_pool2d_with_indices.default", "max_pool3d_with_indices.default", "max_pool1d_with_indices.default")
def max_pool_places(
    node: TorchNode, x: Value, kernel: Ints, stride: Ints = (), padding: Ints | int = 0, dilation: Ints | int = 1,
    ceil_mode: bool = False,
) -> tuple[Value, ...]:  # fmt: skip
    """The largest element of each window, and its place in the image: of images with one or two axes."""
    given = {"ceil": True} if ceil_mode else {}
    if _axes_of(node) > 2:
        return (_pooled(node, "max_pool", x, kernel, stride, padding, dilation, **given),)
    values, places = _pooled_all(node, "argmax_pool", x, kernel, stride, padding, dilation, **given)
    return values, node.cast(places, I64)


@aten("max_unpool2d.default")
def max_unpool(node: TorchNode, x: Value, places: Value, size: Sequence[Dim]) -> Value:
    """Elements at places of images that are 0 elsewhere."""
    rows, many = product(x.type.shape[:-2]), product(x.type.shape[-2:])
    flat, at = (node.call("reshape", v, shape=(rows, many)) for v in (x, places))
    empty = spread(node, node.scalar(0, x.type), (rows, product(tuple(size))))
    found = node.call("scatter_elements", empty, at, flat, axis=1, reduction="none")
    return node.call("reshape", found, shape=node.out.shape)


@aten("avg_pool1d.default", "avg_pool2d.default", "avg_pool3d.default")
def avg_pool(
    node: TorchNode, x: Value, kernel: Ints, stride: Ints = (), padding: Ints | int = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor: int | None = None,
) -> Value:  # fmt: skip
    """The mean of each window, with the padding or without; or its sum by a divisor."""
    given: dict[str, Any] = {"ceil": True} if ceil_mode else {}
    if divisor is not None:
        total = _pooled(node, "sum_pool", x, kernel, stride, padding, **given)
        return node.call("div", total, node.scalar(divisor, node.kind))
    if count_include_pad and any(_each(padding, 1)):
        given["include_pad"] = True
    return _pooled(node, "avg_pool", x, kernel, stride, padding, **given)


@aten(
    "adaptive_avg_pool1d.default", "adaptive_avg_pool2d.default", "adaptive_avg_pool3d.default",
    "_adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default",
)  # fmt: skip
def adaptive_avg_pool(node: TorchNode, x: Value, size: Sequence[Dim]) -> Value:
    """Means of as many parts of an image as wanted: along each axis a product with the shares of the elements."""
    first = x.type.rank - len(size)
    if all(d == 1 for d in size):
        return node.call("reduce_mean", x, axes=tuple(range(first, x.type.rank)))
    for k, count in enumerate(size):
        axis = first + k
        extent = x.type.shape[axis]
        if count == extent:
            continue
        if not isinstance(extent, int) or not isinstance(count, int):
            node.fail(f"parts of an axis of the open size {extent}", hint="pool to 1, or fix the size of the image")
        shares = np.zeros((extent, count), node.kind.numpy)
        for part, (begin, end) in enumerate(_parts(extent, count)):
            shares[begin:end, part] = 1 / (end - begin)
        x = _along(node, x, axis, shares)
    return x


def _parts(extent: int, count: int) -> list[tuple[int, int]]:
    """Where the parts of an axis begin and end; they may overlap."""
    return [(k * extent // count, -((-(k + 1) * extent) // count)) for k in range(count)]


def _along(node: TorchNode, x: Value, axis: int, matrix: np.ndarray) -> Value:
    """A product with a matrix along one axis."""
    order = [k for k in range(x.type.rank) if k != axis] + [axis]
    moved = node.call("transpose", x, perm=tuple(order))
    back = tuple(order.index(k) for k in range(x.type.rank))
    return node.call("transpose", node.call("matmul", moved, node.const(matrix, "shares")), perm=back)


@aten("adaptive_max_pool1d.default", "adaptive_max_pool2d.default", "adaptive_max_pool3d.default")
def adaptive_max_pool(node: TorchNode, x: Value, size: Sequence[Dim]) -> tuple[Value, ...]:
    """The largest elements of as many parts of an image as wanted."""
    first = x.type.rank - len(size)
    if all(d == 1 for d in size):
        axes = tuple(range(first, x.type.rank))
        return (node.call("reduce_max", x, axes=axes),)
    for k, count in enumerate(size):
        extent = x.type.shape[first + k]
        if not isinstance(extent, int) or not isinstance(count, int):
            node.fail(f"parts of an axis of the open size {extent}", hint="pool to 1, or fix the size of the image")
        pieces = []
        for begin, end in _parts(extent, count):
            rank = range(x.type.rank)
            piece = node.call(
                "slice",
                x,
                begin=tuple(begin if a == first + k else 0 for a in rank),
                size=tuple(end - begin if a == first + k else d for a, d in enumerate(x.type.shape)),
                strides=tuple(1 for _ in rank),
            )
            pieces.append(node.call("reduce_max", piece, axes=(first + k,)))
        x = pieces[0] if len(pieces) == 1 else node.call("concat", *pieces, axis=first + k)
    return (x,)


# --- normalisations --------------------------------------------------------------------------------------------


def _vector(node: TorchNode, value: Value | None, count: Dim, fill: float) -> Value:
    """What is learnt of each channel; ``fill`` where nothing is."""
    if value is not None:
        return value
    if not isinstance(count, int):
        node.fail(f"the number {count} of channels is open")
    return node.const(np.full(count, fill, node.kind.numpy), "learnt")


@aten("_native_batch_norm_legit_no_training.default")
def batch_norm(
    node: TorchNode, x: Value, w: Value | None, b: Value | None, mean: Value, var: Value, momentum: float, eps: float
) -> tuple[Value, ...]:
    """A scale and a shift per channel, as learnt; the other results are empty at inference."""
    channels = x.type.shape[1]
    gamma, beta = _vector(node, w, channels, 1), _vector(node, b, channels, 0)
    return (normalized_channels(node, x, gamma, beta, mean, var, eps),)


@aten("_native_batch_norm_legit.default", "native_batch_norm.default", "cudnn_batch_norm.default")
def batch_norm_either(
    node: TorchNode, x: Value, w: Value | None, b: Value | None, mean: Value, var: Value, training: bool,
    momentum: float, eps: float,
) -> tuple[Value, ...]:  # fmt: skip
    """The same, where it does not learn."""
    if training:
        node.fail("it learns from each batch, as in training", hint="export module.eval()")
    return batch_norm(node, x, w, b, mean, var, momentum, eps)


@aten("_native_batch_norm_legit_functional.default")
def batch_norm_functional(
    node: TorchNode, x: Value, w: Value | None, b: Value | None, mean: Value, var: Value, training: bool,
    momentum: float, eps: float,
) -> tuple[Value, ...]:  # fmt: skip
    """The same, which gives back what it has learnt."""
    (y,) = batch_norm_either(node, x, w, b, mean, var, training, momentum, eps)
    empty = node.call("full", shape=(0,), value=0.0, dtype=str(node.kind))
    return y, empty, empty, mean, var


@aten("_native_batch_norm_legit.no_stats")
def batch_norm_of_batch(
    node: TorchNode, x: Value, w: Value | None, b: Value | None, training: bool, momentum: float, eps: float
) -> tuple[Value, ...]:
    """Each channel by its own mean and deviation over the batch and the image."""
    axes = tuple(k for k in range(x.type.rank) if k != 1)
    mean = node.call("reduce_mean", x, axes=axes)
    down = node.call("sub", x, mean)
    spread = node.call("reduce_mean", node.call("mul", down, down), axes=axes)
    y = node.call("mul", down, node.call("rsqrt", node.call("add", spread, node.scalar(eps, node.kind))))
    channels = x.type.shape[1]
    return (per_channel(node, y, _vector(node, w, channels, 1), _vector(node, b, channels, 0)),)


@aten("batch_norm.default")
def batch_norm_layer(
    node: TorchNode, x: Value, w: Value | None, b: Value | None, mean: Value | None, var: Value | None, training: bool,
    momentum: float, eps: float, _: bool,
) -> Value:  # fmt: skip
    """The same as a module calls it; one that keeps no statistics takes those of the batch."""
    if mean is None or var is None:
        return batch_norm_of_batch(node, x, w, b, training, momentum, eps)[0]
    return batch_norm_either(node, x, w, b, mean, var, training, momentum, eps)[0]


@aten("layer_norm.default")
def layer_norm(
    node: TorchNode, x: Value, shape: Sequence[Dim], w: Value | None = None, b: Value | None = None,
    eps: float = 1e-5, _: bool = True,
) -> Value:  # fmt: skip
    """Over the last axes, taken together."""
    axis = x.type.rank - len(shape)
    gamma = w if w is not None else node.const(np.ones(1, node.kind.numpy))
    return rows(node, "layer_norm", x, axis, eps, gamma, b)


@aten("native_layer_norm.default")
def native_layer_norm(
    node: TorchNode, x: Value, shape: Sequence[Dim], w: Value | None, b: Value | None, eps: float
) -> tuple[Value, ...]:
    """The same, without the means and deviations that training wants."""
    return (layer_norm(node, x, shape, w, b, eps),)


@aten("rms_norm.default")
def rms_norm(
    node: TorchNode, x: Value, shape: Sequence[Dim], w: Value | None = None, eps: float | None = None
) -> Value:
    """The same without mean and bias."""
    axis = x.type.rank - len(shape)
    gamma = w if w is not None else node.const(np.ones(1, node.kind.numpy))
    epsilon = 2.0 ** -{16: 10, 32: 23, 64: 52}[node.kind.bits] if eps is None else eps
    return rows(node, "rms_norm", x, axis, epsilon, gamma, None)


@aten("group_norm.default")
def group_norm(
    node: TorchNode, x: Value, groups: int, w: Value | None = None, b: Value | None = None, eps: float = 1e-5,
    _: bool = True,
) -> Value:  # fmt: skip
    """Each group of the channels of an image."""
    n, channels, *space = x.type.shape
    if not isinstance(channels, int):
        node.fail("the number of channels is open")
    flat = node.call("reshape", x, shape=(n, groups, product(tuple(space)) * (channels // groups)))
    y = reshaped(node, normalized(node, flat, eps), x.type.shape)
    if w is None and b is None:
        return y
    return per_channel(node, y, _vector(node, w, channels, 1), _vector(node, b, channels, 0))


@aten("native_group_norm.default")
def native_group_norm(
    node: TorchNode, x: Value, w: Value | None, b: Value | None, n: Dim, channels: Dim, pixels: Dim, groups: int,
    eps: float,
) -> tuple[Value, ...]:  # fmt: skip
    """The same, without the means and deviations that training wants."""
    return (group_norm(node, x, groups, w, b, eps),)


@aten("instance_norm.default")
def instance_norm(
    node: TorchNode, x: Value, w: Value | None, b: Value | None, mean: Value | None, var: Value | None,
    use_input_stats: bool, momentum: float, eps: float, _: bool = True,
) -> Value:  # fmt: skip
    """Each channel of each image on its own, or by what is learnt of it."""
    channels = x.type.shape[1]
    if not use_input_stats and mean is not None and var is not None:
        gamma, beta = _vector(node, w, channels, 1), _vector(node, b, channels, 0)
        return normalized_channels(node, x, gamma, beta, mean, var, eps)
    if not isinstance(channels, int):
        node.fail("the number of channels is open")
    return group_norm(node, x, channels, w, b, eps)


# --- other sizes -----------------------------------------------------------------------------------------------


def _axes(node: TorchNode, x: Value, scales: Sequence[float | None] | None) -> dict[int, Axis]:
    """The axes to resize, to what PyTorch found; ``scales`` where they are given decide about places."""
    count = x.type.rank - 2
    given = tuple(scales) if scales is not None else (None,) * count
    return {
        k + 2: Axis(x.type.shape[k + 2], node.out.shape[k + 2], None if s is None else float(s))
        for k, s in zip(range(count), given, strict=True)
    }


@aten(*(f"{kind}{n}d.vec" for kind in ("upsample_nearest", "_upsample_nearest_exact") for n in (1, 2, 3)))
def upsample_nearest_vec(node: TorchNode, x: Value, _: Any, scales: Sequence[float] | None) -> Value:
    """The nearest elements, by scales or to a size."""
    how = ("half_pixel", "round_prefer_ceil") if "exact" in node.target else ("asymmetric", "floor")
    return nearest(node, x, _axes(node, x, scales), *how)


@aten(*(f"{kind}{n}d.default" for kind in ("upsample_nearest", "_upsample_nearest_exact") for n in (1, 2, 3)))
def upsample_nearest(node: TorchNode, x: Value, size: Any, *scales: float | None) -> Value:
    """The nearest elements."""
    return upsample_nearest_vec(node, x, size, scales if all(s is not None for s in scales) else None)  # type: ignore[arg-type]


_MIXED = ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d")


@aten(*(f"{name}.vec" for name in (*_MIXED, "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")))
def upsample_vec(
    node: TorchNode, x: Value, _: Any, align_corners: bool, scales: Sequence[float | None] | None
) -> Value:
    """A mix of the elements around each place, by scales or to a size."""
    mode = "cubic" if "bicubic" in node.target else "linear"
    smooth = "_aa" in node.target
    cubic = -0.5 if smooth else -0.75
    axes = _axes(node, x, None if align_corners else scales)
    if smooth and align_corners:  # places of pixels all the same, as far apart as corners that meet have them
        axes = {k: replace(axis, scale=_between_corners(axis)) for k, axis in axes.items()}
    places = "align_corners" if align_corners and not smooth else "half_pixel"
    how = Filter(mode, places, cubic, antialias=smooth, exclude_outside=smooth)
    return _mixed_bytes(node, x, axes, how) if x.type.dtype == U8 else mixed(node, x, axes, how)


def _between_corners(axis: Axis) -> float | None:
    """Elements of the result for each of the image, from the first to the last; None where a size is open."""
    size, extent = axis.size, axis.extent
    if not isinstance(size, int) or not isinstance(extent, int):
        return None
    return (extent - 1) / (size - 1) if size > 1 and extent > 1 else math.inf


def _mixed_bytes(node: TorchNode, x: Value, axes: dict[int, Axis], how: Filter) -> Value:
    """Bytes as PyTorch resizes them on CPUs: one axis after the other, the last one first, by weights of at most 16
    bits, each time rounded to bytes (UpSampleKernel.cpp, ``compute_index_ranges_int16_weights``)."""
    y = node.cast(x, F32)
    for k, axis in sorted(axes.items(), reverse=True):
        if axis.size == axis.extent:
            continue
        if not axis.fixed:
            node.fail(f"bytes of the open size {axis.size} are resized")
        index, weight, _ = positions(axis, how)
        largest = float(weight.max(initial=0))
        bits = next((n for n in range(22) if int(0.5 + largest * 2 ** (n + 1)) >= 1 << 15), 22)
        whole = np.trunc(weight.astype(np.float64) * 2**bits + np.where(weight < 0, -0.5, 0.5))
        weights = node.const((whole / 2**bits).astype(np.float32), "weights")
        y = node.call("resample", y, node.const(index, "places"), weights, axis=k)
        y = node.call("floor", node.call("add", y, node.scalar(0.5, F32)))
        y = node.call("minimum", node.call("maximum", y, node.scalar(0, F32)), node.scalar(255, F32))
    return node.cast(y, U8)


@aten(*(f"{name}.default" for name in _MIXED))
def upsample(node: TorchNode, x: Value, size: Any, align_corners: bool, *scales: float | None) -> Value:
    """A mix of the elements around each place."""
    return upsample_vec(node, x, size, align_corners, scales if scales else None)
