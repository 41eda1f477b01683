"""Operators that move elements: reshapes, concatenation, slices, padding, transposition."""

from __future__ import annotations

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I8, I16, I32, U8
from sdk.compiler.sym import Dim
from sdk.errors import BuildError
from sdk.frontends.tflite.context import Importer, OpNode, Table
from sdk.frontends.tflite.operators.real import movement
from sdk.frontends.tflite.quantize import round_away
from sdk.frontends.tflite.reader import Tensor

__all__ = ["TABLE"]


def reshape(node: OpNode) -> None:
    """RESHAPE to a shape known at import; to that of the output if only the run computes it, as tflite-micro does."""
    if (node.has(1) and node.contents(1) is None) or 0 in node.output().shape:
        _reshape_to(node, node.output().shape)
    else:
        movement.reshape(node)


def _reshape_to(node: OpNode, shape: tuple[int, ...]) -> None:
    x = node.input(0)
    if 0 in x.type.shape and 0 in shape:  # another shape of no elements
        node.call("full", shape=shape, value=0, dtype=str(x.type.dtype))
    else:
        node.call("reshape", x, shape=shape)


def _same_elements(of_any_size: Importer) -> Importer:
    """SQUEEZE and EXPAND_DIMS: the output's shape; ``of_any_size`` where a size is open, which the file states as 1."""

    def run(node: OpNode) -> None:
        if all(isinstance(d, int) for d in node.input(0).type.shape):
            _reshape_to(node, node.output().shape)
        else:
            of_any_size(node)

    return run


def concatenation(node: OpNode) -> None:
    """CONCATENATION of tensors that share scale and zero point, or of tensors of u8."""
    if int(node.option("FusedActivationFunction")) != 0:
        raise BuildError("a fused activation is not supported here")
    parts = [node.input(k, I8, U8, I16, I32) for k in range(len(node.operator.inputs))]
    if not parts:
        raise BuildError("no inputs")
    tensors = [node.tensor(k) for k in range(len(parts))]
    if len({_scale(t) for t in (*tensors, node.output())}) > 1:
        if not all(t.dtype == U8 or node.was_unsigned(t) for t in (*tensors, node.output())):
            raise BuildError("the inputs and the output must share one scale and zero point")
        parts = [_on_scale_of_output(node, k, part) for k, part in enumerate(parts)]
    node.call("concat", *parts, axis=_axis(int(node.option("Axis")), parts[0].type.rank))


def _on_scale_of_output(node: OpNode, k: int, part: Value) -> Value:
    """Input ``k``, of u8 in the file, on the scale of the output: a table, made in single precision."""
    source, target = node.quant(node.tensor(k)), node.quant(node.output())
    if source == target:
        return part
    lo, hi = part.type.dtype.limits
    zero = source.zero_point - lo  # positions in the table are stored values of u8
    factor = np.float32(source.scale) * (np.float32(1) / np.float32(target.scale))
    bias = np.float32(-zero) * factor
    steps = np.arange(256).astype(np.float32) * factor + bias
    table = np.clip(round_away(steps) + target.zero_point, lo, hi).astype(part.type.dtype.numpy)
    return node.call("lookup", part, node.const(f"table{k}", table), to=f"part{k}")


def _scale(tensor: Tensor) -> tuple[tuple[float, ...], tuple[int, ...]]:
    return tensor.scales, tensor.zero_points


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise BuildError(f"axis {axis} of a tensor of rank {rank}")
    return axis % rank


def _fixed(extent: Dim) -> int:
    if not isinstance(extent, int):
        raise BuildError(f"the open extent {extent} cannot be sliced")
    return extent


def _range(size: Dim, begin: int | None, end: int | None, stride: int) -> tuple[int, int]:
    """First index and count of ``size`` elements sliced as in Python; a count of -1 keeps an open axis."""
    if stride == 0:
        raise BuildError("a stride of zero")
    if begin is None and end is None and stride == 1:
        return 0, size if isinstance(size, int) else -1
    picked = range(*slice(begin, end, stride).indices(_fixed(size)))
    if not picked:
        raise BuildError(f"the slice {begin}:{end}:{stride} of {size} is empty")
    return picked.start, len(picked)


def strided_slice(node: OpNode) -> None:
    """STRIDED_SLICE with constant begin, end and strides; masks for begin, end and dropped axes."""
    x = node.input(0)
    begin, end, strides = node.integers(1), node.integers(2), node.integers(3)
    rank = x.type.rank
    if not len(begin) == len(end) == len(strides) == rank:
        raise BuildError(
            f"begin, end and strides of {len(begin)}, {len(end)}, {len(strides)} axes for rank {rank}"
        )
    if node.option("EllipsisMask") or node.option("NewAxisMask") or node.option("Offset"):
        raise BuildError("an ellipsis, new axes or offsets are not supported")
    masks = [int(node.option(name)) for name in ("BeginMask", "EndMask", "ShrinkAxisMask")]
    starts, counts = [], []
    for k in range(rank):
        no_begin, no_end, shrink = (bool(mask >> k & 1) for mask in masks)
        if shrink:
            size = _fixed(x.type.shape[k])
            if not -size <= begin[k] < size:
                raise BuildError(f"index {begin[k]} of an axis of {size}")
            start, count = begin[k] % size, 1
        else:
            start, count = _range(
                x.type.shape[k], None if no_begin else begin[k], None if no_end else end[k], strides[k]
            )
        starts.append(start)
        counts.append(count)
    steps = tuple(1 if masks[2] >> k & 1 else strides[k] for k in range(rank))
    dropped = [k for k in range(rank) if masks[2] >> k & 1]
    given = {"begin": tuple(starts), "size": tuple(counts), "strides": steps}
    part = node.call("slice", x, to="part" if dropped else 0, **given)
    if dropped:
        kept = tuple(
            d if isinstance(d, int) else -1 for k, d in enumerate(part.type.shape) if k not in dropped
        )
        node.call("reshape", part, shape=kept)


def slice_(node: OpNode) -> None:
    """SLICE with constant begin and size (-1 = to the end)."""
    x, begin, size = node.input(0), node.integers(1), node.integers(2)
    if not len(begin) == len(size) == x.type.rank:
        raise BuildError(f"begin and size of {len(begin)} and {len(size)} axes for rank {x.type.rank}")
    counts = []
    for extent, start, count in zip(x.type.shape, begin, size, strict=True):
        if start == 0 and count == -1:
            counts.append(extent if isinstance(extent, int) else -1)
            continue
        rest = _fixed(extent) - start
        if start < 0 or not (count == -1 or 0 < count <= rest) or rest < 1:
            raise BuildError(f"{count} elements from {start} of an axis of {extent}")
        counts.append(rest if count == -1 else count)
    node.call("slice", x, begin=begin, size=tuple(counts), strides=(1,) * x.type.rank)


def _split(node: OpNode, k: int, axis: int, sizes: tuple[int, ...]) -> None:
    x = node.input(k)
    axis = _axis(axis, x.type.rank)
    if len(sizes) != len(node.operator.outputs):
        raise BuildError(f"{len(sizes)} parts for {len(node.operator.outputs)} outputs")
    if any(s < 1 for s in sizes) or sum(sizes) != _fixed(x.type.shape[axis]):
        raise BuildError(f"parts of {list(sizes)} of an axis of {x.type.shape[axis]}")
    start = 0
    whole = [d if isinstance(d, int) else -1 for d in x.type.shape]
    for number, size in enumerate(sizes):
        begin, count = [0] * x.type.rank, list(whole)
        begin[axis], count[axis] = start, size
        node.call("slice", x, to=number, begin=tuple(begin), size=tuple(count), strides=(1,) * x.type.rank)
        start += size


def split(node: OpNode) -> None:
    """SPLIT into equal parts: inputs (axis, value)."""
    (axis,) = node.integers(0) or (0,)
    x, count = node.input(1), len(node.operator.outputs)
    size = _fixed(x.type.shape[_axis(axis, x.type.rank)])
    if count < 1 or size % count:
        raise BuildError(f"an axis of {size} cannot be split into {count} equal parts")
    _split(node, 1, axis, (size // count,) * count)


def split_v(node: OpNode) -> None:
    """SPLIT_V into parts of given sizes, one of which may be -1: inputs (value, sizes, axis)."""
    sizes, axes = node.integers(1), node.integers(2)
    x = node.input(0)
    if len(axes) != 1 or sizes.count(-1) > 1:
        raise BuildError(f"sizes {list(sizes)} on axes {list(axes)}")
    if -1 in sizes:
        rest = _fixed(x.type.shape[_axis(axes[0], x.type.rank)]) - sum(s for s in sizes if s != -1)
        sizes = tuple(rest if s == -1 else s for s in sizes)
    _split(node, 0, axes[0], sizes)


def pad(node: OpNode) -> None:
    """PAD with the stored zero, PADV2 with a stated constant."""
    x, flat = node.input(0, I8, U8, I16), node.integers(1)
    if len(flat) != 2 * x.type.rank or any(not 0 <= p < 1 << 16 for p in flat):
        raise BuildError(f"pads {list(flat)} for rank {x.type.rank}")
    quant = node.quant(node.tensor(0))
    if quant != node.quant(node.output()):
        raise BuildError("input and output must share one scale and zero point")
    value = quant.zero_point
    if node.has(2):
        stated = node.integers(2)
        if len(stated) != 1 or node.quant(node.tensor(2)) != quant:
            raise BuildError("the constant must be one element on the scale of the input")
        value = stated[0]
    pairs = tuple((flat[2 * k], flat[2 * k + 1]) for k in range(x.type.rank))
    node.call("pad", x, pads=pairs, value=value)


def transpose(node: OpNode) -> None:
    """TRANSPOSE by a constant permutation."""
    x, perm = node.input(0), node.integers(1)
    if any(not -x.type.rank <= p < x.type.rank for p in perm):
        raise BuildError(f"permutation {list(perm)} for rank {x.type.rank}")
    node.call("transpose", x, perm=tuple(p % x.type.rank for p in perm))


TABLE: Table = {
    "RESHAPE": reshape,
    "SQUEEZE": _same_elements(movement.squeeze),
    "EXPAND_DIMS": _same_elements(movement.expand_dims),
    "CONCATENATION": concatenation,
    "STRIDED_SLICE": strided_slice,
    "SLICE": slice_,
    "SPLIT": split,
    "SPLIT_V": split_v,
    "PAD": pad,
    "PADV2": pad,
    "TRANSPOSE": transpose,
}
