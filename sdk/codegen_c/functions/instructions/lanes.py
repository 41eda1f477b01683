"""Vectors on any core: GNU vector types, for which C has operators, and C functions for what it has none."""

from __future__ import annotations

from typing import Final

from sdk.codegen_c.functions.instructions.model import Instruction, InstructionSet, expression, function

__all__ = ["LANES", "SET", "fused", "settled"]

SET: Final = InstructionSet(
    (
        expression("srdhm", "i32x*", "@srdhm_$T({0}, {1})"),
        expression("srdhm30", "i32x*", "@srdhm30_$T({0}, {1})"),
        expression("mac_high", "i32x*", "@machigh_$T({0}, {1}, {2})"),
        expression("rdbpot rdbpot1 rdbpot22", "i32x*", "@rdbpot_$T({0}, {1})"),
        expression("rdbpot1 rdbpot22", "i32x*", "@rdbpot1_$T({0}, {1})", small=True),
        expression("mulq64", "i32x* i64x* i32x*", "@mulq64_$T({0}, {1}, {2})"),
        expression("clz", "[iu]32x*", "@clz_$T({0})"),
        *(expression(f"zip_{half}", "*x*", f"@zip{half}_$T({{0}}, {{1}})") for half in ("lo", "hi")),
        expression("dot dot_small dot_narrow", "*", "@dot_$T_$1_$2({0}, {1}, {2})"),
        expression("mac_lane", "i32 i32 [iu]*x* [iu]*x* i32", "{0} + {1}[{3:int}] * {2}[{3:int}]", "vectors"),
        expression("mac_pair", "i32 i32 i16x2 i16x2 i32 i32", "{0} + {1}[{3:int}] * {2}[{4:int}]", "vectors"),
        expression("fma", "f*x*", "@fma_$T({0}, {1}, {2})"),
    )
)


def settled(type: str, register: str, needs: str) -> Instruction:
    """A vector of floats that is computed before more memory is read; no instruction. ``register`` is what GNU C calls
    the registers that hold it."""
    return function(
        f"settled_{needs}",
        "settled",
        type,
        f"""@{type} @@(@{type} x) {{
    __asm__ volatile("" : "+{register}"(x) : : "memory");
    return x;
}}""",
        needs,
    )


def fused(name: str, type: str, gcc: str, needs: str) -> Instruction:
    """a*b + c in one instruction: gcc keeps the two apart in standard C, so it is told the instruction."""
    return function(
        name,
        "fma",
        type,
        f"""@{type} @@(@{type} a, @{type} b, @{type} c) {{
#if defined(__clang__)
#pragma STDC FP_CONTRACT ON
    return a * b + c;
#else
    return {gcc};
#endif
}}""",
        needs,
    )


def _each(parameters: str, value: str) -> str:
    return f"""$C @@({parameters}) {{
    $C out = {{0}};
    for (int32_t i = 0; i < $N; ++i) {{
        out[i] = {value};
    }}
    return out;
}}"""


# C functions of vectors of any type; one name with "_float" is for real numbers.
LANES: Final = {
    "splat": "$C @@($S x) {\n    return x - ($C){0};\n}",
    "select": "$C @@($M mask, $C a, $C b) {\n    return ($C)((($M)a & mask) | (($M)b & ~mask));\n}",
    "min": "$C @@($C a, $C b) {\n    return @select_$T(($M)(a < b), a, b);\n}",
    "max": "$C @@($C a, $C b) {\n    return @select_$T(($M)(a > b), a, b);\n}",
    "min_float": "$C @@($C a, $C b) {\n    $C low = @select_$T(($M)(a < b), a, b);\n"
    "    return @select_$T(($M)(a != a), a, low);\n}",
    "max_float": "$C @@($C a, $C b) {\n    $C high = @select_$T(($M)(a > b), a, b);\n"
    "    return @select_$T(($M)(a != a), a, high);\n}",
    # a*b + c, in one instruction where clang has one; for gcc see ``fused``.
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
    # what has a function of scalars only, lane by lane
    "mulq64": _each("@i64x$N x, $C mult, $C shift", "@mulq64(x[i], mult[i], shift[i])"),
    "rem": _each("$C a, $C b", "($S)@rem_$D(a[i], b[i])"),
    "urem": _each("$C a, $C b", "($S)@urem_$D(a[i], b[i])"),
    "clz": _each("$C x", "($S)@clz((uint32_t)x[i])"),
    # groups of lanes, where the instruction set adds no products of theirs: ``$A`` and ``$B`` are the types of the
    # factors, ``$K`` lanes of them are a group
    "dot": """$C @@($C acc, @$A a, @$B b) {
    for (int32_t i = 0; i < $N; ++i) {
        for (int32_t j = 0; j < $K; ++j) {
            acc[i] += a[$K * i + j] * b[$K * i + j];
        }
    }
    return acc;
}""",
}
