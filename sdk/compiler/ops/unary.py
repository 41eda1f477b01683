"""Functions of each element alone that have no parameters: signs, roundings, roots, exponentials, trigonometry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import INTRINSICS, op
from sdk.compiler.ir.loops import ValueExpr
from sdk.compiler.ir.types import BOOL, F16, F32, F64, I8, I32, I64, U8, TensorType
from sdk.compiler.ops.build import map_elements
from sdk.compiler.ops.numerics import number, single
from sdk.compiler.ops.registry import OpDef, Sample, define, sample
from sdk.compiler.ops.traits import Elementwise
from sdk.compiler.sym import Var
from sdk.errors import BuildError

Array = NDArray[Any]
Value = Callable[[ValueExpr], ValueExpr]


def _infer(name: str, kinds: str, result: str) -> Callable[[TensorType], TensorType]:
    def infer(x: TensorType) -> TensorType:
        if x.dtype.kind not in kinds:
            raise BuildError(f"{name} is not defined on {x.dtype}")
        return TensorType(BOOL if result == "bool" else x.dtype, x.shape)

    return infer


def _plain(name: str) -> Value:
    return lambda x: op(name, x)


def _abs(x: ValueExpr) -> ValueExpr:
    if x.dtype.is_float:
        return op("abs", x)
    return x if x.dtype.kind == "u" else op("max", x, op("neg", x))


def _sign(x: ValueExpr) -> ValueExpr:
    """-1, 0 or 1; NaN stays."""
    zero, one = number(0, x.dtype), number(1, x.dtype)
    rest = x
    if x.dtype.kind != "u":
        rest = op("select", op("lt", x, zero), number(-1, x.dtype), x, dtype=x.dtype)
    return op("select", op("gt", x, zero), one, rest, dtype=x.dtype)


def _not(x: ValueExpr) -> ValueExpr:
    """Of a bool the other one, of an integer every bit inverted."""
    if x.dtype == BOOL:
        return op("not", x)
    return op("xor", x, number(-1 if x.dtype.kind == "i" else x.dtype.limits[1], x.dtype))


def _reciprocal(x: ValueExpr) -> ValueExpr:
    return op("tdiv", number(1, x.dtype), x)


def _by_row(name: str) -> Callable[[Array], Array]:
    """The reference of an op that is one operation on values: what that is in numpy."""

    def run(x: Array) -> Array:
        kind = F64 if x.dtype == np.float64 else F32
        return INTRINSICS[name].fn([x[..., None]], kind)[..., 0]

    return run


def _between(lo: float, hi: float) -> Callable[[np.random.Generator], Array]:
    def draw(rng: np.random.Generator) -> Array:
        return np.concatenate([[lo, hi, 0.0, 1.0, np.nan], rng.uniform(lo, hi, 19)])

    return draw


_T = TensorType
_N = Var("n", 1, 9).expr
_SPECIAL = np.array([0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, 3.5, np.inf, -np.inf, np.nan, 1e10, -1e10, 8388609.0])


def _floats(lo: float, hi: float) -> tuple[Sample, ...]:
    return (sample(_T(F32, (2, _N, 3))), sample(_T(F32, (24,)), values={0: _between(lo, hi)}))


_SPECIALS = (
    sample(_T(F32, (_N, 3))),
    sample(_T(F32, (14,)), values={0: lambda rng: _SPECIAL}),
    sample(_T(F64, (14,)), values={0: lambda rng: _SPECIAL}),
    sample(_T(F16, (5,))),
)
_SIGNED = (*_SPECIALS, sample(_T(I32, (_N, 5))), sample(_T(I8, (300,))), sample(_T(I64, (9,))))
_NUMBERS = (*_SIGNED, sample(_T(U8, (30,))))
_WHOLE = (sample(_T(BOOL, (_N, 3))), sample(_T(I32, (7,))), sample(_T(U8, (9,))))
_EXACT, _RISING, _BITWISE = Elementwise(exact=True), Elementwise(monotone=True), Elementwise(bitwise=True)
_OTHERS: tuple[tuple[str, str, str, Value, Callable[[Array], Array], tuple[Sample, ...], Elementwise], ...] = (
    ("neg", "fiu", "same", _plain("neg"), np.negative, _SIGNED, _EXACT),
    ("abs", "fiu", "same", _abs, np.abs, _NUMBERS, _EXACT),
    ("sign", "fiu", "same", _sign, np.sign, _NUMBERS, _RISING),
    ("floor", "f", "same", _plain("floor"), np.floor, _SPECIALS, _EXACT),
    ("ceil", "f", "same", _plain("ceil"), np.ceil, _SPECIALS, _EXACT),
    ("trunc", "f", "same", _plain("trunc"), np.trunc, _SPECIALS, _EXACT),
    ("round", "f", "same", _plain("round"), np.rint, _SPECIALS, _EXACT),  # halves to even
    ("reciprocal", "f", "same", _reciprocal, np.reciprocal, _SPECIALS, Elementwise()),
    ("is_nan", "f", "bool", _plain("isnan"), np.isnan, _SPECIALS, Elementwise()),
    ("not", "iub", "same", _not, np.invert, _WHOLE, _BITWISE),
)
# operations of the intrinsic table, and where they are interesting
_FUNCTIONS: tuple[tuple[str, float, float], ...] = (
    ("sqrt", 0, 1e4),
    ("rsqrt", 0, 1e4),
    ("exp", -100, 88),
    ("log", 0, 1e4),
    ("sin", -30, 30),
    ("cos", -30, 30),
    ("tan", -1.5, 1.5),
    ("asin", -1, 1),
    ("acos", -1, 1),
    ("atan", -30, 30),
    ("sinh", -20, 20),
    ("cosh", -20, 20),
    ("tanh", -20, 20),
    ("asinh", -1e4, 1e4),
    ("acosh", 1, 1e4),
    ("atanh", -1, 1),
    ("erf", -5, 5),
    ("sigmoid", -60, 60),
)
for _name, _kinds, _result, _value, _fn, _samples, _kind in _OTHERS:
    define(
        OpDef(
            _name,
            ("x",),
            _infer(_name, _kinds, _result),
            single(_fn),
            map_elements(("x",), _value),
            _samples,
            kind=_kind,
        )
    )
for _name, _lo, _hi in _FUNCTIONS:
    define(
        OpDef(
            _name,
            ("x",),
            _infer(_name, "f", "same"),
            single(_by_row(_name)),
            map_elements(("x",), _plain(_name)),
            _floats(_lo, _hi),
            kind=Elementwise(),
        )
    )


def _is_inf(x: ValueExpr, *, negative: bool, positive: bool) -> ValueExpr:
    if negative and positive:
        return op("isinf", x)
    limit = number(float("inf") if positive else float("-inf"), x.dtype)
    # with neither sign wanted no value is equal to both limits
    found = op("eq", x, limit)
    return found if negative or positive else op("and", found, op("eq", x, number(float("inf"), x.dtype)))


def _is_inf_ref(x: Array, *, negative: bool, positive: bool) -> Array:
    return (np.isposinf(x) & positive) | (np.isneginf(x) & negative)


define(
    OpDef(
        "is_inf",
        ("x",),
        lambda x, *, negative, positive: _infer("is_inf", "f", "bool")(x),
        single(_is_inf_ref),
        map_elements(("x",), _is_inf),
        samples=tuple(
            sample(_T(F32, (14,)), negative=n, positive=p, values={0: lambda rng: _SPECIAL})
            for n in (False, True)
            for p in (False, True)
        ),
        kind=Elementwise(),
    )
)
