"""Comparisons of two tensors of one type, the choice between two tensors, and conversions between types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr
from sdk.compiler.ir.intrinsics import INTRINSICS, cast, op
from sdk.compiler.ir.loops import Loops, Store, ValueExpr
from sdk.compiler.ir.types import BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U32, U64, DType, TensorType, dtype
from sdk.compiler.ops.build import broadcast_index, function, map_elements, nest, param, read
from sdk.compiler.ops.numerics import compute_type, quiet, widened
from sdk.compiler.ops.registry import OpDef, Sample, define, sample
from sdk.compiler.ops.shapes import broadcast_shapes
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

Array = NDArray[Any]


def _compare_infer(name: str, kinds: str) -> Callable[[TensorType, TensorType], TensorType]:
    def infer(a: TensorType, b: TensorType) -> TensorType:
        if a.dtype != b.dtype or a.dtype.kind not in kinds:
            raise BuildError(f"{name} wants two tensors of one type, got {a.dtype} and {b.dtype}")
        return TensorType(BOOL, broadcast_shapes(a.shape, b.shape))

    return infer


def _row(name: str) -> Callable[[ValueExpr, ValueExpr], ValueExpr]:
    return lambda a, b: op(name, a, b)


def _where_infer(c: TensorType, a: TensorType, b: TensorType) -> TensorType:
    if c.dtype != BOOL or a.dtype != b.dtype:
        raise BuildError(f"where wants a bool tensor and two of one type, got {c.dtype}, {a.dtype} and {b.dtype}")
    return TensorType(a.dtype, broadcast_shapes(c.shape, a.shape, b.shape))


def _where_loops(
    name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Attr]
) -> Loops:
    """o = a where c else b; half floats are not computed with, only moved."""
    ins = [param(n, t) for n, t in zip(("c", "a", "b"), types, strict=True)]
    over = nest(outs[0].shape)
    c, a, b = (read(p, broadcast_index(p.buffer.shape, over.index)) for p in ins)
    body = over.around(Store("o", over.index, op("select", c, a, b, dtype=a.dtype)))
    return function(name, [*ins, param("o", outs[0], "write")], [body], over.rows)


def _cast_infer(x: TensorType, *, to: str) -> TensorType:
    kind = dtype(to)
    if kind.lanes != 1:
        raise BuildError(f"cast wants a scalar type, got {to}")
    return TensorType(kind, x.shape)


def _cast_ref(x: Array, *, to: str) -> Array:
    """Integers wrap; floats are truncated, held to the limits of an integer type, NaN is 0."""
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    kind = dtype(to)
    row = INTRINSICS["cast"].fn
    with np.errstate(all="ignore"):
        # a half float comes from a single one, whatever it was before
        return np.asarray(row([row([wide[..., None]], compute_type(kind))], kind)[..., 0])


def _cast_loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Attr]) -> Loops:
    x, (out,) = param("x", types[0]), outs
    over = nest(out.shape)
    value = widened(read(x, over.index))
    if out.dtype == F16:
        value = cast(value, F32)
    body = over.around(Store("o", over.index, cast(value, out.dtype)))
    return function(name, [x, param("o", out, "write")], [body], over.rows)


def _bitcast_infer(x: TensorType, *, to: str) -> TensorType:
    kind = dtype(to)
    if kind.nbytes != x.dtype.nbytes or kind.lanes != 1 or kind == BOOL or F16 in (kind, x.dtype):
        raise BuildError(f"bitcast of {x.dtype} to {to}")
    return TensorType(kind, x.shape)


def _bitcast_loops(
    name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Attr]
) -> Loops:
    x, (out,) = param("x", types[0]), outs
    over = nest(out.shape)
    value = read(x, over.index)
    same = cast(value, out.dtype) if value.dtype == BOOL else op("bits", value, dtype=out.dtype)
    body = over.around(Store("o", over.index, same))
    return function(name, [x, param("o", out, "write")], [body], over.rows)


_T = TensorType
_N: Dim = Var("n", 1, 9).expr
_SPECIAL = np.array([0, -0.0, 0.5, -0.5, 1.9, -1.9, 300, -300, 1e10, -1e10, 1e20, -1e20, np.inf, -np.inf, np.nan])


def _special(rng: np.random.Generator) -> Array:
    return _SPECIAL


def _few(rng: np.random.Generator) -> Array:
    return np.concatenate([rng.integers(0, 3, 17), [np.nan, np.inf, -np.inf]])


def _pairs(*kinds: DType) -> tuple[Sample, ...]:
    def draw(rng: np.random.Generator) -> Array:
        return rng.integers(0, 3, 20)

    return tuple(sample(_T(k, (20,)), _T(k, (20,)), values={0: draw, 1: draw}) for k in kinds)


_SAMPLES = (
    sample(_T(F32, (_N, 3)), _T(F32, (1, 3))),
    sample(_T(F32, (20,)), _T(F32, (20,)), values={0: _few, 1: _few}),
    *_pairs(I32, U8, I8, I64, F64, F16),
)
for _name, _intrinsic, _fn, _kinds in (
    ("equal", "eq", np.equal, "fiub"),
    ("not_equal", "ne", np.not_equal, "fiub"),
    ("less", "lt", np.less, "fiu"),
    ("less_equal", "le", np.less_equal, "fiu"),
    ("greater", "gt", np.greater, "fiu"),
    ("greater_equal", "ge", np.greater_equal, "fiu"),
):
    define(
        OpDef(
            _name,
            ("a", "b"),
            _compare_infer(_name, _kinds),
            quiet(_fn),
            map_elements(("a", "b"), _row(_intrinsic)),
            samples=(*_SAMPLES, *(_pairs(BOOL) if "b" in _kinds else ())),
        )
    )
define(
    OpDef(
        "where",
        ("c", "a", "b"),
        _where_infer,
        lambda c, a, b: np.asarray(np.where(c, a, b)),
        _where_loops,
        samples=(
            sample(_T(BOOL, (_N, 3)), _T(F32, (_N, 3)), _T(F32, ())),
            sample(_T(BOOL, (2, 1, 4)), _T(I64, (_N, 1)), _T(I64, (1, _N, 4))),
            sample(_T(BOOL, (5,)), _T(U8, (5,)), _T(U8, (5,))),
            sample(_T(BOOL, (5,)), _T(BOOL, (5,)), _T(BOOL, (5,))),
            sample(_T(BOOL, (5,)), _T(F16, (5,)), _T(F16, (5,))),
        ),
    )
)
define(
    OpDef(
        "cast",
        ("x",),
        _cast_infer,
        _cast_ref,
        _cast_loops,
        samples=(
            *(sample(_T(F32, (15,)), to=str(k), values={0: _special}) for k in (I8, U8, I32, U32, I64, U64)),
            *(sample(_T(F64, (15,)), to=str(k), values={0: _special}) for k in (I32, I64, F32, BOOL)),
            sample(_T(F32, (_N, 2)), to="f64"),
            sample(_T(F32, (_N, 2)), to="bool"),
            sample(_T(I64, (_N, 2)), to="i32"),
            sample(_T(I64, (30,)), to="i8"),
            sample(_T(I32, (30,)), to="u8"),
            sample(_T(I32, (30,)), to="bool"),
            sample(_T(U8, (30,)), to="f32"),
            sample(_T(I8, (30,)), to="i16"),
            sample(_T(I16, (30,)), to="u32"),
            sample(_T(BOOL, (_N,)), to="f32"),
            sample(_T(BOOL, (_N,)), to="i64"),
            sample(_T(F16, (9,)), to="f32"),
            sample(_T(F32, (9,)), to="f16"),
            sample(_T(I32, (9,)), to="f16"),
            sample(_T(F16, (9,)), to="i8"),
        ),
    )
)
define(
    OpDef(
        "bitcast",
        ("x",),
        _bitcast_infer,
        lambda x, *, to: np.ascontiguousarray(x).view(dtype(to).numpy).reshape(x.shape),
        _bitcast_loops,
        samples=(
            sample(_T(F32, (_N, 3)), to="i32"),
            sample(_T(I32, (_N, 3)), to="u32"),
            sample(_T(I64, (5,)), to="f64"),
            sample(_T(BOOL, (5,)), to="u8"),
            sample(_T(I8, (5,)), to="u8"),
        ),
    )
)
