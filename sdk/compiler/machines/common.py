"""What machines of several architectures have in common: units for one float at a time, rules for any lanes."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sdk.compiler.machines.machine import NO_FLOATS, FloatUnit, Rule
from sdk.compiler.schedules.rules.contraction import FloatPanels
from sdk.compiler.schedules.rules.contraction_scalar import FloatTiles
from sdk.compiler.schedules.rules.elementwise import Elementwise
from sdk.compiler.schedules.rules.integer_window import ColumnWindow
from sdk.compiler.schedules.rules.plain import PlainWindow
from sdk.compiler.schedules.rules.reduction import Columns, Rows
from sdk.compiler.schedules.rules.tiles import PanelCosts
from sdk.compiler.schedules.rules.transform import Transform
from sdk.compiler.schedules.rules.window import Window
from sdk.compiler.schedules.rules.window_scalar import FloatWindow

__all__ = [
    "COLUMNS",
    "COLUMN_BYTES",
    "COLUMN_HALVES",
    "FPUS",
    "LANES",
    "MIN_MACS",
    "PANELS",
    "PLAIN",
    "SINGLE_FLOATS",
    "TILES",
]

# multiply-accumulates below which the plain nest is kept: the code of a tile costs more flash than it saves time
MIN_MACS: Final = 4096

# those without doubles add a product in one instruction no faster than in two
FPUS: Final = (
    FloatUnit("fpu-dp", frozenset({"fpu-dp"}), 1, 32, True),
    FloatUnit("fpu-sp", frozenset({"fpu-sp"}), 1, 32, False),
    NO_FLOATS,
)

# three pixels by eight channels fill 24 of 32 registers, three factors and four weights, read by one VLDM, the rest
TILES: Final = FloatTiles(MIN_MACS, rows=3, columns=8, together=4, steps=8)
# on cores without vectors; a larger region takes more scratch, a smaller one stages more rows twice; windows to 5 by 5
SINGLE_FLOATS: Final[tuple[Rule, ...]] = (
    TILES,
    FloatWindow(MIN_MACS, region=2048, taps=25, tiles=(6, 5, 4, 3)),
    Window(),
)
# the caches and units of cores of x86-64, taken for all vectors; benchmarks/matmul.py measures. A region of more pixels
# reads a panel of weights less often, and takes more scratch
PANELS: Final = FloatPanels(
    MIN_MACS,
    costs=PanelCosts(max_rows=14, max_pointers=8, panel_bytes=640 << 10, latency=8, afar=5),
    pixels=48,
)
# integers on cores without dot products: more pixels at once share more reads, until sums do not fit registers. The
# instructions of Thumb code were counted: 6 bring a sum to a byte, 12 are around a tile
COLUMN_BYTES: Final = ColumnWindow("bytes", MIN_MACS, tiles=(3, 4, 5, 6), store=6, around=12)
COLUMN_HALVES: Final = replace(COLUMN_BYTES, factors="halves")
COLUMNS: Final = (COLUMN_BYTES, COLUMN_HALVES)
# before ``LANES``, which would take those that are left
PLAIN: Final[tuple[Rule, ...]] = (PlainWindow("bytes", MIN_MACS), PlainWindow("halves", MIN_MACS))
# what is no product, and products that no rule before takes
LANES: Final[tuple[Rule, ...]] = (Transform(), Elementwise(), Window(), Columns(), Rows())
