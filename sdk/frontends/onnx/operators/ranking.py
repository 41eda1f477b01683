"""ONNX operators that rank elements and keep some: Unique, NonMaxSuppression."""

from __future__ import annotations

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, I32, I64
from sdk.compiler.sym import Dim, product
from sdk.frontends.moves import part
from sdk.frontends.onnx.context import OnnxNode, onnx_op
from sdk.frontends.onnx.operators.selection import new_dim

__all__: list[str] = []


@onnx_op("Unique")
def unique(node: OnnxNode) -> tuple[Value, ...]:
    """Each value once, where it first stands, which one each element is, how often each stands there.

    Sorted with their places, equal elements stand together and the first place first.
    """
    x = node.x(0)
    if node.has("axis") and x.type.rank != 1:
        node.fail("unique slices along an axis are not supported, only unique elements")
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
    inverse = _moved(node, size, places, group)
    kept, where = (node.call("gather", v, first, axis=0) for v in (values, places))
    many = _gaps(node, first, count, size)
    if node.int("sorted", 1):
        return kept, where, inverse, many
    where, order = node.calls("topk", where, k=count, axis=0, largest=False)
    kept, many = (node.call("gather", v, order, axis=0) for v in (kept, many))
    rank = _moved(node, count, order, node.call("iota", extent=count, start=0, step=1, dtype=str(I64)))
    return kept, where, node.call("gather", rank, inverse, axis=0), many


def _starts(node: OnnxNode, values: Value, size: Dim) -> Value:
    """For sorted values, whether each differs from the one before it, as i32."""
    later, before = part(node, values, 0, 1, size - 1), part(node, values, 0, 0, size - 1)
    changed = node.call("concat", node.const(np.array([True]), "first"), node.call("not_equal", later, before), axis=0)
    return node.call("cast", changed, to=str(I32))


def _moved(node: OnnxNode, size: Dim, places: Value, values: Value) -> Value:
    """values[i] at places[i]."""
    start = node.call("full", shape=(size,), value=0, dtype=str(I64))
    return node.call("scatter_elements", start, places, values, axis=0, reduction="none")


def _gaps(node: OnnxNode, first: Value, count: Dim, size: Dim) -> Value:
    """From each position to the next, from the last one to ``size``."""
    end = node.call("full", shape=(1,), value=size, dtype=str(I64))
    ends = node.call("concat", first, end, axis=0)
    return node.call("sub", part(node, ends, 0, 1, count), first)


@onnx_op("NonMaxSuppression")
def non_max_suppression(node: OnnxNode) -> Value:
    """For each image and class the boxes that no better one overlaps too much: i64[selected, 3]."""
    boxes, scores = node.x(0), node.x(1)
    limits = [_number(node, k) for k in (2, 3, 4)]
    maximum = int(limits[0] or 0)
    if boxes.type.dtype != F32:
        node.fail(f"its boxes are {boxes.type.dtype}, not f32")
    selected, count = node.calls(
        "nms",
        boxes,
        scores,
        most=maximum,
        overlap=float(limits[1] or 0.0),
        least=False if limits[2] is None else float(limits[2]),
        center=bool(node.int("center_point_box", 0)),
    )
    return part(node, selected, 0, 0, new_dim(node, count, selected.type.shape[0]))


def _number(node: OnnxNode, k: int) -> float | None:
    """Input ``k``, one number known at import; None when it is left out."""
    if not node.given_input(k):
        return None
    data = node.data(k)
    if data is None or data.size != 1:
        node.fail(f"input {k} must be a number known when the model is built")
    return float(data.reshape(-1)[0])
