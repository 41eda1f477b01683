"""Rules for 8-bit products of few channels whose kernels are one column or one pixel: its channels are one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sdk.compiler.ir.loops import Loops
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.line_buffer import LineBuffer
from sdk.compiler.schedules.locate import ScheduleError, loops_of
from sdk.compiler.schedules.rules.gather import windowed
from sdk.compiler.schedules.rules.integer_window import (
    TOGETHER,
    copy_in_runs,
    pixels_of,
    row_cost,
    span,
    taps_along,
    window_stride,
)
from sdk.compiler.schedules.rules.nest import extent, write_out
from sdk.compiler.schedules.rules.shifted import shift_sums
from sdk.compiler.schedules.trace import Schedule

__all__ = ["ColumnTaps", "PointRows"]

# Fitted to 1 to 8 channels, rows of 5 to 20 pixels, tiles of 1 to 13. Tiles overlap unless they divide what they are
# of: where they are more than two, each takes so many instructions more, fewest for the tile that is a power of two.
AROUND_OVERLAP: Final = 12
EVEN: Final = 8
WHOLE: Final = 3  # pixels of a tile in a loop that is short enough to cost less than what a last tile does
# In one run, tiles of odd numbers of elements take so many more for each pixel: they begin within words, not for LDRD.
UNALIGNED: Final = 2
# Sums of up to SHORT products are brought to bytes one by one; the instructions of longer ones are one block for MOST
# pixels, and for LONGEST products in all.
SHORT: Final = 4
MOST: Final = 10
LONGEST: Final = 63
COLUMN_TOGETHER: Final = 4  # sums of a tile of a column that stay in registers
REGISTERS: Final = 9  # for the sums of a tile and the words of one pixel
WRITTEN: Final = 32  # products of a sum that are written out, of a column


@dataclass(frozen=True, slots=True)
class PointRows:
    """Pointwise products of few channels: some rows are staged in 16 bits, their pixels one after the other, so that
    the channels of a pixel are the taps of a window that moves on by as many. It takes ``minimum``
    multiply-accumulates, sums of ``maximum`` products at most.

    ``region`` bytes of rows are staged together; that of ``tiles``, pixels computed at once, is taken which executes
    least.
    """

    minimum: int
    region: int
    tiles: tuple[int, ...]
    maximum: int
    name = "point-rows"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Products of pixels of bytes, unless another structure is chosen."""
        if not nest.is_product("contraction", "bytes", self.minimum) or nest.choice.variant is not None:
            return False
        return extent(nest.part.reduce) <= self.maximum and not windowed(nest.loops, nest.part)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """All channels of a row as one run.

        Raises:
            ScheduleError: there are no rows of pixels, of a number known now, or a step does not apply.
        """
        return _points(self, nest)


@dataclass(frozen=True, slots=True)
class ColumnTaps:
    """Windows of one column: the rows that some rows of the result read are staged in 16 bits, padded, and the channels
    of neighbouring pixels are multiplied two at a time, those of each row of the window as by ``PointRows``. It takes
    ``minimum`` multiply-accumulates, images of up to ``maximum`` channels, of which those times the channels of the
    result are ``pairs`` at most: windows are then read too seldom to be gathered. Weights in 16 bits are twice the
    flash of bytes.

    ``region`` bytes of rows are staged together; that of ``tiles``, pixels computed at once, is taken which executes
    least.
    """

    minimum: int
    region: int
    tiles: tuple[int, ...]
    maximum: int
    pairs: int
    name = "column-taps"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Convolutions of several channels, unless another structure is chosen."""
        if not nest.is_product("contraction", "bytes", self.minimum) or nest.choice.variant is not None or nest.compact:
            return False
        part = nest.part
        if len(part.spatial) < 3 or len(part.reduce) > 2 or not isinstance(part.spatial[-2].hi, int):
            return False
        row, pixel, down = part.spatial[-3].var, part.spatial[-2].var, part.reduce[0].var
        if taps_along(nest.loops, part, row) != {down} or taps_along(nest.loops, part, pixel):
            return False
        depth = extent(part.reduce[1:])
        return depth <= self.maximum and depth * (part.spatial[-1].var.hi + 1) <= self.pairs

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """All channels of a pixel as one run.

        Raises:
            ScheduleError: rows have fewer pixels than a tile, or a step does not apply.
        """
        return _columns(self, nest)


def _points(rule: PointRows, nest: Nest) -> Loops:
    loops, part = nest.loops, nest.part
    pixels = part.spatial[-2].hi if len(part.spatial) > 2 else None
    if not isinstance(pixels, int):
        raise ScheduleError("no rows of pixels, or of a number known at run time")
    channel, pixel, row = loops_of(part.spatial[:-4:-1])
    s, k, depth = Schedule(loops), loops_of(part.reduce)[-1], extent(part.reduce)
    count = min(max(rule.region // (2 * depth * pixels), 1), part.spatial[-3].var.hi + 1)
    one_run = window_stride(loops, part, part.spatial[-2].var) == 1
    tm = nest.choice.rows or _points_at_once(rule, pixels, depth, one_run)
    rows = s.block(row, count)
    s.reorder(pixel, channel).reorder(rows.inner, channel).pack(part.b, 1, 1).use_i16(part.b)
    shift_sums(s, nest)
    lines = s.line_buffer(rows.outer, part.a)
    _in_halves(s, lines, depth, one_run)
    if one_run and count > 1:
        s.flatten(lines.buffer.name)
        pixel = s.fuse(rows.inner, pixel, "px")
    tile = s.overlap(pixel, tm).inner
    s.unroll_and_jam(tile, [k]).use_dual_mac(k)
    return write_out(s, [tile])


def _columns(rule: ColumnTaps, nest: Nest) -> Loops:
    loops, part = nest.loops, nest.part
    channel, pixel, row = loops_of(part.spatial[:-4:-1])
    (down, *run), taps, depth = loops_of(part.reduce), extent(part.reduce[:1]), extent(part.reduce[1:])
    pixels, rows = _staged(rule, nest)
    sizes = [n for n in rule.tiles if n <= pixels and n + -(-depth // 2) <= REGISTERS]
    if not sizes:
        raise ScheduleError(f"rows of {pixels} pixels, fewer than a tile has")
    s = Schedule(loops)
    if rows:
        block = s.block(row, rows)
        around, inside = block.outer, [block.inner, pixel]
    else:
        parts = s.split(pixel, pixels)
        around, inside = parts.outer, [parts.inner]
    for loop in reversed(inside):
        s.reorder(loop, channel)
    s.pack(part.b, 1, 1).use_i16(part.b)
    shift_sums(s, nest)
    lines = s.line_buffer(around, part.a)
    one_run = window_stride(loops, part, part.spatial[-2].var) == 1
    _in_halves(s, lines, depth, one_run)
    if rows > 1 and one_run and window_stride(loops, part, part.spatial[-3].var) == 1:
        s.flatten(lines.buffer.name)
        inside = [s.fuse(inside[0], inside[1], "px")]
    if not run:  # one channel: of one tap at a time
        ones = s.split(down, 1)
        down, run = ones.outer, [ones.inner]
    (k,) = run
    size = min(sizes, key=lambda size: (_cost(size, pixels, depth, taps, COLUMN_TOGETHER), size))
    tile = s.overlap(inside[-1], size).inner
    s.unroll_and_jam(tile, [down, k]).use_dual_mac(k)
    return write_out(s, [*([down] if taps * depth <= WRITTEN else []), tile])


def _staged(rule: ColumnTaps, nest: Nest) -> tuple[int, int]:
    """The pixels of a row, and the rows of the result, whose windows are staged together; parts of a row, and 0, where
    one row has no room."""
    loops, part = nest.loops, nest.part
    row, pixels = part.spatial[-3].var, pixels_of(part)
    room = rule.region // (2 * extent(part.reduce[1:]))  # elements of one channel
    rows = max((n for n in range(1, row.hi + 2) if span(loops, part, row, n) * pixels <= room), default=0)
    if rows:
        return pixels, rows
    height = span(loops, part, row, 1)
    return max((n for n in range(1, pixels + 1) if pixels % n == 0 and n * height <= room), default=1), 0


def _in_halves(s: Schedule, lines: LineBuffer, depth: int, one_run: bool) -> None:
    """Elements of 16 bits, the pixels of a row, of ``depth`` channels each, one after the other, copied in runs: all of
    a row where that is ``one_run`` of the image."""
    if lines.buffer.dtype.bits == 8:
        s.use_i16(lines.buffer.name)
    copy = lines.copy
    if depth > 1:
        s.flatten(lines.buffer.name)
        if one_run:
            copy = s.fuse(lines.copies[-2], copy, f"{lines.buffer.name}_p")
    copy_in_runs(s, copy)


def _points_at_once(rule: PointRows, pixels: int, depth: int, one_run: bool) -> int:
    """The tile that executes least; of rows that are one run one that divides them, which makes all of it one loop."""
    sizes = [n for n in rule.tiles if n <= pixels and (depth <= SHORT or (n <= MOST and n * depth <= LONGEST))]
    if one_run:
        whole = [n for n in sizes if n >= WHOLE and pixels % n == 0]
        sizes = whole or [n for n in sizes if n == EVEN] or sizes
    together = rule.tiles[0] if depth <= SHORT else TOGETHER

    def cost(size: int) -> tuple[int, int]:
        unaligned = UNALIGNED * pixels if one_run and depth * size % 2 and size < pixels else 0
        return unaligned + _cost(size, pixels, depth, 1, together), size

    return min(sizes, key=cost)


def _cost(size: int, pixels: int, depth: int, taps: int, together: int) -> int:
    """The instructions for a row of ``pixels``, ``size`` at once, of windows of ``taps`` rows of ``depth`` products."""
    overlaps = pixels % size and 2 * size < pixels
    last = -(-pixels // size) * AROUND_OVERLAP if overlaps else 0
    return row_cost(size, pixels, depth, depth, taps, together) + last
