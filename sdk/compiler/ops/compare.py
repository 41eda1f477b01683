"""Comparisons of two tensors of one type, the choice between two tensors, and conversions between types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr
from sdk.compiler.ir.intrinsics import INTRINSICS, cast, op
from sdk.compiler.ir.loops import Loops, Store, ValueExpr
from sdk.compiler.ir.types import BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, DType, TensorType, dtype
from sdk.compiler.ops.build import broadcast_index, function, map_elements, nest, param, read
from sdk.compiler.ops.numerics import compute_type, number, single, widened
from sdk.compiler.ops.registry import OpDef, Sample, define, sample
from sdk.compiler.ops.shapes import broadcast_shapes
from sdk.compiler.ops.traits import Elementwise
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


def _cast_infer(x: TensorType, *, to: str, wraps: bool = False) -> TensorType:
    kind = dtype(to)
    if kind.lanes != 1:
        raise BuildError(f"cast wants a scalar type, got {to}")
    return TensorType(kind, x.shape)


def _cast_ref(x: Array, *, to: str, wraps: bool = False) -> Array:
    """Integers wrap; floats are truncated, then held to the limits of an integer type, NaN is 0; where ``wraps``, a
    float beyond an integer type keeps its low bits, as ``_low_bits`` says."""
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    kind = dtype(to)
    if wraps and kind.kind in "iu" and wide.dtype.kind == "f":
        return _low_bits_ref(wide, kind)
    # a half float comes from a single one, whatever it was before
    return _converted(_converted(wide, compute_type(kind)), kind)


def _converted(x: Array, kind: DType) -> Array:
    return np.asarray(INTRINSICS["cast"].fn([x[..., None]], kind)[..., 0])


def _low_bits_ref(x: Array, kind: DType) -> Array:
    middle = _middle(kind)
    whole = np.where(_inside(x, middle), _converted(x, middle), middle.limits[0])
    if kind != U64:
        return whole.astype(kind.numpy)
    large = np.where(x < 2.0**64, _converted(x, U64), np.uint64(0))
    return np.where(x >= 2.0**63, large, whole.astype(np.uint64))


def _inside(x: Array, kind: DType) -> Array:
    """Where a float truncated is a value of a signed type of at least 32 bits; exact in f32 too."""
    limit = 2.0 ** (kind.bits - 1)
    return np.asarray((x >= -limit) & (x < limit))


def _middle(kind: DType) -> DType:
    """The signed type that a float becomes first, by way of which it becomes an integer of ``kind``."""
    return I32 if kind.bits < 32 or kind == I32 else I64


def _low_bits(x: ValueExpr, kind: DType) -> ValueExpr:
    """A float truncated to an i32 (to an i64 for wider and for u32), of which the low bits are kept; what that cannot
    hold, and NaN, is its lowest value. u64 holds up to 2**64 too, beyond that 0. C leaves it open: compilers for x86-64
    do this, and so does onnxruntime there."""
    middle = _middle(kind)
    limit = number(2.0 ** (middle.bits - 1), x.dtype)
    inside = op("and", op("ge", x, number(-(2.0 ** (middle.bits - 1)), x.dtype)), op("lt", x, limit))
    whole: ValueExpr = op("select", inside, cast(x, middle), number(middle.limits[0], middle), dtype=middle)
    low = whole if kind == middle else cast(whole, kind)
    if kind != U64:
        return low
    beyond = op("lt", x, number(2.0**64, x.dtype))
    large: ValueExpr = op("select", beyond, cast(x, U64), number(0, U64), dtype=U64)
    return op("select", op("ge", x, limit), large, low, dtype=U64)


def _cast_loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Attr]) -> Loops:
    x, (out,) = param("x", types[0]), outs
    over = nest(out.shape)
    value = widened(read(x, over.index))
    if out.dtype == F16:
        value = cast(value, F32)
    low = given.get("wraps", False) and value.dtype.is_float and out.dtype.kind in "iu"
    made = _low_bits(value, out.dtype) if low else cast(value, out.dtype)
    body = over.around(Store("o", over.index, made))
    return function(name, [x, param("o", out, "write")], [body], over.rows)


def _bitcast_infer(x: TensorType, *, to: str) -> TensorType:
    kind = dtype(to)
    if kind.nbytes != x.dtype.nbytes or kind.lanes != 1 or kind == BOOL:
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
_INTEGERS = (I8, U8, I16, U16, I32, U32, I64, U64)


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
            single(_fn),
            map_elements(("a", "b"), _row(_intrinsic)),
            samples=(*_SAMPLES, *(_pairs(BOOL) if "b" in _kinds else ())),
            kind=Elementwise(),
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
        kind=Elementwise(exact=True),
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
            *(sample(_T(F32, (15,)), to=str(k), wraps=True, values={0: _special}) for k in _INTEGERS),
            *(sample(_T(F64, (15,)), to=str(k), wraps=True, values={0: _special}) for k in (U8, I32, U32, U64)),
            sample(_T(F16, (9,)), to="u8", wraps=True),
        ),
        kind=Elementwise(),
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
            sample(_T(F16, (_N, 9)), to="i16"),
            sample(_T(U16, (5,)), to="f16"),
        ),
        kind=Elementwise(bitwise=True),
    )
)
