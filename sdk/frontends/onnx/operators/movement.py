"""ONNX operators that move elements: Concat, Split, Slice, Pad, Tile, Transpose, Trilu, EyeLike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.ops.slice import clamped
from sdk.compiler.sym import Dim, ceildiv, floordiv, prove_eq, prove_ge
from sdk.frontends.moves import padded, part, swap_axes
from sdk.frontends.onnx.context import OnnxNode, onnx_op
from sdk.frontends.onnx.reader import element_type

__all__: list[str] = []


@onnx_op("Transpose")
def transpose(node: OnnxNode) -> Value:
    """The axes in another order, by default reversed."""
    x = node.x(0)
    perm = node.ints("perm", tuple(reversed(range(x.type.rank))))
    return swap_axes(node, x, [node.axis(k, x.type.rank) for k in perm])


@onnx_op("Concat")
def concat(node: OnnxNode) -> Value:
    """Tensors after one another along an axis; those known to be empty there add nothing."""
    parts = [node.x(k) for k in range(node.count)]
    axis = node.axis(node.int("axis", 1), parts[0].type.rank)
    filled = [p for p in parts if prove_eq(p.type.shape[axis], 0) is not True] or parts[:1]
    return filled[0] if len(filled) == 1 else node.call("concat", *filled, axis=axis)


@onnx_op("Split")
def split(node: OnnxNode) -> tuple[Value, ...]:
    """Parts of an axis: of sizes given, or all alike but for the last."""
    x = node.x(0)
    axis = node.axis(node.int("axis", 0), x.type.rank)
    begin: Dim = 0
    out = []
    for size in _split_sizes(node, x.type.shape[axis]):
        out.append(part(node, x, axis, begin, size))
        begin = begin + size
    if prove_eq(begin, x.type.shape[axis]) is not True:
        node.fail(f"the parts have {begin} elements together, the axis {x.type.shape[axis]}")
    return tuple(out)


def _split_sizes(node: OnnxNode, extent: Dim) -> tuple[Dim, ...]:
    if node.has("split"):
        sizes: tuple[Dim, ...] = node.ints("split")
        return sizes
    if node.given_input(1):
        return node.dims(1)
    count = node.int("num_outputs", node.outputs)
    if count != node.outputs:
        node.fail(f"num_outputs is {count}, it has {node.outputs} outputs")
    size = ceildiv(extent, count)
    if prove_eq(size * count, extent) is True:
        return tuple(size for _ in range(count))
    last = extent - size * (count - 1)
    if prove_ge(last, 0) is not True:
        node.fail(f"an axis of {extent} elements cannot be split into {count} parts")
    return (*(size for _ in range(count - 1)), last)


@onnx_op("Slice")
def slice_(node: OnnxNode) -> Value:
    """A part of some axes by Python's rule: negative positions count from the end, then both are clamped."""
    x = node.x(0)
    if node.opset < 10:
        starts: tuple[Dim, ...] = node.ints("starts", ())
        ends: tuple[Dim, ...] = node.ints("ends", ())
        axes: tuple[Dim, ...] | None = node.ints("axes", None)
        steps: tuple[Dim, ...] | None = None
    else:
        starts, ends = node.dims(1), node.dims(2)
        axes = node.dims(3) if node.given_input(3) else None
        steps = node.dims(4) if node.given_input(4) else None
    axes = axes if axes is not None else tuple(range(len(starts)))
    steps = steps if steps is not None else (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        node.fail("its starts, ends, axes and steps are not equally many")
    begin: list[Dim] = [0] * x.type.rank
    size, strides = list(x.type.shape), [1] * x.type.rank
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if not isinstance(axis, int) or not isinstance(step, int) or step == 0:
            node.fail(f"the axis {axis} and the step {step} must be numbers, the step not 0")
        k = node.axis(axis, x.type.rank)
        begin[k], size[k] = clamped(x.type.shape[k], start, end, step, inside=True)
        strides[k] = step
    whole = all(same_extent(b, 0) and s == 1 for b, s in zip(begin, strides, strict=True))
    if whole and all(map(same_extent, size, x.type.shape)):
        return x
    return node.call("slice", x, begin=tuple(begin), size=tuple(size), strides=tuple(strides))


@onnx_op("Pad")
def pad(node: OnnxNode) -> Value:
    """A border of one value, or of what the tensor repeats or mirrors; negative pads cut."""
    x = node.x(0)
    rank = x.type.rank
    given: tuple[Dim, ...] = node.ints("pads", ()) if node.opset < 11 else node.dims(1)
    axes = tuple(range(rank))
    if node.given_input(3):
        chosen = node.dims(3)
        axes = tuple(node.axis(k, rank) if isinstance(k, int) else node.fail("its axes are sizes") for k in chosen)
    if len(given) != 2 * len(axes):
        node.fail(f"{len(given)} pads for {len(axes)} axes")
    pads: list[tuple[Dim, Dim]] = [(0, 0)] * rank
    for k, axis in enumerate(axes):
        pads[axis] = given[k], given[k + len(axes)]
    mode = node.text("mode", "constant")
    if mode not in ("constant", "edge", "reflect", "wrap"):
        node.fail(f"the mode {mode} is not supported")
    if mode == "constant":
        return padded(node, x, pads, value=_pad_value(node, x))
    return padded(node, _cut(node, x, pads), [(_positive(a), _positive(b)) for a, b in pads], value=0, mode=mode)


def _pad_value(node: OnnxNode, x: Value) -> float:
    number: float = node.float("value", 0.0)
    if node.given_input(2):
        data = node.data(2)
        if data is None or data.size != 1:
            node.fail("the value of the border must be known when the model is built")
        number = data.reshape(-1)[0].item()
    kind = x.type.dtype
    return float(np.asarray(number, kind.numpy)) if kind.is_float else int(number)


def _positive(pad: Dim) -> Dim:
    return max(pad, 0) if isinstance(pad, int) else pad


def _cut(node: OnnxNode, x: Value, pads: Sequence[tuple[Dim, Dim]]) -> Value:
    """What negative pads leave."""
    for k, pair in enumerate(pads):
        before, after = (max(-p, 0) if isinstance(p, int) else 0 for p in pair)
        if before or after:
            x = part(node, x, k, before, x.type.shape[k] - before - after)
    return x


@onnx_op("Tile")
def tile(node: OnnxNode) -> Value:
    """The tensor repeated along its axes: [d] seen as [1, d], spread to [r, d], seen as [r*d]."""
    x, repeats = node.x(0), node.dims(1)
    if len(repeats) != x.type.rank:
        node.fail(f"{len(repeats)} repeats for a tensor of rank {x.type.rank}")
    split: list[Dim] = []
    spread: list[Dim] = []
    whole: list[Dim] = []
    for size, count in zip(x.type.shape, repeats, strict=True):
        if isinstance(count, int) and count == 1:
            split.append(size)
            spread.append(size)
        else:
            split += [1, size]
            spread += [count, size]
        whole.append(size * count)
    if len(split) == len(whole):
        return x
    wide = node.call("broadcast_to", node.call("reshape", x, shape=tuple(split)), shape=tuple(spread))
    return node.call("reshape", wide, shape=tuple(whole))


@onnx_op("Trilu")
def trilu(node: OnnxNode) -> Value:
    """What lies on a diagonal and on one side of it; 0 elsewhere."""
    (k,) = node.dims(1) if node.given_input(1) else (0,)
    return node.call("trilu", node.x(0), k=k, upper=bool(node.int("upper", 1)))


@onnx_op("EyeLike")
def eye_like(node: OnnxNode) -> Value:
    """A matrix of the input's shape with ones on a diagonal."""
    like = node.type(0)
    kind = element_type(node.int("dtype")) if node.has("dtype") else like.dtype
    if kind is None or like.rank != 2:
        node.fail("it makes matrices of numbers")
    return node.call("eye", shape=like.shape, k=node.int("k", 0), dtype=str(kind))


@onnx_op("CenterCropPad")
def center_crop_pad(node: OnnxNode) -> Value:
    """Cut or padded with 0 around the middle to given sizes."""
    x = node.x(0)
    axes = [node.axis(k, x.type.rank) for k in node.ints("axes", tuple(range(x.type.rank)))]
    for axis, size in zip(axes, node.dims(1), strict=True):
        have = x.type.shape[axis]
        if prove_ge(have, size) is True:
            x = part(node, x, axis, floordiv(have - size, 2), size)
        elif prove_ge(size, have) is True:
            before = floordiv(size - have, 2)
            border: list[tuple[Dim, Dim]] = [(0, 0)] * x.type.rank
            border[axis] = before, size - have - before
            x = padded(node, x, border, value=0.0 if x.type.dtype.is_float else 0)
        else:
            node.fail(f"whether axis {axis} of {have} elements is cut or padded to {size} is not known")
    return x
