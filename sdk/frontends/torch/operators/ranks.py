"""ATen operators that order elements, or find places among ordered ones: medians, running extremes, buckets."""

from __future__ import annotations

import math

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I64, DType
from sdk.compiler.sym import Dim, floordiv, product
from sdk.frontends.moves import part
from sdk.frontends.torch.context import Number, TorchNode, aten

__all__: list[str] = []


@aten("bucketize.Tensor", "bucketize.Scalar")
def bucketize(node: TorchNode, x: Number, bounds: Value, *, out_int32: bool = False, right: bool = False) -> Value:
    """How many boundaries are below each element, or not above it where ``right``."""
    return _places(node, bounds, x, right)


@aten("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(
    node: TorchNode, rows: Value, x: Number, *, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Value | None = None,
) -> Value:  # fmt: skip
    """The same in rows of boundaries, a row for each row of elements, or one for all."""
    if sorter is not None:
        node.fail("boundaries that a sorter puts in order are not supported", hint="sort them before")
    return _places(node, rows, x, right if side is None else side == "right")


def _places(node: TorchNode, rows: Value, x: Number, right: bool) -> Value:
    """How many of a row do not come after each element; NaN comes after all."""
    kind = node.common(rows, x)
    bounds, given = node.tensor(rows, kind), node.tensor(x, kind)
    many, shape = bounds.type.shape[-1], given.type.shape
    lead = bounds.type.shape[:-1]
    wide = node.call("reshape", bounds, shape=(*lead, 1, many) if lead else (many,))
    after = node.call("greater" if right else "greater_equal", wide, node.call("reshape", given, shape=(*shape, 1)))
    total = node.call("reduce_sum", node.call("cast", after, to=str(node.kind)), axes=(len(shape),))
    return node.call("sub", node.tensor(many, node.kind), node.call("reshape", total, shape=shape))


# --- medians ------------------------------------------------------------------------------------------------------


@aten("kthvalue.default")
def kthvalue(node: TorchNode, x: Value, k: Dim, dim: int = -1, keepdim: bool = False) -> tuple[Value, ...]:
    """The k-th smallest element of an axis, from 1, and where one of that value stands."""
    axis = node.axis(dim, x.type.rank)
    found = node.calls("topk", x, k=x.type.shape[axis], axis=axis, largest=False)
    return tuple(_one(node, v, axis, k - 1, keepdim) for v in found)


@aten("median.dim", "median.default")
def median(node: TorchNode, x: Value, dim: int | None = None, keepdim: bool = False) -> Value | tuple[Value, ...]:
    """The lower of the middle elements of an axis, and where one of that value stands; NaN where there is any."""
    if dim is None:
        flat = node.call("reshape", x, shape=(product(x.type.shape),))
        return _medians(node, flat, 0, False)[0]
    return _medians(node, x, node.axis(dim, x.type.rank), keepdim)


def _medians(node: TorchNode, x: Value, axis: int, keepdim: bool) -> tuple[Value, ...]:
    size = x.type.shape[axis]
    found = node.calls("topk", x, k=size, axis=axis, largest=False)
    middle = [_one(node, v, axis, floordiv(size - 1, 2), keepdim) for v in found]
    if not x.type.dtype.is_float:
        return tuple(middle)
    last = [_one(node, v, axis, size - 1, keepdim) for v in found]  # where NaN stands
    none = node.call("is_nan", last[0])
    return tuple(node.call("where", none, b, a) for a, b in zip(middle, last, strict=True))


def _one(node: TorchNode, x: Value, axis: int, at: Dim, keepdim: bool) -> Value:
    """The element of an axis at a place; the axis stays with size 1 or goes."""
    found = part(node, x, axis, at, 1)
    shape = tuple(d for k, d in enumerate(x.type.shape) if k != axis)
    return found if keepdim else node.call("reshape", found, shape=shape)


# --- running extremes ---------------------------------------------------------------------------------------------


@aten("cummax.default", "cummin.default")
def running_extreme(node: TorchNode, x: Value, dim: int) -> tuple[Value, Value]:
    """The largest or smallest element up to each one of an axis, and where it stands, the last of equal ones. Every
    element is compared with every other of its row."""
    if x.type.rank == 0:
        return x, node.scalar(0, I64)
    top, axis = ".cummax." in node.target, node.axis(dim, x.type.rank)
    unseen = _minimum(x.type.dtype, top)
    seen = _until(node, x, axis, unseen)
    best = node.call("reduce_max" if top else "reduce_min", seen, axes=(axis + 1,))
    place = node.call("argmax" if top else "argmin", seen, axis=axis + 1, last=True)
    best, place = (node.call("reshape", v, shape=x.type.shape) for v in (best, place))
    # where all so far equal what stands for those after them, the last is the element itself
    at = node.call("iota", extent=x.type.shape[axis], start=0, step=1, dtype=str(I64))
    own = node.call("reshape", at, shape=(x.type.shape[axis], *(1 for _ in range(x.type.rank - axis - 1))))
    return best, node.call("where", node.call("equal", best, node.const(unseen, "unseen")), own, place)


@aten("logcumsumexp.default", "_logcumsumexp.default")
def running_log_sum(node: TorchNode, x: Value, dim: int) -> Value:
    """The logarithm of the running sum of exponentials along an axis, each sum relative to its largest element."""
    if x.type.rank == 0:
        return x
    axis = node.axis(dim, x.type.rank)
    seen = _until(node, x, axis, _minimum(x.type.dtype, True))
    top = node.call("reduce_max", seen, axes=(axis + 1,))
    endless = node.call("is_inf", top, negative=True, positive=True)
    top = node.call("where", endless, node.scalar(0, x.type), top)
    parts = node.call("exp", node.call("sub", seen, top))
    found = node.call("add", node.call("log", node.call("reduce_sum", parts, axes=(axis + 1,))), top)
    return node.call("reshape", found, shape=x.type.shape)


def _until(node: TorchNode, x: Value, axis: int, unseen: np.ndarray) -> Value:
    """For each element of an axis, on a new axis behind it, those up to it; ``unseen`` in place of those after it."""
    size = x.type.shape[axis]
    at = node.call("iota", extent=size, start=0, step=1, dtype=str(I64))
    later = node.call("less", node.call("reshape", at, shape=(size, 1)), at)  # [element, other]
    after = (1,) * (x.type.rank - axis - 1)
    shown = node.call("reshape", later, shape=(*(1 for _ in range(axis)), size, size, *after))
    wide = node.call("reshape", x, shape=(*x.type.shape[:axis], 1, *x.type.shape[axis:]))
    return node.call("where", shown, node.const(unseen, "unseen"), wide)


def _minimum(kind: DType, top: bool) -> np.ndarray:
    """What no element of a type is beyond, at the lower end or at the upper one."""
    if kind.is_float:
        return np.asarray(-math.inf if top else math.inf, kind.numpy)
    return np.asarray(kind.limits[0 if top else 1], kind.numpy)
