"""Arm's M profile without vectors: fixed point, saturation, products of bytes and halves, floats in VFP registers."""

from __future__ import annotations

from typing import Final

from sdk.codegen_c.c99.instructions.model import Instruction, InstructionSet, expression, function

__all__ = ["SET"]

_DSP: Final = "dsp thumb2"
_DSP_WORDS: Final = f"{_DSP} words"
_BYTES: Final = ("i8", "u8")

_FIXED_POINT: Final = (
    function(
        "srdhm30_dsp",
        "srdhm30",
        "i32",
        """int32_t @@(int32_t a, int32_t b) { /* |a| < 2**30 */
    int32_t high;
    __asm__("smmulr %0, %1, %2" : "=r"(high) : "r"((int32_t)((uint32_t)a << 1)), "r"(b));
    return high;
}""",
        "dsp thumb thumb2",
    ),
    expression("srdhm30", "i32", "@srdhm30({0}, {1})", "thumb thumb2"),  # SMULL
    # Where products have 32 bits only: a*b / 2**31 to nearest, of four products of halves.
    function(
        "srdhm30_thumb",
        "srdhm30",
        "i32",
        """int32_t @@(int32_t a, int32_t b) { /* |a| < 2**30 */
    int32_t al = a & 65535, ah = a >> 16, bl = b & 65535, bh = b >> 16;
    int32_t middle = ah * bl + (int32_t)((uint32_t)al * (uint32_t)bl >> 16);
    int32_t low = al * bh + (middle & 65535);
    return (ah * bh + (middle >> 16)) * 2 + ((low + 16384) >> 15);
}""",
        "thumb",
    ),
    function(
        "mac_high_dsp",
        "mac_high",
        "i32",
        """int32_t @@(int32_t a, int32_t b, int32_t c) {
    int32_t out;
    __asm__("smmla %0, %1, %2, %3" : "=r"(out) : "r"(a), "r"(b), "r"(c));
    return out;
}""",
        _DSP,
    ),
    # rescale_up(srdhm30(a, b), e, twice): what is added at the end joins the product, before the shift.
    function(
        "rescale_up_dsp",
        "rescale_product",
        "i32",
        """int32_t @@(int32_t a, int32_t b, int32_t e, int32_t twice) { /* |twice| < 512, 1 <= e <= 22 */
    int32_t high, add = (int32_t)((uint32_t)twice << (e - 1));
    __asm__("smmlar %0, %1, %2, %3" : "=r"(high) : "r"((int32_t)((uint32_t)a << 1)), "r"(b), "r"(add));
    return high >> (e - 1);
}""",
        _DSP,
        call="@rescale_up_dsp({0}, {1}, {2}, {3})",
    ),
    # The last bit shifted out is the carry: rounding costs nothing. gcc reads another syntax unless told.
    function(
        "add_halves_thumb",
        "add_halves",
        "i64",
        """int64_t @@(int64_t sum, int32_t x) {
    uint32_t low = (uint32_t)sum, high = (uint32_t)(sum >> 32);
    __asm__(".syntax unified\\n\\tadds %0, %0, %2\\n\\tasrs %2, %2, #16\\n\\tadcs %1, %2"
            : "+l"(low), "+l"(high), "+l"(x) : : "cc");
    return (int64_t)((uint64_t)high << 32 | low);
}""",
        "thumb",
        call="@add_halves_thumb({0}, (int32_t)({1}))",
    ),
)


def _saturated(op: str, type: str, how: str, arg: str) -> Instruction:
    """Saturation in one instruction, of x or of x/2 rounded down."""
    return function(
        f"{op}_{type}_thumb2",
        f"{op}_{type}",
        "i32",
        f"""int32_t @@(int32_t x) {{
    int32_t out;
    __asm__("{how}, {arg}" : "=r"(out) : "r"(x) : "cc");
    return out;
}}""",
        "thumb2",
        call=f"@{op}_{type}_thumb2({{0}})",
    )


_SATURATED: Final = tuple(
    _saturated(op, type, how, arg)
    for type, how in (("i8", "ssat %0, #8"), ("i16", "ssat %0, #16"), ("u8", "usat %0, #8"))
    for op, arg in (("clamp", "%1"), ("half", "%1, asr #1"))
)

# Bytes 0 and 2, or 1 and 3, of a word as two 16-bit halves.
_UNPACKED: Final = (
    function(
        "even_i8",
        "evens",
        "i16x2 i8x4",
        """uint32_t @@(uint32_t x) {
#if defined(__clang__)
    return (uint32_t)__builtin_arm_sxtb16((int)x);
#else
    uint32_t out;
    __asm__("sxtb16 %0, %1" : "=r"(out) : "r"(x));
    return out;
#endif
}""",
        _DSP_WORDS,
    ),
    function(
        "odd_i8",
        "odds",
        "i16x2 i8x4",
        """uint32_t @@(uint32_t x) {
#if defined(__clang__)
    return (uint32_t)__builtin_arm_sxtb16((int)(x >> 8 | x << 24));
#else
    uint32_t out;
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(out) : "r"(x));
    return out;
#endif
}""",
        _DSP_WORDS,
    ),
    function(
        "even_u8", "evens", "i16x2 u8x4", "uint32_t @@(uint32_t x) {\n    return x & 0x00FF00FFu;\n}", _DSP_WORDS
    ),
    function(
        "odd_u8", "odds", "i16x2 u8x4", "uint32_t @@(uint32_t x) {\n    return x >> 8 & 0x00FF00FFu;\n}", _DSP_WORDS
    ),
)


def _multiplied(mnemonic: str, parameters: str = "uint32_t a, uint32_t b, int32_t acc") -> str:
    """A C function of two words and a sum that is one instruction."""
    return f"""int32_t @@({parameters}) {{
#if defined(__clang__)
    return __builtin_arm_{mnemonic}((int)a, (int)b, acc);
#else
    int32_t out;
    __asm__("{mnemonic} %0, %1, %2, %3" : "=r"(out) : "r"(a), "r"(b), "r"(acc));
    return out;
#endif
}}"""


_PRODUCTS: Final = (
    function(
        "smlad", "dot", "i32 i32 i16x2 i16x2", _multiplied("smlad"), _DSP_WORDS, call="@smlad({1}, {2}, {0})"
    ),
    function(
        "smlald",
        "dot",
        "i64 i64 i16x2 i16x2",
        """int64_t @@(int64_t acc, uint32_t a, uint32_t b) {
#if defined(__clang__)
    return __builtin_arm_smlald((int)a, (int)b, acc);
#else
    __asm__("smlald %Q0, %R0, %1, %2" : "+r"(acc) : "r"(a), "r"(b));
    return acc;
#endif
}""",
        _DSP_WORDS,
    ),
    # The product of one half of each word.
    expression(
        "mac_pair",
        "i32 i32 i16x2 i16x2 i32 i32",
        "@mac{3:int}{4:int}_dsp({0}, {1}, {2})",
        _DSP_WORDS,
        functions={
            f"mac{i}{j}_dsp": _multiplied(f"smla{'bt'[i]}{'bt'[j]}", "int32_t acc, uint32_t a, uint32_t b")
            for i in (0, 1)
            for j in (0, 1)
        },
    ),
)


def _dot4(a: str, b: str) -> Instruction:
    """The products of two words of four bytes."""
    return function(
        f"dot4_{a}{b}_dsp",
        "dot",
        f"i32 i32 {a}x4 {b}x4",
        f"""int32_t @@(int32_t acc, uint32_t a, uint32_t b) {{
    acc = @smlad(@even_{a}(a), @even_{b}(b), acc);
    return @smlad(@odd_{a}(a), @odd_{b}(b), acc);
}}""",
        _DSP_WORDS,
    )


def _mac4(a: str, b: str) -> Instruction:
    """The product of one byte of each word."""
    return expression(
        "mac_lane",
        f"i32 i32 {a}x4 {b}x4 i32",
        f"@mac{{3:int}}_{a}{b}_dsp({{0}}, {{1}}, {{2}})",
        _DSP_WORDS,
        functions={
            f"mac{lane}_{a}{b}_dsp": f"""int32_t @@(int32_t acc, uint32_t a, uint32_t b) {{
    return @{("smlabb", "smlatt")[lane // 2]}(@{parity}_{a}(a), @{parity}_{b}(b), acc);
}}"""
            for lane in range(4)
            for parity in (("even", "odd")[lane % 2],)
        },
    )


_FLOATS: Final = (
    # Where the C library would be called for a product added in one rounding.
    function(
        "mla_f32",
        "fma",
        "f32",
        """float @@(float a, float b, float c) {
#if defined(__clang__)
#pragma STDC FP_CONTRACT ON
    return a * b + c;
#else
    return __builtin_fmaf(a, b, c);
#endif
}""",
        "fpu-sp thumb2",
    ),
    # Registers that follow each other, as the instruction wants them; ``from`` moves on.
    function(
        "apart_vfp_f32x4",
        "apart",
        "f32x4",
        """void @@(const float **from, float *a, float *b, float *c, float *d) {
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
        "fpu-sp thumb2",
        call="@apart_vfp_f32x4",
    ),
)

SET: Final = InstructionSet(
    (
        *_FIXED_POINT,
        *_SATURATED,
        *_UNPACKED,
        *_PRODUCTS,
        *(_dot4(a, b) for a in _BYTES for b in _BYTES),
        *(_mac4(a, b) for a in _BYTES for b in _BYTES),
        *_FLOATS,
    ),
    {"smlabb": _multiplied("smlabb"), "smlatt": _multiplied("smlatt")},
)
