"""Rules for 8-bit depthwise windows: channels in lanes or packed words, or neighbouring pixels of staged rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from sdk.compiler.ir.dependence import linear
from sdk.compiler.ir.loops import Alloc, Load, Loops
from sdk.compiler.ir.pattern import Contraction, has_condition
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.model import Machine
from sdk.compiler.machines.nest import Choice, Factors, Nest
from sdk.compiler.schedules.locate import find, has
from sdk.compiler.schedules.rules.gather import COPY_RUN, gather_window
from sdk.compiler.schedules.rules.nest import BYTES, extent, names, trip, unrolled
from sdk.compiler.schedules.trace import Schedule
from sdk.compiler.sym import Var, free_vars

__all__ = [
    "PAIR_TILES",
    "REGION",
    "ColumnWindow",
    "LaneWindow",
    "PairWindow",
    "WordWindow",
    "apart",
    "copy_in_runs",
]

UNROLL_TAPS: Final = 16
TILES: Final = (3, 4, 5, 6)  # pixels computed at once: as many as leave registers for what they read
PAIR_TILES: Final = (6, 5, 4, 3)  # the same where two products are summed at once; the last one overlaps
PAIR_COPY: Final = 6  # elements copied between two branches; the last ones overlap
PITCH: Final = 52  # elements from one staged row to the next
REGION: Final = 28 * PITCH  # bytes of rows staged together, of 16-bit elements
STORE, TILE = 6, 12  # instructions that bring a sum to 8 bits, and those around a tile


@dataclass(frozen=True, slots=True)
class LaneWindow:
    """Depthwise: the padded window gathered per pixel, channels in lanes, taps written out. It takes ``least``
    multiply-accumulates."""

    least: int
    name = "lane-window"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Windows of bytes."""
        return nest.is_product("window", "bytes", self.least) and _depthwise(nest, machine.integer_lanes)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Channels in lanes."""
        return _window_lanes(nest.loops, nest.part, machine.integer_lanes)


@dataclass(frozen=True, slots=True)
class PairWindow:
    """One channel at a time: the rows that some rows of the result read are staged in 16 bits, padded; of neighbouring
    pixels two products are summed at once. It takes ``least`` multiply-accumulates of such ``factors``."""

    factors: Factors
    least: int
    name = "pair-window"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Windows along rows of some pixels, unless another structure is chosen."""
        if not nest.is_product("window", self.factors, self.least) or nest.choice.variant is not None:
            return False
        part = nest.part
        paired = len(part.spatial) > 2 and part.reduce[-1].var in _taps_along(nest.loops, part, part.spatial[-2].var)
        return paired and _depthwise(nest) and _pixels(part) >= min(PAIR_TILES)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Neighbouring pixels of staged rows, in pairs of products."""
        return _window_pairs(nest.loops, nest.part, _pixels(nest.part), nest.choice)


@dataclass(frozen=True, slots=True)
class ColumnWindow:
    """The rows that a row of the result reads are staged, a word of channels at a time and padded; of each channel
    neighbouring pixels are computed at once, so that an element read serves all of their windows. It takes ``least``
    multiply-accumulates of such ``factors``."""

    factors: Factors
    least: int
    name = "column-window"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Windows of some pixels."""
        if not nest.is_product("window", self.factors, self.least) or nest.choice.variant not in (None, "columns"):
            return False
        return _depthwise(nest) and isinstance(nest.part.spatial[-1].hi, int) and _pixels(nest.part) >= min(TILES)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Neighbouring pixels of a word of channels."""
        return _window_columns(nest.loops, nest.part, _pixels(nest.part), nest.choice)


@dataclass(frozen=True, slots=True)
class WordWindow:
    """One column of pixels: channels in packed words. It takes ``least`` multiply-accumulates."""

    least: int
    name = "word-window"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Windows of a word of channels or more."""
        fits = nest.is_product("window", "bytes", self.least) and _depthwise(nest)
        return fits and nest.part.spatial[-1].var.hi + 1 >= BYTES

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Words of channels."""
        return _window_words(nest.loops, nest.part)


def _depthwise(nest: Nest, channels: int = 1) -> bool:
    """Whether there are pixels of so many channels, each computed from the channel of its own."""
    part = nest.part
    return len(part.spatial) > 1 and part.spatial[-1].var.hi + 1 >= channels and _same_channel(nest.loops, part)


def _pixels(part: Contraction) -> int:
    """The pixels of a row; 0 where their number is known at run time."""
    return part.spatial[-2].hi if isinstance(part.spatial[-2].hi, int) else 0


def _window_lanes(loops: Loops, part: Contraction, lanes: int) -> Loops:
    channel, pixel = part.spatial[-1].var.name, part.spatial[-2].var.name
    s = Schedule(loops, lanes=lanes)
    reduce = names(part.reduce)
    if has_condition(loops, part.a):
        gather_window(s, part, pixel, [*reduce, channel], 1)
    s.do("split", channel, "lanes").do("vectorize", f"{channel}_i")
    return _taps_written_out(s, part, [channel])


def _window_words(loops: Loops, part: Contraction) -> Loops:
    channel, pixel = part.spatial[-1].var.name, part.spatial[-2].var.name
    s = Schedule(loops, lanes=BYTES, word=BYTES, run=COPY_RUN)
    reduce = names(part.reduce)
    if has_condition(loops, part.a):
        gather_window(s, part, pixel, [*reduce, channel], 1)
    s.do("split", channel, "lanes").do("jam", f"{channel}_i", reduce).do("use_mac_lanes", f"{channel}_i")
    return _taps_written_out(s, part, [channel])


def _window_columns(loops: Loops, part: Contraction, pixels: int, choice: Choice) -> Loops:
    channels = part.spatial[-1].var.hi + 1
    channel, pixel = part.spatial[-1].var.name, part.spatial[-2].var.name
    word = BYTES // loops.param(part.a).buffer.dtype.nbytes
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
