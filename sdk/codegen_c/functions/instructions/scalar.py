"""Integers one by one, on any core: fixed point as in gemmlowp and TensorFlow Lite, and what C leaves undefined."""

from __future__ import annotations

from typing import Final

from sdk.codegen_c.functions.instructions.model import InstructionSet, expression, function

__all__ = ["SCALARS", "SET"]

# C functions of scalars of any type; one name with "_float" is for real numbers.
SCALARS: Final = {
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
    # all ``$K`` products of the vectors of the types ``$A`` and ``$B``
    "dot": """int32_t @@(int32_t acc, @$A a, @$B b) {
    for (int32_t i = 0; i < $K; ++i) {
        acc += a[i] * b[i];
    }
    return acc;
}""",
}

SET: Final = InstructionSet(
    (
        # a*b / 2**31 to nearest, saturated (TensorFlow Lite's SaturatingRoundingDoublingHighMul).
        function(
            "srdhm",
            "srdhm",
            "i32",
            """int32_t @@(int32_t a, int32_t b) {
    int64_t wide = (int64_t)a * b + ((int64_t)1 << 30);
    return a == INT32_MIN && b == INT32_MIN ? INT32_MAX : (int32_t)(wide >> 31);
}""",
        ),
        function(
            "srdhm30",
            "srdhm30",
            "i32",
            """int32_t @@(int32_t a, int32_t b) { /* |a| < 2**30 */
    return (int32_t)(((int64_t)a * b + ((int64_t)1 << 30)) >> 31);
}""",
        ),
        function(
            "mac_high",
            "mac_high",
            "i32",
            """int32_t @@(int32_t a, int32_t b, int32_t c) {
    return (int32_t)(((int64_t)a * b) >> 32) + c;
}""",
        ),
        # x / 2**e to nearest, ties away from zero (TensorFlow Lite's RoundingDivideByPOT).
        function(
            "rdbpot",
            "rdbpot rdbpot1 rdbpot22",
            "i32",
            """int32_t @@(int32_t x, int32_t e) {
    int32_t mask = (int32_t)(((uint32_t)1 << e) - 1u);
    int32_t threshold = (mask >> 1) + (x < 0 ? 1 : 0);
    return (x >> e) + ((x & mask) > threshold ? 1 : 0);
}""",
        ),
        function(
            "rdbpot1",
            "rdbpot1 rdbpot22",
            "i32",
            """int32_t @@(int32_t x, int32_t e) { /* |x| <= 2**30, e >= 1 */
    return (((x + (x >> 31)) >> (e - 1)) + 1) >> 1; /* floor((y + 2**(e-1)) / 2**e) in two shifts */
}""",
            small=True,
        ),
        function(
            "mulq64",
            "mulq64",
            "i32 i64 i32",
            """int32_t @@(int64_t x, int32_t mult, int32_t shift) {
    int32_t reduced = mult < 0x7FFF0000 ? (mult + (1 << 15)) >> 16 : 0x7FFF;
    int32_t total = 15 - shift;
    return (int32_t)((x * reduced + ((int64_t)1 << (total - 1))) >> total);
}""",
        ),
        # x added to the lower word of a sum, x / 2**16 to nearest to the upper one.
        function(
            "add_halves",
            "add_halves",
            "i64",
            """int64_t @@(int64_t sum, int32_t x) { /* x < 2**31 - 2**15 */
    uint32_t high = (uint32_t)(sum >> 32) + (uint32_t)((x + 32768) >> 16);
    return (int64_t)((uint64_t)high << 32 | ((uint32_t)sum + (uint32_t)x));
}""",
            call="@add_halves({0}, (int32_t)({1}))",
        ),
        function(
            "clz",
            "clz",
            "i32",
            """int32_t @@(uint32_t x) {
    return x == 0u ? 32 : (int32_t)__builtin_clz((unsigned)x);
}""",
            call="@clz((uint32_t)({0}))",
        ),
        expression("clz", "u32 u32", "(uint32_t)@clz({0})"),
        expression("bits", "*", "@bits_$T_$0({0})"),
        *(expression(f"fold_{name}", "*", f"@fold{name}_$0({{0}})") for name in ("add", "mul", "min", "max")),
        expression("fmod", "i*", "@rem_$T({0}, {1})"),
        expression("fmod", "u*", "@urem_$T({0}, {1})"),
        expression("abs", "i*", "@abs_$T({0})"),
        expression("abs", "u*", "{0}"),
    ),
    {
        # 2*(rdbpot1(x, e) + zp) or 1 more, where twice = 2*zp + 1.
        "rescale": """int32_t @@(int32_t x, int32_t e, int32_t twice) { /* |x| <= 2**30, e >= 1 */
    return ((x + (x >> 31)) >> (e - 1)) + twice;
}""",
        # The same for x >= 0; at most 2*zp + 1 for others.
        "rescale_up": """int32_t @@(int32_t x, int32_t e, int32_t twice) { /* |x| <= 2**30, e >= 1 */
    return (x >> (e - 1)) + twice;
}""",
        "floordiv": """int32_t @@(int32_t a, int32_t b) {
    int32_t quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}""",
    },
)
