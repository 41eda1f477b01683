"""Elements chosen by positions, and written to them."""

from __future__ import annotations

import math

import numpy as np

from sdk.budget import AXIS_TABLE, check_limit
from sdk.compiler.ir.graph import BindDim, Value, fresh_name
from sdk.compiler.ir.types import BOOL, F32, I8, I32, I64, U8
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.sym import Dim, Var, floordiv, max_value, product
from sdk.errors import BuildError
from sdk.frontends.moves import type_text
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.operators.real.common import axis_of, shape_of, single_dim
from sdk.frontends.tflite.operators.real.hybrid import block_scales

__all__ = ["TABLE"]


def gather(node: OpNode) -> None:
    """GATHER along an axis, with ``batch_dims`` axes that positions and elements share."""
    x, at = node.input(0), node.input(1, I32, I64)
    axis, batch = axis_of(int(node.option("Axis")), x.type.rank), int(node.option("BatchDims"))
    batch = batch + at.type.rank if batch < 0 else batch
    if not 0 <= batch <= min(axis, at.type.rank):
        raise BuildError(f"{batch} batch axes of positions of rank {at.type.rank} along axis {axis}")
    if batch == 0:
        node.call("gather", x, at, axis=axis)
        return
    rank, chosen = x.type.rank, at.type.rank - batch
    if axis != batch:  # the axis to the front of those that are no batch
        perm = (*range(batch), axis, *(k for k in range(batch, rank) if k != axis))
        x = node.call("transpose", x, to="turned", perm=perm)
    tuples = node.call("reshape", at, to="tuples", shape=(*at.type.shape, 1))
    found = node.call("gather_nd", x, tuples, to=0 if axis == batch else "found", batch=batch)
    if axis != batch:
        middle = axis - batch  # axes that stood before it
        places = range(batch + chosen, batch + chosen + middle)
        rest = range(batch + chosen + middle, batch + chosen + rank - batch - 1)
        node.call("transpose", found, perm=(*range(batch), *places, *range(batch, batch + chosen), *rest))


def gather_nd(node: OpNode) -> None:
    """GATHER_ND: slices at tuples of positions."""
    node.call("gather_nd", node.input(0), node.input(1, I32, I64), batch=0)


def _block_rows(node: OpNode, at: Value, table: Value) -> None:
    """Rows of i8 with a scale for each block of a row, as floats."""
    scales = block_scales(node, 1)
    node.out_dtype(F32)
    (count,), columns, blocks = at.type.shape, table.type.shape[1], scales.shape[1]
    steps = node.cast(node.call("gather", table, at, to="rows", axis=0), F32, "steps")
    parts = node.call("reshape", steps, to="blocks", shape=(count, blocks, floordiv(columns, blocks)))
    by = node.call("gather", node.const("scales", scales), at, to="by", axis=0)
    found = node.call("mul", parts, node.call("reshape", by, to="by_block", shape=(count, blocks, 1)), to="reals")
    node.call("reshape", found, shape=(count, columns))


def embedding_lookup(node: OpNode) -> None:
    """EMBEDDING_LOOKUP: rows of a table, inputs (positions, table); rows of i8 become floats where those are asked."""
    at, table = node.input(0, I32), node.input(1)
    if at.type.rank != 1 or table.type.rank < 2:
        raise BuildError(f"positions of rank {at.type.rank} in a table of rank {table.type.rank}")
    if node.output().dtype == table.type.dtype:
        node.call("gather", table, at, axis=0)
        return
    if node.tensor(1).blocks is not None:
        _block_rows(node, at, table)
        return
    tensor, rows = node.tensor(1), table.type.shape[0]
    scales = np.asarray(tensor.scales, np.float32)
    if table.type.dtype != I8 or any(tensor.zero_points) or len(scales) not in (1, rows):
        zeros = tensor.zero_points[:1]
        raise BuildError(f"rows of {tensor.type_name} with {len(scales)} scales and zero points {zeros} as floats")
    node.out_dtype(F32)
    chosen = node.cast(node.call("gather", table, at, to="rows", axis=0), F32, "steps")
    scale = node.const("scale", scales)
    if len(scales) > 1:
        scale = node.call("gather", scale, at, to="scales", axis=0)
        scale = node.call("reshape", scale, to="of_rows", shape=(*at.type.shape, *(1,) * (table.type.rank - 1)))
    node.call("mul", chosen, scale)


def dynamic_update_slice(node: OpNode) -> None:
    """DYNAMIC_UPDATE_SLICE: a tensor with a part replaced, inputs (x, part, where it begins), held inside."""
    x, part, start = node.input(0), node.input(1), node.input(2, I32, I64)
    wide = [a for a, (d, e) in enumerate(zip(x.type.shape, part.type.shape, strict=False)) if not same_extent(d, e)]
    if x.type.rank != part.type.rank or start.type.shape != (x.type.rank,) or x.type.dtype != part.type.dtype:
        raise BuildError(f"a part {part.type} of {type_text(x)} from {start.type.shape} places")
    if not wide:
        node.call("reshape", part, shape=x.type.shape)
        return
    axes = wide[-1] + 1  # the axes after that are replaced as wholes
    sizes = [d for d in (*x.type.shape[:axes], *part.type.shape[:axes]) if isinstance(d, int)]
    if len(sizes) != 2 * axes or any(p > d for d, p in zip(sizes[:axes], sizes[axes:], strict=True)):
        raise BuildError(f"a part of shape {list(map(str, part.type.shape))} of {list(map(str, x.type.shape))}")
    check_limit(AXIS_TABLE, math.prod(sizes[axes:]), "a replaced part")
    begin = node.call("slice", start, to="begin", begin=(0,), size=(axes,), strides=(1,))
    begin = begin if begin.type.dtype == I32 else node.cast(begin, I32, "begin32")
    last = np.asarray(sizes[:axes], np.int32) - np.asarray(sizes[axes:], np.int32)
    held = node.call("minimum", begin, node.const("last", last), to="not_after")
    held = node.call("maximum", held, node.const("first", np.zeros(axes, np.int32)), to="held")
    grid = np.indices(sizes[axes:], np.int32).reshape(axes, -1).T
    tuples = node.call("add", node.const("grid", np.ascontiguousarray(grid)), held, to="places")
    updates = node.call("reshape", part, to="parts", shape=(len(grid), *part.type.shape[axes:]))
    node.call("scatter_nd", x, tuples, updates, reduction="none")


def one_hot(node: OpNode) -> None:
    """ONE_HOT: inputs (positions, depth, on, off); a position outside is "off" everywhere."""
    at, on, off = node.input(0, I32, I64), node.input(2), node.input(3)
    depth = single_dim(node, 1)
    number = int(node.option("Axis"))
    axis = at.type.rank if number == -1 else axis_of(number, at.type.rank + 1)
    parts = [node.call("reshape", v, to="choice", shape=(1,)) for v in (off, on)]
    values = node.call("concat", *parts, to="choices", axis=0)
    below = node.call("less", at, node.scalar(0, at), to="below")
    outside = node.scalar(at.type.dtype.limits[1], at)  # a negative one would count from the end
    node.call("one_hot", node.call("where", below, outside, at, to="places"), values, axis=axis, depth=depth)


def scatter_nd(node: OpNode) -> None:
    """SCATTER_ND: inputs (positions, updates, shape): updates of one place are added, the rest is 0."""
    at, updates, shape = node.input(0, I32), node.input(1, F32, I32, I64, I8, U8), shape_of(node, 2)
    zeros = node.call("full", to="zeros", shape=shape, value=0, dtype=str(updates.type.dtype))
    node.call("scatter_nd", zeros, at, updates, reduction="add")


def sparse_to_dense(node: OpNode) -> None:
    """SPARSE_TO_DENSE: inputs (positions, shape, values or one for all, what stands elsewhere)."""
    at, shape, values, fill = node.input(0, I32, I64), shape_of(node, 1), node.input(2), node.input(3)
    emit = node.emitter
    if at.type.rank < 2:
        at = emit.call("reshape", at, shape=(at.type.size, 1))
    count, depth = at.type.shape[0], at.type.shape[-1]
    one = values.type.rank == 0
    if at.type.rank != 2 or depth != len(shape) or fill.type.size != 1 or fill.type.dtype != values.type.dtype:
        what = f"{type_text(values)} at {type_text(at)} in a tensor of rank {len(shape)}"
        raise BuildError(f"{what} filled with {type_text(fill)}")
    if not one and (values.type.rank != 1 or not same_extent(values.type.shape[0], count)):
        raise BuildError(f"values {type_text(values)} for {count} positions")
    values = emit.call("broadcast_to", values, shape=(count,)) if one else values
    filled = emit.call("broadcast_to", emit.call("reshape", fill, shape=()), shape=shape)
    node.call("scatter_nd", filled, at, values, reduction="none")


def where(node: OpNode) -> None:
    """WHERE: the positions of what is true (or not 0), one a row; how many there are is known to the run alone."""
    x = node.input(0, BOOL, F32, I32, I64, I8, U8)
    if x.type.rank < 1:
        raise BuildError("a scalar has no positions")
    count = _counted(node, node.call("count_nonzero", x, to="count"), product(x.type.shape))
    found = node.call("nonzero", x, to="positions", count=count)
    node.call("transpose", found, perm=(1, 0))


def _counted(node: OpNode, count: Value, maximum: Dim) -> Dim:
    """A dim that is at run time what ``count`` holds; a number where that is known."""
    known = node.builder.contents_of(count)
    if known is not None and known.numbers is not None:
        return int(known.numbers.reshape(-1)[0])
    bound = max_value(maximum)
    assert bound is not None, "every dim of a .tflite file has bounds"
    var = Var(fresh_name(f"{count.name}_dim", node.builder.names), 0, bound)
    node.builder.body.append(BindDim(var, count, node.source))
    return var.expr


def reverse_sequence(node: OpNode) -> None:
    """REVERSE_SEQUENCE: the first so many steps of each of a batch in reverse."""
    x = node.input(0)
    batch, time = (axis_of(int(node.option(name)), x.type.rank) for name in ("BatchDim", "SeqDim"))
    lengths = node.input(1, I32, I64)
    if lengths.type.dtype != I64:
        lengths = node.cast(lengths, I64, "lengths")
    node.call("reverse_sequence", x, lengths, batch_axis=batch, time_axis=time)


TABLE: Table = {
    "GATHER": gather,
    "GATHER_ND": gather_nd,
    "EMBEDDING_LOOKUP": embedding_lookup,
    "DYNAMIC_UPDATE_SLICE": dynamic_update_slice,
    "ONE_HOT": one_hot,
    "SCATTER_ND": scatter_nd,
    "SPARSE_TO_DENSE": sparse_to_dense,
    "WHERE": where,
    "REVERSE_SEQUENCE": reverse_sequence,
}
