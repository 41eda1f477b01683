"""Rules for 8-bit contractions: tiles of dot instructions, lanes or packed words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sdk.compiler.ir.loops import Loops
from sdk.compiler.machines.machine import Dot, Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.locate import Loop, ScheduleError, Tiles, has, loop_of, loops_of
from sdk.compiler.schedules.rules.gather import COPY_RUN, gather_window, pixel_loop, windowed
from sdk.compiler.schedules.rules.nest import BYTES, extent, fuse_all, trip, write_out
from sdk.compiler.schedules.trace import Schedule

__all__ = ["LaneTiles", "PairTiles", "WordTiles"]


ALONE: Final = 4  # channels at once where one pixel stands alone


@dataclass(frozen=True, slots=True)
class WordTiles:
    """Two pixels by two channels in registers, four products to a dot on packed words; one pixel by four channels
    where it stands alone. It takes ``minimum`` multiply-accumulates; from ``long_work`` on ``dots`` steps of a sum, of
    four products each, are written out."""

    minimum: int
    dots: int
    long_work: int
    name = "word-tiles"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Products of bytes, unless another structure is chosen."""
        return nest.is_product("contraction", "bytes", self.minimum) and nest.choice.variant != "rows"

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
    ``minimum`` multiply-accumulates."""

    minimum: int
    name = "lane-tiles"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Products of bytes."""
        return nest.is_product("contraction", "bytes", self.minimum)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Tiles of vectors.

        Raises:
            ScheduleError: there are fewer channels than lanes, or no rows.
        """
        if nest.part.spatial[-1].var.hi + 1 < machine.integer_lanes or len(nest.part.spatial) < 2:
            raise ScheduleError("fewer channels than lanes, or no rows")
        return _lanes(nest, machine, machine.dot, machine.tile_rows, machine.tile_cols)


@dataclass(frozen=True, slots=True)
class PairTiles:
    """As ``LaneTiles``, where an instruction multiplies two rows by two columns, of ``dot.products`` each: tiles of
    ``rows`` pixels, an even number, by ``columns`` vectors of channels. It takes ``minimum`` multiply-accumulates."""

    minimum: int
    dot: Dot
    rows: int
    columns: int
    name = "pair-tiles"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Products of such bytes."""
        return nest.is_product("contraction", "bytes", self.minimum) and _fits(nest, self.dot)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Tiles of vectors.

        Raises:
            ScheduleError: there are fewer channels than lanes, fewer pixels than a tile has, or sums of few products.
        """
        part = nest.part
        if part.spatial[-1].var.hi + 1 < machine.integer_lanes or len(part.spatial) < 2:
            raise ScheduleError("fewer channels than lanes, or no rows")
        if extent(part.spatial[:-1]) < self.rows or extent(part.reduce) < machine.vector_bytes:
            raise ScheduleError("fewer pixels than a tile has, or fewer products than a vector")
        return _lanes(nest, machine, self.dot, self.rows, self.columns, paired=True)


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


def _write_out(s: Schedule, words: Loop, maximum: int) -> None:
    """Writes out as many steps of a reduction as divide it, at most so many: compilers keep addresses in registers."""
    count = trip(s.loops, words)
    size = max(n for n in range(1, maximum + 1) if count % n == 0)
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


def _fits(nest: Nest, dot: Dot) -> bool:
    """Whether its factors are those of an instruction."""
    return [nest.loops.param(name).buffer.dtype for name in (nest.part.a, nest.part.b)] == [dot.a, dot.b]


def _lanes(nest: Nest, machine: Machine, dot: Dot | None, rows: int, columns: int, paired: bool = False) -> Loops:
    """Tiles of ``rows`` by ``columns`` vectors of sums, of products by ``dot``; ``paired``: of two rows at once."""
    part, s, lanes = nest.part, Schedule(nest.loops), machine.integer_lanes
    products = dot.products if dot else 1
    channel, pixel = loop_of(part.spatial[-1]), pixel_loop(s, part)
    assert pixel is not None  # there are rows
    copied = windowed(nest.loops, part) or machine.unsigned or extent(part.reduce) % products != 0
    if copied:
        s.cache_read(pixel, part.a, loops_of(part.reduce), products)
    s.pack(part.b, lanes, products)
    k = fuse_all(s, loops_of(part.reduce), "k")
    if dot and copied:
        s.pad(k, products)
    words = s.split(k, products) if dot else None
    lane = words is not None and dot is not None and dot.lane and _fits(nest, dot)
    quads = s.split(words.outer, machine.vector_bytes // products) if words and lane else None
    steps = quads.loops if quads else words.loops if words else [k]
    whole = [quads.inner] if quads and quads.whole else []
    dots = [] if words is None else quads.everywhere([words.inner]) if quads else [words.inner]
    block = s.split(channel, lanes)
    s.unroll_and_jam(block.inner, [*steps, *whole])
    for each in (name for name in dots if has(s.loops, name)):
        s.use_dot(each, block.inner)
    for quad in whole:
        s.use_dot_lanes(quad)
    s.vectorize(block.inner).vector_registers(part.acc, lanes)
    inside = [*block.loops, *block.everywhere(steps), *block.in_tail([*whole, *dots])]
    tile = []
    if columns > 1 and trip(s.loops, block.outer) > 1:
        vectors = s.split(block.outer, columns)
        inside += [*vectors.loops, *vectors.in_tail(steps)]
        if vectors.whole:
            s.unroll_and_jam(vectors.inner, steps)
            tile = [vectors.inner]
    if extent(part.spatial[:-1]) > 1:
        tiles = s.split(pixel, rows)
        if tiles.whole:
            s.unroll_and_jam(tiles.inner, inside)
            if paired:
                s.use_dot_2x2(tiles.inner)
            tile = [*tiles.everywhere(tile), tiles.inner]
    return write_out(s, tile)
