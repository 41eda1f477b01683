"""Tensors made of no other: ``full`` of one value, ``iota`` that counts, ``eye`` with a diagonal of ones. Their
extents, and the values of the first two, may be dims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import cast, idx, imm, op
from sdk.compiler.ir.loops import Loops, Store, ValueExpr
from sdk.compiler.ir.types import BOOL, I64, DType, TensorType, dtype
from sdk.compiler.ops.build import function, nest, param
from sdk.compiler.ops.numerics import compute_type, number, stored
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.sym import Dim, Expr, Var
from sdk.errors import BuildError

Array = NDArray[Any]
Types = Sequence[TensorType]


def _as_value(given: float | Dim, kind: DType) -> ValueExpr:
    """A number or a dim as a value of ``kind``; integers wrap."""
    if isinstance(given, Expr):
        return cast(idx(given), kind)
    if kind == BOOL:
        return imm(1 if given else 0, BOOL)
    return imm(float(given), kind) if kind.is_float else imm(_wrapped(int(given), kind), kind)


def _wrapped(value: int, kind: DType) -> int:
    """``value`` modulo the range of an integer type."""
    lo, hi = kind.limits
    return (value - lo) % (hi - lo + 1) + lo


def _full_ref(*, shape: Any, value: Any, dtype: str) -> Array:
    kind = _kind(dtype)
    exact = value if kind.is_float or kind == BOOL else _wrapped(int(value), kind)
    return np.full(shape, exact, dtype=kind.numpy)


def _kind(text: str) -> DType:
    return dtype(text)


def _full_loops(name: str, types: Types, outs: Types, given: Mapping[str, Any]) -> Loops:
    """o = value."""
    over = nest(outs[0].shape)
    body = over.around(Store("o", over.index, _as_value(given["value"], outs[0].dtype)))
    return function(name, [param("o", outs[0], "write")], [body], over.rows)


def _iota_infer(*, extent: Any, start: Any, step: Any, dtype: str) -> TensorType:
    kind = _kind(dtype)
    if kind.kind not in "iuf" or (isinstance(extent, int) and extent < 0):
        raise BuildError(f"iota of {extent} elements of {dtype}")
    return TensorType(kind, (extent,))


def _iota_ref(*, extent: int, start: Any, step: Any, dtype: str) -> Array:
    kind = _kind(dtype)
    if kind.is_float:
        wide = compute_type(kind).numpy
        found = np.asarray(start, wide) + np.arange(extent, dtype=wide) * np.asarray(step, wide)
        return np.asarray(found).astype(kind.numpy)
    exact = np.arange(extent, dtype=np.int64) * _wrapped(int(step), I64) + _wrapped(int(start), I64)
    return exact.astype(kind.numpy)


def _iota_loops(name: str, types: Types, outs: Types, given: Mapping[str, Any]) -> Loops:
    """o[i] = start + i * step."""
    kind = outs[0].dtype
    over = nest(outs[0].shape)
    start, step = given["start"], given["step"]
    wide = compute_type(kind) if kind.is_float else kind
    (at,) = over.index
    if all(isinstance(v, Expr) or (isinstance(v, int) and abs(v) < 1 << 15) for v in (start, step)):
        value = cast(idx(start + step * at), wide)
    else:
        value = op("add", _as_value(start, wide), op("mul", cast(idx(at), wide), _as_value(step, wide)))
    body = over.around(Store("o", over.index, stored(value, kind)))
    return function(name, [param("o", outs[0], "write")], [body], over.rows)


def _eye_infer(*, shape: Any, k: Any, dtype: str) -> TensorType:
    if len(shape) != 2:
        raise BuildError(f"eye makes a matrix, not a tensor of rank {len(shape)}")
    return TensorType(_kind(dtype), tuple(shape))


def _eye_loops(name: str, types: Types, outs: Types, given: Mapping[str, Any]) -> Loops:
    """o[i, j] = 1 where j - i is k, else 0."""
    kind = outs[0].dtype
    over = nest(outs[0].shape)
    row, column = over.index
    on = op("eq", idx(column), idx(row + given["k"]))
    value = cast(on, kind) if kind == BOOL else op("select", on, number(1, kind), number(0, kind), dtype=kind)
    body = over.around(Store("o", over.index, value))
    return function(name, [param("o", outs[0], "write")], [body], over.rows)


_N: Dim = Var("n", 1, 6).expr
_M: Dim = Var("m", 2, 4).expr

define(
    OpDef(
        "full",
        (),
        lambda *, shape, value, dtype: TensorType(_kind(dtype), tuple(shape)),
        _full_ref,
        _full_loops,
        samples=(
            sample(shape=(2, _N, 3), value=0.5, dtype="f32"),
            sample(shape=(), value=_N * _M, dtype="i64"),
            sample(shape=(3,), value=-1, dtype="u8"),
            sample(shape=(4,), value=True, dtype="bool"),
            sample(shape=(2,), value=1 << 40, dtype="i64"),
        ),
        kind=OPAQUE,
    )
)
define(
    OpDef(
        "iota",
        (),
        _iota_infer,
        _iota_ref,
        _iota_loops,
        samples=(
            sample(extent=_N, start=0, step=1, dtype="i64"),
            sample(extent=_M, start=_N, step=-2, dtype="i32"),
            sample(extent=5, start=1 << 40, step=_N, dtype="i64"),
            sample(extent=7, start=0.5, step=-0.25, dtype="f32"),
            sample(extent=_N, start=100, step=50, dtype="u8"),
        ),
        kind=OPAQUE,
    )
)
define(
    OpDef(
        "eye",
        (),
        _eye_infer,
        lambda *, shape, k, dtype: np.eye(shape[0], shape[1], k, dtype=_kind(dtype).numpy),
        _eye_loops,
        samples=(
            sample(shape=(3, 5), k=1, dtype="f32"),
            sample(shape=(_N, _M), k=-1, dtype="i64"),
            sample(shape=(_N, 3), k=_N - 1, dtype="i8"),
        ),
        kind=OPAQUE,
    )
)
