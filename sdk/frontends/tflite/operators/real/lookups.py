"""Rows of tables by keys, and rows of tables put together by places: HASHTABLE_LOOKUP, EMBEDDING_LOOKUP_SPARSE."""

from __future__ import annotations

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, I32, U8
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.sym import Dim
from sdk.errors import BuildError
from sdk.frontends.emit import Emitter
from sdk.frontends.moves import part, type_text
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.operators.real.common import shape_of

__all__ = ["TABLE"]

_SUM, _MEAN, _ROOT = 0, 1, 2  # how EMBEDDING_LOOKUP_SPARSE weighs


def hashtable_lookup(node: OpNode) -> None:
    """HASHTABLE_LOOKUP: inputs (what is looked for, keys, a row for each), rows and which were found; of a key that
    is missing the row is 0."""
    wanted, keys, rows = node.input(0, I32), node.input(1, I32), node.input(2)
    if wanted.type.rank != 1 or keys.type.rank != 1 or rows.type.rank < 1:
        raise BuildError(f"{type_text(wanted)} looked for in {type_text(keys)}, rows {type_text(rows)}")
    if not same_extent(keys.type.shape[0], rows.type.shape[0]):
        raise BuildError(f"{keys.type.shape[0]} keys for {rows.type.shape[0]} rows")
    known = node.data(1)
    if known is not None and (np.diff(known.astype(np.int64)) <= 0).any():
        raise BuildError("its keys do not ascend, as its binary search wants")
    emit, count = node.emitter, wanted.type.shape[0]
    same = emit.call("equal", emit.call("reshape", wanted, shape=(count, 1)), keys)
    found = emit.call("reshape", emit.call("reduce_max", same, axes=(1,)), shape=(count,))
    order = emit.call("iota", extent=keys.type.shape[0], start=0, step=1, dtype=str(I32))
    places = emit.call("where", same, order, emit.scalar(-1, I32))
    at = emit.call("reshape", emit.call("reduce_max", places, axes=(1,)), shape=(count,))
    # a position outside reads 0, one below 0 would count from the end
    beyond = emit.scalar(I32.limits[1], I32)
    node.call("gather", rows, emit.call("where", found, at, beyond), axis=0)
    if len(node.operator.outputs) > 1:
        node.cast(found, U8, 1)


def embedding_lookup_sparse(node: OpNode) -> None:
    """EMBEDDING_LOOKUP_SPARSE: inputs (rows of the table, where each goes, the shape of all of these places, weights,
    the table): the weighted rows of each place are added, and perhaps divided by the sum of weights, or by the root of
    the sum of their squares. The last axis of places is that along which they are added."""
    ids, places, weights, table = node.input(0, I32), node.input(1, I32), node.input(3, F32), node.input(4, F32)
    shape, how, emit = shape_of(node, 2), int(node.option("Combiner")), node.emitter
    rank, count = len(shape), ids.type.size
    fits = ids.type.rank == weights.type.rank == 1 and places.type.rank == 2 and table.type.rank >= 2
    if not fits or not rank or not same_extent(places.type.shape[1], rank) or how not in (_SUM, _MEAN, _ROOT):
        what = f"rows {type_text(ids)} of {type_text(table)} at {type_text(places)} of rank {rank}"
        raise BuildError(f"{what}, combined by number {how}")
    if not all(same_extent(n, count) for n in (places.type.shape[0], weights.type.shape[0])):
        raise BuildError(f"{count} rows at {type_text(places)}, weighed by {type_text(weights)}")
    inner = table.type.shape[1:]
    column = emit.call("reshape", weights, shape=(count, *(1,) * len(inner)))
    weighed = emit.call("mul", emit.call("gather", table, ids, axis=0), column)
    total = _added(emit, weighed, places, shape[:-1], inner)
    if how != _SUM:
        by = weights if how == _MEAN else emit.call("mul", weights, weights)
        divisor = _added(emit, by, places, shape[:-1], ())
        divisor = divisor if how == _MEAN else emit.call("sqrt", divisor)
        divisor = emit.call("reshape", divisor, shape=(*shape[:-1], *(1,) * len(inner)))
        # a place without rows stays 0
        ones = emit.call("full", shape=(count,), value=1, dtype=str(F32))
        some = emit.call("less", emit.scalar(0, F32), _added(emit, ones, places, shape[:-1], ()))
        some = emit.call("reshape", some, shape=divisor.type.shape)
        total = emit.call("where", some, emit.call("div", total, divisor), total)
    node.call("reshape", total, shape=(*shape[:-1], *inner))


def _added(
    emit: Emitter, rows: Value, places: Value, outer: tuple[Dim, ...], inner: tuple[Dim, ...]
) -> Value:  # fmt: skip
    """The sum of the rows of each place, places [n, rank of outer + 1]."""
    if not outer:
        return emit.call("reshape", emit.call("reduce_sum", rows, axes=(0,)), shape=inner)
    zeros = emit.call("full", shape=(*outer, *inner), value=0.0, dtype=str(F32))
    return emit.call("scatter_nd", zeros, part(emit, places, 1, 0, len(outer)), rows, reduction="add")


TABLE: Table = {"EMBEDDING_LOOKUP_SPARSE": embedding_lookup_sparse, "HASHTABLE_LOOKUP": hashtable_lookup}
