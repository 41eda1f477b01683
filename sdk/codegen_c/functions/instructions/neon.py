"""AArch64 with Advanced SIMD: floats; integers are in a file beside, for their header."""

from __future__ import annotations

from typing import Final

from sdk.codegen_c.functions.instructions.lanes import fused, settled
from sdk.codegen_c.functions.instructions.model import InstructionSet

__all__ = ["SET"]

SET: Final = InstructionSet(
    (
        fused("fma_neon", "f32x4", "__builtin_aarch64_fmav4sf(a, b, c)", "neon"),
        # a compiler that read all of a kernel's memory first would run out of registers
        settled("f32x4", "w", "neon"),
    )
)
