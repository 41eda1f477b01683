"""Helpers for cores that multiply to 32 bits only: long products by halves, sums of two halves of a word."""

from __future__ import annotations

from typing import Final

__all__ = ["HALVES"]

HALVES: Final = {
    # a*b / 2**31 to nearest, of four products of halves.
    "srdhm30_thumb": """int32_t @@(int32_t a, int32_t b) { /* |a| < 2**30 */
    int32_t al = a & 65535, ah = a >> 16, bl = b & 65535, bh = b >> 16;
    int32_t middle = ah * bl + (int32_t)((uint32_t)al * (uint32_t)bl >> 16);
    int32_t low = al * bh + (middle & 65535);
    return (ah * bh + (middle >> 16)) * 2 + ((low + 16384) >> 15);
}""",
    # x added to the lower word of a sum, x / 2**16 to nearest to the upper one.
    "add_halves": """int64_t @@(int64_t sum, int32_t x) { /* x < 2**31 - 2**15 */
    uint32_t high = (uint32_t)(sum >> 32) + (uint32_t)((x + 32768) >> 16);
    return (int64_t)((uint64_t)high << 32 | ((uint32_t)sum + (uint32_t)x));
}""",
    # The last bit shifted out is the carry: rounding costs nothing. gcc reads another syntax unless told.
    "add_halves_thumb": """int64_t @@(int64_t sum, int32_t x) {
    uint32_t low = (uint32_t)sum, high = (uint32_t)(sum >> 32);
    __asm__(".syntax unified\\n\\tadds %0, %0, %2\\n\\tasrs %2, %2, #16\\n\\tadcs %1, %2"
            : "+l"(low), "+l"(high), "+l"(x) : : "cc");
    return (int64_t)((uint64_t)high << 32 | low);
}""",
    "smlald": """int64_t @@(int64_t acc, uint32_t a, uint32_t b) {
#if defined(__clang__)
    return __builtin_arm_smlald((int)a, (int)b, acc);
#else
    __asm__("smlald %Q0, %R0, %1, %2" : "+r"(acc) : "r"(a), "r"(b));
    return acc;
#endif
}""",
    "dot2_i64": """int64_t @@(int64_t acc, uint32_t a, uint32_t b) {
    return acc + (int16_t)a * (int16_t)b + (int64_t)((int16_t)(a >> 16) * (int16_t)(b >> 16));
}""",
}
