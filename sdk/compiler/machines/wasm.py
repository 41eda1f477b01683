"""WebAssembly with vectors of 128 bits."""

from __future__ import annotations

from typing import Final

from sdk.compiler.ir.types import I8
from sdk.compiler.machines.common import LANES, MIN_MACS, PANELS
from sdk.compiler.machines.machine import Dot, FloatUnit, Machine
from sdk.compiler.schedules.rules.attention import AttentionLanes
from sdk.compiler.schedules.rules.groups import GroupPanels, GroupRows
from sdk.compiler.schedules.rules.integer import LaneTiles
from sdk.compiler.schedules.rules.integer_window import LaneWindow
from sdk.compiler.schedules.rules.plain import PlainWindow

__all__ = ["MACHINES"]

SIMD128: Final = FloatUnit("simd128", frozenset({"simd128"}), lanes=4, registers=16, fma=False)
# engines may add a product in one rounding or in two, as their processor does faster
RELAXED: Final = FloatUnit("relaxed", frozenset({"relaxed-simd"}), lanes=4, registers=16, fma=True)
MACHINES: Final = (
    # i32x4.dot_i16x8_s adds pairs of products; its factors are bytes that are widened as they are read. Engines have 16
    # registers on x86-64, 32 on AArch64
    Machine(
        name="simd128",
        needs=frozenset({"simd128"}),
        float_units=(RELAXED, SIMD128),
        vector_bytes=16,
        dot=Dot(I8, I8, 2, sums=4),
        tile_rows=4,
        tile_cols=2,
        rules=(
            GroupPanels(lanes=4, factors="halves", sums=4, tokens=(2, 1)),
            GroupRows(),
            AttentionLanes(),
            LaneTiles(MIN_MACS),
            # products of eight bytes are halves of words in one vector, their sums two
            LaneWindow(MIN_MACS, vectors=2),
            PlainWindow("bytes", MIN_MACS),
            PANELS,
            *LANES,
        ),
    ),
)
