"""Arm's M-profile without vectors: Armv6-M (Cortex-M0, M0+), Armv7-M (M3), Armv7E-M and Armv8-M with DSP (M4 ...)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sdk.compiler.ir.types import I16
from sdk.compiler.machines.common import COLUMN_BYTES, COLUMN_HALVES, COLUMNS, FPUS, MIN_MACS, SINGLE_FLOATS
from sdk.compiler.machines.machine import NO_FLOATS, Assembly, Dot, Machine
from sdk.compiler.machines.nest import Choice
from sdk.compiler.schedules.rules.integer import WordTiles
from sdk.compiler.schedules.rules.integer16 import HalfTiles
from sdk.compiler.schedules.rules.integer_columns import ColumnTaps, PointRows
from sdk.compiler.schedules.rules.integer_direct import DirectPoints, DirectWindow
from sdk.compiler.schedules.rules.integer_pairs import PairWindow
from sdk.compiler.schedules.rules.integer_rows import RowTaps
from sdk.compiler.schedules.rules.integer_scalar import RegisterTiles, WordPairs
from sdk.compiler.schedules.rules.integer_window import WordWindow
from sdk.compiler.schedules.rules.joined import JoinedTiles
from sdk.compiler.schedules.rules.pool import Pool
from sdk.compiler.schedules.rules.row_windows import RowWindows

__all__ = ["MACHINES"]

# in place of MIN_MACS where layers share kernels and hot loops are short. From 1,024 to 256 wake_vad executes 7 % less
# and okay_nabu 2 %, for 900 and 500 bytes of flash; down to 64 another 1 %, for 200 and 750
SMALL: Final = 256
SMALLER: Final = 64  # of windows, and sums along rows: the plain nest takes four to eight times as long there
# set by visual wake words: rows of its largest depthwise layers, of 48 pixels, have 50 elements. At one pitch, and with
# as many rows at once, the layers of a stride are one kernel down to 6 by 6 (tests/schedules/test_rules.py)
PITCH: Final = 52
REGION: Final = 28 * PITCH  # bytes, of 14 rows of 16-bit elements
POINTS: Final = 7  # products of a pointwise sum; those of longer ones are better taken of bytes, two weights at once
LONGER_POINTS: Final = 64  # the same, of layers below SMALL with one channel of the result
GATHERED: Final = 32  # products of a sum whose windows are gathered; set over rows of 5 and 14, 4 to 24 outputs
PAIR_TILES: Final = (7, 6, 5, 4, 3, 2, 1)  # the same, of depthwise windows
POINT_TILES: Final = tuple(range(13, 0, -1))  # the same, of pointwise products, which share no elements
TILES: Final = (7, 6, 5, 4, 3, 2)  # pixels whose sums, and pairs of elements, are in registers
PAIR_WINDOW: Final = PairWindow("bytes", SMALLER, REGION, PITCH, PAIR_TILES, GATHERED)
DIRECT: Final = 10  # taps whose weights are in five registers
# two channels, as bringing sums to bytes is long: with four, elements of small windows take a tenth fewer instructions
POOL: Final = Pool(columns=2, taps=9, minimum=64)

# Cortex-M4, M33: SMLAD adds two products of halves of words; bytes are unpacked to them
DSP: Final = Machine(
    name="dsp",
    needs=frozenset({"dsp"}),
    float_units=FPUS,
    dot=Dot(I16, I16, 2),
    tile_rows=2,
    tile_cols=2,
    channel_multiple=4,
    high_word=True,
    column_tables=True,
    assembly=Assembly(),
    rules=(
        DirectWindow(SMALLER, REGION, DIRECT, PAIR_WINDOW),
        PAIR_WINDOW,
        RowTaps("bytes", SMALLER, REGION, TILES, pairs=64, gathered=GATHERED),
        DirectPoints(SMALLER, maximum=POINTS),
        PointRows(SMALLER, REGION, POINT_TILES, maximum=POINTS),
        ColumnTaps(SMALLER, REGION, TILES, maximum=8, pairs=64),
        RowWindows(SMALLER, REGION, PAIR_TILES, maximum=GATHERED, words=16),
        # unpacking a row that stands alone costs its two bytes an element in scratch, and pays where channels share it
        JoinedTiles(SMALL, wide_channels=16, small_row=384),
        # eight dots of each sum written out: fewer instructions for more flash, in large layers only
        WordTiles(SMALL, dots=8, long_work=1 << 17),
        DirectPoints(SMALLER, maximum=LONGER_POINTS),
        replace(COLUMN_BYTES, minimum=SMALLER),
        WordWindow(SMALL),
        RowTaps("halves", MIN_MACS, REGION, TILES),
        HalfTiles(MIN_MACS, part=32),
        PairWindow("halves", MIN_MACS, REGION, PITCH, PAIR_TILES, GATHERED),
        COLUMN_HALVES,
        RegisterTiles(SMALL, steps=2, alone=8, part=32),  # sums of fewer products than a word holds
        POOL,
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
            RegisterTiles(MIN_MACS, steps=2, alone=8, part=32),
            *COLUMNS,
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
            # writing a window down as words pays where channels share it, and takes four bytes an element in scratch:
            # to 640 elements, what the first layer of the anomaly detector reads
            RegisterTiles(MIN_MACS, steps=8, alone=8, part=32, pairs=WordPairs(widest=640, sharing=8)),
            *(replace(rule, minimum=1024) for rule in COLUMNS),  # strided ones of fewer take up to an eighth more
        ),
    ),
)
