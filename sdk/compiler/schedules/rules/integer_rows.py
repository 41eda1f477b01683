"""Rule for 8-bit convolutions over few channels: rows staged in 16 bits, all taps of a row one run, two at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sdk.compiler.analysis.pattern import Contraction
from sdk.compiler.ir.loops import Loops
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Choice, Factors, Nest
from sdk.compiler.schedules.locate import ScheduleError, loops_of
from sdk.compiler.schedules.rules.gather import windowed
from sdk.compiler.schedules.rules.integer_window import best_tile, copy_in_runs, window_stride
from sdk.compiler.schedules.rules.nest import extent, fuse_all, write_out
from sdk.compiler.schedules.trace import Schedule

__all__ = ["PointRows", "RowTaps"]


@dataclass(frozen=True, slots=True)
class PointRows:
    """Pointwise products of few channels: some rows are staged in 16 bits, their pixels one after the other, so that
    the channels of a pixel are the taps of a window that moves on by as many. It takes ``least`` multiply-accumulates,
    sums of ``most`` products at most.

    ``region`` bytes of rows are staged together; that of ``tiles``, pixels computed at once, is taken which executes
    least.
    """

    least: int
    region: int
    tiles: tuple[int, ...]
    most: int
    name = "point-rows"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Products of pixels of bytes, unless another structure is chosen."""
        if not nest.is_product("contraction", "bytes", self.least) or nest.choice.variant is not None:
            return False
        return extent(nest.part.reduce) <= self.most and not windowed(nest.loops, nest.part)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """All channels of a row as one run.

        Raises:
            ScheduleError: there are no rows of pixels, of a number known now, or a step does not apply.
        """
        return _points(self, nest.loops, nest.part, nest.choice)


def _points(rule: PointRows, loops: Loops, part: Contraction, choice: Choice) -> Loops:
    pixels = part.spatial[-2].hi if len(part.spatial) > 2 else None
    if not isinstance(pixels, int):
        raise ScheduleError("no rows of pixels, or of a number known at run time")
    channel, pixel, row = loops_of(part.spatial[:-4:-1])
    depth = extent(part.reduce)
    tm = choice.rows or best_tile(rule.tiles, pixels, depth, depth, 1)
    s, k = Schedule(loops), loops_of(part.reduce)[-1]
    rows = s.block(row, min(max(rule.region // (2 * depth * pixels), 1), part.spatial[-3].var.hi + 1))
    s.reorder(pixel, channel).reorder(rows.inner, channel).pack(part.b, 1, 1).use_i16(part.b)
    lines = s.line_buffer(rows.outer, part.a)
    if lines.buffer.dtype.bits == 8:
        s.use_i16(lines.buffer.name)
    copy = lines.copy
    if depth > 1:
        s.flatten(lines.buffer.name)
        if window_stride(loops, part, part.spatial[-2].var) == 1:
            copy = s.fuse(lines.copies[-2], copy, f"{lines.buffer.name}_p")
    copy_in_runs(s, copy)
    tile = s.overlap(pixel, tm).inner
    s.unroll_and_jam(tile, [k]).use_dual_mac(k)
    return write_out(s, [tile])


@dataclass(frozen=True, slots=True)
class RowTaps:
    """One channel of the result at a time: elements staged once serve the windows of neighbouring pixels, of which
    two products are summed at once. It takes ``least`` multiply-accumulates of such ``factors``.

    ``region`` bytes of rows are staged together, in 16 bits, and the first of ``tiles`` that divides their pixels is
    computed at once. It is for images of ``few`` channels, where chosen of ``most``; fewer than ``rows`` rows of taps
    are written out, those of several channels are long enough to be a loop.
    """

    factors: Factors
    least: int
    region: int
    tiles: tuple[int, ...]
    few: int = 3
    most: int = 8
    rows: int = 4
    name = "row-taps"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Convolutions over few channels, unless another structure is chosen."""
        return nest.is_product("contraction", self.factors, self.least) and nest.choice.variant in (None, "rows")

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """All taps of a row as one run.

        Raises:
            ScheduleError: it is no convolution of rows and columns of few channels, or one of its steps does not apply.
        """
        return _rows(self, nest.loops, nest.part, nest.choice)


def _rows(rule: RowTaps, loops: Loops, part: Contraction, choice: Choice) -> Loops:
    if len(part.reduce) < 2:
        raise ScheduleError("no convolution of rows and columns")
    down, across, *depth = loops_of(part.reduce)
    few = rule.most if choice.variant == "rows" else rule.few
    if len(part.spatial) < 3 or len(depth) > 1 or (depth and part.reduce[-1].var.hi >= few):
        raise ScheduleError("no convolution of rows and columns of few channels")
    channel, pixel, row = loops_of(part.spatial[:-4:-1])
    pixels = part.spatial[-2].hi
    if not isinstance(pixels, int) or pixels < rule.tiles[-1]:
        raise ScheduleError("rows of too few pixels, or of a number known at run time")
    sizes = (n for n in range(1, pixels + 1) if pixels % n == 0 and _bytes(loops, part, n) <= rule.region)
    columns = max(sizes, default=1)
    tm = choice.rows or next((size for size in rule.tiles if columns % size == 0), rule.tiles[-1])
    s, inner, around = Schedule(loops), pixel, row
    if columns < pixels:
        parts = s.split(pixel, columns)
        around, inner = parts.outer, parts.inner
    s.reorder(inner, channel).pack(part.b, 1, 1).use_i16(part.b)
    lines = s.line_buffer(around, part.a)
    if lines.buffer.dtype.bits == 8:
        s.use_i16(lines.buffer.name)
    copy_in_runs(s, lines.copy)
    taps = across
    if depth:
        s.flatten(lines.buffer.name)
        taps = fuse_all(s, [across, *depth], "k")
    tile = s.overlap(inner, tm).inner
    s.unroll_and_jam(tile, [down, taps]).use_dual_mac(taps)
    few_rows = part.reduce[0].var.hi < rule.rows and not depth
    return write_out(s, [*([down] if few_rows else []), tile])


def _bytes(loops: Loops, part: Contraction, pixels: int) -> int:
    """What the rows take that so many neighbouring pixels read."""
    columns = window_stride(loops, part, part.spatial[-2].var) * (pixels - 1) + part.reduce[1].var.hi + 1
    rest = (loop.var.hi + 1 for loop in (part.reduce[0], *part.reduce[2:]))
    return 2 * columns * math.prod(rest)
