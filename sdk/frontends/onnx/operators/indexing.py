"""ONNX operators that choose elements by positions: gathers, scatters, OneHot, TopK, ReverseSequence."""

from __future__ import annotations

from itertools import pairwise

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I64
from sdk.compiler.sym import Dim, prove_ge, prove_lt
from sdk.frontends.moves import part, swap_axes
from sdk.frontends.onnx.context import OnnxNode, onnx_op

__all__: list[str] = []


@onnx_op("Gather")
def gather(node: OnnxNode) -> Value:
    """Slices of an axis at given positions; a known run of positions is a plain slice."""
    x = node.x(0)
    axis = node.axis(node.int("axis", 0), x.type.rank)
    run = _known_run(node, x.type.shape[axis])
    if run is None:
        return node.call("gather", x, node.x(1), axis=axis)
    begin, count, step = run
    found = part(node, x, axis, begin, count, step)
    chosen = node.type(1).shape
    shape = (*x.type.shape[:axis], *chosen, *x.type.shape[axis + 1 :])
    return found if len(chosen) == 1 else node.call("reshape", found, shape=shape)


def _known_run(node: OnnxNode, extent: Dim) -> tuple[Dim, int, int] | None:
    """Begin, count and step of positions known at import that are evenly spaced and surely inside; else None."""
    known = node.known_dims(1)
    if known is None or not known:
        return None
    if len(known) == 1:
        begin: Dim = known[0]
        if isinstance(begin, int) and begin < 0:
            begin = begin + extent
        return (begin, 1, 1) if prove_ge(begin, 0) is True and prove_lt(begin, extent) is True else None
    at = [k for k in known if isinstance(k, int)]
    if len(at) != len(known) or not isinstance(extent, int) or not all(-extent <= k < extent for k in at):
        return None
    places = [k % extent for k in at]
    steps = {b - a for a, b in pairwise(places)}
    step = steps.pop()
    return None if steps or step == 0 else (places[0], len(places), step)


@onnx_op("GatherElements")
def gather_elements(node: OnnxNode) -> Value:
    """At each place, the element whose position on an axis an index gives."""
    x = node.x(0)
    return node.call("gather_elements", x, node.x(1), axis=node.axis(node.int("axis", 0), x.type.rank))


@onnx_op("GatherND")
def gather_nd(node: OnnxNode) -> Value:
    """Slices at given tuples of positions."""
    return node.call("gather_nd", node.x(0), node.x(1), batch=node.int("batch_dims", 0))


@onnx_op("ScatterElements", "Scatter")
def scatter_elements(node: OnnxNode) -> Value:
    """A copy with elements replaced or met at positions on an axis."""
    x = node.x(0)
    axis = node.axis(node.int("axis", 0), x.type.rank)
    reduction = node.text("reduction", "none")
    return node.call("scatter_elements", x, node.x(1), node.x(2), axis=axis, reduction=reduction)


@onnx_op("ScatterND")
def scatter_nd(node: OnnxNode) -> Value:
    """A copy with slices replaced or met at tuples of positions."""
    return node.call("scatter_nd", node.x(0), node.x(1), node.x(2), reduction=node.text("reduction", "none"))


@onnx_op("OneHot")
def one_hot(node: OnnxNode) -> Value:
    """A new axis that is "on" at the index and "off" elsewhere; everywhere, as in onnxruntime, for an index that is no
    whole number."""
    indices, values = node.x(0), node.x(2)
    if indices.type.dtype.is_float:
        whole = node.call("cast", indices, to=str(I64))
        same = node.call("equal", node.call("cast", whole, to=str(indices.type.dtype)), indices)
        indices = node.call("where", same, whole, node.scalar(I64.limits[0], I64))  # outside of any axis
    data = node.data(1)
    depth = int(data.reshape(-1)[0]) if data is not None and data.size == 1 else node.dims(1)[0]
    axis = node.axis(node.int("axis", -1), indices.type.rank + 1)
    return node.call("one_hot", indices, values, axis=axis, depth=depth)


@onnx_op("TopK")
def topk(node: OnnxNode) -> tuple[Value, ...]:
    """The largest or smallest elements of an axis, in order, and their positions."""
    x = node.x(0)
    axis = node.axis(node.int("axis", -1), x.type.rank)
    k: Dim = node.int("k") if node.opset < 10 else node.dims(1)[0]
    return node.calls("topk", x, k=k, axis=axis, largest=bool(node.int("largest", 1)))


@onnx_op("ReverseSequence")
def reverse_sequence(node: OnnxNode) -> Value:
    """The first so many steps of each of a batch in reverse."""
    batch, time = node.int("batch_axis", 1), node.int("time_axis", 0)
    return node.call("reverse_sequence", node.x(0), node.x(1), batch_axis=batch, time_axis=time)


@onnx_op("TensorScatter")
def tensor_scatter(node: OnnxNode) -> Value:
    """A cache with rows written from a position on, for each of a batch."""
    past, update = node.x(0), node.x(1)
    rank = past.type.rank
    axis = node.axis(node.int("axis", -2), rank)
    batch, rows, steps = past.type.shape[0], past.type.shape[axis], update.type.shape[axis]
    if axis == 0:
        node.fail("its axis is the batch")
    kind = str(I64)
    steps_at = node.call("iota", extent=steps, start=0, step=1, dtype=kind)
    start = node.optional(2)
    where = node.call("reshape", steps_at, shape=(1, steps))
    if start is not None:
        wide = start if start.type.dtype == I64 else node.call("cast", start, to=kind)
        where = node.call("add", node.call("reshape", wide, shape=(batch, 1)), where)
    where = node.call("broadcast_to", where, shape=(batch, steps)) if start is None else where
    if node.text("mode", "linear") == "circular":
        size = node.call("full", shape=(), value=rows, dtype=kind)
        where = node.call("mod", where, size)
    number = node.call("iota", extent=batch, start=0, step=1, dtype=kind)
    number = node.call("broadcast_to", node.call("reshape", number, shape=(batch, 1)), shape=(batch, steps))
    pairs = [node.call("reshape", v, shape=(batch, steps, 1)) for v in (number, where)]
    order = [0, axis, *(k for k in range(1, rank) if k != axis)]
    back = [order.index(k) for k in range(rank)]
    found = node.call(
        "scatter_nd",
        swap_axes(node, past, order),
        node.call("concat", *pairs, axis=2),
        swap_axes(node, update, order),
        reduction="none",
    )
    return swap_axes(node, found, back)

