"""Helpers that shift scaled sums right, rounded, and add the zero point."""

from __future__ import annotations

from typing import Final

__all__ = ["RESCALE"]

RESCALE: Final = {
    # x / 2**e to nearest, ties away from zero (TensorFlow Lite's RoundingDivideByPOT).
    "rdbpot": """int32_t @@(int32_t x, int32_t e) {
    int32_t mask = (int32_t)(((uint32_t)1 << e) - 1u);
    int32_t threshold = (mask >> 1) + (x < 0 ? 1 : 0);
    return (x >> e) + ((x & mask) > threshold ? 1 : 0);
}""",
    "rdbpot1": """int32_t @@(int32_t x, int32_t e) { /* |x| <= 2**30, e >= 1 */
    return (((x + (x >> 31)) >> (e - 1)) + 1) >> 1; /* floor((y + 2**(e-1)) / 2**e) in two shifts */
}""",
    # 2*(rdbpot1(x, e) + zp) or 1 more, where twice = 2*zp + 1.
    "rescale": """int32_t @@(int32_t x, int32_t e, int32_t twice) { /* |x| <= 2**30, e >= 1 */
    return ((x + (x >> 31)) >> (e - 1)) + twice;
}""",
    # The same for x >= 0; at most 2*zp + 1 for others.
    "rescale_up": """int32_t @@(int32_t x, int32_t e, int32_t twice) { /* |x| <= 2**30, e >= 1 */
    return (x >> (e - 1)) + twice;
}""",
    # rescale_up(srdhm30(a, b), e, twice): what is added at the end joins the product, before the shift.
    "rescale_up_dsp": """int32_t @@(int32_t a, int32_t b, int32_t e, int32_t twice) { /* |twice| < 512, 1 <= e <= 22 */
    int32_t high, add = (int32_t)((uint32_t)twice << (e - 1));
    __asm__("smmlar %0, %1, %2, %3" : "=r"(high) : "r"((int32_t)((uint32_t)a << 1)), "r"(b), "r"(add));
    return high >> (e - 1);
}""",
}
