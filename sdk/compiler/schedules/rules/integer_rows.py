"""Rule for 8-bit convolutions over few channels: rows staged in 16 bits, all taps of a row one run, two at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from sdk.compiler.analysis.pattern import Contraction
from sdk.compiler.ir.loops import Loops
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Factors, Nest
from sdk.compiler.schedules.locate import Loop, ScheduleError, loops_of
from sdk.compiler.schedules.rules.integer_window import (
    AROUND_LAST,
    STORE,
    best_tile,
    copy_in_runs,
    dilation,
    taps_along,
    window_stride,
    words_read,
)
from sdk.compiler.schedules.rules.nest import BYTES, extent, fuse_all, write_out
from sdk.compiler.schedules.rules.shifted import shift_sums
from sdk.compiler.schedules.trace import Schedule

__all__ = ["RowTaps"]

# sums of a tile and the words of a row that its windows read: with more of them, some go to memory and back
IN_REGISTERS: Final = 13
# runs of several channels are loops, in which pixels share no words: instructions that a pair of products takes beside
# its own, up to FEW pixels and with more of them, and those around a tile. Fitted to 3x3 windows of 3, 4 and 8 channels
FEW: Final = 4
FEW_READS: Final = 1.0
MORE_READS: Final = 1.25
AROUND_LOOP: Final = 30


@dataclass(frozen=True, slots=True)
class RowTaps:
    """One channel of the result at a time: elements staged once serve the windows of neighbouring pixels, of which
    two products are summed at once. It takes ``minimum`` multiply-accumulates of such ``factors``.

    ``region`` bytes of rows are staged together, in 16 bits; that of ``tiles``, pixels computed at once, is taken which
    executes least. It is for images of ``few`` channels, where chosen of ``maximum``, and for those whose channels
    times those of the result are ``pairs`` at most, half as many again where channels are no whole words: the window
    of a pixel is then read too seldom to be gathered. Fewer than ``rows`` rows of taps are written out, those of
    several channels are long enough to be a loop. Sums of at most ``gathered`` products whose dilation leaves unequal
    parts of a row are another rule's.
    """

    factors: Factors
    minimum: int
    region: int
    tiles: tuple[int, ...]
    few: int = 3
    maximum: int = 8
    pairs: int = 0
    rows: int = 4
    gathered: int = 0
    name = "row-taps"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Convolutions over few channels, unless another structure is chosen."""
        return nest.is_product("contraction", self.factors, self.minimum) and nest.choice.variant in (None, "rows")

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """All taps of a row as one run.

        Raises:
            ScheduleError: it is no convolution of rows and columns of few channels, or one of its steps does not apply.
        """
        return _rows(self, nest)


@dataclass(frozen=True, slots=True)
class _Taps:
    """The sums of a pixel: ``first`` numbers the loop over taps along its row, after that over tap rows where there are
    several, before that over channels; neighbouring pixels are ``step`` elements apart, their taps ``dilation``."""

    part: Contraction
    first: int
    step: int
    dilation: int

    @property
    def phases(self) -> int:
        """In how many parts a row is staged: pixels whose taps are dilated are neighbours of those a dilation on."""
        return self.dilation // math.gcd(self.dilation, self.step)

    @property
    def run(self) -> int:
        """Products of a sum along a row."""
        return extent(self.part.reduce[self.first :])

    def nbytes(self, pixels: int) -> int:
        """What the rows take that so many neighbouring pixels read."""
        columns = self.step * (pixels - 1) + self.part.reduce[self.first].var.hi + 1
        rest = (loop.var.hi + 1 for k, loop in enumerate(self.part.reduce) if k != self.first)
        return 2 * columns * math.prod(rest)


def _taps(rule: RowTaps, nest: Nest) -> _Taps:
    loops, part = nest.loops, nest.part
    if len(part.spatial) < 3:
        raise ScheduleError("no rows of pixels")
    over = part.spatial[-2].var
    along = taps_along(loops, part, over)
    first = next((k for k, loop in enumerate(part.reduce) if loop.var in along), len(part.reduce))
    depth = part.reduce[first + 1 :]
    if first > 1 or first == len(part.reduce) or len(depth) > 1 or (depth and not _few(rule, nest, extent(depth))):
        raise ScheduleError("no convolution along rows of few channels")
    return _Taps(part, first, window_stride(loops, part, over), dilation(loops, part, over))


def _few(rule: RowTaps, nest: Nest, depth: int) -> bool:
    """Whether the rule is for images of so many channels; weights in 16 bits are twice the flash of bytes."""
    if depth <= (rule.maximum if nest.choice.variant == "rows" else rule.few):
        return True
    pairs = rule.pairs * 3 // 2 if depth % BYTES else rule.pairs
    return not nest.compact and depth * (nest.part.spatial[-1].var.hi + 1) <= pairs


def _rows(rule: RowTaps, nest: Nest) -> Loops:
    loops, part, choice = nest.loops, nest.part, nest.choice
    taps = _taps(rule, nest)
    pixels = part.spatial[-2].hi
    columns = _columns(rule, taps, pixels) if isinstance(pixels, int) else 0
    if columns < rule.tiles[-1]:
        raise ScheduleError("rows of too few pixels, or of a number known at run time")
    gathered = extent(part.reduce) <= rule.gathered and not nest.compact
    if taps.phases > 1 and pixels % taps.phases and gathered:
        raise ScheduleError("pixels that dilation leaves in unequal parts")
    tm = choice.rows or _pixels_at_once(rule, taps, columns)
    down, (across, *depth) = loops_of(part.reduce[: taps.first]), loops_of(part.reduce[taps.first :])
    s = Schedule(loops)
    around, pixel = _around(rule, s, taps, columns)
    s.pack(part.b, 1, 1).use_i16(part.b)
    shift_sums(s, nest)
    lines = s.line_buffer(around, part.a)
    if lines.buffer.dtype.bits == 8:
        s.use_i16(lines.buffer.name)
    copy_in_runs(s, lines.copy)
    k = across
    if depth:
        s.flatten(lines.buffer.name)
        k = fuse_all(s, [across, *depth], "k")
    tile = s.overlap(pixel, tm).inner
    s.unroll_and_jam(tile, [*down, k]).use_dual_mac(k)
    few_rows = part.reduce[0].var.hi < rule.rows and not depth
    return write_out(s, [*(down if few_rows else []), tile])


def _columns(rule: RowTaps, taps: _Taps, pixels: int) -> int:
    """Pixels of a row that are staged together."""
    if taps.phases > 1:
        return pixels // taps.phases
    sizes = (n for n in range(1, pixels + 1) if pixels % n == 0 and taps.nbytes(n) <= rule.region)
    return max(sizes, default=1)


def _pixels_at_once(rule: RowTaps, taps: _Taps, columns: int) -> int:
    """The tile that executes least."""
    tap_rows = extent(taps.part.reduce[: taps.first])
    if len(taps.part.reduce) == taps.first + 1:
        step = taps.step * taps.phases // taps.dilation
        fits = tuple(size for size in rule.tiles if size + words_read(size, step, taps.run) <= IN_REGISTERS)
        return best_tile(fits or rule.tiles[-3:], columns, step, taps.run, tap_rows)
    pairs = tap_rows * -(-taps.run // 2)

    def cost(size: int) -> tuple[float, int]:
        pair = 1 + (FEW_READS if size <= FEW else MORE_READS)
        around = AROUND_LOOP + (AROUND_LAST if columns % size else 0)
        return -(-columns // size) * ((pairs * pair + STORE) * size + around), size

    return min((size for size in rule.tiles if size <= columns), key=cost)


def _around(rule: RowTaps, s: Schedule, taps: _Taps, columns: int) -> tuple[Loop, Loop]:
    """The loop in which rows are staged, with that over channels directly in it, and the one over pixels: some rows
    together where sums take one row each, parts of long rows."""
    channel, pixel, row = loops_of(taps.part.spatial[:-4:-1])
    pixels = taps.part.spatial[-2].var.hi + 1
    around, inside = row, [pixel]
    if not taps.first and columns * taps.phases == pixels:
        together = min(max(rule.region // taps.nbytes(pixels), 1), taps.part.spatial[-3].var.hi + 1)
        rows = s.block(row, together)
        around, inside = rows.outer, [rows.inner, pixel]
    if taps.phases > 1:
        phases = s.cyclic(pixel, taps.phases)
        for loop in inside[:-1]:
            s.reorder(loop, phases.outer)
        around, inside[-1] = phases.outer, phases.inner
    elif columns < pixels:
        split = s.split(pixel, columns)
        around, inside = split.outer, [split.inner]
    for loop in reversed(inside):
        s.reorder(loop, channel)
    return around, inside[-1]
