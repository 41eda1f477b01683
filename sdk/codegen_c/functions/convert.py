"""C text of conversions that C leaves undefined or does not know: floats to integers, 16-bit floats.

Templates in the notation of ``helpers.py``; ``$A`` is the C type converted from, ``$B`` the integer type as wide.
A 16-bit float is a ``uint16_t`` everywhere: only conversions to and from f32 look inside.
"""

from __future__ import annotations

from typing import Final

from sdk.codegen_c.functions.names import scalar_name
from sdk.compiler.ir.types import F16, F32, DType

__all__ = ["conversion_text"]

# To the nearest integer towards zero that the type holds; NaN gives 0.
_SCALAR_HOLD: Final = """$C @@($A x) {
    return x >= %top% ? %maximum% : (x > %low% ? ($C)x : (x != x ? 0 : %minimum%));
}"""
_LANES_HOLD: Final = """$C @@($A x) {
    $B within = ($B)(x > %low%) & ($B)(x < %top%);
    $C out = __builtin_convertvector(@select_%from%(within, x, ($A){0}), $C);
    out = @select_$T(%high_mask%, @splat_$T(%maximum%), out);
    return @select_$T(%low_mask%, @splat_$T(%minimum%), out);
}"""

_WIDEN: Final = """$C @@($A half) {
%builtin%    @u32x$N bits = __builtin_convertvector(half, @u32x$N);
    @u32x$N rest = (bits & 0x7FFFu) << 13;
    $C whole = ($C)(rest + 0x38000000u);
    $C tiny = __builtin_convertvector((@i32x$N)(bits & 0x7FFFu), $C) * 0x1p-24f;
    $C out = @select_$T((@i32x$N)(rest < 0x00800000u), tiny, whole);
    out = @select_$T((@i32x$N)(rest >= 0x0F800000u), ($C)(rest + 0x70000000u), out);
    return ($C)((@u32x$N)out | ((bits & 0x8000u) << 16));%end%
}"""
_WIDEN_SCALAR: Final = """float @@(uint16_t half) {
    uint32_t rest = ((uint32_t)half & 0x7FFFu) << 13;
    uint32_t sign = ((uint32_t)half & 0x8000u) << 16;
    if (rest >= 0x0F800000u) {
        return @value_f32((int32_t)(sign | (rest + 0x70000000u)));
    }
    float size = rest < 0x00800000u ? (float)(half & 0x7FFFu) * 0x1p-24f : @value_f32((int32_t)(rest + 0x38000000u));
    return sign != 0u ? -size : size;
}"""
_NARROW: Final = """$C @@($A x) { /* to nearest, ties to even */
%builtin%    @u32x$N bits = (@u32x$N)x;
    @u32x$N size = bits & 0x7FFFFFFFu;
    @u32x$N whole = (size + 0x0FFFu + ((size >> 13) & 1u) - 0x38000000u) >> 13;
    @u32x$N tiny = (@u32x$N)(($A)size + 0.5f) - 0x3F000000u;
    @u32x$N nan = (size >> 13 & 0x1FFu) | 0x7E00u;
    @u32x$N odd = @select_u32x$N((@i32x$N)(size > 0x7F800000u), nan, @splat_u32x$N(0x7C00u));
    @u32x$N out = @select_u32x$N((@i32x$N)(size < 0x38800000u), tiny, whole);
    out = @select_u32x$N((@i32x$N)(size >= 0x47800000u), odd, out);
    return __builtin_convertvector(out | (bits >> 16 & 0x8000u), $C);%end%
}"""
_NARROW_SCALAR: Final = """uint16_t @@(float x) { /* to nearest, ties to even */
    uint32_t bits = (uint32_t)@bits_f32(x);
    uint32_t size = bits & 0x7FFFFFFFu;
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t out = (size + 0x0FFFu + ((size >> 13) & 1u) - 0x38000000u) >> 13;
    if (size >= 0x47800000u) {
        out = size > 0x7F800000u ? (size >> 13 & 0x1FFu) | 0x7E00u : 0x7C00u;
    } else if (size < 0x38800000u) {
        out = (uint32_t)@bits_f32(@value_f32((int32_t)size) + 0.5f) - 0x3F000000u;
    }
    return (uint16_t)(out | sign);
}"""
# Where the target converts in hardware: clang by its type for 16-bit floats, gcc by builtins for some numbers of lanes.
_CLANG: Final = "defined(__clang__) && __clang_major__ >= 15 && (defined(__F16C__) || defined(__aarch64__))"
_HALVES: Final = "    typedef _Float16 halves __attribute__((vector_size(2 * $N)));\n"
_CLANG_WIDEN: Final = f"{_HALVES}    return __builtin_convertvector((halves)half, $C);\n"
_CLANG_NARROW: Final = f"{_HALVES}    return ($C)__builtin_convertvector(x, halves);\n"
_GCC_HALVES: Final = "__fp16 __attribute__((vector_size(8)))"
_GCC_WIDEN: Final = {
    4: ("__aarch64__", f"__builtin_aarch64_float_extend_lo_v4sf(({_GCC_HALVES})half)"),
    8: ("__F16C__", "__builtin_ia32_vcvtph2ps256((@i16x8)half)"),
    16: ("__AVX512F__", "__builtin_ia32_vcvtph2ps512_mask((@i16x16)half, ($C){0}, -1, 4)"),
}
_GCC_NARROW: Final = {
    4: ("__aarch64__", "($C)__builtin_aarch64_float_truncate_lo_v4hf(x)"),
    8: ("__F16C__", "($C)__builtin_ia32_vcvtps2ph256(x, 0)"),
    16: ("__AVX512F__", "($C)__builtin_ia32_vcvtps2ph512_mask(x, 0, (@i16x16){0}, (unsigned short)0xFFFF)"),
}


_BITS: Final = """$C @@($A x) {
    union {
        $A from;
        $C to;
    } word;
    word.from = x;
    return word.to;
}"""


def conversion_text(family: str, to: DType, source: DType) -> str | None:
    """The text of the conversion ``hold`` (float to integer), ``half`` (to or from f16) or ``bits`` (the same bytes
    as another type), or None."""
    if family == "hold" and source.is_float and source.bits >= 32 and to.kind in "iu":
        text = _hold(to, source)
    elif family == "half" and to.scalar == F32 and source.scalar == F16:
        text = _WIDEN_SCALAR if to.lanes == 1 else _with_builtin(_WIDEN, _CLANG_WIDEN, _GCC_WIDEN.get(to.lanes))
    elif family == "half" and to.scalar == F16 and source.scalar == F32:
        text = _NARROW_SCALAR if to.lanes == 1 else _with_builtin(_NARROW, _CLANG_NARROW, _GCC_NARROW.get(to.lanes))
    elif family == "bits" and to.nbytes == source.nbytes:
        text = _BITS
    else:
        return None
    return text.replace("$A", _type(source)).replace("$B", _type(DType("i", source.bits, source.lanes)))


def _with_builtin(text: str, clang: str, gcc: tuple[str, str] | None) -> str:
    known = f"#elif !defined(__clang__) && defined({gcc[0]})\n    return {gcc[1]};\n" if gcc else ""
    return text.replace("%builtin%", f"#if {_CLANG}\n{clang}{known}#else\n").replace("%end%", "\n#endif")


def _hold(to: DType, source: DType) -> str:
    minimum, maximum = to.limits
    suffix = "f" if source.bits == 32 else ""
    values = {
        "top": f"{float(maximum + 1)!r}{suffix}",
        "low": f"{float(minimum)!r}{suffix}",
        "maximum": _integer(maximum, to),
        "minimum": _integer(minimum, to),
        "from": str(source),
    }
    values["high_mask"] = _mask(f"x >= {values['top']}", to, source)
    values["low_mask"] = _mask(f"x <= {values['low']}", to, source)
    text = _SCALAR_HOLD if to.lanes == 1 else _LANES_HOLD
    for key, value in values.items():
        text = text.replace(f"%{key}%", value)
    return text


def _mask(condition: str, to: DType, source: DType) -> str:
    """The condition on lanes of ``source`` as a mask of lanes as wide as ``to``."""
    mask = f"({_type(DType('i', source.bits, source.lanes))})({condition})"
    if to.bits == source.bits:
        return mask
    return f"__builtin_convertvector({mask}, {_type(DType('i', to.bits, to.lanes))})"


def _integer(value: int, type: DType) -> str:
    if value == 0:
        return "0"
    if type.bits < 32:
        return str(value)
    edge = "MIN" if value < 0 else "MAX"
    return f"{'U' if type.kind == 'u' else ''}INT{type.bits}_{edge}"


def _type(type: DType) -> str:
    return f"@{type}" if type.lanes > 1 else scalar_name(type)
