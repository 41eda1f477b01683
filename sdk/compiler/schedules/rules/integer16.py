"""Rules for products of 16-bit activations and 8-bit weights on cores that multiply halves of words."""

from __future__ import annotations

from dataclasses import dataclass

from sdk.compiler.ir.loops import Alloc, Loops
from sdk.compiler.ir.types import I64
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.locate import Loop, loop_of, loops_of
from sdk.compiler.schedules.partial import MAX_PRODUCTS
from sdk.compiler.schedules.rules.gather import gather_window, pixel_loop, windowed
from sdk.compiler.schedules.rules.nest import extent, fuse_all, trip, write_out
from sdk.compiler.schedules.trace import Schedule

__all__ = ["HalfTiles", "in_parts"]


@dataclass(frozen=True, slots=True)
class HalfTiles:
    """Some pixels by two channels in registers, or four channels of one pixel; two products to a dot. The weights of
    a tile lie beside each other, as 16 bits; in a compact nest, as bytes that are taken apart at each use. Sums
    of 64 bits are added up in parts of ``part`` products at least. It takes ``minimum`` multiply-accumulates."""

    minimum: int
    part: int
    name = "half-tiles"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Products of halves of words by bytes."""
        return nest.is_product("contraction", "halves", self.minimum)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Tiles in registers."""
        return _tiles(self, nest, machine.tile_rows)


def _tiles(rule: HalfTiles, nest: Nest, pixels: int) -> Loops:
    part, s = nest.part, Schedule(nest.loops)
    channel, rows = loop_of(part.spatial[-1]), extent(part.spatial[:-1])
    channels, depth = part.spatial[-1].var.hi + 1, extent(part.reduce)
    tile = next(n for n in (2 if rows > 1 else 4, 2, 1) if channels % n == 0)
    dot = 4 if nest.compact else 2
    pixel = pixel_loop(s, part)
    if pixel and (windowed(nest.loops, part) or depth % dot):
        gather_window(s, part, pixel, loops_of(part.reduce), dot, word=2)
    s.pack(part.b, tile, dot)
    k = fuse_all(s, loops_of(part.reduce), "k")
    if depth % dot:
        s.pad(k, dot)
    *steps, k = in_parts(s, k, rule.part, dot)
    if not nest.compact:
        s.use_i16(part.b)
    words = s.split(k, dot)
    if nest.compact:
        s.use_interleaved_dot(words.inner, part.b)
    else:
        s.use_dot(words.inner)
    steps, inside = [*steps, words.outer], [channel]
    unrolled = []
    if tile > 1:
        block = s.split(channel, tile)
        s.unroll_and_jam(block.inner, steps)
        inside, unrolled = [block.outer], [block.inner]
    if pixel and rows > 1:
        some = s.tile(pixel, pixels, [*inside, *steps]).inner
        s.unroll(some, "register")
    return write_out(s, unrolled)


def in_parts(s: Schedule, k: Loop, minimum: int, step: int = 1) -> list[Loop]:
    """Sums of 64 bits are added up in parts that are sure to fit 32 bits, of a multiple of ``step`` products, unless
    the parts would have less than ``minimum``; the loops that the reduction becomes, inner last."""
    depth = trip(s.loops, k)
    size = max((n for n in range(step, MAX_PRODUCTS + 1, step) if depth % n == 0), default=0)
    if not _wide(s.loops) or size < min(depth, minimum):
        return [k]
    if size == depth:
        s.partial(k)
        return [k]
    parts = s.split(k, size)
    s.partial(parts.inner)
    return [parts.outer, parts.inner]


def _wide(loops: Loops) -> bool:
    """Whether sums have 64 bits."""
    return any(isinstance(n, Alloc) and n.buffer.dtype == I64 for n in walk(loops.body))
