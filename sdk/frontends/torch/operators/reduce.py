"""ATen operators over whole axes: reductions, searches, running sums, the softmax family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import BOOL, F16, F32, I32
from sdk.compiler.sym import Dim, Expr, dmax, product
from sdk.frontends.moves import along_last
from sdk.frontends.torch.context import Number, TorchNode, aten

__all__: list[str] = []

Axes = Sequence[int] | int | None
_REDUCE: Final = {
    "sum.dim_IntList": "reduce_sum", "mean.dim": "reduce_mean", "amax.default": "reduce_max",
    "amin.default": "reduce_min", "prod.dim_int": "reduce_prod",
}  # fmt: skip
_WHOLE: Final = {
    "sum.default": "reduce_sum", "mean.default": "reduce_mean", "max.default": "reduce_max",
    "min.default": "reduce_min", "prod.default": "reduce_prod",
}  # fmt: skip


def reduced(node: TorchNode, op: str, x: Value, axes: tuple[int, ...], keep: bool) -> Value:
    """A reduction over some axes, which stay with size 1 or go."""
    if x.type.rank == 0:
        return x
    found = node.call(op, x, axes=axes)
    if keep:
        return found
    return node.call("reshape", found, shape=tuple(d for k, d in enumerate(found.type.shape) if k not in axes))


@aten(*_REDUCE)
def reduction(node: TorchNode, x: Value, dim: Axes = None, keepdim: bool = False, **_: Any) -> Value:
    """A reduction over some axes, in the type of the result."""
    op = _REDUCE[node.target.removeprefix("aten.")]
    return _typed(node, op, x, node.axes(dim, x.type.rank), keepdim)


@aten(*_WHOLE)
def whole(node: TorchNode, x: Value, **_: Any) -> Value:
    """A reduction of all elements."""
    return _typed(node, _WHOLE[node.target.removeprefix("aten.")], x, node.axes(None, x.type.rank), False)


def _typed(node: TorchNode, op: str, x: Value, axes: tuple[int, ...], keep: bool) -> Value:
    if node.kind != BOOL:
        return reduced(node, op, node.cast(x, node.kind), axes, keep)
    return node.cast(reduced(node, op, node.cast(x, I32), axes, keep), BOOL)


@aten("any.default", "any.dim", "any.dims", "all.default", "all.dim", "all.dims")
def any_all(node: TorchNode, x: Value, dim: Axes = None, keepdim: bool = False) -> Value:
    """Whether any element, or every one, is not 0."""
    flags = node.cast(node.cast(x, BOOL), I32)
    op = "reduce_max" if ".any." in node.target else "reduce_min"
    return node.cast(reduced(node, op, flags, node.axes(dim, x.type.rank), keepdim), BOOL)


@aten("var.correction", "std.correction", "var_mean.correction", "std_mean.correction")
def variance(
    node: TorchNode, x: Value, dim: Axes = None, *, correction: Number | None = None, keepdim: bool = False
) -> Value | tuple[Value, ...]:
    """The mean square of what is left without the mean; over n - correction elements, no fewer than none."""
    axes = node.axes(dim, x.type.rank)
    count = product(tuple(x.type.shape[k] for k in axes))
    less = 1 if correction is None else correction
    if isinstance(less, Value):
        node.fail("the correction is known at run time only")
    kind = F32 if node.kind == F16 else node.kind  # squares of halves leave their range
    x = node.cast(x, kind)
    mean = node.call("reduce_mean", x, axes=axes)
    down = node.call("sub", x, mean)
    total = node.call("reduce_sum", node.call("mul", down, down), axes=axes)
    if isinstance(less, float) and not less.is_integer():
        left = node.call("sub", node.tensor(count, kind), node.scalar(less, kind))
        rest = node.call("maximum", left, node.scalar(0, kind))
    else:
        rest = node.tensor(dmax(count - (less if isinstance(less, Expr) else int(less)), 0), kind)
    found = node.call("div", total, rest)
    if ".std" in node.target:
        found = node.call("sqrt", found)
    results = (found, mean) if "mean" in node.target else (found,)
    made = tuple(node.cast(_without(node, v, axes, keepdim), node.kind) for v in results)
    return made if len(made) > 1 else made[0]


def _without(node: TorchNode, x: Value, axes: tuple[int, ...], keep: bool) -> Value:
    if keep or not axes:
        return x
    return node.call("reshape", x, shape=tuple(d for k, d in enumerate(x.type.shape) if k not in axes))


@aten("linalg_vector_norm.default")
def vector_norm(
    node: TorchNode, x: Value, order: float = 2, dim: Axes = None, keepdim: bool = False, **_: Any
) -> Value:
    """The p-norm over some axes."""
    wide = F32 if node.kind == F16 else node.kind  # powers of halves leave their range
    return node.cast(_norm(node, node.cast(x, wide), order, node.axes(dim, x.type.rank), keepdim), node.kind)


def _norm(node: TorchNode, x: Value, order: float, axes: tuple[int, ...], keepdim: bool) -> Value:
    kind, size = x.type.dtype, node.call("abs", x)
    if order == float("inf") or order == float("-inf"):
        return reduced(node, "reduce_max" if order > 0 else "reduce_min", size, axes, keepdim)
    if order == 1:
        return reduced(node, "reduce_sum", size, axes, keepdim)
    if order == 2:
        return node.call("sqrt", reduced(node, "reduce_sum", node.call("mul", x, x), axes, keepdim))
    if order == 0:
        some = node.cast(node.call("not_equal", x, node.scalar(0, kind)), kind)
        return reduced(node, "reduce_sum", some, axes, keepdim)
    powers = node.call("pow", size, node.scalar(order, kind))
    total = reduced(node, "reduce_sum", powers, axes, keepdim)
    return node.call("pow", total, node.scalar(1 / order, kind))


@aten("dist.default")
def distance(node: TorchNode, a: Value, b: Value, order: float = 2) -> Value:
    """The p-norm of a difference."""
    return vector_norm(node, node.call("sub", node.cast(a, node.kind), node.cast(b, node.kind)), order)


@aten("logsumexp.default")
def logsumexp(node: TorchNode, x: Value, dim: Axes = None, keepdim: bool = False) -> Value:
    """top + log(sum(exp(x - top))), where an infinite top counts as 0."""
    x = node.cast(x, node.kind)
    axes = node.axes(dim, x.type.rank)
    top = node.call("reduce_max", x, axes=axes)
    endless = node.call("is_inf", top, negative=True, positive=True)
    top = node.call("where", endless, node.scalar(0, node.kind), top)
    total = node.call("reduce_sum", node.call("exp", node.call("sub", x, top)), axes=axes)
    return _without(node, node.call("add", node.call("log", total), top), axes, keepdim)


# --- searches --------------------------------------------------------------------------------------------------


@aten("argmax.default", "argmin.default")
def search(node: TorchNode, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """The position of the largest or smallest element: the first one, as PyTorch finds it on a processor."""
    op = node.target.split(".")[1]
    if dim is None:
        flat = node.call("reshape", x, shape=(x.type.size,))
        return node.call("reshape", node.call(op, flat, axis=0, last=False), shape=node.out.shape)
    axis = node.axis(dim, x.type.rank)
    if x.type.rank == 0:
        return node.scalar(0, node.kind)
    found = node.call(op, x, axis=axis, last=False)
    return _without(node, found, (axis,), keepdim)


@aten("max.dim", "min.dim")
def extreme(node: TorchNode, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    """The largest or smallest element of an axis, and where it first stands."""
    top = ".max." in node.target
    axis = node.axis(dim, x.type.rank)
    at = node.call("argmax" if top else "argmin", x, axis=axis, last=False)
    found = node.call("reduce_max" if top else "reduce_min", x, axes=(axis,))
    return _without(node, found, (axis,), keepdim), _without(node, at, (axis,), keepdim)


@aten("topk.default")
def topk(
    node: TorchNode, x: Value, k: Dim, dim: int = -1, largest: bool = True, in_order: bool = True
) -> tuple[Value, ...]:
    """The largest or smallest elements of an axis, in order, and their positions."""
    return node.calls("topk", x, k=k, axis=node.axis(dim, x.type.rank), largest=bool(largest))


@aten("sort.default", "sort.stable")
def sort(node: TorchNode, x: Value, dim: int = -1, descending: bool = False, **_: Any) -> tuple[Value, ...]:
    """The elements of an axis in order, and their positions; equal ones stay in order."""
    axis = node.axis(dim, x.type.rank)
    return node.calls("topk", x, k=x.type.shape[axis], axis=axis, largest=bool(descending))


@aten("cumsum.default", "cumprod.default")
def running(node: TorchNode, x: Value, dim: int, **_: Any) -> Value:
    """A running sum or product along an axis."""
    op = node.target.split(".")[1]
    x = node.cast(x, node.kind)
    if x.type.rank == 0:
        return x
    axis = node.axis(dim, x.type.rank)
    return along_last(node, x, axis, lambda v: node.call(op, v, exclusive=False, reverse=False))


@aten("softmax.int", "log_softmax.int", "_softmax.default", "_log_softmax.default")
def softmax(node: TorchNode, x: Value, dim: int, *_: Any, **__: Any) -> Value:
    """Along one axis, in the type of the result."""
    op = "log_softmax" if "log_softmax" in node.target else "softmax"
    x = node.cast(x, node.kind)
    axis = node.axis(dim, x.type.rank)
    if x.type.rank == 0:
        flat = node.call("reshape", x, shape=(1,))
        return node.call("reshape", node.call(op, flat), shape=())
    return along_last(node, x, axis, lambda v: node.call(op, v))
