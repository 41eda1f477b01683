"""Rules for 8-bit contractions: tiles of dot instructions, lanes or packed words."""

from __future__ import annotations

from dataclasses import dataclass

from sdk.compiler.ir.loops import Alloc, Loops
from sdk.compiler.ir.pattern import Contraction
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.model import Dot, Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.locate import ScheduleError, find, has, loop_names
from sdk.compiler.schedules.rules.gather import COPY_RUN, gather_window, pixel_loop, windowed
from sdk.compiler.schedules.rules.nest import BYTES, extent, fuse_all, names, reductions, trip, unrolled
from sdk.compiler.schedules.trace import Schedule

__all__ = ["LaneTiles", "PairTiles", "WordTiles"]


def _jam_pixels(s: Schedule, part: Contraction, pixel: str) -> None:
    """Several pixels at a time: each weight read serves all of them."""
    inside = dict.fromkeys(loop_names(find(s.loops, f"{pixel}_i").body))
    small = (f"{part.spatial[-1].var.name}_i", f"{part.spatial[-1].var.name}_o_i")
    into = [n for n in inside if not n.endswith("_s") and "_window" not in n and not n.startswith(small)]
    s.do("jam", f"{pixel}_i", into)


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
        return _lanes(nest, machine, machine.dot, machine.tile_rows, machine.tile_cols)


@dataclass(frozen=True, slots=True)
class PairTiles:
    """As ``LaneTiles``, where an instruction multiplies two rows by two columns, of ``dot.products`` each: tiles of
    ``rows`` pixels, an even number, by ``columns`` vectors of channels. It takes ``least`` multiply-accumulates."""

    least: int
    dot: Dot
    rows: int
    columns: int
    name = "pair-tiles"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Products of bytes."""
        return nest.is_product("contraction", "bytes", self.least)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Tiles of vectors.

        Raises:
            ScheduleError: there are fewer channels than lanes, one pixel, or sums of few products.
        """
        part = nest.part
        if part.spatial[-1].var.hi + 1 < machine.integer_lanes or len(part.spatial) < 2:
            raise ScheduleError("fewer channels than lanes, or no rows")
        if extent(part.spatial[:-1]) < self.rows or extent(part.reduce) < machine.vector_bytes:
            raise ScheduleError("fewer pixels than a tile has, or fewer products than a vector")
        return _lanes(nest, machine, self.dot, self.rows, self.columns, paired=True)


def _words(rule: WordTiles, nest: Nest, rows: int, columns: int) -> Loops:
    loops, part = nest.loops, nest.part
    one_row = extent(part.spatial[:-1]) == 1
    s = Schedule(loops, tm=rows, tn=columns, alone=4, dot=BYTES, word=BYTES, run=COPY_RUN)
    channel, pixel = part.spatial[-1].var.name, pixel_loop(s, part)
    if pixel and windowed(loops, part):
        gather_window(s, part, pixel, names(part.reduce), 1)
    s.do("pack", part.b, 1, 1)
    k = fuse_all(s, names(part.reduce), "k")
    s.do("split", k, "dot").do("use_dot", f"{k}_i")
    if not one_row:
        s.do("split", pixel, "tm")
    tiled = has(s.loops, f"{pixel}_i")
    if tiled:
        _tile_channels(s, f"{channel}_t", [f"{k}_o_t", f"{k}_t_t"], "alone")
    _tile_channels(s, channel, [f"{k}_o", f"{k}_t"], "tn" if tiled else "alone")
    if tiled:
        _jam_pixels(s, part, pixel)
        if has(s.loops, f"{channel}_i"):
            s.do("reorder", f"{pixel}_i", f"{channel}_i")  # both pixels use a weight before the next is unpacked
    if nest.work >= rule.long_work and not nest.compact:
        _write_out(s, f"{k}_o", rule.dots)
        _write_out(s, f"{k}_o_t", rule.dots // 2)
    return unrolled(s, [channel, f"{channel}_t", pixel])


def _write_out(s: Schedule, words: str, most: int) -> None:
    """Writes out as many steps of a reduction as divide it, at most so many: compilers keep addresses in registers."""
    if has(s.loops, words):
        count = trip(s.loops, words)
        size = max(n for n in range(1, most + 1) if count % n == 0)
        if size == count:
            s.do("unroll", words)
        elif size > 1:
            s.do("split", words, size).do("unroll", f"{words}_i")


def _tile_channels(s: Schedule, channel: str, reduce: list[str], size: str) -> None:
    """Several channels at a time: what is read of a pixel serves all of them."""
    if has(s.loops, channel):
        s.do("split", channel, size)
        if has(s.loops, f"{channel}_i"):
            s.do("jam", f"{channel}_i", [name for name in reduce if has(s.loops, name)])


def _words_of_vectors(s: Schedule, words: str, count: int) -> None:
    """Reads so many words of the first factor at a time, where there are as many."""
    if has(s.loops, words):
        s.do("split", words, count)
        if has(s.loops, f"{words}_i"):
            s.do("use_dot_lanes", f"{words}_i")


def _lanes(nest: Nest, machine: Machine, dot: Dot | None, rows: int, columns: int, paired: bool = False) -> Loops:
    """Tiles of ``rows`` by ``columns`` vectors of sums, of all products by ``dot``; ``paired``: of two rows at once."""
    loops, part = nest.loops, nest.part
    one_row, products = extent(part.spatial[:-1]) == 1, dot.products if dot else 1
    s = Schedule(loops, tm=1 if one_row else rows, tn=columns, lanes=machine.integer_lanes, dot=products)
    acc = next(n.buffer.name for n in walk(loops.body) if isinstance(n, Alloc))
    channel, pixel = part.spatial[-1].var.name, pixel_loop(s, part)
    staged = windowed(loops, part) or machine.unsigned or extent(part.reduce) % products != 0
    if staged:
        s.do("stage", pixel, part.a, names(part.reduce), "dot")
    s.do("pack", part.b, "lanes", "dot")
    k = fuse_all(s, names(part.reduce), "k")
    if dot and staged:
        s.do("pad", k, "dot")
    if dot:
        s.do("split", k, "dot")
    s.do("split", channel, "lanes").do("jam", f"{channel}_i", reductions(s, k))
    if dot:
        s.do("use_dot", f"{k}_i", f"{channel}_i")
    if dot and dot.lane:
        _words_of_vectors(s, f"{k}_o", machine.vector_bytes // products)
    s.do("vectorize", f"{channel}_i").do("vector_registers", acc, "lanes")
    outer = f"{channel}_o"
    if s.knobs["tn"] > 1 and trip(s.loops, outer) > 1:
        s.do("split", outer, "tn")
        if has(s.loops, f"{outer}_i"):
            s.do("jam", f"{outer}_i", reductions(s, k))
    if not one_row:
        s.do("split", pixel, "tm")
        if has(s.loops, f"{pixel}_i"):
            _jam_pixels(s, part, pixel)
            if paired:
                s.do("use_dot_2x2", f"{pixel}_i")
    return unrolled(s, [outer, pixel])
