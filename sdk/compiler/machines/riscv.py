"""RISC-V without vectors."""

from __future__ import annotations

from typing import Final

from sdk.compiler.machines.common import FPUS, LEAST, SINGLE_FLOATS
from sdk.compiler.machines.model import Machine
from sdk.compiler.machines.nest import Choice
from sdk.compiler.schedules.rules.integer_scalar import RegisterTiles
from sdk.compiler.schedules.rules.integer_window import ColumnWindow

__all__ = ["MACHINES"]

MACHINES: Final = (
    # RV32IM and C: 31 registers hold twelve sums and what they are made of; products are added one by one
    Machine(
        name="rvm",
        needs=frozenset({"rvm"}),
        float_units=FPUS,
        tile_rows=3,
        tile_cols=4,
        rules=(
            RegisterTiles(LEAST, steps=1),
            ColumnWindow("bytes", LEAST),
            ColumnWindow("halves", LEAST),
            *SINGLE_FLOATS,
        ),
        candidates={"contraction": (Choice(rows=2), Choice(cols=2), Choice(rows=4, cols=2))},
    ),
)
