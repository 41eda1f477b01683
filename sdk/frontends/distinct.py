"""The distinct values of a tensor, how many of which only the run knows."""

from __future__ import annotations

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I32, I64
from sdk.compiler.sym import Dim, product
from sdk.frontends.counted import new_dim
from sdk.frontends.emit import Emitter
from sdk.frontends.moves import part

__all__ = ["distinct", "moved"]


def distinct(node: Emitter, x: Value, in_order: bool) -> tuple[Value, Value, Value, Value]:
    """Each value once, ``in_order`` of size or as they first stand: the values, where each first stands, which one each
    element is, how often each stands there.

    Sorted with their places, equal elements stand together and the first place first.
    """
    size = product(x.type.shape)
    flat = x if x.type.rank == 1 else node.call("reshape", x, shape=(size,))
    if isinstance(size, int) and size == 0:
        node.fail("it has no elements")
    values, places = node.calls("topk", flat, k=size, axis=0, largest=False)
    starts = _starts(node, values, size)
    count = new_dim(node, node.call("count_nonzero", starts), size)
    first = node.call("reshape", node.call("nonzero", starts, count=count), shape=(count,))
    group = node.call("cumsum", node.call("cast", starts, to=str(I64)), exclusive=False, reverse=False)
    group = node.call("sub", group, node.scalar(1, I64))
    inverse = moved(node, size, places, group)
    kept, where = (node.call("gather", v, first, axis=0) for v in (values, places))
    many = _gaps(node, first, count, size)
    if in_order:
        return kept, where, inverse, many
    where, order = node.calls("topk", where, k=count, axis=0, largest=False)
    kept, many = (node.call("gather", v, order, axis=0) for v in (kept, many))
    rank = moved(node, count, order, node.call("iota", extent=count, start=0, step=1, dtype=str(I64)))
    return kept, where, node.call("gather", rank, inverse, axis=0), many


def _starts(node: Emitter, values: Value, size: Dim) -> Value:
    """For sorted values, whether each differs from the one before it, as i32."""
    later, before = part(node, values, 0, 1, size - 1), part(node, values, 0, 0, size - 1)
    changed = node.call("concat", node.const(np.array([True]), "first"), node.call("not_equal", later, before), axis=0)
    return node.call("cast", changed, to=str(I32))


def moved(node: Emitter, size: Dim, places: Value, values: Value) -> Value:
    """values[i] at places[i]."""
    start = node.call("full", shape=(size,), value=0, dtype=str(I64))
    return node.call("scatter_elements", start, places, values, axis=0, reduction="none")


def _gaps(node: Emitter, first: Value, count: Dim, size: Dim) -> Value:
    """From each position to the next, from the last one to ``size``."""
    end = node.call("full", shape=(1,), value=size, dtype=str(I64))
    ends = node.call("concat", first, end, axis=0)
    return node.call("sub", part(node, ends, 0, 1, count), first)
