"""Rules for 8-bit contractions: tiles of dot instructions, lanes or packed words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sdk.compiler.analysis.pattern import Contraction
from sdk.compiler.ir.loops import Loops
from sdk.compiler.machines.model import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.locate import Loop, ScheduleError, Tiles, loop_of, loops_of
from sdk.compiler.schedules.rules.gather import COPY_RUN, gather_window, pixel_loop, windowed
from sdk.compiler.schedules.rules.nest import BYTES, extent, fuse_all, products_of, trip, write_out
from sdk.compiler.schedules.trace import Schedule

__all__ = ["LaneTiles", "WordTiles"]


ALONE: Final = 4  # channels at once where one pixel stands alone


@dataclass(frozen=True, slots=True)
class WordTiles:
    """Two pixels by two channels in registers, four products to a dot on packed words; one pixel by four channels
    where it stands alone. It takes ``least`` multiply-accumulates; from ``long_work`` on ``dots`` steps of a sum, of
    four products each, are written out."""

    least: int
    dots: int
    long_work: int
    name = "word-tiles"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Products of bytes, unless another structure is chosen."""
        return nest.is_product("contraction", "bytes", self.least) and nest.choice.variant != "rows"

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Tiles of dots of words.

        Raises:
            ScheduleError: sums of fewer products than a word holds.
        """
        if extent(nest.part.reduce) < BYTES:
            raise ScheduleError("sums of fewer products than a word holds")
        return _words(self, nest, *machine.tile(nest.choice))


@dataclass(frozen=True, slots=True)
class LaneTiles:
    """Channels in lanes, weights packed so that one load feeds one dot, pixels and vectors tiled in registers. It takes
    ``least`` multiply-accumulates."""

    least: int
    name = "lane-tiles"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Products of bytes."""
        return nest.is_product("contraction", "bytes", self.least)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Tiles of vectors.

        Raises:
            ScheduleError: there are fewer channels than lanes, or no rows.
        """
        if nest.part.spatial[-1].var.hi + 1 < machine.integer_lanes or len(nest.part.spatial) < 2:
            raise ScheduleError("fewer channels than lanes, or no rows")
        return _lanes(nest.loops, nest.part, machine)


def _words(rule: WordTiles, nest: Nest, rows: int, columns: int) -> Loops:
    part = nest.part
    s = Schedule(nest.loops)
    channel, pixel = loop_of(part.spatial[-1]), pixel_loop(s, part)
    copies: tuple[Loop, ...] = ()
    if pixel and windowed(nest.loops, part):
        copies = gather_window(s, part, pixel, loops_of(part.reduce), word=BYTES, run=COPY_RUN).loops
    s.pack(part.b, 1, 1)
    steps = s.split(fuse_all(s, loops_of(part.reduce), "k"), BYTES)
    s.use_dot(steps.inner)
    tiles = s.split(pixel, rows) if pixel and extent(part.spatial[:-1]) > 1 else None
    if tiles is None or not tiles.whole:
        blocks = [_tile_channels(s, channel, steps.loops, ALONE)]
    else:
        in_tail = tiles.in_tail([channel, *steps.loops])
        blocks = [_tile_channels(s, in_tail[0], in_tail[1:], ALONE)] if tiles.tail else []
        block = _tile_channels(s, channel, steps.loops, columns)
        s.unroll_and_jam(tiles.inner, [*copies, *block.loops, *block.everywhere(steps.loops)])
        if block.whole:
            s.reorder(tiles.inner, block.inner)  # both pixels use a weight before the next is unpacked
        blocks += [block, tiles]
    if nest.work >= rule.long_work and not nest.compact:
        _write_out(s, steps.outer, rule.dots)
        for copy in dict.fromkeys(n for block in blocks for n in block.in_tail([steps.outer]) if n != steps.outer):
            _write_out(s, copy, rule.dots // 2)
    return write_out(s, (block.inner for block in blocks if block.whole))


def _write_out(s: Schedule, words: Loop, most: int) -> None:
    """Writes out as many steps of a reduction as divide it, at most so many: compilers keep addresses in registers."""
    count = trip(s.loops, words)
    size = max(n for n in range(1, most + 1) if count % n == 0)
    if size == count:
        s.unroll(words)
    elif size > 1:
        s.unroll(s.split(words, size).inner)


def _tile_channels(s: Schedule, channel: Loop, steps: list[Loop], size: int) -> Tiles:
    """Several channels at a time: what is read of a pixel serves all of them."""
    block = s.split(channel, size)
    if block.whole:
        s.unroll_and_jam(block.inner, steps)
    return block


def _lanes(loops: Loops, part: Contraction, machine: Machine) -> Loops:
    alone = extent(part.spatial[:-1]) == 1
    dot, lanes = products_of(machine), machine.integer_lanes
    s = Schedule(loops)
    channel, pixel = loop_of(part.spatial[-1]), pixel_loop(s, part)
    assert pixel is not None  # there are rows
    if dot > 1 or windowed(loops, part):
        s.cache_read(pixel, part.a, loops_of(part.reduce), dot)
    s.pack(part.b, lanes, dot)
    k = fuse_all(s, loops_of(part.reduce), "k")
    words = s.pad(k, dot).split(k, dot) if dot > 1 else None
    steps = words.loops if words else [k]
    block = s.split(channel, lanes)
    s.unroll_and_jam(block.inner, steps)
    if words:
        s.use_dot(words.inner, block.inner)
    s.vectorize(block.inner).vector_registers(part.acc, lanes)
    inside = [*block.loops, *block.everywhere(steps), *(block.in_tail([words.inner]) if words else [])]
    tile = []
    if machine.tile_cols > 1 and trip(s.loops, block.outer) > 1:
        vectors = s.split(block.outer, machine.tile_cols)
        inside += [*vectors.loops, *vectors.in_tail(steps)]
        if vectors.whole:
            s.unroll_and_jam(vectors.inner, steps)
            tile = [vectors.inner]
    if not alone:
        tiles = s.split(pixel, machine.tile_rows)
        if tiles.whole:
            s.unroll_and_jam(tiles.inner, inside)
            tile = [*tiles.everywhere(tile), tiles.inner]
    return write_out(s, tile)
