"""Rules for depthwise windows of floats on cores with a unit for one float at a time: rows of one channel staged."""

from __future__ import annotations

from dataclasses import dataclass

from sdk.compiler.analysis.pattern import Contraction
from sdk.compiler.ir.loops import Loops
from sdk.compiler.machines.machine import FloatUnit, Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.locate import ScheduleError, loops_of
from sdk.compiler.schedules.rules.integer_window import copy_in_runs, window_stride
from sdk.compiler.schedules.rules.nest import extent, write_out
from sdk.compiler.schedules.trace import Schedule

__all__ = ["FloatWindow"]


@dataclass(frozen=True, slots=True)
class FloatWindow:
    """One channel at a time: the rows that some rows of the result read are staged, padded; the windows of neighbouring
    pixels share what is read, in registers, as do all rows the weights, which are constants. It takes ``minimum``
    multiply-accumulates.

    ``region`` bytes of rows are staged together, ``taps`` taps at most written out; ``tiles`` are the pixels that are
    computed at once, the first that divides a row.
    """

    minimum: int
    region: int
    taps: int
    tiles: tuple[int, ...]
    name = "float-window"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Depthwise products of floats, computed one at a time."""
        unit = machine.lanes == 1 and bool(machine.floats.needs)
        return unit and nest.is_product("window", "floats", self.minimum)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Tiles of pixels of staged rows.

        Raises:
            ScheduleError: the weights are no constants, there are no rows of pixels, few of them, a large window,
                or a step does not apply.
        """
        return _window(self, nest.loops, nest.part, machine.floats, nest.constant(nest.part.b))


def _window(rule: FloatWindow, loops: Loops, part: Contraction, unit: FloatUnit, constant: bool) -> Loops:
    pixels = part.spatial[-2].hi if len(part.spatial) >= 3 else 0
    if not constant or len(part.reduce) != 2 or extent(part.reduce) > rule.taps or not isinstance(pixels, int):
        raise ScheduleError("no constants, no rows of pixels, or a large window")
    if pixels < rule.tiles[-1]:
        raise ScheduleError("few pixels")
    channel, pixel, row = loops_of(part.spatial[:-4:-1])
    s, taps = Schedule(loops), loops_of(part.reduce)
    s.pack(part.b, 1, 1, len(loops.param(part.b).buffer.shape) - 1)
    rows = s.block(row, _rows_at_once(rule, loops, part))
    s.reorder(pixel, channel).reorder(rows.inner, channel)
    copy_in_runs(s, s.line_buffer(channel, part.a, 1).copy)
    tile = s.overlap(pixel, next((size for size in rule.tiles if pixels % size == 0), rule.tiles[-1])).inner
    s.unroll_and_jam(tile, taps)
    if unit.fma:
        s.use_fma(taps[-1])
    return write_out(s, [*taps, tile])


def _rows_at_once(rule: FloatWindow, loops: Loops, part: Contraction) -> int:
    """Rows of the result whose windows are staged together: as many as the region has room for."""
    row, pixel = part.spatial[-3].var, part.spatial[-2].var
    width = window_stride(loops, part, pixel) * pixel.hi + part.reduce[1].var.hi + 1
    maximum = (rule.region // (4 * width) - part.reduce[0].var.hi - 1) // window_stride(loops, part, row) + 1
    return max(1, min(maximum, row.hi + 1))
