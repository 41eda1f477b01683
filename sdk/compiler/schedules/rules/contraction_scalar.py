"""Rules for products of floats on cores with a unit for one float at a time: tiles of its registers."""

from __future__ import annotations

from dataclasses import dataclass

from sdk.compiler.analysis.pattern import Contraction
from sdk.compiler.ir.loops import Loops
from sdk.compiler.machines.machine import FloatUnit, Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.locate import ScheduleError, loop_of, loops_of
from sdk.compiler.schedules.rules.contraction import column_axis
from sdk.compiler.schedules.rules.gather import pixel_loop, windowed
from sdk.compiler.schedules.rules.nest import extent, fuse_all, write_out
from sdk.compiler.schedules.trace import Schedule

__all__ = ["FloatTiles"]


@dataclass(frozen=True, slots=True)
class FloatTiles:
    """Sums of ``rows`` pixels by ``columns`` channels in registers; the weights, constants, are packed so that those of
    a step follow each other and are read ``together``. ``steps`` of a sum are written out. It takes ``minimum``
    multiply-accumulates."""

    minimum: int
    rows: int
    columns: int
    together: int
    steps: int
    name = "float-tiles"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Products of floats, computed one at a time."""
        return machine.floats.lanes == 1 and nest.is_product("contraction", "floats", self.minimum)

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
    s = Schedule(loops)
    channel, pixel = loop_of(part.spatial[-1]), pixel_loop(s, part)
    assert pixel is not None  # there are pixels
    if windowed(loops, part):
        s.cache_read(pixel, part.a, loops_of(part.reduce))
    columns = rule.columns if channels % rule.columns == 0 else rule.together
    s.pack(part.b, columns, 1, column_axis(s.loops, part))
    k = fuse_all(s, loops_of(part.reduce), "k")
    if unit.fma:
        s.use_fma(k)
    steps = s.split(k, rule.steps)
    sums = [*steps.loops, steps.inner]
    blocks = s.split(channel, columns)
    block = s.split(blocks.inner, rule.together)
    s.unroll_and_jam(block.inner, sums)
    tile = [block.inner, block.outer, *([steps.inner] if steps.whole else [])]
    if extent(part.spatial[:-1]) > 1:
        tiles = s.split(pixel, rule.rows)
        tile = tiles.everywhere(tile)
        if tiles.whole:
            s.unroll_and_jam(tiles.inner, [blocks.outer, block.outer, *sums])
            tile.append(tiles.inner)
    s.unroll_and_jam(block.outer, sums)
    s.vectorize(s.cache_read(block.outer, part.b, [block.inner], 1, "register").loops[-1])
    return write_out(s, tile)
