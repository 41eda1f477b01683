"""x86-64: SSE2, AVX2, and the dot products of AVX-VNNI and AVX-512 VNNI."""

from __future__ import annotations

from typing import Final

from sdk.compiler.ir.types import I8, U8
from sdk.compiler.machines.common import COLUMNS, FPUS, LANES, MIN_MACS, PANELS, PLAIN, TILES
from sdk.compiler.machines.machine import Dot, FloatUnit, Machine, Rule
from sdk.compiler.schedules.rules.attention import AttentionLanes
from sdk.compiler.schedules.rules.groups import GroupPanels, GroupRows
from sdk.compiler.schedules.rules.integer import LaneTiles
from sdk.compiler.schedules.rules.integer_window import LaneWindow
from sdk.compiler.schedules.rules.plain import PlainWindow

__all__ = ["MACHINES"]

AVX512F: Final = FloatUnit("avx512f", frozenset({"avx512f"}), lanes=16, registers=32, fma=True)
AVX2_FMA: Final = FloatUnit("avx2fma", frozenset({"avx2", "fma"}), lanes=8, registers=16, fma=True)
SSE2: Final = FloatUnit("sse2", frozenset({"sse2"}), lanes=4, registers=16, fma=False)

AVX_UNITS: Final = (AVX512F, AVX2_FMA, SSE2, *FPUS)
# eight tokens share the bits of a vector of weights; sixteen registers hold fewer sums
GROUPS_512: Final = GroupPanels(lanes=16, factors="word", sums=8, tokens=(8, 4, 2, 1))
GROUPS_256: Final = GroupPanels(lanes=8, factors="word", sums=4, tokens=(4, 2, 1))
# four tokens by one vector of sums: two vectors leave C compilers too few registers
SIGNS_AVX2: Final = GroupPanels(lanes=8, factors="signs", sums=4, tokens=(4, 2, 1))
GROUPS_AVX2: Final = GroupPanels(lanes=8, factors="pairs", sums=4, tokens=(4, 2, 1))
AVX_RULES: Final[tuple[Rule, ...]] = (
    GroupRows(),
    AttentionLanes(),
    LaneTiles(MIN_MACS),
    LaneWindow(MIN_MACS),
    PlainWindow("bytes", MIN_MACS),
    PANELS,
    TILES,
    *LANES,
)

MACHINES: Final = (
    # VPDPBUSD adds four products of an unsigned byte by a signed one to each of sixteen sums
    Machine(
        name="avx512vnni",
        needs=frozenset({"avx512vnni", "avx512bw", "avx512vl"}),
        float_units=AVX_UNITS,
        vector_bytes=64,
        dot=Dot(U8, I8, 4, sums=16),
        tile_rows=4,
        tile_cols=2,
        rules=(GROUPS_512, *AVX_RULES),
    ),
    Machine(
        name="avxvnni",
        needs=frozenset({"avxvnni", "avx2"}),
        float_units=AVX_UNITS,
        vector_bytes=32,
        dot=Dot(U8, I8, 4, sums=8),
        tile_rows=3,
        tile_cols=2,
        rules=(GROUPS_256, *AVX_RULES),
    ),
    # bytes are widened to the 32 bits of a lane
    Machine(
        name="avx2",
        needs=frozenset({"avx2"}),
        float_units=AVX_UNITS,
        vector_bytes=32,
        tile_rows=2,
        tile_cols=2,
        prefetch=1280,  # of 384 to 2048 the best on AMD's third generation (1088 to 1408: alike)
        rules=(SIGNS_AVX2, GROUPS_AVX2, *AVX_RULES),
    ),
    # no rule puts products of integers in lanes
    Machine(
        name="sse2",
        needs=frozenset({"sse2"}),
        float_units=(AVX512F, SSE2),
        vector_bytes=16,
        rules=(AttentionLanes(), *COLUMNS, *PLAIN, PANELS, *LANES),
    ),
)
