"""AArch64 with Advanced SIMD: plain, and with the dot products of Armv8.2."""

from __future__ import annotations

from typing import Final

from sdk.compiler.ir.types import I8
from sdk.compiler.machines.common import COLUMNS, LANES, MIN_MACS, PANELS
from sdk.compiler.machines.machine import Dot, FloatUnit, Machine, Rule
from sdk.compiler.schedules.rules.attention import AttentionLanes
from sdk.compiler.schedules.rules.groups import GroupPanels, GroupRows
from sdk.compiler.schedules.rules.integer import LaneTiles, PairTiles
from sdk.compiler.schedules.rules.integer_mve import QuadWindow
from sdk.compiler.schedules.rules.integer_window import LaneWindow
from sdk.compiler.schedules.rules.plain import PlainWindow

__all__ = ["MACHINES"]

SDOT: Final = Dot(I8, I8, 4, sums=4, lane=True)
UNITS: Final = (FloatUnit("neon", frozenset({"neon"}), lanes=4, registers=32, fma=True),)
# sixteen channels are a load, two SMULL and four SADDW a tap; three pixels share its weights in registers
WINDOW: Final = QuadWindow(region=16 << 10, at_once=3, taps=25, groups=((16, 16), (8, 8), (4, 4)))
HALVES: Final = PlainWindow("halves", MIN_MACS)
# four tokens share the bits of two vectors of weights: their sums, whole and scaled, are half of the registers
GROUPS: Final = GroupPanels(lanes=4, factors="lane", sums=8, tokens=(4, 2, 1))
RULES: Final[tuple[Rule, ...]] = (
    GROUPS, GroupRows(), AttentionLanes(), LaneTiles(MIN_MACS), WINDOW, LaneWindow(MIN_MACS), *COLUMNS, HALVES, PANELS,
    *LANES,
)  # fmt: skip

MACHINES: Final = (
    # SMMLA adds eight products to each of four sums, of two rows of bytes by two columns
    Machine(
        name="i8mm",
        needs=frozenset({"neon", "dotprod", "i8mm"}),
        float_units=UNITS,
        vector_bytes=16,
        dot=SDOT,
        tile_rows=4,
        tile_cols=4,
        rules=(PairTiles(MIN_MACS, Dot(I8, I8, 8, sums=4, lane=True), rows=4, columns=4), *RULES),
    ),
    # SDOT adds four products of signed bytes to each of four sums
    Machine(
        name="dotprod",
        needs=frozenset({"neon", "dotprod"}),
        float_units=UNITS,
        vector_bytes=16,
        dot=SDOT,
        tile_rows=4,
        tile_cols=4,
        rules=RULES,
    ),
    # SMULL makes eight products of signed bytes, of which SADALP adds two to each of four sums
    Machine(
        name="neon",
        needs=frozenset({"neon"}),
        float_units=UNITS,
        vector_bytes=16,
        dot=Dot(I8, I8, 2, sums=4, lane=True),
        tile_rows=4,
        tile_cols=4,
        rules=RULES,
    ),
)
