"""AArch64 with Advanced SIMD: what GNU vectors of integers have no operator for."""

from __future__ import annotations

from typing import Final

from sdk.codegen_c.functions.instructions.model import Instruction, InstructionSet, expression, function
from sdk.codegen_c.functions.names import scalar_name
from sdk.compiler.ir.types import DType, dtype

__all__ = ["SET"]

_INTEGERS: Final = tuple(dtype(name) for name in ("i8x16", "u8x16", "i16x8", "u16x8", "i32x4", "u32x4"))
_EITHER: Final = ("min", "max")
_LANES: Final = (4, 8, 16)  # of sums: one vector, or as many as four that a rule computes on together


def _own(type: DType) -> str:
    """The header's name of a vector type: gcc takes it for another than a GNU vector of the same lanes."""
    return f"{'u' if type.kind == 'u' else ''}int{type.bits}x{type.lanes}_t"


def _suffix(type: DType) -> str:
    return f"{'s' if type.kind == 'i' else type.kind}{type.bits}"


# Four products to each of four sums. Where all are of one word of a vector, that is the second factor of SDOT.
_DOTS: Final = (
    function(
        "sdot_neon",
        "dot",
        "i32x4 i32x4 i8x16 i8x16",
        """@i32x4 @@(@i32x4 acc, @i8x16 a, @i8x16 b) {
    return (@i32x4)vdotq_s32((int32x4_t)acc, (int8x16_t)b, (int8x16_t)a);
}""",
        "neon dotprod",
    ),
    function(
        "udot_neon",
        "dot",
        "i32x4 i32x4 u8x16 u8x16",
        """@i32x4 @@(@i32x4 acc, @u8x16 a, @u8x16 b) {
    return (@i32x4)vdotq_u32((uint32x4_t)acc, (uint8x16_t)b, (uint8x16_t)a);
}""",
        "neon dotprod",
    ),
    function(
        "usdot_neon",
        "dot",
        "i32x4 i32x4 u8x16 i8x16",
        """@i32x4 @@(@i32x4 acc, @u8x16 a, @i8x16 b) {
    return (@i32x4)vusdotq_s32((int32x4_t)acc, (uint8x16_t)a, (int8x16_t)b);
}""",
        "neon i8mm",
    ),
    expression("dot", "i32x4 i32x4 i8x16 u8x16", "@usdot_neon({0}, {2}, {1})", "neon i8mm"),
    expression(
        "dot_lane",
        "i32x4 i32x4 i8x16 i8x16 i32",
        "@sdot{3:int}_neon({0}, {1}, {2})",
        "neon dotprod",
        functions={
            f"sdot{lane}_neon": f"""@i32x4 @@(@i32x4 acc, @i8x16 a, @i8x16 b) {{
    return (@i32x4)vdotq_laneq_s32((int32x4_t)acc, (int8x16_t)b, (int8x16_t)a, {lane});
}}"""
            for lane in range(4)
        },
    ),
)

# Eight products to each of four sums: of two rows by two columns, or of one row, where SDOT adds half of them.
_EIGHT: Final = (
    function(
        "smmla_neon",
        "dot_2x2",
        "i32x4 i32x4 i8x16 i8x16",
        """@i32x4 @@(@i32x4 acc, @i8x16 a, @i8x16 b) {
    return (@i32x4)vmmlaq_s32((int32x4_t)acc, (int8x16_t)a, (int8x16_t)b);
}""",
        "neon i8mm",
    ),
    function(
        "sdot_halves_neon",
        "dot",
        "i32x4 i32x4 i8x32 i8x32",
        """@i32x4 @@(@i32x4 acc, @i8x32 a, @i8x32 b) {
    int8x16_t x[2], y[2];
    __builtin_memcpy(x, &a, sizeof x);
    __builtin_memcpy(y, &b, sizeof y);
    int32x4_t lo = vdotq_s32(vdupq_n_s32(0), y[0], x[0]);
    int32x4_t hi = vdotq_s32(vdupq_n_s32(0), y[1], x[1]);
    return acc + (@i32x4)vpaddq_s32(lo, hi);
}""",
        "neon dotprod",
    ),
    function(
        "sdot_word_neon",
        "dot_lane",
        "i32x4 i32x4 i8x16 i8x32 i32",
        """@i32x4 @@(@i32x4 acc, @i8x16 a, @i8x32 b, int32_t lane) {
    int8x16_t word = (int8x16_t)vdupq_n_s64(((@i64x2)a)[lane]), y[2];
    __builtin_memcpy(y, &b, sizeof y);
    int32x4_t lo = vdotq_s32(vdupq_n_s32(0), y[0], word);
    int32x4_t hi = vdotq_s32(vdupq_n_s32(0), y[1], word);
    return acc + (@i32x4)vpaddq_s32(lo, hi);
}""",
        "neon dotprod",
    ),
)

# Two products to each of four sums, on cores without SDOT.
_TWO: Final = (
    function(
        "sadalp_neon",
        "dot",
        "i32x4 i32x4 i8x8 i8x8",
        """@i32x4 @@(@i32x4 acc, @i8x8 a, @i8x8 b) {
    return (@i32x4)vpadalq_s16((int32x4_t)acc, vmull_s8((int8x8_t)a, (int8x8_t)b));
}""",
        "neon",
    ),
    function(
        "uadalp_neon",
        "dot",
        "i32x4 i32x4 u8x8 u8x8",
        """@i32x4 @@(@i32x4 acc, @u8x8 a, @u8x8 b) {
    return (@i32x4)vpadalq_u16((uint32x4_t)acc, vmull_u8((uint8x8_t)a, (uint8x8_t)b));
}""",
        "neon",
    ),
    # four products to each sum: halves of the vectors are multiplied, pairs added, then pairs of pairs
    function(
        "smull_dot_neon",
        "dot",
        "i32x4 i32x4 i8x16 i8x16",
        """@i32x4 @@(@i32x4 acc, @i8x16 a, @i8x16 b) {
    int32x4_t lo = vpaddlq_s16(vmull_s8(vget_low_s8((int8x16_t)a), vget_low_s8((int8x16_t)b)));
    int32x4_t hi = vpaddlq_s16(vmull_high_s8((int8x16_t)a, (int8x16_t)b));
    return acc + (@i32x4)vpaddq_s32(lo, hi);
}""",
        "neon",
    ),
    expression(
        "dot_lane",
        "i32x4 i32x4 i8x16 i8x16 i32",
        "@smull{3:int}_dot_neon({0}, {1}, {2})",
        "neon",
        functions={
            f"smull{lane}_dot_neon": f"""@i32x4 @@(@i32x4 acc, @i8x16 a, @i8x16 b) {{
    int8x16_t word = (int8x16_t)vdupq_laneq_s32((int32x4_t)a, {lane});
    int32x4_t lo = vpaddlq_s16(vmull_s8(vget_low_s8(word), vget_low_s8((int8x16_t)b)));
    int32x4_t hi = vpaddlq_s16(vmull_high_s8(word, (int8x16_t)b));
    return acc + (@i32x4)vpaddq_s32(lo, hi);
}}"""
            for lane in range(4)
        },
    ),
    function(
        "sadalp_word_neon",
        "dot_lane",
        "i32x4 i32x4 i8x16 i8x8 i32",
        """@i32x4 @@(@i32x4 acc, @i8x16 a, @i8x8 b, int32_t lane) {
    int8x8_t word = (int8x8_t)vdup_n_s16(((@i16x8)a)[lane]);
    return (@i32x4)vpadalq_s16((int32x4_t)acc, vmull_s8(word, (int8x8_t)b));
}""",
        "neon",
    ),
)


def _several(name: str, ops: str, lanes: int, small: bool = False) -> Instruction:
    """What there is for four lanes, on more of them."""
    return function(
        f"{name}_neon_i32x{lanes}",
        ops,
        f"i32x{lanes}",
        f"""@i32x{lanes} @@(@i32x{lanes} a, @i32x{lanes} b) {{
    union {{
        @i32x{lanes} whole;
        @i32x4 part[{lanes // 4}];
    }} x, y;
    x.whole = a;
    y.whole = b;
    for (int32_t i = 0; i < {lanes // 4}; ++i) {{
        x.part[i] = @{name}_neon_i32x4(x.part[i], y.part[i]);
    }}
    return x.whole;
}}""",
        "neon",
        small=small,
    )


# As the scalar functions of these names: sqrdmulh saturates and rounds as srdhm does, srshl rounds half up.
_FIXED_POINT: Final = (
    function(
        "srdhm_neon_i32x4",
        "srdhm srdhm30",
        "i32x4",
        """@i32x4 @@(@i32x4 a, @i32x4 b) {
    return (@i32x4)vqrdmulhq_s32((int32x4_t)a, (int32x4_t)b);
}""",
        "neon",
    ),
    function(
        "rdbpot_neon_i32x4",
        "rdbpot rdbpot1 rdbpot22",
        "i32x4",
        """@i32x4 @@(@i32x4 x, @i32x4 e) {
    int32x4_t down = vqaddq_s32((int32x4_t)x, (int32x4_t)((x & -e) >> 31)); /* negative: half away from zero */
    return (@i32x4)vrshlq_s32(down, (int32x4_t)-e);
}""",
        "neon",
    ),
    function(
        "rdbpot1_neon_i32x4",
        "rdbpot1 rdbpot22",
        "i32x4",
        """@i32x4 @@(@i32x4 x, @i32x4 e) { /* |x| <= 2**30, e >= 1 */
    return (@i32x4)vrshlq_s32(vsraq_n_s32((int32x4_t)x, (int32x4_t)x, 31), (int32x4_t)-e);
}""",
        "neon",
        small=True,
    ),
    *(
        _several(name, ops, lanes, small)
        for lanes in _LANES[1:]
        for name, ops, small in (
            ("srdhm", "srdhm srdhm30", False),
            ("rdbpot", "rdbpot rdbpot1 rdbpot22", False),
            ("rdbpot1", "rdbpot1 rdbpot22", True),
        )
    ),
)


def _extreme(name: str, t: DType) -> Instruction:
    return function(
        f"{name}_neon_{t}",
        name,
        str(t),
        f"@{t} @@(@{t} a, @{t} b) {{\n    return (@{t})v{name}q_{_suffix(t)}(({_own(t)})a, ({_own(t)})b);\n}}",
        "neon",
    )


def _fold(t: DType) -> Instruction:
    text = f"{scalar_name(t)} @@(@{t} x) {{\n    return vaddvq_{_suffix(t)}(({_own(t)})x);\n}}"
    return function(f"foldadd_neon_{t}", "fold_add", f"{t.scalar} {t}", text, "neon")


def _repeated(t: str) -> tuple[Instruction, Instruction]:
    """A few bytes, over and over."""
    two = f"@{t}x8 @@(@{t}x2 x) {{\n    return (@{t}x8)vdup_n_s16((int16_t)x);\n}}"
    eight = f"""@{t}x32 @@(@{t}x8 x) {{
    int64x2_t half[2] = {{vdupq_n_s64((int64_t)x), vdupq_n_s64((int64_t)x)}};
    @{t}x32 out;
    __builtin_memcpy(&out, half, sizeof out);
    return out;
}}"""
    return (
        function(f"repeat2_neon_{t}", "broadcast", f"{t}x8 {t}x2", two, "neon"),
        function(f"repeat8_neon_{t}", "broadcast", f"{t}x32 {t}x8", eight, "neon"),
    )


# Between bytes and words: clang sees through its own conversion to what is done with it, gcc takes lanes one by one.
_NARROWED: Final = {
    4: "(@i8x4)vget_lane_s32((int32x2_t)vmovn_s16(vcombine_s16(vmovn_s32(part[0]), vdup_n_s16(0))), 0)",
    8: "(@i8x8)vmovn_s16(vcombine_s16(vmovn_s32(part[0]), vmovn_s32(part[1])))",
    16: "(@i8x16)vuzp1q_s8((int8x16_t)vuzp1q_s16((int16x8_t)part[0], (int16x8_t)part[1]),\n"
    "                             (int8x16_t)vuzp1q_s16((int16x8_t)part[2], (int16x8_t)part[3]))",
}
_WIDENED: Final = {
    4: ("vmovl_s8(vcreate_s8((uint64_t)(uint32_t)x))",),
    8: ("vmovl_s8((int8x8_t)x)",),
    16: ("vmovl_s8(vget_low_s8((int8x16_t)x))", "vmovl_high_s8((int8x16_t)x)"),
}


def _converted(lanes: int) -> tuple[Instruction, Instruction]:
    narrow = f"""@i8x{lanes} @@(@i32x{lanes} x) {{
#if defined(__clang__)
    return __builtin_convertvector(x, @i8x{lanes});
#else
    int32x4_t part[{lanes // 4}];
    __builtin_memcpy(part, &x, sizeof part);
    return {_NARROWED[lanes]};
#endif
}}"""
    widen = f"""@i32x{lanes} @@(@i8x{lanes} x) {{
#if defined(__clang__)
    return __builtin_convertvector(x, @i32x{lanes});
#else
    int16x8_t half[{len(_WIDENED[lanes])}] = {{{", ".join(_WIDENED[lanes])}}};
    union {{
        @i32x{lanes} whole;
        @i32x4 part[{lanes // 4}];
    }} out;
    for (int32_t i = 0; i < {lanes // 4}; ++i) {{
        out.part[i] = (@i32x4)(i % 2 != 0 ? vmovl_high_s16(half[i / 2]) : vmovl_s16(vget_low_s16(half[i / 2])));
    }}
    return out.whole;
#endif
}}"""
    return (
        function(f"narrow_neon_i8x{lanes}", "cast", f"i8x{lanes} i32x{lanes}", narrow, "neon"),
        function(f"widen_neon_i8x{lanes}", "cast", f"i32x{lanes} i8x{lanes}", widen, "neon"),
    )


SET: Final = InstructionSet(
    (
        *_DOTS,
        *_EIGHT,
        *_TWO,
        *_FIXED_POINT,
        *(_extreme(name, t) for t in _INTEGERS for name in _EITHER),
        *(_several(name, name, lanes) for lanes in _LANES[1:] for name in _EITHER),
        *(_fold(t) for t in _INTEGERS),
        *(one for t in ("i8", "u8") for one in _repeated(t)),
        *(one for lanes in _LANES for one in _converted(lanes)),
    ),
    header="arm_neon.h",
)
