"""Arm's M-profile without vectors: Armv6-M (Cortex-M0, M0+), Armv7-M (M3), Armv7E-M and Armv8-M with DSP (M4 ...)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sdk.compiler.ir.types import I16
from sdk.compiler.machines.common import FPUS, LEAST, SINGLE_FLOATS
from sdk.compiler.machines.model import NO_FLOATS, Assembly, Dot, Machine
from sdk.compiler.machines.nest import Choice
from sdk.compiler.schedules.rules.integer import WordTiles
from sdk.compiler.schedules.rules.integer16 import HalfTiles
from sdk.compiler.schedules.rules.integer_rows import RowTaps
from sdk.compiler.schedules.rules.integer_scalar import RegisterTiles
from sdk.compiler.schedules.rules.integer_window import ColumnWindow, PairWindow, WordWindow
from sdk.compiler.schedules.rules.joined import JoinedTiles

__all__ = ["MACHINES"]

SMALL: Final = 1024  # in place of LEAST where layers share kernels, and hot loops are short

# Cortex-M4, M33: SMLAD adds two products of halves of words; bytes are unpacked to them
DSP: Final = Machine(
    name="dsp",
    needs=frozenset({"dsp"}),
    float_units=FPUS,
    dot=Dot("smlad", I16, I16, 2),
    tile_rows=2,
    tile_cols=2,
    channel_multiple=4,
    high_word=True,
    column_tables=True,
    assembly=Assembly(),
    rules=(
        RowTaps("bytes", SMALL),
        JoinedTiles(SMALL),
        WordTiles(SMALL),
        PairWindow("bytes", SMALL),
        ColumnWindow("bytes", SMALL),
        WordWindow(SMALL),
        RowTaps("halves", LEAST),
        HalfTiles(LEAST),
        PairWindow("halves", LEAST),
        ColumnWindow("halves", LEAST),
        *SINGLE_FLOATS,
    ),
    candidates={
        "contraction": (Choice(rows=1), Choice(variant="joined"), Choice(variant="rows")),
        "window": (Choice(rows=5), Choice(rows=6), Choice(variant="columns")),
    },
)

MACHINES: Final = (
    # Cortex-M7: a read of a word issues beside a product
    replace(DSP, name="dsp-dual-issue", needs=DSP.needs | {"dual-issue"}, assembly=Assembly(single_loads=True)),
    DSP,
    # Cortex-M3: thirteen registers, of which six hold sums; MLA adds one product
    Machine(
        name="thumb2",
        needs=frozenset({"thumb2"}),
        float_units=FPUS,
        tile_rows=3,
        tile_cols=2,
        rules=(
            RegisterTiles(LEAST, steps=2),
            ColumnWindow("bytes", LEAST),
            ColumnWindow("halves", LEAST),
            *SINGLE_FLOATS,
        ),
        candidates={"contraction": (Choice(rows=1, cols=4), Choice(rows=2)), "window": (Choice(rows=3),)},
    ),
    # Cortex-M0 and M0+: eight registers, products of 32 bits only; one product by two weights in a word
    Machine(
        name="thumb",
        needs=frozenset({"thumb"}),
        float_units=(NO_FLOATS,),
        tile_rows=1,
        tile_cols=2,
        rules=(
            RegisterTiles(LEAST, steps=8, paired=True),
            ColumnWindow("bytes", LEAST),
            ColumnWindow("halves", LEAST),
        ),
    ),
)
