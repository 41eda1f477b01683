"""ONNX operators over whole axes: reductions, searches, running sums, and the softmax family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F64, I32, I64, U64
from sdk.compiler.sym import product
from sdk.frontends.moves import along_last
from sdk.frontends.onnx.context import OnnxNode, onnx_op

__all__: list[str] = []


# --- reductions ------------------------------------------------------------------------------------------------


def _axes(node: OnnxNode, rank: int) -> tuple[int, ...]:
    """The axes to reduce, ascending; none at all where the node says that no axes means nothing to do."""
    given = node.ints("axes", None) if node.has("axes") else None
    if given is None and node.given_input(1):
        given = tuple(d if isinstance(d, int) else node.fail("the axes are sizes of inputs") for d in node.dims(1))
    if given:
        return tuple(sorted({node.axis(k, rank) for k in given}))
    return () if node.int("noop_with_empty_axes", 0) else tuple(range(rank))


def _reduced(node: OnnxNode, op: str, x: Value, axes: tuple[int, ...]) -> Value:
    return node.call(op, x, axes=axes)


def _exact_sum(node: OnnxNode, x: Value, axes: tuple[int, ...]) -> Value:
    """A sum; of i32 held to the limits of the type, as in onnxruntime."""
    if x.type.dtype != I32:
        return _reduced(node, "reduce_sum", x, axes)
    return _held(node, _reduced(node, "reduce_sum", node.call("cast", x, to=str(I64)), axes))


def _held(node: OnnxNode, wide: Value) -> Value:
    """An i64 as the nearest i32."""
    lo, hi = I32.limits
    return node.call("cast", node.call("clip", wide, lo=lo, hi=hi), to=str(I32))


def _mean(node: OnnxNode, x: Value, axes: tuple[int, ...]) -> Value:
    if x.type.dtype != I32:
        return _reduced(node, "reduce_mean", x, axes)
    return _held(node, _reduced(node, "reduce_mean", node.call("cast", x, to=str(I64)), axes))


def _product(node: OnnxNode, x: Value, axes: tuple[int, ...]) -> Value:
    """A product; of i32 and i64 held to the limits of the type, as in onnxruntime, which multiplies as f64."""
    kind = x.type.dtype
    if kind not in (I32, I64):
        return _reduced(node, "reduce_prod", x, axes)
    size = _reduced(node, "reduce_prod", node.call("cast", x, to=str(F64)), axes)
    near = node.call("cast", size, to=str(kind))
    if kind == I32:
        return near
    plain = _reduced(node, "reduce_prod", node.call("cast", x, to=str(U64)), axes)  # which wraps
    inside = node.call("less", node.call("abs", size), node.scalar(2.0**63, F64))
    return node.call("where", inside, node.call("cast", plain, to=str(kind)), near)


def _over(op: str) -> Callable[[OnnxNode, Value, tuple[int, ...]], Value]:
    return lambda node, x, axes: _reduced(node, op, x, axes)


def _l1(node: OnnxNode, x: Value, axes: tuple[int, ...]) -> Value:
    if x.type.dtype != I32:
        return _reduced(node, "reduce_sum", node.call("abs", x), axes)
    return _held(node, _reduced(node, "reduce_sum", node.call("abs", node.call("cast", x, to=str(I64))), axes))


def _sum_square(node: OnnxNode, x: Value, axes: tuple[int, ...]) -> Value:
    if x.type.dtype != I32:
        return _reduced(node, "reduce_sum", node.call("mul", x, x), axes)
    wide = node.call("cast", x, to=str(I64))
    square = node.call("minimum", node.call("mul", wide, wide), node.scalar(I32.limits[1], I64))
    return _held(node, _reduced(node, "reduce_sum", square, axes))


def _in_floats(node: OnnxNode, op: str, x: Value) -> Value:
    """A function of real numbers on any numbers."""
    if x.type.dtype.is_float:
        return node.call(op, x)
    found = node.call(op, node.call("cast", x, to=str(F64)))
    return node.call("cast", found, to=str(x.type.dtype), wraps=True)


def _l2(node: OnnxNode, x: Value, axes: tuple[int, ...]) -> Value:
    kind = x.type.dtype
    if kind.is_float:
        return node.call("sqrt", _sum_square(node, x, axes))
    wide = node.call("cast", x, to=str(F64))  # the sum of squares may be far beyond the type of its root
    root = node.call("sqrt", _reduced(node, "reduce_sum", node.call("mul", wide, wide), axes))
    return node.call("cast", root, to=str(kind))


def _log_sum(node: OnnxNode, x: Value, axes: tuple[int, ...]) -> Value:
    return _in_floats(node, "log", _exact_sum(node, x, axes))


def _log_sum_exp(node: OnnxNode, x: Value, axes: tuple[int, ...]) -> Value:
    """top + log(sum(exp(x - top))), where an infinite top counts as 0."""
    if not x.type.dtype.is_float:
        node.fail(f"ReduceLogSumExp of {x.type.dtype}")
    top = _reduced(node, "reduce_max", x, axes)
    endless = node.call("is_inf", top, negative=True, positive=True)
    top = node.call("where", endless, node.scalar(0, x.type), top)
    total = _reduced(node, "reduce_sum", node.call("exp", node.call("sub", x, top)), axes)
    return node.call("add", node.call("log", total), top)


_REDUCTIONS: Final[dict[str, Callable[[OnnxNode, Value, tuple[int, ...]], Value]]] = {
    "ReduceSum": _exact_sum,
    "ReduceMean": _mean,
    "ReduceProd": _product,
    "ReduceMax": _over("reduce_max"),
    "ReduceMin": _over("reduce_min"),
    "ReduceL1": _l1,
    "ReduceL2": _l2,
    "ReduceSumSquare": _sum_square,
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
}


@onnx_op(*_REDUCTIONS)
def reduction(node: OnnxNode) -> Value:
    """A reduction over some axes, which are kept with extent 1 or dropped."""
    x = node.x(0)
    axes = _axes(node, x.type.rank)
    return _without(node, _REDUCTIONS[node.op](node, x, axes), axes)


def _without(node: OnnxNode, value: Value, axes: tuple[int, ...]) -> Value:
    """The value without its axes of extent 1 that ``axes`` names, unless the node keeps them."""
    if node.int("keepdims", 1) or not axes:
        return value
    shape = tuple(d for k, d in enumerate(value.type.shape) if k not in axes)
    return node.call("reshape", value, shape=shape)


@onnx_op("ArgMax", "ArgMin")
def search(node: OnnxNode) -> Value:
    """The index of the largest or smallest element along an axis."""
    x = node.x(0)
    axis = node.axis(node.int("axis", 0), x.type.rank)
    found = node.call(node.op.lower(), x, axis=axis, last=bool(node.int("select_last_index", 0)))
    return _without(node, found, (axis,))


# --- along one axis --------------------------------------------------------------------------------------------


@onnx_op("CumSum", "CumProd")
def running(node: OnnxNode) -> Value:
    """A running sum or product along an axis."""
    x, axes = node.x(0), node.dims(1)
    if len(axes) != 1 or not isinstance(axes[0], int):
        node.fail("the axis is not one number")
    flags = {name: bool(node.int(name, 0)) for name in ("exclusive", "reverse")}
    axis = node.axis(axes[0], x.type.rank)
    return along_last(node, x, axis, lambda v: node.call(node.op.lower(), v, **flags))


@onnx_op("Softmax", "LogSoftmax", "Hardmax")
def softmax(node: OnnxNode) -> Value:
    """Along one axis; before opset 13, over all axes from one on, taken together."""
    op = {"Softmax": "softmax", "LogSoftmax": "log_softmax", "Hardmax": "hardmax"}[node.op]
    x = node.x(0)
    rank, shape = x.type.rank, x.type.shape
    if node.opset >= 13:
        return along_last(node, x, node.axis(node.int("axis", -1), rank), lambda v: node.call(op, v))
    axis = node.axis(node.int("axis", 1), rank)
    if axis == rank - 1:
        return node.call(op, x)
    flat = node.call("reshape", x, shape=(product(shape[:axis]), product(shape[axis:])))
    return node.call("reshape", node.call(op, flat), shape=shape)
