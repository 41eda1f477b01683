"""The logarithm of a softmax of stored integers, in fixed point as TensorFlow Lite does it: ``log_softmax_q``.

Differences from the largest element of a row are looked up, their exponentials (no integer bits) and themselves (5
integer bits); the logarithm of the sum (12 integer bits) is computed. Results are in steps of 1/16, the largest is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr
from sdk.compiler.ir.intrinsics import cast, imm, op, rdbpot, srdhm
from sdk.compiler.ir.loops import Alloc, Buffer, Let, Load, Loops, Ref, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import I8, I32, U8, TensorType
from sdk.compiler.ops.build import function, loop, nest, param, table_read, variable
from sdk.compiler.ops.fixed import HALF_SQRT_2, INT32_MAX, exp_on_negative, reciprocal_one_plus
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.tables import one_over_one_plus
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.sym import Var, max_value
from sdk.errors import BuildError

__all__ = ["MAX_TERMS"]

Array = NDArray[Any]
MAX_TERMS: Final = 4095  # sums of more exponentials may leave 32 bits
_SUM_BITS: Final = 12  # integer bits of sums
_LOG_2: Final = 1488522236  # without integer bits, as all that follow
_FOURTH_ROOT_HALF: Final = 1805811301
# Of the rational function of q = 2 * (r - 2**-1/4) that is the logarithm of r.
_NUMERATOR: Final = 117049297
_DENOMINATOR: Final = (1057819769, 127690142, 638450708)
_QUARTER: Final = 1 << 23  # with 6 integer bits


def _infer(x: TensorType, exps: TensorType, steps: TensorType) -> TensorType:
    if x.dtype != I8 or x.rank < 1 or any(t.shape != (256,) or t.dtype != I32 for t in (exps, steps)):
        raise BuildError(f"log_softmax_q wants rows of i8 and two i32 tables of 256, got {x.dtype} of rank {x.rank}")
    maximum = max_value(x.shape[-1])
    if maximum is None or maximum > MAX_TERMS:
        raise BuildError(f"log_softmax_q of rows of {x.shape[-1]} elements, more than {MAX_TERMS}")
    return x


def _ref(x: Array, exps: Array, steps: Array) -> Array:
    wide = x.astype(np.int64)
    down = wide.max(axis=-1, keepdims=True, initial=-128) - wide
    terms = rdbpot(exps[down].astype(np.int32), np.full(down.shape, _SUM_BITS, np.int32))
    log = _logarithm(terms.astype(np.int64).sum(axis=-1, keepdims=True)).astype(np.int64)
    value = np.maximum(steps[down].astype(np.int64), log - INT32_MAX) - log
    rounded = rdbpot(value.astype(np.int32), np.full(value.shape, 22, np.int32))
    return np.asarray(np.clip(rounded + 127, -128, 127)).astype(np.int8)


def _zeros(x: Array) -> Array:
    """Leading zeros in 32 bits."""
    return np.asarray([32 - int(v).bit_length() for v in x.reshape(-1)], np.int64).reshape(x.shape)


def _doubled(x: Array) -> Array:
    return np.asarray(np.clip(x.astype(np.int64) << 1, -(1 << 31), INT32_MAX)).astype(np.int32)


def _times(a: Array, b: int) -> Array:
    return srdhm(a, np.full_like(a, b))


def _logarithm(total: Array) -> Array:
    """ln(total) with 5 integer bits of sums from 1 on: of a power of two, at the nearer one of two scales, and of r
    from 2**-1/2 to 1, by a rational function."""
    raw = total.astype(np.int32)
    zeros = _zeros(total)
    r_a = _doubled(_times((total << zeros - 1).astype(np.int32), HALF_SQRT_2))
    part = _times(raw, HALF_SQRT_2)
    room = _zeros(part.astype(np.int64)) - 1
    r_b = np.minimum(total << room, INT32_MAX).astype(np.int32)
    power = np.maximum((_SUM_BITS - zeros << 25) + _QUARTER, (_SUM_BITS - room << 25) - _QUARTER).astype(np.int32)
    r = np.minimum(r_a, r_b)
    half = (r >> 1) + np.int32((_FOURTH_ROOT_HALF + 1) // 2)
    q = r - np.int32(_FOURTH_ROOT_HALF)
    q = q + q
    square = srdhm(q, q)
    numerator = srdhm(q, r) + _times(srdhm(q, square), _NUMERATOR)
    first, second, third = _DENOMINATOR
    below = srdhm(half, np.int32(first) + q + _times(square, second)) + _times(q, third)
    quotient = srdhm(rdbpot(numerator, np.full_like(numerator, 6)), reciprocal_one_plus(below))
    return _doubled(_times(power, _LOG_2) + quotient)


def _loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Attr]) -> Loops:
    """For each row: its maximum, the sum of exps[max - x], its logarithm, then steps[max - x] less that."""
    x, exps, steps = types[0], param("exps", types[1]), param("steps", types[2])
    over = nest(x.shape, inner=1)
    j = {k: variable(k, x.shape[-1]) for k in ("j", "k", "l")}

    def value(axis: str) -> ValueExpr:
        return cast(Load("x", (*over.index, j[axis].expr), I8), I32)

    top, total, log = Load("top", (), I32), Load("total", (), I32), Ref("log", I32)
    sum_at, sum_entry = table_read("d", exps, cast(op("sub", top, value("k")), U8))
    out_at, out_entry = table_read("e", steps, cast(op("sub", top, value("l")), U8))
    held = op("max", out_entry, op("sub", log, imm(INT32_MAX)))
    result = op("add", op("rdbpot22", op("sub", held, log), imm(22)), imm(127))
    stored = cast(op("min", op("max", result, imm(-128)), imm(127)), I8)
    body = over.around(
        Alloc(Buffer("top", I32, (), "register")),
        Store("top", (), imm(-128)),
        loop(j["j"], x.shape[-1], Store("top", (), op("max", top, value("j")))),
        Alloc(Buffer("total", I32, (), "register")),
        Store("total", (), imm(0)),
        loop(
            j["k"], x.shape[-1], sum_at,
            Store("total", (), op("add", total, op("rdbpot1", sum_entry, imm(_SUM_BITS)))),
        ),
        *_log_steps(total),
        loop(j["l"], x.shape[-1], out_at, Store("o", (*over.index, j["l"].expr), stored)),
    )  # fmt: skip
    return function(name, [param("x", x), exps, steps, param("o", outs[0], "write")], [body], over.rows)


def _log_steps(total: ValueExpr) -> list[Stmt]:
    """Names ``log`` as ``_logarithm`` gives it."""
    lets: list[Stmt] = []

    def let(name: str, value: ValueExpr) -> Ref:
        lets.append(Let(name, value))
        return Ref(name, I32)

    def raised(name: str, x: ValueExpr, bits: ValueExpr) -> Ref:
        """x * 2**bits, saturated."""
        maximum = let(f"maximum_{name}", op("shr", imm(INT32_MAX), bits))
        held = op("shl", op("min", x, maximum), bits)
        return let(name, op("select", op("gt", x, maximum), imm(INT32_MAX), held, dtype=I32))

    def power(bits: Ref, more: int) -> ValueExpr:
        return op("add", op("mul", op("sub", imm(_SUM_BITS), bits), imm(1 << 25)), imm(more))

    whole = let("whole", op("max", total, imm(1 << 31 - _SUM_BITS)))  # of an empty row too
    lead = let("lead", op("clz", whole))
    root = let("root", op("srdhm", op("shl", whole, op("sub", lead, imm(1))), imm(HALF_SQRT_2)))
    room = let("room", op("sub", op("clz", op("srdhm", whole, imm(HALF_SQRT_2))), imm(1)))
    r = let("r", op("min", raised("r_a", root, imm(1)), raised("r_b", whole, room)))
    two = let("two", op("max", power(lead, _QUARTER), power(room, -_QUARTER)))
    middle = let("middle", op("add", op("shr", r, imm(1)), imm((_FOURTH_ROOT_HALF + 1) // 2)))
    apart = let("apart", op("sub", r, imm(_FOURTH_ROOT_HALF)))
    q = let("q", op("add", apart, apart))
    square = let("square", op("srdhm", q, q))
    above = let("above", op("add", op("srdhm", q, r), op("srdhm", op("srdhm", q, square), imm(_NUMERATOR))))
    first, second, third = _DENOMINATOR
    inner = op("add", op("add", imm(first), q), op("srdhm", square, imm(second)))
    below = let("below", op("add", op("srdhm", middle, inner), op("srdhm", q, imm(third))))
    lets.extend(one_over_one_plus(below))
    quotient = op("srdhm", op("rdbpot", above, imm(6)), Ref("scale", I32))
    raised("log", let("half_log", op("add", op("srdhm", two, imm(_LOG_2)), quotient)), imm(1))
    return lets


def _exponentials(rng: np.random.Generator) -> Array:
    return exp_on_negative(-np.minimum(np.arange(256) << 20, INT32_MAX), 5)


def _differences(rng: np.random.Generator) -> Array:
    return (-(np.arange(256) << 20)).astype(np.int32)


_T = TensorType
_TABLES = (_T(I32, (256,)), _T(I32, (256,)))
define(
    OpDef(
        "log_softmax_q",
        ("x", "exps", "steps"),
        _infer,
        _ref,
        _loops,
        samples=tuple(
            sample(_T(I8, shape), *_TABLES, values={1: _exponentials, 2: _differences})
            for shape in ((Var("n", 1, 9).expr, 12), (2, 3, Var("n", 1, 9).expr), (3, 500))
        ),
        kind=OPAQUE,
    )
)
