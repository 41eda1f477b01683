"""Elementwise arithmetic and bit operations on two tensors of one type, broadcast as in numpy.

Integers wrap. Nothing here traps: an integer divided by 0 gives 0, a shift by the width or more (or by a negative
number) shifts everything out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import imm, op
from sdk.compiler.ir.loops import ValueExpr
from sdk.compiler.ir.types import BOOL, F16, F32, F64, I8, I32, I64, U8, U16, U64, DType, TensorType
from sdk.compiler.ops.build import map_elements
from sdk.compiler.ops.numerics import number, single
from sdk.compiler.ops.registry import OpDef, Sample, define, sample
from sdk.compiler.ops.shapes import broadcast_shapes
from sdk.compiler.ops.traits import Elementwise
from sdk.compiler.sym import Var
from sdk.errors import BuildError

Array = NDArray[Any]


def _infer_kinds(name: str, kinds: str) -> Callable[[TensorType, TensorType], TensorType]:
    def infer(a: TensorType, b: TensorType) -> TensorType:
        if a.dtype != b.dtype:
            raise BuildError(f"{name} wants two tensors of one type, got {a.dtype} and {b.dtype}")
        if a.dtype.kind not in kinds:
            raise BuildError(f"{name} is not defined on {a.dtype}")
        return TensorType(a.dtype, broadcast_shapes(a.shape, b.shape))

    return infer


def _binary(name: str) -> Callable[[ValueExpr, ValueExpr], ValueExpr]:
    return lambda a, b: op(name, a, b)


def _choose(cond: ValueExpr, yes: ValueExpr, no: ValueExpr) -> ValueExpr:
    return op("select", cond, yes, no, dtype=yes.dtype)


# --- division --------------------------------------------------------------------------------------------------


def _divisor(b: ValueExpr) -> ValueExpr:
    """``b``, or 1 where dividing by it traps: by 0, and the lowest integer by -1."""
    one, bad = number(1, b.dtype), op("eq", b, number(0, b.dtype))
    if b.dtype.kind == "i":
        bad = op("or", bad, op("eq", b, number(-1, b.dtype)))
    return _choose(bad, one, b)


def _div(a: ValueExpr, b: ValueExpr) -> ValueExpr:
    """The quotient; of integers, truncated towards zero."""
    if a.dtype.is_float:
        return op("tdiv", a, b)
    quotient: ValueExpr = op("tdiv", a, _divisor(b))
    if a.dtype.kind == "i":
        quotient = _choose(op("eq", b, number(-1, b.dtype)), op("neg", a), quotient)
    return _choose(op("eq", b, number(0, b.dtype)), number(0, b.dtype), quotient)


def _div_ref(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    quotient = a // safe
    quotient = np.where((a - quotient * safe != 0) & ((a < 0) != (b < 0)), quotient + 1, quotient)
    return np.asarray(np.where(b == 0, 0, quotient)).astype(a.dtype)


def _fmod(a: ValueExpr, b: ValueExpr) -> ValueExpr:
    """What is left of ``a`` after whole steps of ``b`` towards zero; of integers, 0 for a ``b`` of 0."""
    if a.dtype.is_float:
        return op("fmod", a, b)
    safe = _divisor(b)
    return op("sub", a, op("mul", op("tdiv", a, safe), safe))


def _mod(a: ValueExpr, b: ValueExpr) -> ValueExpr:
    """The same with the sign of ``b``."""
    rest = _fmod(a, b)
    if a.dtype.kind == "u":
        return rest
    zero = number(0, a.dtype)
    other = op("ne", op("lt", rest, zero), op("lt", b, zero))
    return _choose(op("and", op("ne", rest, zero), other), op("add", rest, b), rest)


# --- bits ------------------------------------------------------------------------------------------------------


def _shift_count(b: ValueExpr) -> tuple[ValueExpr, ValueExpr]:
    """Whether a shift leaves any bits, and its count where it does."""
    bits = b.dtype.bits
    inside: ValueExpr = op("lt", b, number(bits, b.dtype))
    if b.dtype.kind == "i":
        inside = op("and", op("ge", b, number(0, b.dtype)), inside)
    return inside, op("and", b, number(bits - 1, b.dtype))


def _shift_left(a: ValueExpr, b: ValueExpr) -> ValueExpr:
    inside, by = _shift_count(b)
    return _choose(inside, op("shl", a, by), number(0, a.dtype))


def _shift_right(a: ValueExpr, b: ValueExpr) -> ValueExpr:
    """Arithmetic on signed integers: what is shifted out completely leaves the sign."""
    inside, by = _shift_count(b)
    rest: ValueExpr = number(0, a.dtype)
    if a.dtype.kind == "i":
        rest = _choose(op("lt", a, number(0, a.dtype)), number(-1, a.dtype), rest)
    return _choose(inside, op("shr", a, by), rest)


_T = TensorType
_N = Var("n", 1, 9).expr


def _counts(rng: np.random.Generator) -> Array:
    return rng.integers(0, 70, 40)


def _pairs(*kinds: DType) -> tuple[Sample, ...]:
    return tuple(sample(_T(k, (5, 3)), _T(k, (3,))) for k in kinds)


_SAMPLES = (
    sample(_T(F32, (_N, 3)), _T(F32, (_N, 3))),
    sample(_T(F32, (1, _N, 4)), _T(F32, (2, 1, 4))),
    sample(_T(I32, (5, 3)), _T(I32, (3,))),
    sample(_T(F32, ()), _T(F32, ())),
    *_pairs(F64, F16, I8, U8, I64),
)
_RESTS = (
    *_SAMPLES[:2],
    sample(_T(I32, (40,)), _T(I32, (40,)), values={1: lambda rng: rng.integers(-3, 4, 40)}),
    sample(_T(I8, (300,)), _T(I8, (300,)), values={1: lambda rng: rng.integers(-3, 4, 300)}),
    sample(_T(U8, (40,)), _T(U8, (40,)), values={1: lambda rng: rng.integers(0, 4, 40)}),
    *_pairs(F64, I64),
)
_SHIFTS = (
    *(sample(_T(k, (40,)), _T(k, (40,)), values={1: _counts}) for k in (I8, U8, U16, I32, U64)),
    sample(_T(I32, (_N, 2)), _T(I32, (2,))),
)
_BITS = (sample(_T(BOOL, (_N, 3)), _T(BOOL, (1, 3))), *_pairs(I32, U8, I64))
_NUMBERS, _ALL = "fiu", "fiub"
_EXACT, _ORDERED, _BITWISE = Elementwise(exact=True), Elementwise(monotone=True, exact=True), Elementwise(bitwise=True)
Rule = tuple[str, str, Callable[..., ValueExpr], Callable[[Array, Array], Array], tuple[Sample, ...], Elementwise]
_BINARY: tuple[Rule, ...] = (
    ("add", _NUMBERS, _binary("add"), np.add, _SAMPLES, _EXACT),
    ("sub", _NUMBERS, _binary("sub"), np.subtract, _SAMPLES, _EXACT),
    ("mul", _NUMBERS, _binary("mul"), np.multiply, _SAMPLES, _EXACT),
    ("maximum", _NUMBERS, _binary("max"), np.maximum, _SAMPLES, _ORDERED),
    ("minimum", _NUMBERS, _binary("min"), np.minimum, _SAMPLES, _ORDERED),
    ("div", _NUMBERS, _div, _div_ref, _RESTS, Elementwise()),
    ("mod", _NUMBERS, _mod, np.mod, _RESTS, Elementwise()),
    ("fmod", _NUMBERS, _fmod, np.fmod, _RESTS, Elementwise()),
    ("and", "iub", _binary("and"), np.bitwise_and, _BITS, _BITWISE),
    ("or", "iub", _binary("or"), np.bitwise_or, _BITS, _BITWISE),
    ("xor", "iub", _binary("xor"), np.bitwise_xor, _BITS, _BITWISE),
    ("shift_left", "iu", _shift_left, np.left_shift, _SHIFTS, _BITWISE),
    ("shift_right", "iu", _shift_right, np.right_shift, _SHIFTS, _BITWISE),
)
for _name, _kinds, _value, _fn, _samples, _kind in _BINARY:
    define(
        OpDef(
            _name,
            ("a", "b"),
            _infer_kinds(_name, _kinds),
            single(_fn),
            map_elements(("a", "b"), _value),
            _samples,
            kind=_kind,
        )
    )

define(
    OpDef(
        "relu",
        ("x",),
        lambda x: x,
        lambda x: np.maximum(x, 0),
        map_elements(("x",), lambda x: op("max", x, imm(0.0 if x.dtype.is_float else 0, x.dtype))),
        samples=(sample(_T(F32, (_N, 3))), sample(_T(I32, (4, 5)))),
        kind=_ORDERED,
    )
)
