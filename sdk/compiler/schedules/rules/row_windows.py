"""The rule for 8-bit convolutions of few products whose windows are no runs of rows: those of a row are gathered."""

from __future__ import annotations

from dataclasses import dataclass

from sdk.compiler.analysis.pattern import Contraction, has_condition
from sdk.compiler.ir.loops import Loops
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.locate import Loop, ScheduleError, loops_of
from sdk.compiler.schedules.rules.gather import windowed
from sdk.compiler.schedules.rules.integer_window import best_tile, copy_in_runs, span, taps_along
from sdk.compiler.schedules.rules.nest import BYTES, extent, fuse_all, write_out
from sdk.compiler.schedules.rules.shifted import shift_sums
from sdk.compiler.schedules.trace import Schedule

__all__ = ["RowWindows"]


@dataclass(frozen=True, slots=True)
class RowWindows:
    """The windows of all pixels of a row are gathered in 16 bits, one after the other, and all channels of the result
    multiply them, two products at once. It takes ``minimum`` multiply-accumulates, sums of ``maximum`` products at
    most: of kernels of one column, of dilated ones whose rows are short. Where channels are whole words, which other
    rules read at once, it takes sums of ``words`` at most. Weights in 16 bits are twice the flash of bytes.

    ``region`` bytes of windows are gathered together, and as many of padded rows are staged; that of ``tiles``, pixels
    computed at once, is taken which executes least.
    """

    minimum: int
    region: int
    tiles: tuple[int, ...]
    maximum: int
    words: int
    name = "row-windows"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Convolutions of bytes, unless another structure is chosen."""
        if not nest.is_product("contraction", "bytes", self.minimum) or nest.choice.variant is not None or nest.compact:
            return False
        loops, part = nest.loops, nest.part
        channels = _channels(loops, part)
        if not channels or extent(part.reduce) > (self.maximum if channels % BYTES else self.words):
            return False
        if windowed(loops, part):
            return True
        return len(part.spatial) > 2 and any(tap.hi for tap in taps_along(loops, part, part.spatial[-3].var))

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Windows of a row as one run each.

        Raises:
            ScheduleError: there are no rows of pixels, of a number known now, or a step does not apply.
        """
        loops, part = nest.loops, nest.part
        pixels = part.spatial[-2].hi if len(part.spatial) > 2 else None
        if not isinstance(pixels, int):
            raise ScheduleError("no rows of pixels, or of a number known at run time")
        channel, pixel, row = loops_of(part.spatial[:-4:-1])
        depth, reduce = extent(part.reduce), loops_of(part.reduce)
        columns = max((n for n in range(1, pixels + 1) if pixels % n == 0 and 2 * n * depth <= self.region), default=1)
        tile = best_tile(self.tiles, columns, depth, depth, 1)
        s = Schedule(loops)
        source, around = self._padded(s, nest, row) if has_condition(loops, part.a) else (part.a, row)
        if columns < pixels:
            parts = s.split(pixel, columns)
            around, pixel = parts.outer, parts.inner
        s.reorder(pixel, channel).pack(part.b, 1, 1).use_i16(part.b)
        shift_sums(s, nest)
        read = s.cache_read(around, source, [pixel, *reduce])
        s.use_i16(read.buffer)
        for loop in read.loops[1:]:
            s.unroll(loop)
        k = fuse_all(s, reduce, "k") if len(reduce) > 1 else reduce[0]
        inner = s.overlap(pixel, tile).inner
        s.unroll_and_jam(inner, [k]).use_dual_mac(k)
        return write_out(s, [inner])

    def _padded(self, s: Schedule, nest: Nest, row: Loop) -> tuple[str, Loop]:
        """Stages padded rows: their buffer, and the loop over rows of the result that read it; the image itself where
        they are longer than the region."""
        loops, part = nest.loops, nest.part
        over = part.spatial[-3].var
        width = _channels(loops, part) * span(loops, part, part.spatial[-2].var, part.spatial[-2].var.hi + 1)
        fits = [n for n in range(1, over.hi + 2) if span(loops, part, over, n) * width <= self.region]
        if not fits:
            return part.a, row
        rows = s.block(row, fits[-1])
        lines = s.line_buffer(rows.outer, part.a)
        copy_in_runs(s, lines.copy)
        return lines.buffer.name, rows.inner


def _channels(loops: Loops, part: Contraction) -> int:
    """Channels of the image; 0 where that is a number known at run time."""
    channels = loops.param(part.a).buffer.shape[-1]
    return channels if isinstance(channels, int) else 0
