"""The C functions for WebAssembly's vectors of 128 bits, as data: what GNU vectors have no operator for."""

from __future__ import annotations

from typing import Final

__all__ = ["WASM", "WASM_ROWS"]

_BYTES: Final = ("i8", "u8")
_FACTORS: Final = (*_BYTES, "i16")


def _dot(a: str, b: str) -> str:
    """Pairs of products of bytes, which as they are read become halves of words: no sum of two such products overflows."""
    return f"""@i32x4 @@(@i32x4 acc, @{a}x8 a, @{b}x8 b) {{
    return acc + (@i32x4)__builtin_wasm_dot_s_i32x4_i16x8(
        __builtin_convertvector(a, @i16x8), __builtin_convertvector(b, @i16x8));
}}"""


WASM: Final = {
    "dot_wasm": """@i32x4 @@(@i32x4 acc, @i16x8 a, @i16x8 b) {
    return acc + (@i32x4)__builtin_wasm_dot_s_i32x4_i16x8(a, b);
}""",
    **{f"dot_wasm_{a}{b}": _dot(a, b) for a in _BYTES for b in _BYTES},
    **{
        f"pairs_wasm_{t}": f"""@{t}x8 @@(@{t}x2 x) {{
    return __builtin_shufflevector(x, x, 0, 1, 0, 1, 0, 1, 0, 1);
}}"""
        for t in _FACTORS
    },
    # Shifts are by one number for all lanes: those of their own are products by powers of two, made as floats are.
    "power_wasm": """@i32x4 @@(@i32x4 e) { /* 2**e, 0 <= e <= 30 */
    return __builtin_convertvector((@f32x4)((e + 127) << 23), @i32x4);
}""",
    "rdbpot1_wasm": """@i32x4 @@(@i32x4 x, @i32x4 e) { /* |x| <= 2**30, 1 <= e <= 31 */
    @i64x4 wide = __builtin_convertvector(x + (x >> 31), @i64x4) * __builtin_convertvector(@power_wasm(31 - e), @i64x4);
    return (__builtin_convertvector(wide >> 30, @i32x4) + 1) >> 1;
}""",
}
_RIGHT: Final = ("rdbpot1", "rdbpot22")  # right shifts by 1 or more

# Operation, types of the result and the arguments, text, capabilities, whether for small arguments only.
WASM_ROWS: Final = (
    ("dot", "i32x4 i32x4 i16x8 i16x8", "@dot_wasm({0}, {1}, {2})", "simd128", False),
    *(
        ("dot", f"i32x4 i32x4 {a}x8 {b}x8", f"@dot_wasm_{a}{b}({{0}}, {{1}}, {{2}})", "simd128", False)
        for a in _BYTES
        for b in _BYTES
    ),
    *(("broadcast", f"{t}x8 {t}x2", f"@pairs_wasm_{t}({{0}})", "simd128", False) for t in _FACTORS),
    *((name, "i32x4", "@rdbpot1_wasm({0}, {1})", "simd128", True) for name in _RIGHT),
)
