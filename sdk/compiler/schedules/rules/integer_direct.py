"""The rule for depthwise windows of bytes that share few elements: each is read where it is multiplied."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from sdk.compiler.analysis.pattern import Contraction, has_condition
from sdk.compiler.ir.loops import Loops
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import DEFAULT, Nest
from sdk.compiler.schedules.line_buffer import LineBuffer
from sdk.compiler.schedules.locate import Loop, ScheduleError, Tiles, loops_of
from sdk.compiler.schedules.rules.contraction import column_axis
from sdk.compiler.schedules.rules.gather import windowed
from sdk.compiler.schedules.rules.integer_pairs import PairWindow
from sdk.compiler.schedules.rules.integer_window import (
    STORE,
    dilation,
    inside,
    is_window,
    multiplier,
    pixels_of,
    span,
    taps_along,
    window_stride,
)
from sdk.compiler.schedules.rules.nest import BYTES, extent, fuse_all, trip, write_out
from sdk.compiler.schedules.rules.shifted import shift_sums
from sdk.compiler.schedules.trace import Schedule

__all__ = ["DirectPoints", "DirectWindow"]

LINES: Final = 150  # instructions of pixels that are written out in a loop over rows
WRITTEN: Final = 32  # words of a row that are copied between two branches; more are a loop
GAIN: Final = 0.9  # how far below those of pairs its instructions are: another structure is more code
# instructions, as counted in Thumb code: to copy a word, around a row of them written out and in a loop, around all
# rows, of a channel before its sums (seven read its constants), and around a row of pixels in a loop
COPY: Final = 1.5
AROUND_COPY: Final = 3
AROUND_LOOP: Final = 15
AROUND_ROWS: Final = 60
CHANNEL: Final = 30
AROUND_PIXELS: Final = 30
SEVERAL: Final = 2  # channels of the result for which an element that is multiplied once each is not unpacked first


@dataclass(frozen=True, slots=True)
class DirectPoints:
    """Pointwise products whose elements are read too seldom to be unpacked first: one channel of the result at a time,
    of pixels that are written out. It takes ``minimum`` multiply-accumulates: sums of one product, and those of
    ``maximum`` products at most into a single channel, four of a word at once."""

    minimum: int
    maximum: int
    name = "direct-points"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Products of pixels of bytes, unless another structure is chosen."""
        if not nest.is_product("contraction", "bytes", self.minimum) or nest.choice != DEFAULT:
            return False
        part, depth = nest.part, extent(nest.part.reduce)
        outputs = extent(part.spatial[-1:])
        few = outputs <= SEVERAL if depth == 1 else outputs == 1
        return few and depth <= self.maximum and not windowed(nest.loops, part)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Elements read one by one.

        Raises:
            ScheduleError: there are no rows of pixels, of a number known now, or a step does not apply.
        """
        loops, part = nest.loops, nest.part
        if len(part.spatial) < 3 or not isinstance(part.spatial[-2].hi, int):
            raise ScheduleError("no rows of pixels, or of a number known at run time")
        channel, pixel, row = loops_of(part.spatial[:-4:-1])
        s, depth, reduce = Schedule(loops), extent(part.reduce), loops_of(part.reduce)
        s.pack(part.b, 1, 1)
        if depth < BYTES:
            s.use_i16(part.b)
        shift_sums(s, nest)
        rows = s.block(row, part.spatial[-3].var.hi + 1).inner
        s.reorder(pixel, channel).reorder(rows, channel)
        if window_stride(loops, part, part.spatial[-2].var) == 1:
            pixel = s.fuse(rows, pixel, "px")
        count = pixels_of(part)
        most = min(LINES // (2 * depth + STORE), count)
        whole = max(size for size in range(1, most + 1) if count % size == 0)
        tile = s.overlap(pixel, whole if 2 * whole > most else most)
        if depth >= BYTES:
            words = s.split(fuse_all(s, reduce, "k"), BYTES)
            s.use_dot(words.inner)
            reduce = [words.outer, *([words.tail] if words.tail else [])]
        return write_out(s, [tile.inner, *reduce])


@dataclass(frozen=True, slots=True)
class DirectWindow:
    """One channel at a time: its weights are in registers, two in each, and each element is read from rows that are
    copied as they are, in words of channels, padded. A product takes two instructions, and a copied element less than
    one. It takes ``minimum`` multiply-accumulates in windows of at most ``taps``, where that takes fewer instructions
    than ``pairs``: unpacking elements pays where several windows share them. ``region`` bytes of rows are staged
    together."""

    minimum: int
    region: int
    taps: int
    pairs: PairWindow
    name = "direct-window"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Small windows of some pixels, unless another structure is chosen."""
        if not is_window(nest, "bytes", self.minimum, self.pairs.gathered) or nest.choice != DEFAULT:
            return False
        part = nest.part
        if len(part.spatial) < 3 or multiplier(nest.loops, part) == 0 or pixels_of(part) < 2:
            return False
        return extent(part.reduce) <= self.taps

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Elements read one by one.

        Raises:
            ScheduleError: pairs of products take fewer instructions, the rows of a few channels take more than the
                region, or a step does not apply.
        """
        candidates = _candidates(self, nest)
        if not candidates:
            raise ScheduleError("rows longer than the region")
        chosen = min(candidates, key=lambda one: (one.instructions(nest), one.size, one.rows))
        if self.pairs.applies(nest, machine) and not self._pays(nest, chosen):
            raise ScheduleError("windows share most of their elements, or layers a kernel")
        return _direct(nest, chosen)

    def _pays(self, nest: Nest, chosen: _Candidate) -> bool:
        """Whether it takes fewer instructions than pairs, whose kernel no other layer would have."""
        try:
            return chosen.instructions(nest) < GAIN * self.pairs.instructions(nest) and not self.pairs.shares(nest)
        except ScheduleError:
            return True


@dataclass(frozen=True, slots=True)
class _Candidate:
    """``size`` channels of ``rows`` rows of the result are staged together where that is ``padded``; of each row
    ``tiles`` parts are computed."""

    size: int
    rows: int
    tiles: int
    padded: bool

    def instructions(self, nest: Nest) -> float:
        """About how many instructions it takes."""
        loops, part = nest.loops, nest.part
        row, pixel = part.spatial[-3:-1]
        several, height = multiplier(loops, part), row.var.hi + 1
        channels, blocks = (part.spatial[-1].var.hi + 1) // several, -(-height // self.rows)
        groups = -(-channels // self.size)
        in_loop = self.tiles >= self.rows and self.tiles > 1
        around = CHANNEL * blocks + height * AROUND_PIXELS if in_loop else CHANNEL * blocks * self.tiles
        pixels = -(-pixels_of(part) // self.tiles) * self.tiles
        sums = height * pixels * (2 * extent(part.reduce) + STORE + in_loop) + height * 2 * self.tiles
        total = float(groups * self.size * several * (around + sums))
        if self.padded:
            words = self.size * inside(loops, part, pixel.var) // _apart(loops, part) // BYTES
            copied = words * COPY + (AROUND_COPY if words <= WRITTEN else AROUND_LOOP)
            staged = min(span(loops, part, row.var, self.rows), inside(loops, part, row.var))
            total += groups * blocks * (AROUND_ROWS + staged * copied)
        return total


def _candidates(rule: DirectWindow, nest: Nest) -> list[_Candidate]:
    """Channels, all or some words of them, and rows of the result whose windows fit the region, as many in each block;
    all of both where nothing is staged."""
    loops, part = nest.loops, nest.part
    row, pixel = part.spatial[-3:-1]
    channels, height = (part.spatial[-1].var.hi + 1) // multiplier(loops, part), row.var.hi + 1
    tiles = -(-pixels_of(part) // (LINES // (2 * extent(part.reduce) + STORE)))
    if not has_condition(loops, part.a):
        return [_Candidate(channels, height, tiles, False)]
    width = span(loops, part, pixel.var, pixels_of(part)) // _apart(loops, part)
    sizes = [n for n in range(BYTES, channels, BYTES) if channels % n == 0 or n == BYTES]
    counts = {-(-height // blocks) for blocks in range(1, height + 1)}
    candidates = (_Candidate(size, count, tiles, True) for size in [*sizes, channels] for count in counts)
    return [one for one in candidates if one.size * width * span(loops, part, row.var, one.rows) <= rule.region]


def _direct(nest: Nest, chosen: _Candidate) -> Loops:
    loops, part = nest.loops, nest.part
    channel, pixel, row = loops_of(part.spatial[:-4:-1])
    s, reduce, several = Schedule(loops), loops_of(part.reduce), multiplier(loops, part)
    s.pack(part.b, 1, 1, column_axis(loops, part)).use_i16(part.b)
    shift_sums(s, nest)
    around = [channel]
    if several > 1:
        each = s.split(channel, several)
        around = [each.outer, each.inner]
    if chosen.padded:
        channels = (part.spatial[-1].var.hi + 1) // several
        groups = s.split(around[0], chosen.size) if channels % chosen.size == 0 else s.overlap(around[0], chosen.size)
        around = [groups.outer, groups.inner, *around[1:]]
        row = s.block(row, chosen.rows).inner
    for loop in around:
        s.reorder(pixel, loop).reorder(row, loop)
    if chosen.padded:
        _copied(s, s.line_buffer(around[0], part.a), chosen.size == channels and _apart(loops, part) == 1)
    written = _pixels(s, part, row, pixel, chosen)
    if extent(part.reduce) > 1:
        s.use_mac_pairs(reduce, part.b)
    else:
        written += reduce
    return write_out(s, written)


def _pixels(s: Schedule, part: Contraction, row: Loop, pixel: Loop, chosen: _Candidate) -> list[Loop]:
    """The pixels of a row that are written out in a loop over rows; none where that over pixels has more iterations."""
    if chosen.tiles == 1:
        return [pixel]
    if chosen.tiles >= chosen.rows:
        return []
    tile = s.overlap(pixel, -(-pixels_of(part) // chosen.tiles))
    s.reorder(row, tile.outer)
    return [tile.inner]


def _copied(s: Schedule, lines: LineBuffer, run: bool) -> None:
    """Copies and fills rows in words; ``run``: what is copied of a row is one run of pixels and channels. What is done
    for each row is written out where it is short: then the rows are one loop in assembly."""
    name, last = lines.buffer.name, len(lines.copies) - 1
    copy = lines.copy
    if last > 1:
        s.flatten(name)
        copy = s.fuse(lines.copies[-2], copy, f"{name}_p") if run else copy
        if not run and trip(s.loops, copy) * trip(s.loops, lines.copies[-2]) <= WRITTEN * BYTES:
            s.unroll(lines.copies[-2])
    _in_words(s, copy, WRITTEN)
    for k, fill in enumerate(lines.fills):
        of_rows = len(fill) > last
        _in_words(s, fuse_all(s, list(fill[-last:]), f"{name}_f{k}"), 1 if of_rows else WRITTEN)


def _in_words(s: Schedule, run: Loop, maximum: int) -> None:
    """A word at a time, then bytes, where elements are neighbours; up to ``maximum`` of each are written out."""
    words = s.attempt(_words, run) if trip(s.loops, run) >= BYTES else None
    for loop in words.loops if words else [run]:
        if trip(s.loops, loop) <= maximum:
            s.unroll(loop)


def _words(s: Schedule, run: Loop) -> Tiles:
    words = s.split(run, BYTES)
    s.vectorize(words.inner)
    return words


def _apart(loops: Loops, part: Contraction) -> int:
    """How many elements of a row those are apart that any window reads."""
    over = part.spatial[-2].var
    several = any(tap.hi for tap in taps_along(loops, part, over))
    return math.gcd(window_stride(loops, part, over), dilation(loops, part, over) if several else 0)
