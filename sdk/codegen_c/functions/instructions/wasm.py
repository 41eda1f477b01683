"""WebAssembly's vectors of 128 bits: dot products of pairs, and shifts of each lane by a number of its own."""

from __future__ import annotations

from typing import Final

from sdk.codegen_c.functions.instructions.model import Instruction, InstructionSet, function

__all__ = ["SET"]

_BYTES: Final = ("i8", "u8")


def _dot(a: str, b: str) -> Instruction:
    """Pairs of products of bytes, which are widened to 16 bits as they are read: no sum of two products overflows."""
    return function(
        f"dot_wasm_{a}{b}",
        "dot",
        f"i32x4 i32x4 {a}x8 {b}x8",
        f"""@i32x4 @@(@i32x4 acc, @{a}x8 a, @{b}x8 b) {{
    return acc + (@i32x4)__builtin_wasm_dot_s_i32x4_i16x8(
        __builtin_convertvector(a, @i16x8), __builtin_convertvector(b, @i16x8));
}}""",
        "simd128",
    )


def _pairs(type: str) -> Instruction:
    """Two elements in all lanes, as a dot product wants them."""
    return function(
        f"pairs_wasm_{type}",
        "broadcast",
        f"{type}x8 {type}x2",
        f"""@{type}x8 @@(@{type}x2 x) {{
    return __builtin_shufflevector(x, x, 0, 1, 0, 1, 0, 1, 0, 1);
}}""",
        "simd128",
    )


SET: Final = InstructionSet(
    (
        function(
            "dot_wasm",
            "dot",
            "i32x4 i32x4 i16x8 i16x8",
            """@i32x4 @@(@i32x4 acc, @i16x8 a, @i16x8 b) {
    return acc + (@i32x4)__builtin_wasm_dot_s_i32x4_i16x8(a, b);
}""",
            "simd128",
        ),
        *(_dot(a, b) for a in _BYTES for b in _BYTES),
        *map(_pairs, (*_BYTES, "i16")),
        # The instructions shift all lanes by one number. By numbers of their own: times a power of two, which is made
        # as floats are, and all by 30.
        function(
            "rdbpot1_wasm",
            "rdbpot1 rdbpot22",
            "i32x4",
            """@i32x4 @@(@i32x4 x, @i32x4 e) { /* |x| <= 2**30, e >= 1 */
    @i32x4 power = __builtin_convertvector((@f32x4)((158 - e) << 23), @i32x4); /* 2**(31 - e) */
    @i64x4 wide = __builtin_convertvector(x + (x >> 31), @i64x4) * __builtin_convertvector(power, @i64x4);
    return (__builtin_convertvector(wide >> 30, @i32x4) + 1) >> 1;
}""",
            "simd128",
            small=True,
        ),
    )
)
