"""Rules for depthwise windows of integers: channels in lanes or packed words, or neighbouring pixels of staged rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sdk.compiler.analysis.pattern import Contraction, has_condition
from sdk.compiler.ir.loops import Alloc, Load, Loops
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.model import Machine
from sdk.compiler.machines.nest import Choice, Factors, Nest
from sdk.compiler.schedules.locate import find, has
from sdk.compiler.schedules.rules.gather import COPY_RUN, gather_window
from sdk.compiler.schedules.rules.nest import BYTES, extent, names, unrolled
from sdk.compiler.schedules.trace import Schedule
from sdk.compiler.sym import Var, free_vars, linear

__all__ = [
    "ColumnWindow",
    "LaneWindow",
    "WordWindow",
    "apart",
    "copy_in_runs",
    "is_depthwise",
    "pixels_of",
    "taps_along",
]

TAPS: Final = 16  # taps written out; more are a loop
COPY: Final = 6  # elements copied between two branches; the last ones overlap


@dataclass(frozen=True, slots=True)
class LaneWindow:
    """Depthwise: the padded window gathered per pixel, channels in lanes, taps written out. It takes ``least``
    multiply-accumulates."""

    least: int
    name = "lane-window"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Windows of bytes."""
        return nest.is_product("window", "bytes", self.least) and is_depthwise(nest, machine.integer_lanes)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Channels in lanes."""
        return _window_lanes(nest.loops, nest.part, machine.integer_lanes)


@dataclass(frozen=True, slots=True)
class ColumnWindow:
    """The rows that a row of the result reads are staged, a word of channels at a time and padded; of each channel
    neighbouring pixels are computed at once, so that an element read serves all of their windows. It takes ``least``
    multiply-accumulates of such ``factors``. Of ``tiles``, pixels computed at once, that is taken which executes least,
    with ``store`` instructions to bring a sum to 8 bits and ``around`` of them around a tile."""

    factors: Factors
    least: int
    tiles: tuple[int, ...]
    store: int
    around: int
    name = "column-window"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Windows of some pixels."""
        if not nest.is_product("window", self.factors, self.least) or nest.choice.variant not in (None, "columns"):
            return False
        numbers = isinstance(nest.part.spatial[-1].hi, int) and pixels_of(nest.part) >= min(self.tiles)
        return is_depthwise(nest) and numbers

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Neighbouring pixels of a word of channels."""
        return _window_columns(self, nest.loops, nest.part, nest.choice)


@dataclass(frozen=True, slots=True)
class WordWindow:
    """One column of pixels: channels in packed words. It takes ``least`` multiply-accumulates."""

    least: int
    name = "word-window"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Windows of a word of channels or more."""
        fits = nest.is_product("window", "bytes", self.least) and is_depthwise(nest)
        return fits and nest.part.spatial[-1].var.hi + 1 >= BYTES

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Words of channels."""
        return _window_words(nest.loops, nest.part)


def is_depthwise(nest: Nest, channels: int = 1) -> bool:
    """Whether there are pixels of so many channels, each computed from the channel of its own."""
    part = nest.part
    return len(part.spatial) > 1 and part.spatial[-1].var.hi + 1 >= channels and _same_channel(nest.loops, part)


def pixels_of(part: Contraction) -> int:
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


def _window_columns(rule: ColumnWindow, loops: Loops, part: Contraction, choice: Choice) -> Loops:
    channels, pixels = part.spatial[-1].var.hi + 1, pixels_of(part)
    channel, pixel = part.spatial[-1].var.name, part.spatial[-2].var.name
    word = BYTES // loops.param(part.a).buffer.dtype.nbytes
    tile = choice.rows or _pixels_at_once(rule, loops, part)
    s = Schedule(loops, group=min(word, channels), tm=min(tile, pixels))
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


def copy_in_runs(s: Schedule, copy: str) -> None:
    """Writes out some elements of a copy between two branches."""
    loop = find(s.loops, copy)
    count = loop.hi - loop.lo
    if isinstance(count, int) and count > 1:
        s.do("overlap", copy, min(COPY, count)).do("unroll", f"{copy}_i")


def apart(loops: Loops, part: Contraction, over: Var) -> int:
    """How many elements of an axis the windows of neighbours are apart."""
    reads = (n for n in walk(loops.body) if isinstance(n, Load) and n.buffer == part.a)
    steps = (step[0] for n in reads for d in n.index if (step := linear(d, over)) is not None)
    return max(steps, default=1) or 1


def taps_along(loops: Loops, part: Contraction, over: Var) -> set[Var]:
    """The loops over taps of the window that go along the axis of ``over``; none where it has one tap there."""
    reads = (n for n in walk(loops.body) if isinstance(n, Load) and n.buffer == part.a)
    along = (free_vars(d) for n in reads for d in n.index if over in free_vars(d))
    return {loop.var for loop in part.reduce} & set().union(*along)


def _pixels_at_once(rule: ColumnWindow, loops: Loops, part: Contraction) -> int:
    """How many pixels to compute at once: that which takes the fewest instructions for a row."""
    columns, taps = part.reduce[-1].var.hi + 1, extent(part.reduce)
    step, pixels = apart(loops, part, part.spatial[-2].var), pixels_of(part)

    def cost(size: int) -> tuple[int, int]:
        loads = taps // columns * (step * (size - 1) + columns)
        return -(-pixels // size) * (loads + taps * (size + 1) + rule.store * size + rule.around), size

    return min((size for size in rule.tiles if size <= pixels), key=cost)


def _taps_written_out(s: Schedule, part: Contraction, stems: list[str]) -> Loops:
    if extent(part.reduce) <= TAPS:
        for name in names(part.reduce):
            s.do("unroll", name)
    return unrolled(s, stems)


def _same_channel(loops: Loops, part: Contraction) -> bool:
    """Whether ``a`` is read at consecutive channels (no channel multiplier)."""
    var = part.spatial[-1].var
    return any(isinstance(n, Load) and n.buffer == part.a and n.index[-1] is var.expr for n in walk(loops.body))
