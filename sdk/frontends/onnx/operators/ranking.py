"""ONNX operators that rank elements and keep some: Unique, NonMaxSuppression."""

from __future__ import annotations

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, I32, I64
from sdk.compiler.sym import Dim, product, prove_ge
from sdk.frontends.counted import new_dim
from sdk.frontends.distinct import distinct, moved
from sdk.frontends.moves import part
from sdk.frontends.onnx.context import OnnxNode, onnx_op

__all__: list[str] = []


@onnx_op("Unique")
def unique(node: OnnxNode) -> tuple[Value, ...]:
    """Each value once, where it first stands, which one each element is, how often each stands there."""
    x = node.x(0)
    if node.has("axis") and x.type.rank != 1:
        return _unique_slices(node, x, node.axis(node.int("axis"), x.type.rank))
    return distinct(node, x, bool(node.int("sorted", 1)))


def _unique_slices(node: OnnxNode, x: Value, axis: int) -> tuple[Value, ...]:
    """The same of slices along an axis, which are ordered by their first elements that differ: every slice is compared
    with every other."""
    size, shape = x.type.shape[axis], x.type.shape
    order = (axis, *(k for k in range(x.type.rank) if k != axis))
    width = product(tuple(shape[k] for k in order[1:]))
    if prove_ge(size, 1) is not True or prove_ge(width, 1) is not True:
        node.fail("its slices may be none, or empty")
    rows = node.call("reshape", node.call("transpose", x, perm=order), shape=(size, width))
    alike, less = _compared(node, rows, size, width)
    at = node.call("iota", extent=size, start=0, step=1, dtype=str(I64))
    column = node.call("reshape", at, shape=(size, 1))
    earlier = node.call("cast", node.call("less", at, column), to=str(I64))
    before = node.call("reduce_max", node.call("mul", alike, earlier), axes=(1,))
    is_first = node.call("sub", node.scalar(1, I64), node.call("reshape", before, shape=(size,)))
    group = node.call("reduce_sum", node.call("mul", less, is_first), axes=(1,))
    group = node.call("reshape", group, shape=(size,))
    many = node.call("reshape", node.call("reduce_sum", alike, axes=(1,)), shape=(size,))
    flags = node.call("cast", is_first, to=str(I32))
    count = new_dim(node, node.call("count_nonzero", flags), size)
    where = node.call("reshape", node.call("nonzero", flags, count=count), shape=(count,))
    if node.int("sorted", 1):
        where = moved(node, count, node.call("gather", group, where, axis=0), where)
        inverse = group
    else:
        rank = node.call("sub", node.call("cumsum", is_first, exclusive=False, reverse=False), node.scalar(1, I64))
        first = node.call("reshape", node.call("argmax", alike, axis=1, last=False), shape=(size,))
        inverse = node.call("gather", rank, first, axis=0)
    kept, many = node.call("gather", x, where, axis=axis), node.call("gather", many, where, axis=0)
    return kept, where, inverse, many


def _compared(node: OnnxNode, rows: Value, size: Dim, width: Dim) -> tuple[Value, Value]:
    """For each pair of rows [i, j] whether they are alike, and whether j comes before i, as i64."""
    one, other = (node.call("reshape", rows, shape=shape) for shape in ((size, 1, width), (1, size, width)))
    differs = node.call("cast", node.call("not_equal", one, other), to=str(I32))
    smaller = node.call("cast", node.call("less", other, one), to=str(I32))
    place = node.call("argmax", differs, axis=2, last=False)
    flat = (size, size)
    found, below = (node.call("gather_elements", v, place, axis=2) for v in (differs, smaller))
    wide = (node.call("cast", node.call("reshape", v, shape=flat), to=str(I64)) for v in (found, below))
    different, less = wide
    return node.call("sub", node.scalar(1, I64), different), less


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
        maximum=maximum,
        overlap=float(limits[1] or 0.0),
        minimum=False if limits[2] is None else float(limits[2]),
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
