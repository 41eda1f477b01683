"""The small C functions that generated code may need, as data: exact fixed point, operations on lanes.

``@name`` stands for another helper or a vector type. A family is written once for all types: ``$T`` is the
type ("i32x8"), ``$C`` its C spelling, ``$S`` the C type of a lane, ``$M`` the mask type of its comparisons,
``$N`` the number of lanes, ``$Q`` that of 32-bit words. All rely on two things that C leaves to the compiler and every
supported one does: ``>>`` of a negative number is arithmetic, and converting to a narrower signed type wraps.
"""

from __future__ import annotations

from typing import Final

from sdk.codegen_c.c99.convert import conversion_text
from sdk.codegen_c.c99.halves import HALVES
from sdk.codegen_c.c99.mve import MVE, MVE_HEADER
from sdk.codegen_c.c99.names import scalar_name
from sdk.codegen_c.c99.neon import NEON, NEON_HEADER
from sdk.codegen_c.c99.real import real_text
from sdk.codegen_c.c99.rescale import RESCALE
from sdk.compiler.ir.types import DType, dtype
from sdk.errors import BuildError

__all__ = ["helper_header", "helper_text"]

_INLINE: Final = "static inline "
# Families that others use on some targets only; clang warns of functions nobody uses.
_SOMETIMES: Final = ("abs", "copysign", "mad", "select", "splat", "sqrt", "sqrtnewton", "whole")

_PLAIN: Final = {
    "floordiv": """int32_t @@(int32_t a, int32_t b) {
    int32_t quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}""",
    # Memory that may overlap.
    "copy": """void @@(void *to, const void *from, size_t bytes) {
    uint8_t *out = to;
    const uint8_t *in = from;
    if ((uintptr_t)out < (uintptr_t)in) {
        for (size_t i = 0; i < bytes; ++i) {
            out[i] = in[i];
        }
    } else {
        for (size_t i = bytes; i > 0u; --i) {
            out[i - 1u] = in[i - 1u];
        }
    }
}""",
    "same": """bool @@(const void *a, const void *b, size_t bytes) {
    const uint8_t *x = a;
    const uint8_t *y = b;
    for (size_t i = 0; i < bytes; ++i) {
        if (x[i] != y[i]) {
            return false;
        }
    }
    return true;
}""",
    # Within 1e-4 of the largest wanted value, or of 1.
    "same_f32": """bool @@(const float *got, const float *want, size_t count) {
    float top = 1.0f;
    for (size_t i = 0; i < count; ++i) {
        top = want[i] > top ? want[i] : (-want[i] > top ? -want[i] : top);
    }
    for (size_t i = 0; i < count; ++i) {
        float error = got[i] > want[i] ? got[i] - want[i] : want[i] - got[i];
        if (!(error <= 1e-4f * top)) {
            return false;
        }
    }
    return true;
}""",
    "fill": """void @@(uint8_t *to, uint8_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) {
        to[i] = value;
    }
}""",
    # a*b / 2**31 to nearest, saturated (TensorFlow Lite's SaturatingRoundingDoublingHighMul).
    "srdhm": """int32_t @@(int32_t a, int32_t b) {
    int64_t wide = (int64_t)a * b + ((int64_t)1 << 30);
    return a == INT32_MIN && b == INT32_MIN ? INT32_MAX : (int32_t)(wide >> 31);
}""",
    "srdhm30": """int32_t @@(int32_t a, int32_t b) { /* |a| < 2**30 */
    return (int32_t)(((int64_t)a * b + ((int64_t)1 << 30)) >> 31);
}""",
    "srdhm30_dsp": """int32_t @@(int32_t a, int32_t b) { /* |a| < 2**30 */
    int32_t high;
    __asm__("smmulr %0, %1, %2" : "=r"(high) : "r"((int32_t)((uint32_t)a << 1)), "r"(b));
    return high;
}""",
    "mac_high": """int32_t @@(int32_t a, int32_t b, int32_t c) {
    return (int32_t)(((int64_t)a * b) >> 32) + c;
}""",
    "mac_high_dsp": """int32_t @@(int32_t a, int32_t b, int32_t c) {
    int32_t out;
    __asm__("smmla %0, %1, %2, %3" : "=r"(out) : "r"(a), "r"(b), "r"(c));
    return out;
}""",
    **HALVES,
    **RESCALE,
    "mulq64": """int32_t @@(int64_t x, int32_t mult, int32_t shift) {
    int32_t reduced = mult < 0x7FFF0000 ? (mult + (1 << 15)) >> 16 : 0x7FFF;
    int32_t total = 15 - shift;
    return (int32_t)((x * reduced + ((int64_t)1 << (total - 1))) >> total);
}""",
    "clz": """int32_t @@(uint32_t x) {
    return x == 0u ? 32 : (int32_t)__builtin_clz((unsigned)x);
}""",
    # Bytes 0 and 2, or 1 and 3, of a word as two 16-bit halves.
    "even_i8": """uint32_t @@(uint32_t x) {
#if defined(__clang__)
    return (uint32_t)__builtin_arm_sxtb16((int)x);
#else
    uint32_t out;
    __asm__("sxtb16 %0, %1" : "=r"(out) : "r"(x));
    return out;
#endif
}""",
    "odd_i8": """uint32_t @@(uint32_t x) {
#if defined(__clang__)
    return (uint32_t)__builtin_arm_sxtb16((int)(x >> 8 | x << 24));
#else
    uint32_t out;
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(out) : "r"(x));
    return out;
#endif
}""",
    "even_u8": """uint32_t @@(uint32_t x) {
    return x & 0x00FF00FFu;
}""",
    "odd_u8": """uint32_t @@(uint32_t x) {
    return x >> 8 & 0x00FF00FFu;
}""",
    "smlad": """int32_t @@(uint32_t a, uint32_t b, int32_t acc) {
#if defined(__clang__)
    return __builtin_arm_smlad((int)a, (int)b, acc);
#else
    int32_t out;
    __asm__("smlad %0, %1, %2, %3" : "=r"(out) : "r"(a), "r"(b), "r"(acc));
    return out;
#endif
}""",
    "smlabb": """int32_t @@(uint32_t a, uint32_t b, int32_t acc) {
#if defined(__clang__)
    return __builtin_arm_smlabb((int)a, (int)b, acc);
#else
    int32_t out;
    __asm__("smlabb %0, %1, %2, %3" : "=r"(out) : "r"(a), "r"(b), "r"(acc));
    return out;
#endif
}""",
    "smlatt": """int32_t @@(uint32_t a, uint32_t b, int32_t acc) {
#if defined(__clang__)
    return __builtin_arm_smlatt((int)a, (int)b, acc);
#else
    int32_t out;
    __asm__("smlatt %0, %1, %2, %3" : "=r"(out) : "r"(a), "r"(b), "r"(acc));
    return out;
#endif
}""",
    "add4": """uint32_t @@(uint32_t a, uint32_t b) { /* four bytes, each wrapping */
    return ((a & 0x7F7F7F7Fu) + (b & 0x7F7F7F7Fu)) ^ ((a ^ b) & 0x80808080u);
}""",
    "splat2": """uint32_t @@(int32_t x) {
    return ((uint32_t)x & 0xFFFFu) * 0x00010001u;
}""",
    "splat4": """uint32_t @@(int32_t x) {
    return ((uint32_t)x & 0xFFu) * 0x01010101u;
}""",
    "vpdpbusd_i32x16": """@i32x16 @@(@i32x16 acc, @u8x64 a, @i8x64 b) {
#if defined(__clang__)
    return (@i32x16)__builtin_ia32_vpdpbusd512(acc, (@i32x16)a, (@i32x16)b);
#else
    return (@i32x16)__builtin_ia32_vpdpbusd_v16si(acc, (@i32x16)a, (@i32x16)b);
#endif
}""",
    "vpdpbusd_i32x8": """@i32x8 @@(@i32x8 acc, @u8x32 a, @i8x32 b) {
#if defined(__clang__)
    return (@i32x8)__builtin_ia32_vpdpbusd256(acc, (@i32x8)a, (@i32x8)b);
#else
    return (@i32x8)__builtin_ia32_vpdpbusd_v8si(acc, (@i32x8)a, (@i32x8)b);
#endif
}""",
    "pmaddwd_i32x16": """@i32x16 @@(@i32x16 acc, @i16x32 a, @i16x32 b) {
#if defined(__clang__)
    return acc + (@i32x16)__builtin_ia32_pmaddwd512(a, b);
#else
    return acc + (@i32x16)__builtin_ia32_pmaddwd512_mask(a, b, (@i32x16){0}, 0xFFFF);
#endif
}""",
    "pmaddwd_i32x8": """@i32x8 @@(@i32x8 acc, @i16x16 a, @i16x16 b) {
    return acc + (@i32x8)__builtin_ia32_pmaddwd256(a, b);
}""",
    "pmaddwd_i32x4": """@i32x4 @@(@i32x4 acc, @i16x8 a, @i16x8 b) {
    return acc + (@i32x4)__builtin_ia32_pmaddwd128(a, b);
}""",
    # Lanes of which the first ``count`` are in memory; the others read 0 and are not written.
    "loadn_avx512f": """@f32x16 @@(const void *from, int32_t count) {
    uint32_t mask = count >= 16 ? 0xFFFFu : (count > 0 ? (1u << count) - 1u : 0u);
    return __builtin_ia32_loadups512_mask((const float *)from, (@f32x16){0}, (uint16_t)mask);
}""",
    "storen_avx512f": """void @@(void *to, int32_t count, @f32x16 value) {
    uint32_t mask = count >= 16 ? 0xFFFFu : (count > 0 ? (1u << count) - 1u : 0u);
    __builtin_ia32_storeups512_mask((float *)to, value, (uint16_t)mask);
}""",
    "loadn_avx2": """@f32x8 @@(const void *from, int32_t count) {
    @i32x8 mask = (@i32x8)((@i32x8){0, 1, 2, 3, 4, 5, 6, 7} < @splat_i32x8(count));
    return __builtin_ia32_maskloadps256((const @f32x8 *)from, mask);
}""",
    "storen_avx2": """void @@(void *to, int32_t count, @f32x8 value) {
    @i32x8 mask = (@i32x8)((@i32x8){0, 1, 2, 3, 4, 5, 6, 7} < @splat_i32x8(count));
    __builtin_ia32_maskstoreps256((@f32x8 *)to, mask, value);
}""",
    # Where the C library would be called for a product added in one rounding.
    "mla_f32": """float @@(float a, float b, float c) {
#if defined(__clang__)
#pragma STDC FP_CONTRACT ON
    return a * b + c;
#else
    return __builtin_fmaf(a, b, c);
#endif
}""",
    # Registers that follow each other, as the instruction wants them; ``from`` moves on.
    "apart_vfp_f32x4": """void @@(const float **from, float *a, float *b, float *c, float *d) {
    register float s0 __asm__("s0");
    register float s1 __asm__("s1");
    register float s2 __asm__("s2");
    register float s3 __asm__("s3");
    __asm__("vldmia %0!, {s0-s3}"
            : "+r"(*from), "=t"(s0), "=t"(s1), "=t"(s2), "=t"(s3)
            : "m"(*(const float (*)[4])*from));
    *a = s0;
    *b = s1;
    *c = s2;
    *d = s3;
}""",
    "fma_f32": "float @@(float a, float b, float c) {\n    return __builtin_fmaf(a, b, c);\n}",
}

# a*b + c in one instruction: gcc keeps the two apart in standard C, so it is told the instruction.
_FMA: Final = {
    "avx512f": ("f32x16", "__builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4)"),
    "fma256": ("f32x8", "__builtin_ia32_vfmaddps256(a, b, c)"),
    "fma128": ("f32x4", "__builtin_ia32_vfmaddps(a, b, c)"),
    "neon": ("f32x4", "__builtin_aarch64_fmav4sf(a, b, c)"),
}
for _isa, (_type, _call) in _FMA.items():
    _PLAIN[f"fma_{_isa}"] = f"""@{_type} @@(@{_type} a, @{_type} b, @{_type} c) {{
#if defined(__clang__)
#pragma STDC FP_CONTRACT ON
    return a * b + c;
#else
    return {_call};
#endif
}}"""

# Products of two words of two 16-bit integers: of both halves, or of one of each.
_PLAIN["dot2"] = """int32_t @@(int32_t acc, uint32_t a, uint32_t b) {
    return acc + (int16_t)a * (int16_t)b + (int16_t)(a >> 16) * (int16_t)(b >> 16);
}"""
for _i, _j in ((0, 0), (0, 1), (1, 0), (1, 1)):
    _halves = f"(int16_t)(a >> {16 * _i}) * (int16_t)(b >> {16 * _j})"
    _PLAIN[f"mac{_i}{_j}"] = f"int32_t @@(int32_t acc, uint32_t a, uint32_t b) {{\n    return acc + {_halves};\n}}"
    _mnemonic = f"smla{'bt'[_i]}{'bt'[_j]}"
    _PLAIN[f"mac{_i}{_j}_dsp"] = f"""int32_t @@(int32_t acc, uint32_t a, uint32_t b) {{
#if defined(__clang__)
    return __builtin_arm_{_mnemonic}((int)a, (int)b, acc);
#else
    int32_t out;
    __asm__("{_mnemonic} %0, %1, %2, %3" : "=r"(out) : "r"(a), "r"(b), "r"(acc));
    return out;
#endif
}}"""

# Saturation in one instruction, of x or of x/2 rounded down.
for _name, _how in (("i8", "ssat %0, #8"), ("i16", "ssat %0, #16"), ("u8", "usat %0, #8")):
    for _what, _arg in (("clamp", "%1"), ("half", "%1, asr #1")):
        _PLAIN[f"{_what}_{_name}_thumb2"] = f"""int32_t @@(int32_t x) {{
    int32_t out;
    __asm__("{_how}, {_arg}" : "=r"(out) : "r"(x) : "cc");
    return out;
}}"""

# Dot products of two words of four bytes, by the signs of a and b.
for _a in ("i8", "u8"):
    for _b in ("i8", "u8"):
        _ca, _cb = f"({'u' if _a == 'u8' else ''}int8_t)", f"({'u' if _b == 'u8' else ''}int8_t)"
        _terms = [f"{_ca}(a >> {s}) * {_cb}(b >> {s})" if s else f"{_ca}a * {_cb}b" for s in (0, 8, 16, 24)]
        _PLAIN[f"dot4_{_a}{_b}"] = (
            f"int32_t @@(int32_t acc, uint32_t a, uint32_t b) {{\n    return acc + {' + '.join(_terms)};\n}}"
        )
        _PLAIN[f"dot4_{_a}{_b}_dsp"] = f"""int32_t @@(int32_t acc, uint32_t a, uint32_t b) {{
    acc = @smlad(@even_{_a}(a), @even_{_b}(b), acc);
    return @smlad(@odd_{_a}(a), @odd_{_b}(b), acc);
}}"""
        for _lane in range(4):
            _shift = f" >> {8 * _lane}" if _lane else ""
            _PLAIN[f"mac{_lane}_{_a}{_b}"] = (
                "int32_t @@(int32_t acc, uint32_t a, uint32_t b) {\n"
                f"    return acc + {_ca}(a{_shift}) * {_cb}(b{_shift});\n}}"
            )
            _half, _parity = ("smlabb", "smlatt")[_lane // 2], ("even", "odd")[_lane % 2]
            _PLAIN[f"mac{_lane}_{_a}{_b}_dsp"] = f"""int32_t @@(int32_t acc, uint32_t a, uint32_t b) {{
    return @{_half}(@{_parity}_{_a}(a), @{_parity}_{_b}(b), acc);
}}"""

_SCALAR: Final = {
    "min": "$C @@($C a, $C b) {\n    return a < b ? a : b;\n}",
    "max": "$C @@($C a, $C b) {\n    return a > b ? a : b;\n}",
    # numpy's minimum and maximum: a NaN on either side wins. In this form, because clang 22 takes forever to
    # compile a chain of a few dozen of "a > b ? a : b", which unrolled loops make.
    "min_float": "$C @@($C a, $C b) {\n    return a < b ? a : (a >= b ? b : a + b);\n}",
    "max_float": "$C @@($C a, $C b) {\n    return a > b ? a : (a <= b ? b : a + b);\n}",
    "clamp": "$C @@($C x, $C lo, $C hi) {\n    return x < lo ? lo : (x > hi ? hi : x);\n}",
    **{f"fold{name}": "$C @@($C x) {\n    return x;\n}" for name in ("add", "mul", "min", "max")},
    "abs": "$C @@($C x) {\n    return x < 0 ? ($C)(0u - ($U)x) : x;\n}",
    "rem": "$C @@($C a, $C b) { /* of a division that may not be one */\n"
    "    return b == 0 || ($C)(b + 1) == 0 ? 0 : ($C)(a % b);\n}",
    "urem": "$C @@($C a, $C b) {\n    return b == 0 ? a * 0u : ($C)(a % b);\n}",
}

_LANES: Final = {
    "splat": "$C @@($S x) {\n    return x - ($C){0};\n}",
    "select": "$C @@($M mask, $C a, $C b) {\n    return ($C)((($M)a & mask) | (($M)b & ~mask));\n}",
    "min": "$C @@($C a, $C b) {\n    return @select_$T(($M)(a < b), a, b);\n}",
    "max": "$C @@($C a, $C b) {\n    return @select_$T(($M)(a > b), a, b);\n}",
    "min_float": "$C @@($C a, $C b) {\n    $C least = @select_$T(($M)(a < b), a, b);\n"
    "    return @select_$T(($M)(a != a), a, least);\n}",
    "max_float": "$C @@($C a, $C b) {\n    $C most = @select_$T(($M)(a > b), a, b);\n"
    "    return @select_$T(($M)(a != a), a, most);\n}",
    # a*b + c, in one instruction where clang has one; for gcc see _FMA.
    "fma": """$C @@($C a, $C b, $C c) {
#if defined(__clang__)
#pragma STDC FP_CONTRACT ON
#endif
    return a * b + c;
}""",
    # The first ``count`` lanes in memory; the others read 0 and are not written.
    "loadn": """$C @@(const void *from, int32_t count) {
    $C out = {0};
    if (count >= $N) {
        out = *(const @$T_mem *)from;
    } else {
        for (int32_t i = 0; i < count; ++i) {
            out[i] = ((const $S *)from)[i];
        }
    }
    return out;
}""",
    "storen": """void @@(void *to, int32_t count, $C value) {
    if (count >= $N) {
        *(@$T_mem *)to = value;
    } else {
        for (int32_t i = 0; i < count; ++i) {
            (($S *)to)[i] = value[i];
        }
    }
}""",
    "abs": "$C @@($C x) {\n    return @select_$T(($M)(x < 0), -x, x);\n}",
    "first": "$C @@(int32_t count) {\n    return ($C)(($C){$I} < @splat_$T(count));\n}",
    **{
        f"fold{name}": "$S @@($C x) {\n    union {\n        $C whole;\n        $H half[2];\n    } word;\n"
        f"    word.whole = x;\n    return {step};\n}}"
        for name, step in (
            ("add", "@foldadd_$J(word.half[0] + word.half[1])"),
            ("mul", "@foldmul_$J(word.half[0] * word.half[1])"),
            ("min", "@foldmin_$J(@min_$J(word.half[0], word.half[1]))"),
            ("max", "@foldmax_$J(@max_$J(word.half[0], word.half[1]))"),
        )
    },
    **{
        f"zip{half}": f"""$C @@($C a, $C b) {{
#if defined(__clang__)
    return __builtin_shufflevector(a, b, ${key});
#else
    return __builtin_shuffle(a, b, ($M){{${key}}});
#endif
}}"""
        for half, key in (("lo", "X"), ("hi", "Y"))
    },
    "repeat4": "$C @@(uint32_t x) { /* four bytes, over and over */\n    return ($C)@splat_u32x$Q(x);\n}",
    "srdhm": """$C @@($C a, $C b) {
    @i64x$N wide = __builtin_convertvector(a, @i64x$N) * __builtin_convertvector(b, @i64x$N);
    wide = (wide + ((int64_t)1 << 30)) >> 31;
    return __builtin_convertvector(@min_i64x$N(wide, @splat_i64x$N(INT32_MAX)), $C);
}""",
    "machigh": """$C @@($C a, $C b, $C c) {
    @i64x$N wide = __builtin_convertvector(a, @i64x$N) * __builtin_convertvector(b, @i64x$N);
    return __builtin_convertvector(wide >> 32, $C) + c;
}""",
    "srdhm30": """$C @@($C a, $C b) { /* |a| < 2**30 */
    @i64x$N wide = __builtin_convertvector(a, @i64x$N) * __builtin_convertvector(b, @i64x$N);
    return __builtin_convertvector((wide + ((int64_t)1 << 30)) >> 31, $C);
}""",
    "rdbpot": """$C @@($C x, $C e) {
    $C mask = ($C)(((@u32x$N){0} + 1u) << (@u32x$N)e) - 1;
    $C threshold = (mask >> 1) - ($C)(x < 0);
    return (x >> e) - ($C)((x & mask) > threshold);
}""",
    "rdbpot1": """$C @@($C x, $C e) { /* |x| <= 2**30, e >= 1 */
    return (((x + (x >> 31)) >> (e - 1)) + 1) >> 1;
}""",
}

# Operations that have a scalar helper only, lane by lane.
_EACH: Final = {
    "mulq64": "$C @@(@i64x$N x, $C mult, $C shift) {\n$L@mulq64(x[i], mult[i], shift[i]);$E",
    "rem": "$C @@($C a, $C b) {\n$L($S)@rem_$D(a[i], b[i]);$E",
    "clz": "$C @@($C x) {\n$L($S)@clz((uint32_t)x[i]);$E",
}
_EACH_LOOP: Final = "    $C out = {0};\n    for (int32_t i = 0; i < $N; ++i) {\n        out[i] = "
_EACH_END: Final = "\n    }\n    return out;\n}"

# Dot products of groups of lanes where the instruction set has none.
_GROUPED_DOT: Final = """$C @@($C acc, @$A a, @$B b) {
    for (int32_t i = 0; i < $N; ++i) {
        for (int32_t j = 0; j < $K; ++j) {
            acc[i] += a[$K * i + j] * b[$K * i + j];
        }
    }
    return acc;
}"""
_SCALAR_DOT: Final = """int32_t @@(int32_t acc, @$A a, @$B b) {
    for (int32_t i = 0; i < $K; ++i) {
        acc += a[i] * b[i];
    }
    return acc;
}"""


def helper_text(name: str) -> str:
    """The C text of helper ``name``: one of the table, or ``family_type`` as in "min_i32x8".

    Raises:
        BuildError: no such helper.
    """
    body = _PLAIN.get(name) or MVE.get(name) or NEON.get(name) or _of_family(name)
    if body is None:
        raise BuildError(f"no helper function {name}")
    inline = "" if body.startswith("static ") else _INLINE
    if name.partition("_")[0] in _SOMETIMES:
        inline += "__attribute__((unused)) "
    return inline + body.replace("@@", f"@{name}")


def helper_header(name: str) -> str | None:
    """The header of the compiler that helper ``name`` needs; None for most."""
    return MVE_HEADER if name in MVE else NEON_HEADER if name in NEON else None


def _of_family(name: str) -> str | None:
    family, _, types = name.partition("_")
    kinds = [dtype(t) for t in types.split("_") if t]
    if family == "dot" and len(kinds) == 3:
        acc, a, b = kinds
        text = _SCALAR_DOT if acc.lanes == 1 else _GROUPED_DOT
        text = text.replace("$A", str(a)).replace("$B", str(b)).replace("$K", str(a.lanes // acc.lanes))
        return _fill(text, acc)
    if len(kinds) == 2:
        found = conversion_text(family, *kinds)
        return _fill(found, kinds[0]) if found else None
    if len(kinds) != 1:
        return None
    real = real_text(family, kinds[0])
    if real is not None:
        return _fill(real, kinds[0])
    if family in _EACH and kinds[0].lanes > 1:
        return _fill(_EACH[family].replace("$L", _EACH_LOOP).replace("$E", _EACH_END), kinds[0])
    table = _SCALAR if kinds[0].lanes == 1 else _LANES
    found = table.get(f"{family}_float" if kinds[0].is_float else family) or table.get(family)
    return _fill(found, kinds[0]) if found else None


def _fill(text: str, type: DType) -> str:
    scalar = scalar_name(type)
    spelled = f"@{type}" if type.lanes > 1 else scalar
    lanes = f"x{type.lanes}" if type.lanes > 1 else ""
    half = type.with_lanes(max(type.lanes // 2, 1))
    mask, unsigned = (f"@{k}{type.bits}{lanes}" if lanes else scalar_name(DType(k, type.bits)) for k in "iu")
    for key, value in (
        ("$C", spelled),
        ("$S", scalar),
        ("$M", mask),
        ("$U", unsigned),
        ("$D", type.scalar),
        ("$H", f"@{half}" if half.lanes > 1 else scalar),
        ("$J", half),
        ("$X", _zipped(type.lanes, 0)),
        ("$Y", _zipped(type.lanes, type.lanes // 2)),
        ("$I", ", ".join(str(k) for k in range(type.lanes))),
        ("$N", type.lanes),
        ("$Q", type.nbytes // 4),
        ("$T", type),
    ):
        text = text.replace(key, str(value))
    return text


def _zipped(lanes: int, start: int) -> str:
    """The numbers of lanes of two vectors in turn, from ``start`` of each."""
    return ", ".join(f"{k}, {k + lanes}" for k in range(start, start + lanes // 2))
