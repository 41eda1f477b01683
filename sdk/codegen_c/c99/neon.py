"""What AArch64's vectors compute in an instruction and GNU vectors have no operator for: rows of spellings, C texts."""

from __future__ import annotations

from typing import Final

from sdk.codegen_c.c99.names import scalar_name
from sdk.compiler.ir.types import DType, dtype

__all__ = ["NEON", "NEON_HEADER", "NEON_ROWS"]

NEON_HEADER: Final = "arm_neon.h"
_INTEGERS: Final = tuple(dtype(name) for name in ("i8x16", "u8x16", "i16x8", "u16x8", "i32x4", "u32x4"))
_EITHER: Final = ("min", "max")
_LANES: Final = (4, 8, 16)  # of sums: one vector, or as many as four that a rule computes on together
_RIGHT: Final = ("rdbpot1", "rdbpot22")  # right shifts by 1 or more


def _own(type: DType) -> str:
    """The header's name of a vector type: gcc takes it for another than a GNU vector of the same lanes."""
    return f"{'u' if type.kind == 'u' else ''}int{type.bits}x{type.lanes}_t"


def _suffix(type: DType) -> str:
    return f"{'s' if type.kind == 'i' else type.kind}{type.bits}"


# Operation, types (result, arguments), text, capabilities, and whether |argument 0| <= 2**30 must be known.
NEON_ROWS: Final[tuple[tuple[str, str, str, str, bool], ...]] = (
    # four products to each of four sums, or two where the core has no such instruction
    ("dot", "i32x4 i32x4 i8x16 i8x16", "@sdot_neon({0}, {1}, {2})", "neon dotprod", False),
    ("dot", "i32x4 i32x4 u8x16 u8x16", "@udot_neon({0}, {1}, {2})", "neon dotprod", False),
    ("dot", "i32x4 i32x4 u8x16 i8x16", "@usdot_neon({0}, {1}, {2})", "neon i8mm", False),
    ("dot", "i32x4 i32x4 i8x16 u8x16", "@usdot_neon({0}, {2}, {1})", "neon i8mm", False),
    ("dot_lane", "i32x4 i32x4 i8x16 i8x16 i32", "@sdot{3:int}_neon({0}, {1}, {2})", "neon dotprod", False),
    # eight products to each of four sums, of two rows by two columns
    ("dot_2x2", "i32x4 i32x4 i8x16 i8x16", "@smmla_neon({0}, {1}, {2})", "neon i8mm", False),
    ("dot", "i32x4 i32x4 i8x32 i8x32", "@sdot_pairs_neon({0}, {1}, {2})", "neon dotprod", False),
    ("dot_lane", "i32x4 i32x4 i8x16 i8x32 i32", "@sdot_pairs{3:int}_neon({0}, {1}, {2})", "neon dotprod", False),
    ("dot", "i32x4 i32x4 i8x8 i8x8", "@sadalp_neon({0}, {1}, {2})", "neon", False),
    ("dot_lane", "i32x4 i32x4 i8x16 i8x8 i32", "@sadalp{3:int}_neon({0}, {1}, {2})", "neon", False),
    ("dot", "i32x4 i32x4 u8x8 u8x8", "@uadalp_neon({0}, {1}, {2})", "neon", False),
    *(
        (name, f"i32x{lanes}", f"@{helper}_neon_i32x{lanes}({{0}}, {{1}})", "neon", small)
        for lanes in _LANES
        for name, helper, small in (
            ("srdhm", "srdhm", False),
            ("srdhm30", "srdhm", False),
            ("rdbpot", "rdbpot", False),
            *((right, "rdbpot1", True) for right in _RIGHT),
            *((right, "rdbpot", False) for right in _RIGHT),
        )
    ),
    *(("broadcast", f"{t}x8 {t}x2", f"@repeat2_neon_{t}({{0}})", "neon", False) for t in ("i8", "u8")),
    *(("broadcast", f"{t}x32 {t}x8", f"@repeat8_neon_{t}({{0}})", "neon", False) for t in ("i8", "u8")),
    *((name, str(t), f"@{name}_neon_{t}({{0}}, {{1}})", "neon", False) for t in _INTEGERS for name in _EITHER),
    *((name, f"i32x{n}", f"@{name}_neon_i32x{n}({{0}}, {{1}})", "neon", False) for n in (8, 16) for name in _EITHER),
    *(("cast", f"i8x{n} i32x{n}", f"@narrow_neon_i8x{n}({{0}})", "neon", False) for n in _LANES),
    *(("cast", f"i32x{n} i8x{n}", f"@widen_neon_i8x{n}({{0}})", "neon", False) for n in _LANES),
    *(("fold_add", f"{t.scalar} {t}", f"@foldadd_neon_{t}({{0}})", "neon", False) for t in _INTEGERS),
)

_EXTREMES: Final = {
    f"{name}_neon_{t}": f"@{t} @@(@{t} a, @{t} b) {{\n"
    f"    return (@{t})v{name}q_{_suffix(t)}(({_own(t)})a, ({_own(t)})b);\n}}"
    for name in _EITHER
    for t in _INTEGERS
}
_FOLDS: Final = {
    f"foldadd_neon_{t}": f"{scalar_name(t)} @@(@{t} x) {{\n    return vaddvq_{_suffix(t)}(({_own(t)})x);\n}}"
    for t in _INTEGERS
}

# The word is the second factor of SDOT.
_WORDS: Final = {
    **{
        f"sadalp{lane}_neon": f"""@i32x4 @@(@i32x4 acc, @i8x16 a, @i8x8 b) {{
    int8x8_t word = vreinterpret_s8_s16(vdup_laneq_s16((int16x8_t)a, {lane}));
    return (@i32x4)vpadalq_s16((int32x4_t)acc, vmull_s8(word, (int8x8_t)b));
}}"""
        for lane in range(8)
    },
    **{
        f"sdot{lane}_neon": f"""@i32x4 @@(@i32x4 acc, @i8x16 a, @i8x16 b) {{
    return (@i32x4)vdotq_laneq_s32((int32x4_t)acc, (int8x16_t)b, (int8x16_t)a, {lane});
}}"""
        for lane in range(4)
    },
}

# A few bytes, over and over.
_REPEATED: Final = {
    **{
        f"repeat2_neon_{t}": f"@{t}x8 @@(@{t}x2 x) {{\n    return (@{t}x8)vdup_n_s16((int16_t)x);\n}}"
        for t in ("i8", "u8")
    },
    **{
        f"repeat8_neon_{t}": f"""@{t}x32 @@(@{t}x8 x) {{
    int64x2_t half[2] = {{vdupq_n_s64((int64_t)x), vdupq_n_s64((int64_t)x)}};
    @{t}x32 out;
    __builtin_memcpy(&out, half, sizeof out);
    return out;
}}"""
        for t in ("i8", "u8")
    },
}

# What there is for one vector, on some of them.
_SEVERAL: Final = {
    f"{name}_neon_i32x{lanes}": f"""@i32x{lanes} @@(@i32x{lanes} a, @i32x{lanes} b) {{
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
}}"""
    for name in ("srdhm", "rdbpot", "rdbpot1", *_EITHER)
    for lanes in _LANES[1:]
}

# Between bytes and words: clang sees through its own conversion to what is done with it, gcc takes lanes one by one.
_NARROWED: Final = {
    4: "(@i8x4)vget_lane_s32((int32x2_t)vmovn_s16((int16x8_t)vcombine_s16(vmovn_s32(part[0]), vdup_n_s16(0))), 0)",
    8: "(@i8x8)vmovn_s16(vcombine_s16(vmovn_s32(part[0]), vmovn_s32(part[1])))",
    16: "(@i8x16)vuzp1q_s8((int8x16_t)vuzp1q_s16((int16x8_t)part[0], (int16x8_t)part[1]),\n"
    "                             (int8x16_t)vuzp1q_s16((int16x8_t)part[2], (int16x8_t)part[3]))",
}
_WIDENED: Final = {
    4: ("vmovl_s8(vcreate_s8((uint64_t)(uint32_t)x))",),
    8: ("vmovl_s8((int8x8_t)x)",),
    16: ("vmovl_s8(vget_low_s8((int8x16_t)x))", "vmovl_high_s8((int8x16_t)x)"),
}
_CONVERTED: Final = {
    **{
        f"narrow_neon_i8x{lanes}": f"""@i8x{lanes} @@(@i32x{lanes} x) {{
#if defined(__clang__)
    return __builtin_convertvector(x, @i8x{lanes});
#else
    int32x4_t part[{lanes // 4}];
    __builtin_memcpy(part, &x, sizeof part);
    return {text};
#endif
}}"""
        for lanes, text in _NARROWED.items()
    },
    **{
        f"widen_neon_i8x{lanes}": f"""@i32x{lanes} @@(@i8x{lanes} x) {{
#if defined(__clang__)
    return __builtin_convertvector(x, @i32x{lanes});
#else
    int16x8_t half[{len(halves)}] = {{{", ".join(halves)}}};
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
        for lanes, halves in _WIDENED.items()
    },
}

# Eight products to each of four sums: SDOT adds four of them to half a sum.
_PAIRS: Final = {
    "sdot_pairs_neon": """@i32x4 @@(@i32x4 acc, @i8x32 a, @i8x32 b) {
    int8x16_t x[2], y[2];
    __builtin_memcpy(x, &a, sizeof x);
    __builtin_memcpy(y, &b, sizeof y);
    int32x4_t lo = vdotq_s32(vdupq_n_s32(0), y[0], x[0]);
    int32x4_t hi = vdotq_s32(vdupq_n_s32(0), y[1], x[1]);
    return acc + (@i32x4)vpaddq_s32(lo, hi);
}""",
    **{
        f"sdot_pairs{lane}_neon": f"""@i32x4 @@(@i32x4 acc, @i8x16 a, @i8x32 b) {{
    int8x16_t word = (int8x16_t)vdupq_laneq_s64((int64x2_t)a, {lane}), y[2];
    __builtin_memcpy(y, &b, sizeof y);
    int32x4_t lo = vdotq_s32(vdupq_n_s32(0), y[0], word);
    int32x4_t hi = vdotq_s32(vdupq_n_s32(0), y[1], word);
    return acc + (@i32x4)vpaddq_s32(lo, hi);
}}"""
        for lane in range(2)
    },
    "smmla_neon": """@i32x4 @@(@i32x4 acc, @i8x16 a, @i8x16 b) {
    return (@i32x4)vmmlaq_s32((int32x4_t)acc, (int8x16_t)a, (int8x16_t)b);
}""",
}

NEON: Final = {
    **_PAIRS,
    **_REPEATED,
    **_SEVERAL,
    **_WORDS,
    "sdot_neon": """@i32x4 @@(@i32x4 acc, @i8x16 a, @i8x16 b) {
    return (@i32x4)vdotq_s32((int32x4_t)acc, (int8x16_t)b, (int8x16_t)a);
}""",
    "udot_neon": """@i32x4 @@(@i32x4 acc, @u8x16 a, @u8x16 b) {
    return (@i32x4)vdotq_u32((uint32x4_t)acc, (uint8x16_t)b, (uint8x16_t)a);
}""",
    "usdot_neon": """@i32x4 @@(@i32x4 acc, @u8x16 a, @i8x16 b) {
    return (@i32x4)vusdotq_s32((int32x4_t)acc, (uint8x16_t)a, (int8x16_t)b);
}""",
    "sadalp_neon": """@i32x4 @@(@i32x4 acc, @i8x8 a, @i8x8 b) {
    return (@i32x4)vpadalq_s16((int32x4_t)acc, vmull_s8((int8x8_t)a, (int8x8_t)b));
}""",
    "uadalp_neon": """@i32x4 @@(@i32x4 acc, @u8x8 a, @u8x8 b) {
    return (@i32x4)vpadalq_u16((uint32x4_t)acc, vmull_u8((uint8x8_t)a, (uint8x8_t)b));
}""",
    # As the scalar functions of these names: sqrdmulh saturates and rounds as srdhm does, srshl rounds half up.
    "srdhm_neon_i32x4": """@i32x4 @@(@i32x4 a, @i32x4 b) {
    return (@i32x4)vqrdmulhq_s32((int32x4_t)a, (int32x4_t)b);
}""",
    "rdbpot_neon_i32x4": """@i32x4 @@(@i32x4 x, @i32x4 e) {
    int32x4_t down = vqaddq_s32((int32x4_t)x, (int32x4_t)((x & -e) >> 31)); /* negative: half away from zero */
    return (@i32x4)vrshlq_s32(down, (int32x4_t)-e);
}""",
    "rdbpot1_neon_i32x4": """@i32x4 @@(@i32x4 x, @i32x4 e) { /* |x| <= 2**30, e >= 1 */
    return (@i32x4)vrshlq_s32(vsraq_n_s32((int32x4_t)x, (int32x4_t)x, 31), (int32x4_t)-e);
}""",
    **_EXTREMES,
    **_FOLDS,
    **_CONVERTED,
}
