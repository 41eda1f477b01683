"""Arm's M profile without vectors: fixed point, saturation, products of bytes and halves, floats in VFP registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sdk.codegen_c.functions.instructions.model import Instruction, InstructionSet, expression, filled, function, line

__all__ = ["SET"]

_DSP: Final = "dsp thumb2"
_DSP_WORDS: Final = f"{_DSP} words"
_BYTES: Final = ("i8", "u8")
_HALVES: Final = {"evens": "", "odds": ", ror #8"}
_WORDS_AND_SUM: Final = "uint32_t a, uint32_t b, int32_t acc"

_SMMLA: Final = "smmla {d}, {0}, {1}, {2}"
_SMMLAR: Final = "smmlar {d}, {0}, {1}, {2}"
_SMMULR: Final = "smmulr {d}, {0}, {1}"
_SMLAD: Final = "smlad {d}, {1}, {2}, {0}"
_SMLAXY: Final = "smla{3:b|t}{4:b|t} {d}, {1}, {2}, {0}"


def _gnu(assembly: str, out: str, args: Sequence[str], literals: Sequence[int] = (), clobbers: str = "") -> str:
    """A line of assembly as a statement of GNU C: ``args`` are the C texts of the arguments before the ``literals``."""
    given = filled(line("", "", assembly, ""), (*(None for _ in args), *literals))
    assert given is not None, "a literal that the line does not take"
    text = given.text.format(*(f"%{k + 1}" for k in range(len(given.args))), d="%0")
    inputs = ", ".join(f'"r"({args[k]})' for k in given.args)
    after = f' : "{clobbers}"' if clobbers else ""
    return f'__asm__("{text}" : "=r"({out}) : {inputs}{after});'


_TWICE: Final = ("(int32_t)((uint32_t)a << 1)", "b")

_FIXED_POINT: Final = (
    function(
        "srdhm30_dsp",
        "srdhm30",
        "i32",
        f"""int32_t @@(int32_t a, int32_t b) {{ /* |a| < 2**30 */
    int32_t high;
    {_gnu(_SMMULR, "high", _TWICE)}
    return high;
}}""",
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
        f"""int32_t @@(int32_t a, int32_t b, int32_t c) {{
    int32_t out;
    {_gnu(_SMMLA, "out", ("a", "b", "c"))}
    return out;
}}""",
        _DSP,
        assembly=_SMMLA,
    ),
    # rescale_up(srdhm30(a, b), e, twice): what is added at the end joins the product, before the shift.
    function(
        "rescale_up_dsp",
        "rescale_product",
        "i32",
        f"""int32_t @@(int32_t a, int32_t b, int32_t e, int32_t twice) {{ /* |twice| < 512, 1 <= e <= 22 */
    int32_t high, add = (int32_t)((uint32_t)twice << (e - 1));
    {_gnu(_SMMLAR, "high", (*_TWICE, "add"))}
    return high >> (e - 1);
}}""",
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


# Where C has operators, or takes several instructions.
_LINES: Final = (
    line("add", "i32", "add {d}, {0}, #{1:1..4095}", "thumb2"),
    line("sub", "i32", "sub {d}, {0}, #{1:1..4095}", "thumb2"),
    line("sub", "i32", "sub {d}, {0}, {1}", "thumb2"),
    line("shl", "i32", "lsl {d}, {0}, #{1:1..31}", "thumb2"),
    line("shl", "i32", "lsl {d}, {0}, {1}", "thumb2"),
    line("shr", "i32", "asr {d}, {0}, #{1:1..31}", "thumb2"),
    line("shr", "i32", "asr {d}, {0}, {1}", "thumb2"),
    line("complement", "i32", "mvn {d}, {0}", "thumb2"),
    line("add_sign", "i32", "add {d}, {0}, {0}, asr #31", "thumb2"),
    line("mla", "i32", "mla {d}, {1}, {2}, {0}", "thumb2", products=1),
    line("mul_high", "i32", _SMMULR, _DSP),
    line("mac_high_rounded", "i32", _SMMLAR, _DSP),
)


def _saturated(type: str, how: str, shifted: bool) -> Instruction:
    """Saturation in one instruction, of x or of x shifted right by a literal."""
    name = f"clamp_shr_{type}" if shifted else f"clamp_{type}"
    assembly = f"{how}, {{0}}" + (", asr #{1:1..31}" if shifted else "")

    def body(*by: int) -> str:
        out = _gnu(assembly, "out", ("x",), by, clobbers="cc")
        return f"int32_t @@(int32_t x) {{\n    int32_t out;\n    {out}\n    return out;\n}}"

    return expression(
        name,
        "i32",
        f"@{name}{{1:int}}_thumb2({{0}})" if shifted else f"@{name}_thumb2({{0}})",
        "thumb2",
        functions={f"{name}{n}_thumb2": body(n) for n in range(1, 32)} if shifted else {f"{name}_thumb2": body()},
        assembly=assembly,
    )


_SATURATED: Final = tuple(
    _saturated(type, how, shifted)
    for type, how in (("i8", "ssat {d}, #8"), ("i16", "ssat {d}, #16"), ("u8", "usat {d}, #8"))
    for shifted in (False, True)
)


def _extended(op: str, name: str, builtin: str) -> Instruction:
    """Bytes 0 and 2, or 1 and 3, of a word as two 16-bit halves."""
    assembly = f"sxtb16 {{d}}, {{0}}{_HALVES[op]}"
    body = f"""uint32_t @@(uint32_t x) {{
#if defined(__clang__)
    return (uint32_t)__builtin_arm_sxtb16({builtin});
#else
    uint32_t out;
    {_gnu(assembly, "out", ("x",))}
    return out;
#endif
}}"""
    return function(name, op, "i16x2 i8x4", body, _DSP_WORDS, assembly=assembly)


def _masked(op: str, name: str, text: str) -> Instruction:
    """The same of bytes without a sign."""
    body = f"uint32_t @@(uint32_t x) {{\n    return {text} & 0x00FF00FFu;\n}}"
    return function(name, op, "i16x2 u8x4", body, _DSP_WORDS, assembly=f"uxtb16 {{d}}, {{0}}{_HALVES[op]}")


_UNPACKED: Final = (
    _extended("evens", "even_i8", "(int)x"),
    _extended("odds", "odd_i8", "(int)(x >> 8 | x << 24)"),
    _masked("evens", "even_u8", "x"),
    _masked("odds", "odd_u8", "x >> 8"),
)


def _multiplied(assembly: str, literals: Sequence[int] = (), parameters: str = _WORDS_AND_SUM) -> str:
    """A C function of a sum and two words that is one instruction."""
    given = filled(line("", "", assembly, ""), (None, None, None, *literals))
    assert given is not None, "a literal that the line does not take"
    return f"""int32_t @@({parameters}) {{
#if defined(__clang__)
    return __builtin_arm_{given.text.split()[0]}((int)a, (int)b, acc);
#else
    int32_t out;
    {_gnu(assembly, "out", ("acc", "a", "b"), literals)}
    return out;
#endif
}}"""


_PRODUCTS: Final = (
    function(
        "smlad",
        "dot",
        "i32 i32 i16x2 i16x2",
        _multiplied(_SMLAD),
        _DSP_WORDS,
        call="@smlad({1}, {2}, {0})",
        assembly=_SMLAD,
        products=2,
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
            f"mac{i}{j}_dsp": _multiplied(_SMLAXY, (i, j), "int32_t acc, uint32_t a, uint32_t b")
            for i in (0, 1)
            for j in (0, 1)
        },
        assembly=_SMLAXY,
        products=1,
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


# The larger of each two bytes: SSUB8 notes which differences are not negative, SEL chooses by that.
_LARGER: Final = function(
    "max_i8x4_dsp",
    "max",
    "i8x4",
    """uint32_t @@(uint32_t a, uint32_t b) {
    uint32_t out;
    __asm__("ssub8 %0, %1, %2\\n\\tsel %0, %1, %2" : "=&r"(out) : "r"(a), "r"(b) : "cc");
    return out;
}""",
    _DSP_WORDS,
)


# The first bytes of a word in memory; the others read 0 and are not written.
_FIRST_BYTES: Final = (
    function(
        "loadn_i8x4_dsp",
        "loadn",
        "i8x4",
        """uint32_t @@(const void *from, int32_t count) {
    const uint8_t *bytes = (const uint8_t *)from;
    uint32_t out = 0;
    uint16_t half;
    if (count >= 4) {
        __builtin_memcpy(&out, bytes, 4);
    } else if (count >= 2) {
        __builtin_memcpy(&half, bytes, 2);
        out = count == 2 ? half : half | (uint32_t)bytes[2] << 16;
    } else if (count == 1) {
        out = bytes[0];
    }
    return out;
}""",
        _DSP_WORDS,
        call="@loadn_i8x4_dsp",
    ),
    function(
        "storen_i8x4_dsp",
        "storen",
        "i8x4",
        """void @@(void *to, int32_t count, uint32_t value) {
    uint8_t *bytes = (uint8_t *)to;
    uint16_t half = (uint16_t)value;
    if (count >= 4) {
        __builtin_memcpy(bytes, &value, 4);
    } else if (count >= 2) {
        __builtin_memcpy(bytes, &half, 2);
        if (count == 3) {
            bytes[2] = (uint8_t)(value >> 16);
        }
    } else if (count == 1) {
        bytes[0] = (uint8_t)value;
    }
}""",
        _DSP_WORDS,
        call="@storen_i8x4_dsp",
    ),
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
        *_LINES,
        *_SATURATED,
        *_UNPACKED,
        *_PRODUCTS,
        _LARGER,
        *_FIRST_BYTES,
        *(_dot4(a, b) for a in _BYTES for b in _BYTES),
        *(_mac4(a, b) for a in _BYTES for b in _BYTES),
        *_FLOATS,
    ),
    {"smlabb": _multiplied(_SMLAXY, (0, 0)), "smlatt": _multiplied(_SMLAXY, (1, 1))},
)
