"""C text of functions of real numbers: one text each for f32 and f64, for a scalar and for lanes.

Helpers of the same table as ``helpers.py``, in its notation, and besides: ``$U`` is the unsigned integer type as
wide as ``$C``, ``%name%`` a constant of ``real_numbers.py``, ``%poly p r name%`` lines that evaluate a polynomial.
Nothing branches on values except where arguments of sine are huge; no table lives in RAM, nothing calls libm.
``@mad`` is a multiply and an add, fused where the target has that: every text is right either way.
"""

from __future__ import annotations

import re
from typing import Final

from sdk.codegen_c.functions.real_target import HUGE, SQRT_PIECES, mad_text, sqrt_text
from sdk.codegen_c.real_numbers import CONSTANTS, POLYNOMIALS, TWO_OVER_PI
from sdk.compiler.ir.types import DType

__all__ = ["real_text"]

_ROUND_HARDWARE: Final = "defined(__clang__) && (defined(__SSE4_1__) || defined(__aarch64__))"
_REDUCED: Final = """    $C t = @mad_$T(a, @splat_$T(%log2e%), @splat_$T(%magic%));
    $C n = t - %magic%;
    $M k = @bits_$T(t) - %magic_bits%;
    $C r = @mad_$T(n, @splat_$T(-%ln2_hi%), a);
    r = @mad_$T(n, @splat_$T(-%ln2_lo%), r);
"""
_TRIG: Final = """$C @@($C x) {
    $C n = @mad_$T(x, @splat_$T(%two_over_pi%), @splat_$T(%magic%));
    $M k = @bits_$T(n) - %magic_bits%;
    $C r = @trigrest_$T(x, n - %magic%);
    $C out = VALUE;
    $M huge = ($M)(@abs_$T(x) > %trig_top%);
    if (@any_$T(huge)) {
        out = @NAMEhuge_$T(x, out);
    }
    return out;
}"""
_TRIG_VALUES: Final = {
    "sin": ("@quadrant_$T(r, k)", "@quadrant_$T(r, q)"),
    "cos": ("@quadrant_$T(r, k + 1)", "@quadrant_$T(r, q + 1)"),
    "tan": (
        "@quadrant_$T(r, k) / @quadrant_$T(r, k + 1)",
        "@quadrant_$T(r, q) / @quadrant_$T(r, q + 1)",
    ),
}
_HUGE_HEAD: Final = "static __attribute__((noinline)) "

# Both for a scalar and for lanes.
_ANY: Final[dict[str, str]] = {
    "abs": "$C @@($C x) {\n    return @value_$T(@bits_$T(x) & %abs_mask%);\n}",
    "copysign": """$C @@($C size, $C sign) {
    return @value_$T((@bits_$T(size) & %abs_mask%) | (@bits_$T(sign) & %sign_mask%));
}""",
    # 2**n within the range of normal numbers; anything beyond it.
    "pow2": "$C @@($M n) {\n    return @value_$T(($M)((($U)n + %bias%u) << %mantissa%));\n}",
    "whole": "$C @@($C x) { /* to the nearest whole number, halves to even */\n"
    + f"#if {_ROUND_HARDWARE}\n    return __builtin_elementwise_roundeven(x);\n#else\n"
    + """    $C a = @abs_$T(x);
    $C near = @select_$T(($M)(a < %whole%), (a + %whole%) - %whole%, x);
    return @copysign_$T(near, x);
#endif
}""",
    "floor": "$C @@($C x) {\n"
    + f"#if {_ROUND_HARDWARE}\n    return __builtin_elementwise_floor(x);\n#else\n"
    + """    $C near = @whole_$T(x);
    return @copysign_$T(near - @select_$T(($M)(near > x), @splat_$T(%one%), @splat_$T(%zero%)), x);
#endif
}""",
    "ceil": "$C @@($C x) {\n"
    + f"#if {_ROUND_HARDWARE}\n    return __builtin_elementwise_ceil(x);\n#else\n"
    + """    $C near = @whole_$T(x);
    return @copysign_$T(near + @select_$T(($M)(near < x), @splat_$T(%one%), @splat_$T(%zero%)), x);
#endif
}""",
    "trunc": "$C @@($C x) {\n"
    + f"#if {_ROUND_HARDWARE}\n    return __builtin_elementwise_trunc(x);\n#else\n"
    + """    $C a = @abs_$T(x);
    $C near = @whole_$T(a);
    return @copysign_$T(near - @select_$T(($M)(near > a), @splat_$T(%one%), @splat_$T(%zero%)), x);
#endif
}""",
    # Newton's iteration, for targets without the instruction.
    "sqrtnewton": """$C @@($C x) {
    $M tiny = ($M)(x < %normal%);
    $C a = @select_$T(tiny, x * %sqrt_raise%, x);
    $C y = @value_$T((@bits_$T(a) >> 1) + %sqrt_seed%);
    y = (y + a / y) * %half%;
    y = (y + a / y) * %half%;
    y = (y + a / y) * %half%;
    y = (y + a / y) * %half%;
    y = @select_$T(tiny, y * %sqrt_lower%, y);
    y = @select_$T(($M)(x > %zero%), y, @select_$T(($M)(x < %zero%), @splat_$T(%nan%), x));
    return @select_$T(($M)(x < %inf%), y, x);
}""",
    "rsqrt": "$C @@($C x) {\n    return %one% / @sqrt_$T(x);\n}",
    # e**x * 2**j: x = k*ln2 + r with |r| <= ln2/2, a polynomial for e**r, two exact scalings.
    "expscaled": "$C @@($C x, $M j) {\n"
    """    $C a = @select_$T(($M)(x < %exp_lo%), @splat_$T(%exp_lo%), x);
    a = @select_$T(($M)(a > %exp_hi%), @splat_$T(%exp_hi%), a);
"""
    + _REDUCED
    + """    %poly p r exp%
    p = @mad_$T(r * r, p, r) + %one%;
    k = k + j;
    $M half = k >> 1;
    return p * @pow2_$T(half) * @pow2_$T(k - half);
}""",
    "exp": "$C @@($C x) {\n    return @expscaled_$T(x, ($M){0});\n}",
    "exphalf": "$C @@($C x) { /* e**x / 2 */\n    return @expscaled_$T(x, @bits_$T(x) * 0 - 1);\n}",
    "expm1": "$C @@($C x) { /* e**x - 1 for x >= 0, held at a number where 1 counts no more */\n"
    "    $C a = @select_$T(($M)(x > %expm1_hi%), @splat_$T(%expm1_hi%), x);\n"
    + _REDUCED
    + """    %poly p r expm1%
    p = @mad_$T(r * r, p, r);
    $C scale = @pow2_$T(k);
    return @mad_$T(scale, p, scale - %one%);
}""",
    # log(u) + c: u = 2**k * (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2).
    "logplus": """$C @@($C u, $C c) {
    $M tiny = ($M)(u < %normal%);
    $M i = @bits_$T(@select_$T(tiny, u * %raise%, u)) - %sqrt_half%;
    $M k = i >> %mantissa%;
    $C f = @value_$T((i & %mantissa_mask%) + %sqrt_half%) - %one%;
    $C e = @tofloat_$T(k) - @select_$T(tiny, @splat_$T(%raised%), @splat_$T(%zero%));
    %poly p f log%
    $C s = f * f;
    $C rest = @mad_$T(e, @splat_$T(%ln2_lo%), f * s * p) + c;
    rest = @mad_$T(s, @splat_$T(-%half%), rest);
    $C out = @mad_$T(e, @splat_$T(%ln2_hi%), f + rest);
    $C odd = @select_$T(($M)(u == %zero%), @splat_$T(-%inf%), @splat_$T(%nan%));
    odd = @select_$T(($M)(u == %inf%), u, odd);
    return @select_$T(($M)(u > %zero%) & ($M)(u < %inf%), out, odd);
}""",
    "log": "$C @@($C x) {\n    return @logplus_$T(x, @splat_$T(%zero%));\n}",
    "log1p": """$C @@($C x) {
    $C u = x + %one%;
    $C lost = @select_$T(($M)(x < %one%), x - (u - %one%), %one% - (u - x));
    return @logplus_$T(u, lost / u);
}""",
    "tanh": """$C @@($C x) {
    $C a = @abs_$T(x);
    $C e = @expm1_$T(a + a);
    return @copysign_$T(e / (e + %two%), x);
}""",
    "sigmoid": """$C @@($C x) {
    $C e = @exp_$T(-@abs_$T(x));
    return @select_$T(($M)(x < %zero%), e, @splat_$T(%one%)) / (e + %one%);
}""",
    "erf": """$C @@($C x) {
    $C a = @abs_$T(x);
    $C t = a * a;
    %poly p t erf%
    $C near = @mad_$T(a, p, a);
    $C b = @select_$T(($M)(a > %erf_top%), @splat_$T(%erf_top%), a);
    %poly q b erfc%
    $C far = %one% - @exp_$T(b * q);
    return @copysign_$T(@select_$T(($M)(a < %one%), near, far), x);
}""",
    # x - n*pi/2; the first products are exact, so that nothing is lost near multiples of pi.
    "trigrest": """$C @@($C x, $C n) {
    $C r = @mad_$T(n, @splat_$T(-%pio2_1%), x);
    r = @mad_$T(n, @splat_$T(-%pio2_2%), r);
    r = @mad_$T(n, @splat_$T(-%pio2_3%), r);
    r = @mad_$T(n, @splat_$T(-%pio2_4%), r);
    return @mad_$T(n, @splat_$T(-%pio2_5%), r);
}""",
    # sin(r + k*pi/2) for |r| <= pi/4.
    "quadrant": """$C @@($C r, $M k) {
    $C t = r * r;
    %poly p t sin%
    %poly q t cos%
    $C sine = @select_$T(($M)(t == %zero%), r, @mad_$T(r * t, p, r)); /* keeps the sign of 0 */
    $C cosine = @mad_$T(t * t, q, @mad_$T(t, @splat_$T(-%half%), @splat_$T(%one%)));
    $C size = @select_$T(($M)((k & 1) != 0), cosine, sine);
    return @select_$T(($M)((k & 2) != 0), -size, size);
}""",
    **{
        name: _TRIG.replace("VALUE", value).replace("NAME", name)
        for name, (value, _) in _TRIG_VALUES.items()
    },
    # asin(s) and what is left of it: the argument halved beyond 1/2, where asin(x) = pi/2 - 2*asin(sqrt((1-x)/2)).
    "asinarc": """$C @@($C a) {
    $M far = ($M)(a > %half%);
    $C t = @select_$T(far, (%one% - a) * %half%, a * a);
    $C s = @select_$T(far, @sqrt_$T(t), a);
    %poly p t asin%
    return @mad_$T(s * t, p, s);
}""",
    "asin": """$C @@($C x) {
    $C a = @abs_$T(x);
    $C arc = @asinarc_$T(a);
    $C far = %pio2_hi% - (arc + arc - %pio2_lo%);
    return @copysign_$T(@select_$T(($M)(a > %half%), far, arc), x);
}""",
    "acos": """$C @@($C x) {
    $C a = @abs_$T(x);
    $C arc = @asinarc_$T(a);
    $C near = %pio2_hi% - (@copysign_$T(arc, x) - %pio2_lo%);
    $C far = @select_$T(($M)(x > %zero%), arc, %pio2_hi% - (arc - %pio2_lo%));
    return @select_$T(($M)(a > %half%), far + far, near);
}""",
    "atan": """$C @@($C x) {
    $C a = @abs_$T(x);
    $M far = ($M)(a > %one%);
    $C s = @select_$T(far, %one% / a, a);
    $C t = s * s;
    %poly p t atan%
    $C arc = @mad_$T(s * t, p, s);
    return @copysign_$T(@select_$T(far, %pio2_hi% - (arc - %pio2_lo%), arc), x);
}""",
    "sinh": """$C @@($C x) {
    $C a = @abs_$T(x);
    $C e = @expm1_$T(a);
    $C near = (e + e / (e + %one%)) * %half%;
    return @copysign_$T(@select_$T(($M)(a > %sinh_big%), @exphalf_$T(a), near), x);
}""",
    "cosh": """$C @@($C x) {
    $C e = @exphalf_$T(@abs_$T(x));
    return e + %quarter% / e;
}""",
    "asinh": """$C @@($C x) {
    $C a = @abs_$T(x);
    $M big = ($M)(a > %big%);
    $C s = a * a;
    $C y = @log1p_$T(@select_$T(big, a, a + s / (@sqrt_$T(s + %one%) + %one%)));
    return @copysign_$T(y + @select_$T(big, @splat_$T(%ln2%), @splat_$T(%zero%)), x);
}""",
    "acosh": """$C @@($C x) {
    $C a = x - %one%;
    $M big = ($M)(x > %big%);
    $C y = @log1p_$T(@select_$T(big, x, a + @sqrt_$T(a + a + a * a)));
    y = y + @select_$T(big, @splat_$T(%ln2%), @splat_$T(%zero%));
    return @select_$T(($M)(x < %one%), @splat_$T(%nan%), y);
}""",
    "atanh": """$C @@($C x) {
    $C a = @abs_$T(x);
    return @copysign_$T(@log1p_$T((a + a) / (%one% - a)) * %half%, x);
}""",
    # From the logarithm and exponential function of f64, for f32 too.
    "powvia": """$C @@($C x, $C y, $C size) {
    $C near = @trunc_$T(y);
    $C halved = y * %half%;
    $M whole = ($M)(near == y);
    $M odd = whole & ($M)(@trunc_$T(halved) != halved);
    $C out = @select_$T(odd & ($M)(@copysign_$T(@splat_$T(%one%), x) < %zero%), -size, size);
    $M lost = ($M)(x < %zero%) & ($M)(x > -%inf%) & ($M)(whole == 0);
    out = @select_$T(lost, @splat_$T(%nan%), out);
    $M one = ($M)(x == %one%) | ($M)(y == %zero%) | (($M)(x == -%one%) & ($M)(@abs_$T(y) == %inf%));
    return @select_$T(one, @splat_$T(%one%), out);
}""",
}

_SCALAR: Final[dict[str, str]] = {
    "splat": "$C @@($C x) {\n    return x;\n}",
    "select": "$C @@($M mask, $C a, $C b) {\n    return mask != 0 ? a : b;\n}",
    "any": "bool @@($M mask) {\n    return mask != 0;\n}",
    "bits": "$M @@($C x) {\n    union {\n        $C value;\n        $M bits;\n    } word;\n"
    "    word.value = x;\n    return word.bits;\n}",
    "value": "$C @@($M x) {\n    union {\n        $M bits;\n        $C value;\n    } word;\n"
    "    word.bits = x;\n    return word.value;\n}",
    "tofloat": "$C @@($M x) {\n    return ($C)x;\n}",
    "isinf": "bool @@($C x) {\n    return x == %inf% || x == -%inf%;\n}",
    "isnan": "bool @@($C x) {\n    return x != x;\n}",
    **{
        f"{name}huge": _HUGE_HEAD
        + """$C @@($C x, $C out) {
    if (!(@abs_$T(x) < %inf%)) {
        return x - x;
    }
    int32_t q;
    $C r = @trighuge_$T(x, &q);
    out = """
        + value
        + ";\n    return out;\n}"
        for name, (_, value) in _TRIG_VALUES.items()
    },
    # Whole numbers do it: r is what shifting and dividing leaves of the mantissa of a.
    "fmod": """$C @@($C a, $C b) {
    $U top = ($U)@bits_$T(@abs_$T(a));
    $U low = ($U)@bits_$T(@abs_$T(b));
    if (!(@abs_$T(a) < %inf%) || !(@abs_$T(b) > %zero%)) {
        return %nan%;
    }
    if (top < low) {
        return a;
    }
    int32_t from = (int32_t)(top >> %mantissa%);
    int32_t to = (int32_t)(low >> %mantissa%);
    uint64_t hidden = (uint64_t)1 << %mantissa%;
    uint64_t r = (top & (hidden - 1u)) | (from > 0 ? hidden : 0u);
    uint64_t m = (low & (hidden - 1u)) | (to > 0 ? hidden : 0u);
    from = from > 0 ? from : 1;
    to = to > 0 ? to : 1;
    r %= m;
    for (int32_t left = from - to; left > 0 && r > 0u;) {
        int32_t step = left < 63 - %mantissa% ? left : 63 - %mantissa%;
        r = (r << step) % m;
        left -= step;
    }
    int32_t power = to - %bias% - %mantissa%;
    int32_t half = power / 2;
    return @copysign_$T(($C)r * @pow2_$T(half) * @pow2_$T(power - half), a);
}""",
    "pow": """$C @@($C x, $C y) {
    return @powvia_$T(x, y, ($C)@exp_f64((double)y * @log_f64((double)@abs_$T(x))));
}""",
}

_LANES: Final[dict[str, str]] = {
    "any": """bool @@($M mask) {
#if defined(__clang__)
    return __builtin_reduce_or(mask) != 0;
#else
    $W any = 0;
    for (int32_t i = 0; i < $N; ++i) {
        any |= mask[i];
    }
    return any != 0;
#endif
}""",
    "bits": "$M @@($C x) {\n    return ($M)x;\n}",
    "value": "$C @@($M x) {\n    return ($C)x;\n}",
    "tofloat": "$C @@($M x) {\n    return __builtin_convertvector(x, $C);\n}",
    "isinf": "$M @@($C x) {\n    return ($M)(x == %inf%) | ($M)(x == -%inf%);\n}",
    "isnan": "$M @@($C x) {\n    return ($M)(x != x);\n}",
    **{
        f"{name}huge": _HUGE_HEAD
        + """$C @@($C x, $C out) { /* the lanes beyond the reach of the quick reduction */
    for (int32_t i = 0; i < $N; ++i) {
        if (@abs_$D(x[i]) > %trig_top%) {
            out[i] = @"""
        + name
        + """_$D(x[i]);
        }
    }
    return out;
}"""
        for name in _TRIG_VALUES
    },
    # not inlined: LLVM 22 does not end on a power whose exponent is one, both in one function
    "pow": """static __attribute__((noinline)) $C @@($C x, $C y) {
    @f64x$N wide = __builtin_convertvector(y, @f64x$N);
    wide = wide * @log_f64x$N(__builtin_convertvector(@abs_$T(x), @f64x$N));
    return @powvia_$T(x, y, __builtin_convertvector(@exp_f64x$N(wide), $C));
}""",
    "fmod": "$C @@($C a, $C b) {\n    $C out = {0};\n    for (int32_t i = 0; i < $N; ++i) {\n"
    "        out[i] = @fmod_$D(a[i], b[i]);\n    }\n    return out;\n}",
}

_POLY: Final = re.compile(r"( *)%poly (\w+) (\w+) (\w+)%")


def real_text(family: str, type: DType) -> str | None:
    """The text of a helper of the family on a float type, still with the placeholders of ``helpers.py``."""
    if not type.is_float or type.bits == 16:
        return None
    text = _text(family, type)
    if text is None:
        return None
    text = _POLY.sub(lambda m: _horner(m[1], m[2], m[3], POLYNOMIALS[type.bits][m[4]], type), text)
    text = re.sub(r"%table (\d+)%", lambda m: ", ".join(f"0x{w:08X}u" for w in TWO_OVER_PI[: int(m[1])]), text)
    values = _constants(type)
    text = re.sub(r"%(\w+)%", lambda m: values[m[1]], text)
    return text.replace("$W", f"int{type.bits}_t")


def _text(family: str, type: DType) -> str | None:
    if family == "mad":
        return mad_text(type)
    if family == "sqrt":
        return sqrt_text(type)
    if family == "trighuge" and type.lanes == 1:
        return HUGE[type.bits]
    if family == "pow" and type.bits == 64:
        return "$C @@($C x, $C y) {\n    return @powvia_$T(x, y, @exp_$T(y * @log_$T(@abs_$T(x))));\n}"
    return _ANY.get(family) or (_SCALAR if type.lanes == 1 else _LANES).get(family)


def _horner(indent: str, name: str, x: str, coefficients: tuple[float, ...], type: DType) -> str:
    first, *rest = (_number(c, type) for c in reversed(coefficients))
    lines = [f"{indent}$C {name} = @splat_$T({first});"]
    lines += [f"{indent}{name} = @mad_$T({name}, {x}, @splat_$T({c}));" for c in rest]
    return "\n".join(lines)


def _constants(type: DType) -> dict[str, str]:
    own = CONSTANTS[type.bits]
    numbers = {"zero": 0.0, "quarter": 0.25, "half": 0.5, "one": 1.0, "two": 2.0}
    values = {"per_register": str(128 // type.bits)} | SQRT_PIECES[type.bits]
    return values | {k: _number(v, type) if isinstance(v, float) else v for k, v in (numbers | own).items()}


def _number(value: float, type: DType) -> str:
    return f"{value!r}f" if type.bits == 32 else repr(value)

