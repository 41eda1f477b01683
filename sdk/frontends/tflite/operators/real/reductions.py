"""Reductions over axes, searches along one, running sums."""

from __future__ import annotations

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import BOOL, F32, I8, I16, I32, I64, U8, DType
from sdk.errors import BuildError
from sdk.frontends.counted import new_dim
from sdk.frontends.tflite.context import Importer, OpNode, Table
from sdk.frontends.tflite.operators.real.common import axes_of, axis_of, reshaped, single, single_dim

__all__ = ["TABLE"]


def _reduction(op: str, *kinds: DType) -> Importer:
    def run(node: OpNode) -> None:
        x = node.input(0, *kinds)
        axes = axes_of(node.integers(1), x.type.rank)
        _kept(node, op, x, axes)

    return run


def _kept(node: OpNode, op: str, x: Value, axes: tuple[int, ...]) -> None:
    """The reduction as output 0, its axes kept with extent 1 or dropped."""
    if node.option("KeepDims") or not axes:
        node.call(op, x, axes=axes)
        return
    kept = node.call(op, x, to="kept", axes=axes)
    node.call("reshape", kept, shape=tuple(d for k, d in enumerate(x.type.shape) if k not in axes))


def _search(op: str) -> Importer:
    """ARG_MAX and ARG_MIN: the first position of the largest or smallest element along an axis."""

    def run(node: OpNode) -> None:
        x, kind = node.input(0, F32, I32, *_STORED, BOOL), node.out_dtype(I32, I64)
        x = node.cast(x, U8, "bits") if x.type.dtype == BOOL else x
        axis = axis_of(single(node, 1), x.type.rank)
        found = node.call(op, x, to="kept", axis=axis, last=False)
        found = reshaped(node, found, tuple(d for k, d in enumerate(x.type.shape) if k != axis), "dropped")
        if kind == I64:
            node.call("reshape", found, shape=found.type.shape)
        else:
            node.cast(found, kind)

    return run


def cumsum(node: OpNode) -> None:
    """CUMSUM along an axis."""
    x = node.input(0, F32, I32, I64)
    rank = x.type.rank
    axis = axis_of(single(node, 1), rank)
    given = {"exclusive": bool(node.option("Exclusive")), "reverse": bool(node.option("Reverse"))}
    if axis == rank - 1:
        node.call("cumsum", x, **given)
        return
    perm = (*(k for k in range(rank) if k != axis), axis)
    turned = node.call("cumsum", node.call("transpose", x, to="turned", perm=perm), to="sums", **given)
    node.call("transpose", turned, perm=tuple(perm.index(k) for k in range(rank)))


def topk(node: OpNode) -> None:
    """TOPK_V2: the largest of the last axis in order, and their positions; how many may be an input of the run."""
    x = node.input(0, F32, I32, I64, *_STORED)
    if x.type.rank < 1 or len(node.operator.outputs) != 2:
        raise BuildError("it has a tensor of rank 0, or other than two outputs")
    counted = node.contents(1) is None
    k = new_dim(node.emitter, node.input(1, I32), x.type.shape[-1]) if counted else single_dim(node, 1)
    _, places = node.calls("topk", x, to=(0, "places"), k=k, axis=x.type.rank - 1, largest=True)
    node.cast(places, I32, 1)


_NUMBERS = (F32, I32, I64)
_STORED = (I8, U8, I16)  # of quantised tensors, in the order of what they stand for
TABLE: Table = {
    "MEAN": _reduction("reduce_mean", *_NUMBERS),
    "SUM": _reduction("reduce_sum", *_NUMBERS),
    "REDUCE_MAX": _reduction("reduce_max", *_NUMBERS, *_STORED, BOOL),
    "REDUCE_MIN": _reduction("reduce_min", *_NUMBERS, *_STORED, BOOL),
    "REDUCE_PROD": _reduction("reduce_prod", *_NUMBERS),
    "REDUCE_ANY": _reduction("reduce_max", BOOL),
    "REDUCE_ALL": _reduction("reduce_min", BOOL),
    "ARG_MAX": _search("argmax"),
    "ARG_MIN": _search("argmin"),
    "CUMSUM": cumsum,
    "TOPK_V2": topk,
}
