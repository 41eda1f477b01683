"""AArch64 with Advanced SIMD: floats; integers are in a file beside, for their header."""

from __future__ import annotations

from typing import Final

from sdk.codegen_c.functions.instructions.lanes import fused
from sdk.codegen_c.functions.instructions.model import InstructionSet, function

__all__ = ["SET"]

SET: Final = InstructionSet(
    (
        fused("fma_neon", "f32x4", "__builtin_aarch64_fmav4sf(a, b, c)", "neon"),
        # no instruction: a compiler that read all of a kernel's memory first would run out of registers
        function(
            "settled_neon",
            "settled",
            "f32x4",
            """@f32x4 @@(@f32x4 x) {
    __asm__ volatile("" : "+w"(x) : : "memory");
    return x;
}""",
            "neon",
        ),
    )
)
