"""Powers: of floats by the library of functions, of integers exactly, wrapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr
from sdk.compiler.ir.intrinsics import cast, op
from sdk.compiler.ir.loops import Alloc, Buffer, Load, Loops, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import F16, F32, F64, I8, I32, I64, U8, DType, TensorType
from sdk.compiler.ops.build import broadcast_index, function, loop, map_elements, nest, param, read, variable
from sdk.compiler.ops.numerics import number, single
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.shapes import broadcast_shapes
from sdk.compiler.ops.traits import Elementwise
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

Array = NDArray[Any]


def _infer(a: TensorType, b: TensorType) -> TensorType:
    if a.dtype != b.dtype or a.dtype.kind not in "fiu":
        raise BuildError(f"pow wants two tensors of one type of numbers, got {a.dtype} and {b.dtype}")
    return TensorType(a.dtype, broadcast_shapes(a.shape, b.shape))


def _ref(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.power(a, b)
    power = np.power(a, np.maximum(b, 0))
    if a.dtype.kind == "u":
        return np.asarray(power)
    # 1 / a**-b truncated: 0 but for 1 and -1
    small = np.where(a == 1, 1, np.where(a == -1, np.where(b & 1, -1, 1), 0))
    return np.where(b < 0, small, power).astype(a.dtype)


def _loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Attr]) -> Loops:
    if types[0].dtype.is_float:
        return map_elements(("a", "b"), lambda a, b: op("pow", a, b))(name, types, outs, given)
    return _integers(name, types, outs[0])


def _integers(name: str, types: Sequence[TensorType], out: TensorType) -> Loops:
    """By squaring, in the unsigned type, which wraps: each result { power = 1; base = a; rest = b;
    bits of b { if rest is odd: power *= base; base *= base; rest /= 2 } o = power }."""
    kind, ins = out.dtype, [param(n, t) for n, t in zip("ab", types, strict=True)]
    over = nest(out.shape)
    a, b = (read(p, broadcast_index(p.buffer.shape, over.index)) for p in ins)
    plain = DType("u", kind.bits)
    power, base, rest = (Load(n, (), plain) for n in ("power", "base", "rest"))
    one = number(1, plain)
    odd = op("ne", op("and", rest, one), number(0, plain))
    steps: list[Stmt] = [
        *_register("power", one),
        *_register("base", cast(a, plain)),
        *_register("rest", cast(b, plain)),
        loop(
            variable("bit", kind.bits),
            kind.bits,
            Store("power", (), op("select", odd, op("mul", power, base), power, dtype=plain)),
            Store("base", (), op("mul", base, base)),
            Store("rest", (), op("shr", rest, one)),
        ),
        Store("o", over.index, _result(cast(power, kind), a, b)),
    ]
    return function(name, [*ins, param("o", out, "write")], [over.around(*steps)], over.rows)


def _register(name: str, start: ValueExpr) -> list[Stmt]:
    return [Alloc(Buffer(name, start.dtype, (), "register")), Store(name, (), start)]


def _result(power: ValueExpr, a: ValueExpr, b: ValueExpr) -> ValueExpr:
    """``power``, and for a negative exponent the truncated reciprocal."""
    kind = a.dtype
    if kind.kind == "u":
        return power
    zero, one, minus = (number(k, kind) for k in (0, 1, -1))
    odd = op("ne", op("and", b, one), zero)
    sign = op("select", odd, minus, one, dtype=kind)
    small = op("select", op("eq", a, minus), sign, zero, dtype=kind)
    small = op("select", op("eq", a, one), one, small, dtype=kind)
    return op("select", op("lt", b, zero), small, power, dtype=kind)


_T = TensorType
_N: Dim = Var("n", 1, 9).expr


def _positive(rng: np.random.Generator) -> Array:
    return rng.uniform(0, 9, 20)


def _bases(rng: np.random.Generator) -> Array:
    return rng.integers(-4, 5, 60)


def _exponents(rng: np.random.Generator) -> Array:
    return rng.integers(-3, 9, 60)


define(
    OpDef(
        "pow",
        ("a", "b"),
        _infer,
        single(_ref),
        _loops,
        samples=(
            sample(_T(F32, (_N, 3)), _T(F32, (3,))),
            sample(_T(F32, (20,)), _T(F32, (_N, 1)), values={0: _positive}),
            sample(_T(F64, (20,)), _T(F64, (20,)), values={0: _positive}),
            sample(_T(F16, (4,)), _T(F16, (4,))),
            *(sample(_T(k, (60,)), _T(k, (60,)), values={0: _bases, 1: _exponents}) for k in (I8, I32, I64)),
            sample(_T(U8, (_N, 3)), _T(U8, (3,)), values={1: lambda rng: rng.integers(0, 9, 3)}),
        ),
        kind=Elementwise(),
    )
)
