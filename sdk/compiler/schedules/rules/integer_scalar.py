"""Rules for 8-bit contractions on cores with neither vectors nor packed products: tiles of sums in registers."""

from __future__ import annotations

from dataclasses import dataclass

from sdk.compiler.analysis.pattern import Contraction
from sdk.compiler.ir.loops import Loops
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Choice, Nest
from sdk.compiler.schedules.locate import Loop, ScheduleError, loop_of, loops_of
from sdk.compiler.schedules.rules.gather import pixel_loop, windowed
from sdk.compiler.schedules.rules.integer16 import in_parts
from sdk.compiler.schedules.rules.nest import extent, fuse_all, trip, write_out
from sdk.compiler.schedules.trace import Schedule

__all__ = ["RegisterTiles", "WordPairs"]


@dataclass(frozen=True, slots=True)
class WordPairs:
    """Two weights in a word: the window of a pixel is written down as words where it has ``widest`` elements at most
    and ``sharing`` channels at least use it."""

    widest: int
    sharing: int


@dataclass(frozen=True, slots=True)
class RegisterTiles:
    """A tile of pixels by channels in registers, weights laid out in the order in which the tile reads them; with
    ``pairs`` two channels of a pixel as halves of words, if none of the weights is -128. ``steps`` of a sum are
    written out, ``alone`` channels of a pixel that stands alone computed at once, sums of 64 bits added up in parts of
    ``part`` products at least. With ``rest`` a tile need not divide the channels: those left are a smaller one. It
    takes ``minimum`` multiply-accumulates."""

    minimum: int
    steps: int
    alone: int
    part: int
    rest: bool = False
    pairs: WordPairs | None = None
    name = "register-tiles"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Products of bytes, or of halves of words by bytes."""
        return any(nest.is_product("contraction", factors, self.minimum) for factors in ("bytes", "halves"))

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Tiles in registers."""
        s = Schedule(nest.loops)
        even = nest.factors == "bytes" and nest.part.b in nest.even
        if self.pairs and even and extent(nest.part.reduce) > 1 and s.attempt(_swar, self, nest.part, self.pairs):
            return s.done()
        return _tiles(self, s, nest.part, machine, nest.choice)


def _tiles(rule: RegisterTiles, s: Schedule, part: Contraction, machine: Machine, choice: Choice) -> Loops:
    alone = extent(part.spatial[:-1]) == 1
    channels = part.spatial[-1].var.hi + 1
    rows, columns = machine.tile(choice)
    columns = _columns(rule, channels, (choice.cols or rule.alone) if alone else columns)
    channel, pixel = loop_of(part.spatial[-1]), pixel_loop(s, part)
    if pixel and windowed(s.loops, part):
        s.cache_read(pixel, part.a, loops_of(part.reduce))
    s.pack(part.b, columns, 1)
    steps = in_parts(s, fuse_all(s, loops_of(part.reduce), "k"), rule.part)
    tiles = s.split(pixel, rows) if pixel and not alone and rows > 1 else None
    inside, tile = [channel], []
    if columns > 1:
        inside = []
        rest = tiles.in_tail([channel, *steps]) if tiles and tiles.tail else [channel]
        for name, *into in ([rest] if rest[0] != channel else []) + [[channel, *steps]]:
            block = s.split(name, columns)
            s.unroll_and_jam(block.inner, into)
            tile.append(block.inner)
            left = [block.outer]
            if block.tail:  # those left of a tile of channels
                end = s.overlap(block.tail, channels % columns)
                s.unroll_and_jam(end.inner, block.in_tail(into))
                tile.append(end.inner)
                left.append(end.outer)
                into = block.everywhere(into)
            inside += [*left, *into] if name == channel else []
    else:
        inside += steps
    if tiles and tiles.whole:
        s.unroll_and_jam(tiles.inner, inside)
        tile.append(tiles.inner)
    _write_out(s, steps[-1], rule.steps)
    return write_out(s, tile)


def _columns(rule: RegisterTiles, channels: int, maximum: int) -> int:
    """Channels of a tile: a number that divides them, unless it is half of what fits at most and some may be left."""
    whole = _divisor(channels, maximum)
    return maximum if rule.rest and 2 * whole <= maximum <= channels else whole


def _swar(s: Schedule, rule: RegisterTiles, part: Contraction, pairs: WordPairs) -> Schedule:
    """The window of a pixel is kept as words where that pays: the core reads those at a number from an address, but no
    signed bytes."""
    channel, pixel = loop_of(part.spatial[-1]), pixel_loop(s, part)
    words = extent(part.reduce) <= pairs.widest and part.spatial[-1].var.hi + 1 >= pairs.sharing
    if pixel is None:
        raise ScheduleError("no pixels")
    reduce, window = loops_of(part.reduce), None
    if extent(part.reduce) % 2:  # a product by 0 makes the last one of a pair
        window = s.cache_read(pixel, part.a, reduce, 2)
    elif words or windowed(s.loops, part):
        window = s.cache_read(pixel, part.a, reduce)
    s.pack(part.b, 1, 1)
    k = fuse_all(s, reduce, "k")
    if extent(part.reduce) % 2:
        s.pad(k, 2)
    steps = s.use_swar(channel, part.b)
    if window and words:
        s.widen(window.buffer)
    return _write_out(s, steps, rule.steps)


def _write_out(s: Schedule, k: Loop, maximum: int) -> Schedule:
    """Writes out some steps of a reduction, as many as divide it."""
    size = _divisor(trip(s.loops, k), maximum)
    return s.unroll(s.split(k, size).inner) if size > 1 else s


def _divisor(n: int, maximum: int) -> int:
    """The largest number up to ``maximum`` that divides ``n``: a tile without a tail."""
    return max(size for size in range(1, maximum + 1) if n % size == 0)
