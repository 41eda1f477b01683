"""The rule for depthwise windows of integers on cores that sum two products at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from sdk.compiler.analysis.pattern import Contraction
from sdk.compiler.ir.loops import Loops
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Choice, Factors, Nest
from sdk.compiler.schedules.locate import Loop, loops_of
from sdk.compiler.schedules.rules.contraction import column_axis
from sdk.compiler.schedules.rules.integer_window import (
    AROUND_TILE,
    MANY,
    STORE,
    best_tile,
    copy_in_runs,
    dilation,
    inside,
    is_window,
    multiplier,
    pixels_of,
    row_cost,
    span,
    taps_along,
    window_stride,
)
from sdk.compiler.schedules.rules.nest import extent, trip, write_out
from sdk.compiler.schedules.rules.shifted import shift_sums
from sdk.compiler.schedules.trace import Schedule

__all__ = ["PairWindow"]

SHARED: Final = 6  # neighbouring pixels of layers that share a kernel
ENOUGH: Final = 4  # pixels of a row for which elements are staged that no window reads
# instructions: of an element that is unpacked, around a row of them, and around all rows of a channel
COPY: Final = 2
AROUND_COPY: Final = 6
AROUND_CHANNEL: Final = 40
LITTLE: Final = 512  # bytes of an image's rows that are staged together however small it is
UNEVEN: Final = 75  # instructions around a part of a row that has fewer pixels than another


@dataclass(frozen=True, slots=True)
class PairWindow:
    """One channel at a time: the rows that some rows of the result read are staged in 16 bits, padded; of neighbouring
    pixels two products are summed at once. It takes ``minimum`` multiply-accumulates of such ``factors``.

    ``region`` bytes of rows are staged together, ``pitch`` elements apart where rows are so short and tiles of 6
    pixels, or of 3 that are strides apart, divide them. Else that of ``tiles`` is taken which executes least. Channels
    of the result that read one channel share what is staged. Pixels whose taps are dilated are neighbours of those a
    dilation further, so a row is staged in as many parts. Windows of one column of an image of one channel are another
    rule's where they have more than ``gathered`` products a pixel.
    """

    factors: Factors
    minimum: int
    region: int
    pitch: int
    tiles: tuple[int, ...]
    gathered: int
    name = "pair-window"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Windows along rows of some pixels, unless another structure is chosen."""
        if not is_window(nest, self.factors, self.minimum, self.gathered) or nest.choice.variant is not None:
            return False
        loops, part = nest.loops, nest.part
        if len(part.spatial) < 3 or multiplier(loops, part) == 0 or pixels_of(part) < 2:
            return False
        staged = window_stride(loops, part, part.spatial[-2].var) == 1 or pixels_of(part) >= ENOUGH
        return staged or _taps_across(loops, part) > 1

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Neighbouring pixels of staged rows, in pairs of products.

        Raises:
            ScheduleError: a row has fewer pixels than its taps are dilated, or a step does not apply.
        """
        return _pairs(self, nest)

    def shares(self, nest: Nest) -> bool:
        """Whether its schedule is that of other layers of the module, so that one kernel may serve them."""
        return nest.similar and _sizes(self, nest).alike

    def instructions(self, nest: Nest) -> float:
        """About how many instructions its schedule takes.

        Raises:
            ScheduleError: a row has fewer pixels than its taps are dilated.
        """
        loops, part = nest.loops, nest.part
        rows, channels = part.spatial[-3].var, part.spatial[-1].var.hi + 1
        sizes = _sizes(self, nest)
        blocks = -(-(rows.hi + 1) // sizes.rows)
        copied = min(sizes.read * sizes.parts, inside(loops, part, part.spatial[-2].var)) * COPY
        height = min(span(loops, part, rows, sizes.rows), inside(loops, part, rows))
        staged = AROUND_CHANNEL + height * (sizes.parts * AROUND_COPY + copied)
        uneven = UNEVEN if pixels_of(part) % sizes.parts else 0
        each = (rows.hi + 1) * sizes.parts * (sizes.cost(extent(part.reduce)) + uneven)
        return channels // multiplier(loops, part) * blocks * staged + channels * each


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Rows in ``parts``, of each of which ``pixels`` neighbours are computed, ``tm`` at once, whose windows of
    ``across`` taps are ``step`` elements apart; ``read`` elements are copied for them. ``rows`` of the result are
    staged together, ``pitch`` elements apart; ``alike``: as layers of other sizes have them too."""

    parts: int
    pixels: int
    step: int
    tm: int
    across: int
    read: int
    pitch: int
    rows: int
    alike: bool

    def cost(self, taps: int) -> int:
        """The instructions of a part of a row, of windows of so many taps."""
        if self.across > 1:
            return row_cost(self.tm, self.pixels, self.step, self.across, taps // self.across)
        return -(-self.pixels // self.tm) * (taps * (2 * self.tm + 1) + STORE * self.tm + AROUND_TILE)


def _sizes(rule: PairWindow, nest: Nest) -> _Sizes:
    loops, part = nest.loops, nest.part
    over, dilated = part.spatial[-2].var, dilation(loops, part, part.spatial[-2].var)
    step = window_stride(loops, part, over)
    parts = dilated // math.gcd(dilated, step)
    pixels, step = pixels_of(part) // parts, step * parts // dilated
    tm = _tile(rule, loops, part, pixels, step, nest.choice)
    across = _taps_across(loops, part)
    width = step * (-(-pixels_of(part) // parts) - 1) + across
    # layers of an image that is halved again and again have rows as far apart, so that one kernel serves them all
    alike = parts == 1 and tm == (SHARED if step == 1 else 3) and pixels % tm == 0 and width <= rule.pitch
    alike &= nest.kind == "window"
    pitch = rule.pitch if alike else width + width % 2  # so that rows begin at words, of which one LDRD reads two
    return _Sizes(parts, pixels, step, tm, across, width, pitch, _rows_at_once(rule, nest, pitch), alike)


def _pairs(rule: PairWindow, nest: Nest) -> Loops:
    loops, part = nest.loops, nest.part
    channel, pixel, row = loops_of(part.spatial[:-4:-1])
    sizes = _sizes(rule, nest)
    parts, across = sizes.parts, sizes.across
    s, reduce = Schedule(loops), loops_of(part.reduce)
    s.pack(part.b, 1, 1, column_axis(loops, part)).use_i16(part.b)
    shift_sums(s, nest)
    rows = s.block(row, sizes.rows)
    inside = [rows.inner, pixel]
    several = multiplier(loops, part)
    each = [s.split(channel, several)] if several > 1 else []
    outer = [tiles.outer for tiles in each] or [channel]
    if parts > 1:
        phases = s.cyclic(pixel, parts)
        s.reorder(rows.inner, phases.outer)
        inside[-1] = phases.inner
    for loop in (*outer, *(tiles.inner for tiles in each)):
        for around in reversed(inside):
            s.reorder(around, loop)
    lines = s.line_buffer(outer[0], part.a, 1, sizes.pitch)
    if across > 1 and lines.buffer.dtype.bits == 8:
        s.use_i16(lines.buffer.name)
    if len(lines.fill) > 1:
        fill = s.fuse(lines.fill[0], lines.fill[1], f"{lines.buffer.name}_f")
        if trip(s.loops, fill) % 2 == 0:
            s.attempt(_fill_words, fill)
    copy_in_runs(s, lines.copy)
    tile = s.overlap(inside[-1], sizes.tm).inner
    s.unroll_and_jam(tile, reduce)
    if across > 1:
        s.use_dual_mac(reduce[-1])
    return write_out(s, [*(reduce[:-1] if across > 1 else reduce), tile])


def _taps_across(loops: Loops, part: Contraction) -> int:
    """The taps of a window along a row."""
    last = part.reduce[-1]
    return last.var.hi + 1 if last.var in taps_along(loops, part, part.spatial[-2].var) else 1


def _fill_words(s: Schedule, fill: Loop) -> Schedule:
    return s.vectorize(s.split(fill, 2).inner)


def _tile(rule: PairWindow, loops: Loops, part: Contraction, pixels: int, step: int, choice: Choice) -> int:
    """How many pixels to compute at once: those that layers share a kernel by, or that take the fewest instructions."""
    if choice.rows:
        return min(choice.rows, pixels)
    if step == 1 and pixels % SHARED == 0 and pixels:
        return SHARED
    across = _taps_across(loops, part)
    return best_tile(rule.tiles, pixels, step, across, extent(part.reduce) // across)


def _rows_at_once(rule: PairWindow, nest: Nest, pitch: int) -> int:
    """Rows of the result whose windows are staged together: as many as the region has room for; of an image of one
    channel those that take no more bytes than it does, and one where so many channels read what is staged that staging
    it again for the next row costs little."""
    loops, part, region = nest.loops, nest.part, rule.region
    row, pixel = (loop.var for loop in part.spatial[-3:-1])
    taps = math.prod(tap.hi + 1 for tap in taps_along(loops, part, row))
    if taps > 1 and multiplier(loops, part) >= MANY:
        return 1
    if nest.kind != "window":
        region = min(region, max(inside(loops, part, row) * inside(loops, part, pixel), LITTLE))
    reach = (taps - 1) * dilation(loops, part, row) + 1
    maximum = max((region // (2 * pitch) - reach) // window_stride(loops, part, row) + 1, 1)
    return maximum if pitch == rule.pitch else min(maximum, row.hi + 1)
