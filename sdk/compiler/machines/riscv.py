"""RISC-V without vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sdk.compiler.machines.common import COLUMNS, FPUS, SINGLE_FLOATS
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Choice
from sdk.compiler.schedules.rules.integer_scalar import RegisterTiles

__all__ = ["MACHINES"]

SMALL: Final = 1024  # multiply-accumulates below which the plain nest is kept, which takes twice the instructions

MACHINES: Final = (
    # RV32IM and C: 31 registers hold twelve sums and what they are made of; products are added one by one
    Machine(
        name="rvm",
        needs=frozenset({"rvm"}),
        float_units=FPUS,
        tile_rows=3,
        tile_cols=4,
        rules=(
            # more channels of a pixel that stands alone share what is read of it, fewer leave registers; a part of less
            # than 32 products costs more around it than its sum of 32 bits saves
            RegisterTiles(SMALL, steps=1, alone=8, part=32, rest=True),
            *(replace(rule, minimum=SMALL) for rule in COLUMNS),
            *SINGLE_FLOATS,
        ),
        candidates={"contraction": (Choice(rows=2), Choice(cols=2), Choice(rows=4, cols=2))},
    ),
)
