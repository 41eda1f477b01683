"""The rule for depthwise windows of integers on cores that sum two products at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sdk.compiler.analysis.pattern import Contraction
from sdk.compiler.ir.loops import Loops
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Choice, Factors, Nest
from sdk.compiler.schedules.locate import Loop, loops_of
from sdk.compiler.schedules.rules.integer_window import copy_in_runs, is_depthwise, pixels_of, taps_along, window_stride
from sdk.compiler.schedules.rules.nest import trip, write_out
from sdk.compiler.schedules.trace import Schedule

__all__ = ["PairWindow"]


@dataclass(frozen=True, slots=True)
class PairWindow:
    """One channel at a time: the rows that some rows of the result read are staged in 16 bits, padded; of neighbouring
    pixels two products are summed at once. It takes ``least`` multiply-accumulates of such ``factors``.

    ``region`` bytes of rows are staged together, ``pitch`` elements apart where rows are so short and the best tile
    divides them; of ``tiles``, most pixels first, the best that divides a row is computed at once.
    """

    factors: Factors
    least: int
    region: int
    pitch: int
    tiles: tuple[int, ...]
    name = "pair-window"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Windows along rows of some pixels, unless another structure is chosen."""
        if not nest.is_product("window", self.factors, self.least) or nest.choice.variant is not None:
            return False
        part = nest.part
        paired = len(part.spatial) > 2 and part.reduce[-1].var in taps_along(nest.loops, part, part.spatial[-2].var)
        return paired and is_depthwise(nest) and pixels_of(part) >= min(self.tiles)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Neighbouring pixels of staged rows, in pairs of products."""
        return _pairs(self, nest.loops, nest.part, nest.choice)


def _pairs(rule: PairWindow, loops: Loops, part: Contraction, choice: Choice) -> Loops:
    channel, pixel, row = loops_of(part.spatial[:-4:-1])
    pixels, step = pixels_of(part), window_stride(loops, part, part.spatial[-2].var)
    sizes = rule.tiles if step == 1 else rule.tiles[::-1]  # windows that share few elements gain little by being many
    best = next((size for size in sizes if pixels % size == 0), min(rule.tiles[-1] + 1, pixels))
    tm = min(choice.rows or best, pixels)
    width = step * (pixels - 1) + part.reduce[-1].var.hi + 1
    # layers of an image that is halved again and again have rows as far apart, so that one kernel serves them all
    pitch = rule.pitch if tm == sizes[0] and width <= rule.pitch else width
    s, reduce = Schedule(loops), loops_of(part.reduce)
    s.pack(part.b, 1, 1, len(loops.param(part.b).buffer.shape) - 1).use_i16(part.b)
    rows = s.block(row, _rows_at_once(rule, loops, part, pitch))
    s.reorder(pixel, channel).reorder(rows.inner, channel)
    lines = s.line_buffer(channel, part.a, 1, pitch)
    if lines.buffer.dtype.bits == 8:
        s.use_i16(lines.buffer.name)
    if len(lines.fill) > 1:
        fill = s.fuse(lines.fill[0], lines.fill[1], f"{lines.buffer.name}_f")
        if trip(s.loops, fill) % 2 == 0:
            s.attempt(_fill_words, fill)
    copy_in_runs(s, lines.copy)
    tile = s.overlap(pixel, tm).inner
    s.unroll_and_jam(tile, reduce).use_dual_mac(reduce[-1])
    return write_out(s, [*reduce[:-1], tile])


def _fill_words(s: Schedule, fill: Loop) -> Schedule:
    return s.vectorize(s.split(fill, 2).inner)


def _rows_at_once(rule: PairWindow, loops: Loops, part: Contraction, pitch: int) -> int:
    """Rows of the result whose windows are staged together: as many as the region has room for."""
    row = part.spatial[-3].var
    taps = math.prod(tap.hi + 1 for tap in taps_along(loops, part, row))
    most = max((rule.region // (2 * pitch) - taps) // window_stride(loops, part, row) + 1, 1)
    return most if pitch == rule.pitch else min(most, row.hi + 1)
