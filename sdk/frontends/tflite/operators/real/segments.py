"""Elements put together by numbers: segments, buckets, distinct values; diagonals of matrices."""

from __future__ import annotations

from typing import Final

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, I8, I16, I32, I64, U8
from sdk.compiler.sym import Dim
from sdk.errors import BuildError
from sdk.frontends.distinct import distinct
from sdk.frontends.moves import padded, shape_text
from sdk.frontends.tflite.context import Importer, OpNode, Table
from sdk.frontends.tflite.operators.real.common import single

__all__ = ["TABLE"]

_LARGEST: Final = float(np.finfo(np.float32).max)
# How updates of one place meet, and where they start from: floats, integers.
_MEET: Final[dict[str, tuple[str, float, int]]] = {
    "SUM": ("add", 0.0, 0),
    "PROD": ("mul", 1.0, 1),
    "MAX": ("max", -_LARGEST, I32.limits[0]),
    "MIN": ("min", _LARGEST, I32.limits[1]),
}


def _put_together(node: OpNode, meeting: str, x: Value, numbers: Value, count: int) -> None:
    """The slices of ``x`` by their numbers, those below 0 left out."""
    reduction, real, whole = _MEET[meeting]
    emit, kind = node.emitter, x.type.dtype
    shape: tuple[Dim, ...] = (count, *x.type.shape[numbers.type.rank :])
    slices = emit.call("reshape", x, shape=(numbers.type.size, *shape[1:]))
    flat = emit.call("reshape", numbers, shape=(numbers.type.size, 1))
    below = emit.call("less", flat, emit.scalar(0, I32))
    outside = emit.scalar(count, I32)  # a negative one would count from the end
    places = emit.call("where", below, outside, flat)
    first = emit.call("broadcast_to", emit.scalar(real if kind.is_float else whole, kind), shape=shape)
    node.call("scatter_nd", first, places, slices, reduction=reduction)


def _unsorted(meeting: str) -> Importer:
    def run(node: OpNode) -> None:
        x, numbers, count = node.input(0, F32, I32), node.input(1, I32), single(node, 2)
        rank = numbers.type.rank
        if count < 0 or rank > x.type.rank or numbers.type.shape != x.type.shape[:rank]:
            shapes = shape_text(numbers.type.shape), shape_text(x.type.shape)
            raise BuildError(f"{count} segments by numbers {shapes[0]} of {shapes[1]}")
        _put_together(node, meeting, x, numbers, count)

    return run


def segment_sum(node: OpNode) -> None:
    """SEGMENT_SUM: sums of the slices of each number; numbers are known at import, and ascend from 0 without gaps."""
    x, numbers = node.input(0, F32, I32), node.integers(1)
    steps = np.diff(np.asarray((0, *numbers), np.int64))
    if x.type.rank < 1 or len(numbers) != x.type.shape[0] or not numbers or numbers[0] or not set(steps) <= {0, 1}:
        raise BuildError(f"segments {list(numbers)[:8]}: they must ascend from 0 without gaps, one a slice")
    _put_together(node, "SUM", x, node.input(1, I32), numbers[-1] + 1)


def bucketize(node: OpNode) -> None:
    """BUCKETIZE: how many of the boundaries are not above each element."""
    x, bounds = node.input(0, F32, I32, I64), np.asarray(node.option("BoundariesAsNumpy"), np.float32)
    if not bounds.size or (np.diff(bounds) < 0).any() or np.isnan(bounds).any():
        raise BuildError(f"the boundaries {bounds.tolist()[:8]} do not ascend")
    emit, shape = node.emitter, x.type.shape
    real = x if x.type.dtype == F32 else emit.call("cast", x, to=str(F32))
    column = emit.call("reshape", real, shape=(*shape, 1))
    above = emit.call("cast", emit.call("less", column, emit.const(bounds, "bounds")), to=str(I32))
    total = emit.call("reduce_sum", above, axes=(len(shape),))
    count = emit.call("reshape", total, shape=shape)
    node.call("sub", emit.scalar(bounds.size, I32), count)


def unique(node: OpNode) -> None:
    """UNIQUE: each value once, as it first stands, and which one each element is."""
    x = node.input(0, F32, I32, I64, I16, I8, U8)
    if x.type.rank != 1:
        raise BuildError(f"it takes tensors of rank 1, not {x.type.rank}")
    values, _, which, _ = distinct(node.emitter, x, in_order=False)
    node.call("reshape", values, to=0, shape=values.type.shape)
    kind = node.output(1).dtype
    if kind not in (I32, I64):
        raise BuildError(f"output {node.output(1).title} has type {node.output(1).type_name}")
    if kind == I64:
        node.call("reshape", which, to=1, shape=which.type.shape)
    else:
        node.cast(which, I32, 1)


def _diagonal(node: OpNode, rows: Dim, columns: Dim) -> Value:
    """Where row and column of a matrix are one, bool[rows, columns]."""
    emit = node.emitter
    down, right = (emit.call("iota", extent=n, start=0, step=1, dtype=str(I32)) for n in (rows, columns))
    return emit.call("equal", emit.call("reshape", down, shape=(rows, 1)), right)


def matrix_diag(node: OpNode) -> None:
    """MATRIX_DIAG: matrices with these diagonals, zeros elsewhere."""
    x = node.input(0, F32, I32, I64, I16, I8, U8)
    if x.type.rank < 1:
        raise BuildError("a scalar is no diagonal")
    emit, n = node.emitter, x.type.shape[-1]
    column = emit.call("reshape", x, shape=(*x.type.shape, 1))
    node.call("where", _diagonal(node, n, n), column, emit.scalar(0, x.type))


def matrix_set_diag(node: OpNode) -> None:
    """MATRIX_SET_DIAG: inputs (matrices, their new diagonals)."""
    x = node.input(0, F32, I32, I64, I16, I8, U8)
    diagonal, rank = node.input(1, x.type.dtype), x.type.rank
    rows, columns = x.type.shape[-2:] if rank >= 2 else (0, 0)
    fixed = isinstance(rows, int) and isinstance(columns, int)
    if rank < 2 or not fixed or diagonal.type.shape != (*x.type.shape[:-2], min(rows, columns)):
        raise BuildError(f"diagonals {shape_text(diagonal.type.shape)} for matrices {shape_text(x.type.shape)}")
    emit = node.emitter
    long = padded(emit, diagonal, [*((0, 0) for _ in range(rank - 2)), (0, rows - min(rows, columns))], value=0)
    column = emit.call("reshape", long, shape=(*long.type.shape, 1))
    node.call("where", _diagonal(node, rows, columns), column, x)


TABLE: Table = {
    "BUCKETIZE": bucketize,
    "MATRIX_DIAG": matrix_diag,
    "MATRIX_SET_DIAG": matrix_set_diag,
    "SEGMENT_SUM": segment_sum,
    "UNIQUE": unique,
    **{f"UNSORTED_SEGMENT_{meeting}": _unsorted(meeting) for meeting in _MEET},
}
