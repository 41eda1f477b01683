"""Powers and remainders of real numbers in SPIR-V, and the table of all functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sdk.codegen_c.spirv.reals import Real
from sdk.compiler.ir.types import BOOL, F32, F64, U32, DType

__all__ = ["REALS"]


def power(real: Real, x: int, y: int) -> int:
    """x**y: the size from an exponential of a logarithm, signs and odd cases as in C."""
    a = real.abs(x)
    size = _size(real, a, y)
    inf = float("inf")
    rises = real.test("gt", y, 0.0)
    size = real.pick(real.test("eq", a, 0.0), real.pick(rises, 0.0, inf), size)
    size = real.pick(real.test("eq", a, inf), real.pick(rises, inf, 0.0), size)
    nan = real.s.op("LogicalOr", BOOL, real.s.is_nan(real.kind, x), real.s.is_nan(real.kind, y))
    size = real.pick(nan, float("nan"), size)
    whole = real.test("eq", real.fn("Trunc", y), y)
    half = real.mul(y, 0.5)
    odd = real.s.op("LogicalAnd", BOOL, whole, real.test("ne", real.fn("Trunc", half), half))
    sign = real.s.compare("lt", real.whole, real.bits(x), real.lit(0))
    found = real.pick(real.s.op("LogicalAnd", BOOL, odd, sign), real.do("FNegate", size), size)
    below = real.s.op("LogicalAnd", BOOL, real.test("lt", x, 0.0), real.test("gt", x, -inf))
    lost = real.s.op("LogicalAnd", BOOL, below, real.s.op("LogicalNot", BOOL, whole))
    found = real.pick(lost, float("nan"), found)
    minus = real.s.op("LogicalAnd", BOOL, real.test("eq", x, -1.0), real.test("eq", real.abs(y), inf))
    one = real.s.op("LogicalOr", BOOL, real.test("eq", x, 1.0), real.test("eq", y, 0.0))
    return real.pick(real.s.op("LogicalOr", BOOL, one, minus), 1.0, found)


def _size(real: Real, a: int, y: int) -> int:
    """a**y of a positive a. In f32 the logarithm is kept in two parts, or its rounding would grow with y."""
    if real.kind == F64:
        return real.exp(real.mul(y, real.log(a)))
    high, low = _log2_parts(real, a)
    # y * (high + low) as whole + part: the product of the first is split in two, too
    product = real.mul(y, high)
    error = real.s.glsl("Fma", F32, y, high, real.do("FNegate", product))
    bounded = real.pick(real.test("lt", product, -400.0), -400.0, product)
    bounded = real.pick(real.test("gt", bounded, 400.0), 400.0, bounded)
    inside = real.test("eq", bounded, product)
    n = real.fn("RoundEven", bounded)
    part = real.add(real.sub(bounded, n), real.pick(inside, real.mad(y, low, error), 0.0))
    r = real.mul(part, real.number("ln2"))
    p = real.add(real.mad(real.mul(r, r), real.poly(r, "exp"), r), 1.0)
    k = real.to_whole(n)
    third = real.s.op("SDiv", U32, k, real.s.u32(4))
    rest = real.s.op("ISub", U32, k, real.s.op("IMul", U32, third, real.s.u32(3)))
    for exponent in (third, third, third, rest):
        p = real.mul(p, real.pow2(exponent))
    return p


def _log2_parts(real: Real, a: int) -> tuple[int, int]:
    """The logarithm of base 2 of a positive f32 as a sum of two."""
    tiny = real.test("lt", a, real.number("normal"))
    start = real.lit(real.word("sqrt_half"))
    i = real.on_bits("ISub", real.bits(real.pick(tiny, real.mul(a, real.number("raise")), a)), start)
    k = real.on_bits("ShiftRightArithmetic", i, real.lit(23))
    mantissa = real.of_bits(real.on_bits("IAdd", real.on_bits("BitwiseAnd", i, real.lit(0x7FFFFF)), start))
    e = real.sub(real.s.op("ConvertSToF", F32, k), real.pick(tiny, 23.0, 0.0))
    f = real.sub(mantissa, 1.0)  # exact
    s = real.mul(f, f)
    tail = real.mul(real.mul(f, s), real.poly(f, "log"))
    # ln(1 + f) = f - s/2 + tail; in units of log2: times hi + lo
    half = real.mul(s, -0.5)
    square = real.mul(real.s.glsl("Fma", F32, f, f, real.do("FNegate", s)), -0.5)
    lead = real.add(f, half)
    lost = real.add(real.sub(half, real.sub(lead, f)), real.add(square, tail))
    one, two = 1.4426950216293335, 1.9259629911266175e-08
    high = real.mul(lead, one)
    error = real.s.glsl("Fma", F32, lead, real.value(one), real.do("FNegate", high))
    low = real.add(error, real.mad(lost, one, real.mul(lead, two)))
    sum = real.add(e, high)
    swapped = real.test("gt", real.abs(high), real.abs(e))
    rest = real.pick(swapped, real.sub(e, real.sub(sum, high)), real.sub(high, real.sub(sum, e)))
    low = real.add(rest, low)
    total = real.add(sum, low)
    return total, real.sub(low, real.sub(total, sum))


def fmod(real: Real, a: int, b: int) -> int:
    """What is left of a after whole steps of b, exactly: by whole numbers, some bits at a time."""
    s, u = real.s, DType("u", real.kind.bits)
    mantissa, room = real.word("mantissa"), real.kind.bits - real.word("mantissa") - 1
    top, low = real.bits(real.abs(a)), real.bits(real.abs(b))
    held = s.op("LogicalAnd", BOOL, real.test("lt", real.abs(a), float("inf")), real.test("gt", real.abs(b), 0.0))
    less = s.compare("lt", u, top, low)
    hidden = s.imm(1 << mantissa, u)

    def parts(word: int) -> tuple[int, int]:
        exponent = s.op("ShiftRightLogical", u, word, s.imm(mantissa, u))
        some = s.compare("gt", u, exponent, s.imm(0, u))
        fraction = s.op("BitwiseAnd", u, word, s.imm((1 << mantissa) - 1, u))
        whole = s.op("BitwiseOr", u, fraction, s.select(some, u, hidden, s.imm(0, u)))
        exponent = s.select(some, u, exponent, s.imm(1, u))
        return (exponent if u == U32 else s.op("UConvert", U32, exponent)), whole

    def work() -> int:
        (start, r), (to, m) = parts(top), parts(low)
        left = s.op("ISub", U32, start, to)
        kept = real.code.variable(s.type(u))
        real.code.store(kept, s.op("UMod", u, r, m))
        steps = s.op("UDiv", U32, left, s.u32(room))
        rest = s.op("ISub", U32, left, s.op("IMul", U32, steps, s.u32(room)))

        def step(shift: int) -> None:
            by = shift if u == U32 else s.op("UConvert", u, shift)
            moved = s.op("ShiftLeftLogical", u, real.code.load(s.type(u), kept), by)
            real.code.store(kept, s.op("UMod", u, moved, m))

        real.code.loop(s.u32(0), lambda i: s.compare("lt", U32, i, steps), lambda i: step(s.u32(room)), s.u32(1))
        step(rest)
        power = s.op("ISub", U32, to, s.u32(real.word("bias") + mantissa))
        if u != U32:
            power = s.op("SConvert", u, power)
        half = real.on_bits("ShiftRightArithmetic", power, real.lit(1))
        size = s.op("ConvertUToF", real.kind, real.code.load(s.type(u), kept))
        size = real.mul(real.mul(size, real.pow2(half)), real.pow2(real.on_bits("ISub", power, half)))
        return real.copysign(size, a)

    def some() -> int:
        return real.code.choose(less, s.type(real.kind), lambda: a, work)

    return real.code.choose(held, s.type(real.kind), some, lambda: real.value(float("nan")))


def _glsl(name: str) -> Callable[[Real, int], int]:
    return lambda real, x: real.fn(name, x)


def _rsqrt(real: Real, x: int) -> int:
    return real.fn("InverseSqrt", x) if real.kind == F32 else real.div(1.0, real.fn("Sqrt", x))


# Functions by the operation of the intrinsic table.
REALS: Final[dict[str, Callable[..., int]]] = {
    "floor": _glsl("Floor"), "ceil": _glsl("Ceil"), "trunc": _glsl("Trunc"), "round": _glsl("RoundEven"),
    "sqrt": _glsl("Sqrt"), "rsqrt": _rsqrt,
    "pow": power, "fmod": fmod,
    **{name: getattr(Real, name) for name in (
        "exp", "log", "tanh", "sigmoid", "erf", "sinh", "cosh", "asinh", "acosh", "atanh", "sin", "cos", "tan", "asin",
        "acos", "atan",
    )},
}  # fmt: skip
