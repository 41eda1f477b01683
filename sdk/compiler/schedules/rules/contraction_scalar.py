"""Rules for products of floats on cores with a unit for one float at a time: tiles of its registers."""

from __future__ import annotations

from dataclasses import dataclass

from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.pattern import Contraction
from sdk.compiler.machines.model import FloatUnit, Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.locate import ScheduleError, has
from sdk.compiler.schedules.rules.contraction import column_axis
from sdk.compiler.schedules.rules.gather import gather_window, pixel_loop, windowed
from sdk.compiler.schedules.rules.nest import extent, fuse_all, names
from sdk.compiler.schedules.trace import Schedule

__all__ = ["FloatTiles"]


@dataclass(frozen=True, slots=True)
class FloatTiles:
    """Sums of ``rows`` pixels by ``columns`` channels in registers; the weights, constants, are packed so that those of
    a step follow each other and are read ``together``. ``steps`` of a sum are written out. It takes ``least``
    multiply-accumulates."""

    least: int
    rows: int
    columns: int
    together: int
    steps: int
    name = "float-tiles"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Products of floats, computed one at a time."""
        return machine.floats.lanes == 1 and nest.is_product("contraction", "floats", self.least)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Tiles in registers.

        Raises:
            ScheduleError: the weights are no constants, the channels no multiple of what is read at a time, or the
                unit has too few registers.
        """
        return _tiles(self, nest.loops, nest.part, machine.floats, nest.constant(nest.part.b))


def _tiles(rule: FloatTiles, loops: Loops, part: Contraction, unit: FloatUnit, constant: bool) -> Loops:
    channels = part.spatial[-1].hi
    if not constant or len(part.spatial) < 2 or not isinstance(channels, int) or channels % rule.together:
        raise ScheduleError("no constants, no pixels, or channels that are not read several at a time")
    if unit.registers < rule.rows * rule.columns + rule.rows + rule.together:
        raise ScheduleError("too few registers")
    alone = extent(part.spatial[:-1]) == 1
    columns = rule.columns if channels % rule.columns == 0 else rule.together
    s = Schedule(loops, tm=rule.rows, nr=columns, at_once=rule.together, steps=rule.steps)
    channel, pixel = part.spatial[-1].var.name, pixel_loop(s, part)
    if windowed(loops, part):
        gather_window(s, part, pixel, names(part.reduce), 1)
    s.do("pack", part.b, "nr", 1, column_axis(s.loops, part))
    k = fuse_all(s, names(part.reduce), "k")
    if unit.fma:
        s.do("use_fma", k)
    s.do("split", k, "steps")
    sums = [f"{k}_o", f"{k}_i", f"{k}_t", k]
    s.do("split", channel, "nr").do("split", f"{channel}_i", "at_once")
    inner, outer = f"{channel}_i_i", f"{channel}_i_o"
    s.do("unroll_and_jam", inner, _there(s, sums))
    if not alone:
        s.do("split", pixel, "tm")
    if has(s.loops, f"{pixel}_i"):
        s.do("unroll_and_jam", f"{pixel}_i", _there(s, [f"{channel}_o", outer, *sums]))
    s.do("unroll_and_jam", outer, _there(s, sums))
    s.do("cache_read", outer, part.b, [inner], 1, "register").do("vectorize", f"{inner}_s")
    for name in (f"{pixel}_i", inner, outer, f"{k}_i"):
        for copy in (name, f"{name}_t"):
            if has(s.loops, copy):
                s.do("unroll", copy)
    return s.done()


def _there(s: Schedule, wanted: list[str]) -> list[str]:
    return [name for name in wanted if has(s.loops, name)]
