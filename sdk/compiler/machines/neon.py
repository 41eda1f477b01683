"""AArch64 with Advanced SIMD."""

from __future__ import annotations

from typing import Final

from sdk.compiler.machines.common import COLUMNS, LANES, PANELS, PLAIN
from sdk.compiler.machines.model import FloatUnit, Machine

__all__ = ["MACHINES"]

MACHINES: Final = (
    # no rule puts products of integers in lanes yet
    Machine(
        name="neon",
        needs=frozenset({"neon"}),
        float_units=(FloatUnit("neon", frozenset({"neon"}), lanes=4, registers=32, fma=True),),
        vector_bytes=16,
        rules=(*COLUMNS, *PLAIN, PANELS, *LANES),
    ),
)
