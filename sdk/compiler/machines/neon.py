"""AArch64 with Advanced SIMD."""

from __future__ import annotations

from typing import Final

from sdk.compiler.machines.common import LANES, LEAST
from sdk.compiler.machines.model import FloatUnit, Machine
from sdk.compiler.schedules.rules.contraction import FloatPanels
from sdk.compiler.schedules.rules.integer_window import ColumnWindow
from sdk.compiler.schedules.rules.plain import PlainWindow

__all__ = ["MACHINES"]

MACHINES: Final = (
    # no rule puts products of integers in lanes yet
    Machine(
        name="neon",
        needs=frozenset({"neon"}),
        float_units=(FloatUnit("neon", frozenset({"neon"}), lanes=4, registers=32, fma=True),),
        vector_bytes=16,
        rules=(
            ColumnWindow("bytes", LEAST),
            ColumnWindow("halves", LEAST),
            PlainWindow("bytes", LEAST),
            PlainWindow("halves", LEAST),
            FloatPanels(LEAST),
            *LANES,
        ),
    ),
)
