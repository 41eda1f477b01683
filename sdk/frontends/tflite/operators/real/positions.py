"""Elements chosen by positions, and written to them."""

from __future__ import annotations

from sdk.compiler.ir.graph import BindDim, Value, fresh_name
from sdk.compiler.ir.types import BOOL, F32, I32, I64
from sdk.compiler.sym import Dim, Var, max_value, product
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.operators.real.common import axis_of, shape_of, single_dim

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


def embedding_lookup(node: OpNode) -> None:
    """EMBEDDING_LOOKUP: rows of a table, inputs (positions, table)."""
    at, table = node.input(0, I32), node.input(1, F32)
    if at.type.rank != 1 or table.type.rank < 2:
        raise BuildError(f"positions of rank {at.type.rank} in a table of rank {table.type.rank}")
    node.call("gather", table, at, axis=0)


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
    at, updates, shape = node.input(0, I32), node.input(1, F32, I32, I64), shape_of(node, 2)
    zeros = node.call("full", to="zeros", shape=shape, value=0, dtype=str(updates.type.dtype))
    node.call("scatter_nd", zeros, at, updates, reduction="add")


def where(node: OpNode) -> None:
    """WHERE: the positions of what is true (or not 0), one a row; how many there are is known to the run alone."""
    x = node.input(0, BOOL, F32, I32, I64)
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
    most = max_value(maximum)
    assert most is not None, "every dim of a .tflite file has bounds"
    var = Var(fresh_name(f"{count.name}_dim", node.builder.names), 0, most)
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
    "ONE_HOT": one_hot,
    "SCATTER_ND": scatter_nd,
    "WHERE": where,
    "REVERSE_SEQUENCE": reverse_sequence,
}
