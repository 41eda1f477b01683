"""Rules for 8-bit depthwise windows: channels in lanes or packed words, or neighbouring pixels of staged rows."""

from __future__ import annotations

import math
from typing import Final

from sdk.compiler.ir.dependence import linear
from sdk.compiler.ir.loops import Alloc, Load, Loops
from sdk.compiler.ir.pattern import Contraction, has_condition
from sdk.compiler.ir.walk import walk
from sdk.compiler.schedules.locate import find, has
from sdk.compiler.schedules.rules.candidates import Choice
from sdk.compiler.schedules.rules.cores import Core
from sdk.compiler.schedules.rules.gather import COPY_RUN, gather_window
from sdk.compiler.schedules.rules.nest import extent, names, trip, unrolled
from sdk.compiler.schedules.trace import Schedule
from sdk.compiler.sym import Var, free_vars

__all__ = ["PAIR_TILES", "REGION", "apart", "copy_in_runs", "integer_window"]

UNROLL_TAPS: Final = 16
TILES: Final = (3, 4, 5, 6)  # pixels computed at once: as many as leave registers for what they read
PAIR_TILES: Final = (6, 5, 4, 3)  # the same where two products are summed at once; the last one overlaps
PAIR_COPY: Final = 6  # elements copied between two branches; the last ones overlap
PITCH: Final = 52  # elements from one staged row to the next
REGION: Final = 28 * PITCH  # bytes of rows staged together, of 16-bit elements
STORE, TILE = 6, 12  # instructions that bring a sum to 8 bits, and those around a tile


def integer_window(loops: Loops, part: Contraction, core: Core) -> Loops:
    """Depthwise: a few channels of the rows staged at a time on cores without vectors; else the padded window
    gathered per pixel, channels in lanes, taps written out."""
    if len(part.spatial) < 2 or part.spatial[-1].var.hi + 1 < core.lanes or not _same_channel(loops, part):
        return loops
    if core.lanes > 1:
        return _window_lanes(loops, part, core)
    channels, pixels = part.spatial[-1].hi, part.spatial[-2].hi
    variant = core.choice.variant
    paired = len(part.spatial) > 2 and part.reduce[-1].var in _taps_along(loops, part, part.spatial[-2].var)
    if variant is None and core.dot == 4 and paired and isinstance(pixels, int) and pixels >= min(PAIR_TILES):
        return _window_pairs(loops, part, pixels, core.choice)
    if variant in (None, "columns") and isinstance(channels, int) and isinstance(pixels, int) and pixels >= min(TILES):
        return _window_columns(loops, part, channels, pixels, core.choice)
    bytewise = loops.param(part.a).buffer.dtype.bits == 8
    return _window_words(loops, part) if bytewise and core.dot > 1 and part.spatial[-1].var.hi >= 3 else loops


def _window_lanes(loops: Loops, part: Contraction, core: Core) -> Loops:
    channel, pixel = part.spatial[-1].var.name, part.spatial[-2].var.name
    s = Schedule(loops, lanes=core.lanes)
    reduce = names(part.reduce)
    if has_condition(loops, part.a):
        gather_window(s, part, pixel, [*reduce, channel], 1)
    s.do("split", channel, "lanes").do("vectorize", f"{channel}_i")
    return _taps_written_out(s, part, [channel])


def _window_words(loops: Loops, part: Contraction) -> Loops:
    """One column of pixels: channels in packed words."""
    channel, pixel = part.spatial[-1].var.name, part.spatial[-2].var.name
    s = Schedule(loops, lanes=4, word=4, run=COPY_RUN)
    reduce = names(part.reduce)
    if has_condition(loops, part.a):
        gather_window(s, part, pixel, [*reduce, channel], 1)
    s.do("split", channel, "lanes").do("jam", f"{channel}_i", reduce).do("use_mac_lanes", f"{channel}_i")
    return _taps_written_out(s, part, [channel])


def _window_columns(loops: Loops, part: Contraction, channels: int, pixels: int, choice: Choice) -> Loops:
    """The rows that a row of the result reads are staged, a word of channels at a time and padded; of each channel
    neighbouring pixels are computed at once, so that an element read serves all of their windows."""
    channel, pixel = part.spatial[-1].var.name, part.spatial[-2].var.name
    word = 4 // loops.param(part.a).buffer.dtype.nbytes
    s = Schedule(loops, group=min(word, channels), tm=min(choice.rows or _pixels_at_once(loops, part, pixels), pixels))
    reduce = names(part.reduce)
    s.do("reorder", pixel, channel).do("overlap", channel, "group")
    s.do("stage_region", f"{channel}_o", part.a).do("reorder", f"{channel}_i", pixel)
    if channels >= word:
        region = next(n.buffer for n in walk(s.loops.body) if isinstance(n, Alloc) and n.buffer.space == "scratch")
        copies = (f"{region.name}_{len(region.shape) - 1}{part}" for part in ("l", "", "r"))
        for copy in (name for name in copies if has(s.loops, name)):
            s.do("vectorize", copy)
    s.do("overlap", pixel, "tm").do("jam", f"{pixel}_i", [f"{channel}_i", *reduce])
    return _taps_written_out(s, part, [pixel])


def _window_pairs(loops: Loops, part: Contraction, pixels: int, choice: Choice) -> Loops:
    """One channel at a time: the rows that some rows of the result read are staged in 16 bits, padded; of neighbouring
    pixels two products are summed at once."""
    channel, pixel, row = (loop.var.name for loop in part.spatial[:-4:-1])
    step = apart(loops, part, part.spatial[-2].var)
    tm = min(choice.rows or _pair_tile(pixels, step), pixels)
    pitch = _pitch(step * (pixels - 1) + part.reduce[-1].var.hi + 1, tm == _tiles(step)[0])
    s = Schedule(loops, rows=_rows_at_once(loops, part, pitch), tm=tm, pitch=pitch)
    *outer, taps = names(part.reduce)
    s.do("pack", part.b, 1, 1, len(loops.param(part.b).buffer.shape) - 1).do("use_i16", part.b)
    s.do("block", row, "rows").do("reorder", pixel, channel).do("reorder", f"{row}_i", channel)
    s.do("stage_region", channel, part.a, 1, "pitch")
    region = next(n.buffer for n in walk(s.loops.body) if isinstance(n, Alloc) and n.buffer.space == "scratch")
    if region.dtype.bits == 8:
        s.do("use_i16", region.name)
    if has(s.loops, f"{region.name}_f_1"):
        s.do("fuse", f"{region.name}_f_0", f"{region.name}_f_1", f"{region.name}_f")
        if trip(s.loops, f"{region.name}_f") % 2 == 0:
            s.attempt(_fill_words, f"{region.name}_f")
    copy_in_runs(s, f"{region.name}_{len(region.shape) - 1}")
    s.do("overlap", pixel, "tm").do("jam", f"{pixel}_i", [*outer, taps]).do("use_pairs", taps)
    for name in outer:
        s.do("unroll", name)
    return unrolled(s, [pixel])


def _fill_words(s: Schedule, fill: str) -> None:
    s.do("split", fill, 2).do("vectorize", f"{fill}_i")


def _tiles(step: int) -> tuple[int, ...]:
    """Tiles of windows ``step`` apart, the best first: those that share few elements gain little by being many."""
    return PAIR_TILES if step == 1 else PAIR_TILES[::-1]


def _pair_tile(pixels: int, step: int) -> int:
    """As many pixels as divide a row."""
    return next((size for size in _tiles(step) if pixels % size == 0), min(PAIR_TILES[-1] + 1, pixels))


def _pitch(width: int, whole: bool) -> int:
    """How far rows of the region are apart: as far as they are long; in layers of an image that is halved again and
    again, where the best tile divides all rows, the same, so that one kernel with fixed distances serves them all."""
    return PITCH if whole and width <= PITCH else width


def _rows_at_once(loops: Loops, part: Contraction, pitch: int) -> int:
    """Rows of the result whose windows are staged together: as many as REGION bytes have room for."""
    row = part.spatial[-3].var
    taps = math.prod(tap.hi + 1 for tap in _taps_along(loops, part, row))
    most = max((REGION // (2 * pitch) - taps) // apart(loops, part, row) + 1, 1)
    return most if pitch == PITCH else min(most, row.hi + 1)


def copy_in_runs(s: Schedule, copy: str) -> None:
    """Writes out some elements of a copy between two branches."""
    loop = find(s.loops, copy)
    count = loop.hi - loop.lo
    if isinstance(count, int) and count > 1:
        s.do("overlap", copy, min(PAIR_COPY, count)).do("unroll", f"{copy}_i")


def apart(loops: Loops, part: Contraction, over: Var) -> int:
    """How many elements of an axis the windows of neighbours are apart."""
    reads = (n for n in walk(loops.body) if isinstance(n, Load) and n.buffer == part.a)
    steps = (step[0] for n in reads for d in n.index if (step := linear(d, over)) is not None)
    return max(steps, default=1) or 1


def _taps_along(loops: Loops, part: Contraction, over: Var) -> set[Var]:
    """The loops over taps of the window that go along the axis of ``over``; none where it has one tap there."""
    reads = (n for n in walk(loops.body) if isinstance(n, Load) and n.buffer == part.a)
    along = (free_vars(d) for n in reads for d in n.index if over in free_vars(d))
    return {loop.var for loop in part.reduce} & set().union(*along)


def _pixels_at_once(loops: Loops, part: Contraction, pixels: int) -> int:
    """How many pixels to compute at once: that which takes the fewest instructions for a row."""
    columns, taps = part.reduce[-1].var.hi + 1, extent(part.reduce)
    step = apart(loops, part, part.spatial[-2].var)

    def cost(size: int) -> tuple[int, int]:
        loads = taps // columns * (step * (size - 1) + columns)
        return -(-pixels // size) * (loads + taps * (size + 1) + STORE * size + TILE), size

    return min((size for size in TILES if size <= pixels), key=cost)


def _taps_written_out(s: Schedule, part: Contraction, stems: list[str]) -> Loops:
    if extent(part.reduce) <= UNROLL_TAPS:
        for name in names(part.reduce):
            s.do("unroll", name)
    return unrolled(s, stems)


def _same_channel(loops: Loops, part: Contraction) -> bool:
    """Whether ``a`` is read at consecutive channels (no channel multiplier)."""
    var = part.spatial[-1].var
    return any(isinstance(n, Load) and n.buffer == part.a and n.index[-1] is var.expr for n in walk(loops.body))
