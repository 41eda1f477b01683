"""Functions of real numbers in SPIR-V, for f32 and f64: what drivers promise too little of is made of arithmetic.

Vulkan promises 3 + 2|x| units in the last place for f32's ``exp``, 2^-11 for sine within pi, nothing beyond it, and no
functions of f64 at all. The methods and numbers are those of the generated C (``functions/real.py``, docs/math.md).
"""

from __future__ import annotations

from collections.abc import Callable

from sdk.codegen_c.real_numbers import CONSTANTS, POLYNOMIALS, TWO_OVER_PI
from sdk.codegen_c.spirv.code import Code
from sdk.codegen_c.spirv.scalars import Scalars
from sdk.compiler.ir.types import BOOL, F32, F64, U32, DType
from sdk.errors import BuildError

__all__ = ["Real"]


class Real:
    """Values of one float type: arithmetic on identities, with numbers where a value may stand."""

    def __init__(self, scalars: Scalars, kind: DType) -> None:
        self.s, self.kind, self.whole = scalars, kind, DType("i", kind.bits)
        self.code: Code = scalars.code

    def number(self, name: str) -> float:
        """A constant of the type by name."""
        value = CONSTANTS[self.kind.bits][name]
        if isinstance(value, float):
            return value
        text = value.removeprefix("INT64_C(").removesuffix(")")
        return float.fromhex(text.removesuffix("f"))

    def word(self, name: str) -> int:
        """A constant of the integer as wide, by name."""
        return int(str(CONSTANTS[self.kind.bits][name]).removeprefix("INT64_C(").removesuffix(")"), 0)

    def value(self, value: int | float) -> int:
        """The identity of a literal; any other is one."""
        return self.s.imm(value, self.kind) if isinstance(value, float) else value

    def do(self, name: str, *args: int | float) -> int:
        """A real instruction; floats are literals."""
        return self.s.op(name, self.kind, *(self.value(a) for a in args))

    def add(self, a: int | float, b: int | float) -> int:
        """a + b."""
        return self.do("FAdd", a, b)

    def sub(self, a: int | float, b: int | float) -> int:
        """a - b."""
        return self.do("FSub", a, b)

    def mul(self, a: int | float, b: int | float) -> int:
        """a * b."""
        return self.do("FMul", a, b)

    def div(self, a: int | float, b: int | float) -> int:
        """a / b."""
        return self.do("FDiv", a, b)

    def mad(self, a: int | float, b: int | float, c: int | float) -> int:
        """a*b + c, with or without rounding the product."""
        return self.add(self.mul(a, b), c)

    def fn(self, name: str, *args: int | float) -> int:
        """A function of GLSL.std.450."""
        return self.s.glsl(name, self.kind, *(self.value(a) for a in args))

    def test(self, name: str, a: int | float, b: int | float) -> int:
        """A condition."""
        return self.s.compare(name, self.kind, self.value(a), self.value(b))

    def pick(self, cond: int, a: int | float, b: int | float) -> int:
        """a where the condition holds, else b."""
        return self.s.select(cond, self.kind, self.value(a), self.value(b))

    def bits(self, x: int) -> int:
        """The bits as an integer."""
        return self.s.op("Bitcast", self.whole, x)

    def of_bits(self, x: int) -> int:
        """The float of these bits."""
        return self.s.op("Bitcast", self.kind, x)

    def on_bits(self, name: str, a: int, b: int) -> int:
        """An instruction on the integer as wide."""
        return self.s.op(name, self.whole, a, b)

    def lit(self, value: int) -> int:
        """A literal of the integer as wide."""
        return self.s.imm(value, self.whole)

    def abs(self, x: int) -> int:
        """The size."""
        return self.of_bits(self.on_bits("BitwiseAnd", self.bits(x), self.lit((1 << (self.kind.bits - 1)) - 1)))

    def copysign(self, size: int, sign: int) -> int:
        """The size of one with the sign of the other."""
        top = 1 << (self.kind.bits - 1)
        rest = self.on_bits("BitwiseAnd", self.bits(size), self.lit(top - 1))
        return self.of_bits(self.on_bits("BitwiseOr", rest, self.on_bits("BitwiseAnd", self.bits(sign), self.lit(top))))

    def poly(self, x: int, name: str) -> int:
        """A polynomial of ``real_numbers.py``."""
        found: int | float = POLYNOMIALS[self.kind.bits][name][-1]
        for c in reversed(POLYNOMIALS[self.kind.bits][name][:-1]):
            found = self.mad(found, x, c)
        return self.value(found)

    def pow2(self, n: int) -> int:
        """2**n within the range of normal numbers."""
        moved = self.on_bits("IAdd", n, self.lit(self.word("bias")))
        return self.of_bits(self.on_bits("ShiftLeftLogical", moved, self.lit(self.word("mantissa"))))

    def to_whole(self, x: int) -> int:
        """A small whole number as an integer."""
        return self.s.op("ConvertFToS", self.whole, x)

    # --- exponentials and logarithms ---------------------------------------------------------------------------

    def reduced(self, a: int) -> tuple[int, int]:
        """k and r with a = k*ln2 + r."""
        n = self.fn("RoundEven", self.mul(a, self.number("log2e")))
        r = self.mad(n, -self.number("ln2_hi"), a)
        return self.to_whole(n), self.mad(n, -self.number("ln2_lo"), r)

    def exp_scaled(self, x: int, j: int) -> int:
        """e**x * 2**j."""
        nan = self.s.is_nan(self.kind, x)
        a = self.pick(self.test("lt", x, self.number("exp_lo")), self.number("exp_lo"), x)
        a = self.pick(self.test("gt", a, self.number("exp_hi")), self.number("exp_hi"), a)
        k, r = self.reduced(self.pick(nan, 0.0, a))
        p = self.add(self.mad(self.mul(r, r), self.poly(r, "exp"), r), 1.0)
        k = self.on_bits("IAdd", k, self.lit(j))
        half = self.on_bits("ShiftRightArithmetic", k, self.lit(1))
        found = self.mul(self.mul(p, self.pow2(half)), self.pow2(self.on_bits("ISub", k, half)))
        return self.pick(nan, x, found)

    def exp(self, x: int) -> int:
        """e**x."""
        return self.exp_scaled(x, 0)

    def expm1(self, x: int) -> int:
        """e**x - 1 for x >= 0, held at a number where 1 counts no more."""
        nan = self.s.is_nan(self.kind, x)
        a = self.pick(self.test("gt", x, self.number("expm1_hi")), self.number("expm1_hi"), x)
        k, r = self.reduced(self.pick(nan, 0.0, a))
        p = self.mad(self.mul(r, r), self.poly(r, "expm1"), r)
        scale = self.pow2(k)
        return self.pick(nan, x, self.mad(scale, p, self.sub(scale, 1.0)))

    def log_plus(self, u: int, c: int | float) -> int:
        """log(u) + c."""
        tiny = self.test("lt", u, self.number("normal"))
        start = self.lit(self.word("sqrt_half"))
        i = self.on_bits("ISub", self.bits(self.pick(tiny, self.mul(u, self.number("raise")), u)), start)
        k = self.on_bits("ShiftRightArithmetic", i, self.lit(self.word("mantissa")))
        rest = self.on_bits("BitwiseAnd", i, self.lit(self.word("mantissa_mask")))
        f = self.sub(self.of_bits(self.on_bits("IAdd", rest, start)), 1.0)
        e = self.sub(self.s.op("ConvertSToF", self.kind, k), self.pick(tiny, self.number("raised"), 0.0))
        s = self.mul(f, f)
        more = self.add(self.mad(e, self.number("ln2_lo"), self.mul(self.mul(f, s), self.poly(f, "log"))), c)
        more = self.mad(s, -0.5, more)
        found = self.mad(e, self.number("ln2_hi"), self.add(f, more))
        inf = float("inf")
        odd = self.pick(self.test("eq", u, 0.0), -inf, float("nan"))
        odd = self.pick(self.test("eq", u, inf), u, odd)
        held = self.s.op("LogicalAnd", BOOL, self.test("gt", u, 0.0), self.test("lt", u, inf))
        return self.pick(held, found, odd)

    def log(self, x: int) -> int:
        """The natural logarithm."""
        return self.log_plus(x, 0.0)

    def log1p(self, x: int) -> int:
        """log(1 + x), corrected for the rounding of the sum."""
        u = self.add(x, 1.0)
        lost = self.pick(self.test("lt", x, 1.0), self.sub(x, self.sub(u, 1.0)), self.sub(1.0, self.sub(u, x)))
        return self.log_plus(u, self.div(lost, u))

    def tanh(self, x: int) -> int:
        """The hyperbolic tangent."""
        a = self.abs(x)
        e = self.expm1(self.add(a, a))
        return self.copysign(self.div(e, self.add(e, 2.0)), x)

    def sigmoid(self, x: int) -> int:
        """1 / (1 + e**-x), without cancellation."""
        e = self.exp(self.do("FNegate", self.abs(x)))
        return self.div(self.pick(self.test("lt", x, 0.0), e, 1.0), self.add(e, 1.0))

    def erf(self, x: int) -> int:
        """The error function."""
        a = self.abs(x)
        near = self.mad(a, self.poly(self.mul(a, a), "erf"), a)
        b = self.pick(self.test("gt", a, self.number("erf_top")), self.number("erf_top"), a)
        far = self.sub(1.0, self.exp(self.mul(b, self.poly(b, "erfc"))))
        return self.copysign(self.pick(self.test("lt", a, 1.0), near, far), x)

    def sinh(self, x: int) -> int:
        """The hyperbolic sine."""
        a = self.abs(x)
        e = self.expm1(a)
        near = self.mul(self.add(e, self.div(e, self.add(e, 1.0))), 0.5)
        big = self.test("gt", a, self.number("sinh_big"))
        return self.copysign(self.pick(big, self.exp_scaled(a, -1), near), x)

    def cosh(self, x: int) -> int:
        """The hyperbolic cosine."""
        e = self.exp_scaled(self.abs(x), -1)
        return self.add(e, self.div(0.25, e))

    def asinh(self, x: int) -> int:
        """The inverse of sinh."""
        a = self.abs(x)
        big = self.test("gt", a, self.number("big"))
        s = self.mul(a, a)
        root = self.add(self.fn("Sqrt", self.add(s, 1.0)), 1.0)
        y = self.log1p(self.pick(big, a, self.add(a, self.div(s, root))))
        return self.copysign(self.add(y, self.pick(big, self.number("ln2"), 0.0)), x)

    def acosh(self, x: int) -> int:
        """The inverse of cosh."""
        a = self.sub(x, 1.0)
        big = self.test("gt", x, self.number("big"))
        root = self.fn("Sqrt", self.pick(self.test("gt", a, 0.0), self.mad(a, a, self.add(a, a)), 0.0))
        y = self.log1p(self.pick(big, x, self.add(a, root)))
        y = self.add(y, self.pick(big, self.number("ln2"), 0.0))
        return self.pick(self.test("lt", x, 1.0), float("nan"), y)

    def atanh(self, x: int) -> int:
        """The inverse of tanh."""
        a = self.abs(x)
        return self.copysign(self.mul(self.log1p(self.div(self.add(a, a), self.sub(1.0, a))), 0.5), x)

    # --- circular functions --------------------------------------------------------------------------------------

    def trig(self, x: int, make: Callable[[int, int], int]) -> int:
        """``make(r, k)`` where x = r + k*pi/2; NaN of what is not finite.

        Raises:
            BuildError: x is an f64.
        """
        if self.kind == F64:
            raise BuildError("sines of f64 have no form in SPIR-V yet", hint="keep the part in the C, or use f32")
        near = self.test("le", self.abs(x), self.number("trig_top"))
        rest, quarter = self.s.code.variable(self.s.type(self.kind)), self.s.code.variable(self.s.type(self.whole))

        def small() -> None:
            n = self.fn("RoundEven", self.mul(x, self.number("two_over_pi")))
            r = x
            for part in range(1, 6):
                r = self.mad(n, -self.number(f"pio2_{part}"), r)
            self.code.store(rest, r)
            self.code.store(quarter, self.to_whole(n))

        def large() -> None:
            r, k = self.huge(x)
            self.code.store(rest, r)
            self.code.store(quarter, k)

        self.code.branch(near, small, large)
        r = self.code.load(self.s.type(self.kind), rest)
        found = make(r, self.code.load(self.s.type(self.whole), quarter))
        finite = self.test("lt", self.abs(x), float("inf"))
        return self.pick(finite, found, float("nan"))

    def huge(self, x: int) -> tuple[int, int]:
        """Payne's and Hanek's reduction of an f32: the bits of x*2/pi below 4 as whole numbers."""
        s = self.s
        word = self.bits(self.abs(x))
        m = s.op("BitwiseOr", U32, s.op("BitwiseAnd", U32, word, s.u32(0x7FFFFF)), s.u32(0x800000))
        exponent = s.glsl("UMin", U32, s.op("ShiftRightLogical", U32, word, s.u32(23)), s.u32(254))
        at = s.op("ISub", U32, s.glsl("UMax", U32, exponent, s.u32(120)), s.u32(120))
        first, shift = s.op("ShiftRightLogical", U32, at, s.u32(5)), s.op("BitwiseAnd", U32, at, s.u32(31))
        table = [self._word_of_table(first, k) for k in range(4)]
        a, b, c = (self._window(table[k], table[k + 1], shift) for k in range(3))
        low_b, high_b = s.wide_product(m, b, signed=False)
        _, high_c = s.wide_product(m, c, signed=False)
        low = s.op("IAdd", U32, low_b, high_c)
        carry = s.word_of(s.compare("lt", U32, low, high_c))
        high = s.op("IAdd", U32, s.op("IAdd", U32, s.op("IMul", U32, m, a), high_b), carry)
        q = s.op("ShiftRightLogical", U32, s.op("IAdd", U32, high, s.u32(1 << 29)), s.u32(30))
        top = s.op("ISub", U32, high, s.op("ShiftLeftLogical", U32, q, s.u32(30)))
        signed = self.mul(s.op("ConvertSToF", F32, top), 2.0**32)
        rest = self.add(signed, s.op("ConvertUToF", F32, low))
        r = self.mad(rest, self.number("quarter_hi"), self.mul(rest, self.number("quarter_lo")))
        below = self.test("lt", x, 0.0)
        k = s.select(below, U32, s.op("SNegate", U32, q), q)
        return self.pick(below, self.do("FNegate", r), r), k

    def _word_of_table(self, first: int, k: int) -> int:
        """Word first + k of the bits of 2/pi; first is at most 4."""
        found = self.s.u32(TWO_OVER_PI[4 + k])
        for at in reversed(range(4)):
            here = self.s.compare("eq", U32, first, self.s.u32(at))
            found = self.s.select(here, U32, self.s.u32(TWO_OVER_PI[at + k]), found)
        return found

    def _window(self, high: int, low: int, shift: int) -> int:
        """The upper word of two words shifted left by less than 32."""
        s = self.s
        moved = s.op("ShiftLeftLogical", U32, high, shift)
        back = s.op("ShiftRightLogical", U32, s.op("ShiftRightLogical", U32, low, s.u32(1)),
                    s.op("ISub", U32, s.u32(31), shift))  # fmt: skip
        return s.op("BitwiseOr", U32, moved, back)

    def quadrant(self, r: int, k: int) -> int:
        """sin(r + k*pi/2)."""
        t = self.mul(r, r)
        sine = self.mad(self.mul(r, t), self.poly(t, "sin"), r)
        cosine = self.mad(self.mul(t, t), self.poly(t, "cos"), self.mad(t, -0.5, 1.0))
        odd = self.s.compare("ne", self.whole, self.on_bits("BitwiseAnd", k, self.lit(1)), self.lit(0))
        size = self.pick(odd, cosine, sine)
        minus = self.s.compare("ne", self.whole, self.on_bits("BitwiseAnd", k, self.lit(2)), self.lit(0))
        return self.pick(minus, self.do("FNegate", size), size)

    def sin(self, x: int) -> int:
        """The sine."""
        return self.trig(x, self.quadrant)

    def cos(self, x: int) -> int:
        """The cosine."""
        return self.trig(x, lambda r, k: self.quadrant(r, self.on_bits("IAdd", k, self.lit(1))))

    def tan(self, x: int) -> int:
        """The tangent."""

        def make(r: int, k: int) -> int:
            return self.div(self.quadrant(r, k), self.quadrant(r, self.on_bits("IAdd", k, self.lit(1))))

        return self.trig(x, make)

    def _arc(self, a: int) -> int:
        """asin(s) of what is left of the argument: halved beyond 1/2."""
        far = self.test("gt", a, 0.5)
        t = self.pick(far, self.mul(self.sub(1.0, a), 0.5), self.mul(a, a))
        s = self.pick(far, self.fn("Sqrt", self.pick(self.test("gt", t, 0.0), t, 0.0)), a)
        return self.mad(self.mul(s, t), self.poly(t, "asin"), s)

    def _outside(self, x: int, found: int) -> int:
        """NaN beyond -1 and 1."""
        return self.pick(self.test("le", self.abs(x), 1.0), found, float("nan"))

    def asin(self, x: int) -> int:
        """The inverse of sin."""
        a = self.abs(x)
        arc = self._arc(a)
        far = self.sub(self.number("pio2_hi"), self.sub(self.add(arc, arc), self.number("pio2_lo")))
        return self._outside(x, self.copysign(self.pick(self.test("gt", a, 0.5), far, arc), x))

    def acos(self, x: int) -> int:
        """The inverse of cos."""
        a = self.abs(x)
        arc = self._arc(a)
        hi, lo = self.number("pio2_hi"), self.number("pio2_lo")
        near = self.sub(hi, self.sub(self.copysign(arc, x), lo))
        far = self.pick(self.test("gt", x, 0.0), arc, self.sub(hi, self.sub(arc, lo)))
        return self._outside(x, self.pick(self.test("gt", a, 0.5), self.add(far, far), near))

    def atan(self, x: int) -> int:
        """The inverse of tan."""
        a = self.abs(x)
        far = self.test("gt", a, 1.0)
        s = self.pick(far, self.div(1.0, a), a)
        t = self.mul(s, s)
        arc = self.mad(self.mul(s, t), self.poly(t, "atan"), s)
        beyond = self.sub(self.number("pio2_hi"), self.sub(arc, self.number("pio2_lo")))
        return self.copysign(self.pick(far, beyond, arc), x)
