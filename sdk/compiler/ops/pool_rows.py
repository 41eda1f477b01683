"""A pool over the whole image in two ops: the rows of the image gathered one after the other, then the result.

``pool_rows`` adds integers as i32, each raised by ``x_offset`` first, or takes the largest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr
from sdk.compiler.ir.intrinsics import cast, idx, imm, op
from sdk.compiler.ir.loops import Alloc, Block, Buffer, If, Load, Loops, Store, ValueExpr
from sdk.compiler.ir.types import F16, F32, F64, I8, I16, I32, DType, TensorType, dtype
from sdk.compiler.ops.build import function, loop, map_elements, param, read, row_vars, variable
from sdk.compiler.ops.numerics import compute_type, number
from sdk.compiler.ops.pool import clamped, lowest, quotient
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.traits import OPAQUE, Elementwise
from sdk.errors import BuildError

__all__ = ["gathered_type"]

Array = NDArray[Any]


def gathered_type(kind: DType, by: str) -> DType:
    """The type that values of ``kind`` are gathered in, ``by`` "sum" or "max"."""
    return compute_type(kind) if kind.is_float else kind if by == "max" else I32


def _gather_infer(x: TensorType, *, by: str, x_offset: int = 0) -> TensorType:
    if x.rank != 4 or x.shape[0] != 1 or by not in ("sum", "max"):
        raise BuildError(f"pool_rows gathers one image [1,h,w,c] by sum or max, not rank {x.rank} by {by}")
    if x_offset and (by != "sum" or x.dtype.is_float):
        raise BuildError(f"pool_rows raises only integers that it adds, not {x.dtype} gathered by {by}")
    if x.dtype not in (I8, I16, F16, F32, F64):
        raise BuildError(f"pool_rows wants i8, i16 or floats, not {x.dtype}")
    return TensorType(gathered_type(x.dtype, by), (1, 1, 1, x.shape[3]))


def _gather_ref(x: Array, *, by: str, x_offset: int = 0) -> Array:
    if by == "max":
        return np.asarray(x.max(axis=(1, 2), keepdims=True)).astype(np.float32 if x.dtype == np.float16 else x.dtype)
    wide = np.float64 if x.dtype.kind == "f" else np.int64
    kind = np.float64 if x.dtype == np.float64 else np.float32 if x.dtype.kind == "f" else np.int32
    return np.asarray((x.astype(wide) + x_offset).sum(axis=(1, 2), keepdims=True)).astype(kind)


def _gather_loops(
    name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]
) -> Loops:
    """rows ih { if ih == 0 { oc { o = start } }; oc { acc = o; iw { acc = acc + or max x }; o = acc }}: the rows are
    those of the image, and the first of them sets what all add to."""
    x, o = param("x", types[0]), param("o", outs[0], "update")
    _, height, width, channels = types[0].shape
    kind, by, offset = outs[0].dtype, given["by"], given.get("x_offset", 0)
    rows = row_vars(height)
    ih, iw = variable("ih", height), variable("iw", width)
    first, oc = variable("c", channels), variable("oc", channels)
    start = lowest(kind) if by == "max" else 0
    acc = Load("acc", (), kind)
    at = (0, 0, 0, oc.expr)
    tap: ValueExpr = cast(read(x, (0, ih.expr, iw.expr, oc.expr)), kind)
    if offset:
        tap = op("add", tap, imm(offset, kind))
    value = number(start, kind) if math.isfinite(start) else imm(start, kind)
    body = loop(
        ih,
        rows.hi.expr,
        If(op("eq", idx(ih.expr), imm(0)), Block((loop(first, channels, Store("o", (0, 0, 0, first.expr), value)),))),
        loop(
            oc,
            channels,
            Alloc(Buffer("acc", kind, (), "register")),
            Store("acc", (), Load("o", at, kind)),
            loop(iw, width, Store("acc", (), op("max" if by == "max" else "add", acc, tap))),
            Store("o", at, acc),
        ),
        lo=rows.lo.expr,
    )
    return function(name, [x, o], [body], rows)


def _result_infer(
    x: TensorType, *, count: int, out: str, x_offset: int = 0, lo: int | None = None, hi: int | None = None
) -> TensorType:
    kind = dtype(out)
    if count < 1 or x.dtype not in (gathered_type(kind, "sum"), gathered_type(kind, "max")):
        raise BuildError(f"{count} elements of {kind} are not gathered in {x.dtype}")
    return TensorType(kind, x.shape)


def _result_ref(
    x: Array, *, count: int, out: str, x_offset: int = 0, lo: int | None = None, hi: int | None = None
) -> Array:
    kind = dtype(out).numpy
    if x.dtype.kind == "f":
        return np.asarray(x.astype(np.float64) / count).astype(kind)
    total = x.astype(np.int64) + x_offset * count
    half = np.where(total > 0, count // 2, -(count // 2))
    value = np.trunc((total + half) / count).astype(np.int64) - x_offset
    return np.asarray(value if lo is None and hi is None else np.clip(value, lo, hi)).astype(kind)


def _result_of(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Attr]) -> Loops:
    """o = clamp(x / count), rounded as averages of pools are."""
    count: Any = given["count"]
    offset: Any = given.get("x_offset", 0)
    lo: Any = given.get("lo")
    hi: Any = given.get("hi")

    def value(x: Any) -> Any:
        return clamped(x if count == 1 else quotient(x, count, offset)[1], lo, hi, outs[0].dtype)

    return map_elements(("x",), value)(name, types, outs, {})


_T = TensorType
define(
    OpDef(
        "pool_rows",
        ("x",),
        _gather_infer,
        _gather_ref,
        _gather_loops,
        (
            *(sample(_T(kind, (1, 5, 4, 6)), by=by) for by in ("sum", "max") for kind in (I8, I16, F16, F32, F64)),
            sample(_T(I8, (1, 3, 4, 5)), by="sum", x_offset=128),
        ),
        kind=OPAQUE,
    )
)
define(
    OpDef(
        "pool_result",
        ("x",),
        _result_infer,
        _result_ref,
        _result_of,
        (
            sample(_T(I32, (1, 1, 1, 6)), count=20, out="i8", lo=-100, hi=90),
            sample(_T(I32, (1, 1, 1, 5)), count=9, out="i16"),
            sample(_T(I32, (1, 1, 1, 6)), count=4, out="i8", x_offset=128, lo=-100, hi=90),
            sample(_T(I8, (1, 1, 1, 6)), count=1, out="i8", lo=-100, hi=90),
            sample(_T(F32, (1, 1, 1, 6)), count=12, out="f32"),
            sample(_T(F32, (1, 1, 1, 6)), count=7, out="f16"),
            sample(_T(F64, (1, 1, 1, 3)), count=7, out="f64"),
        ),
        kind=Elementwise(),
    )
)
