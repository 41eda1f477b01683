"""Rules for products of 16-bit activations and 8-bit weights on cores that multiply halves of words."""

from __future__ import annotations

from dataclasses import dataclass

from sdk.compiler.ir.loops import Alloc, Loops
from sdk.compiler.ir.types import I64
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.model import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.locate import has, loop_names
from sdk.compiler.schedules.partial import MOST
from sdk.compiler.schedules.rules.gather import gather_window, pixel_loop, windowed
from sdk.compiler.schedules.rules.nest import extent, fuse_all, names, trip
from sdk.compiler.schedules.trace import Schedule

__all__ = ["HalfTiles", "in_parts"]


@dataclass(frozen=True, slots=True)
class HalfTiles:
    """Some pixels by two channels in registers, or four channels of one pixel; two products to a dot. The weights of
    a tile lie beside each other, as 16 bits; in a compact nest, as bytes that are taken apart at each use. Sums
    of 64 bits are added up in parts of ``part`` products at least. It takes ``least`` multiply-accumulates."""

    least: int
    part: int
    name = "half-tiles"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Products of halves of words by bytes."""
        return nest.is_product("contraction", "halves", self.least)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Tiles in registers."""
        return _tiles(self, nest, machine.tile_rows)


def _tiles(rule: HalfTiles, nest: Nest, pixels: int) -> Loops:
    loops, part = nest.loops, nest.part
    channel, rows = part.spatial[-1].var.name, extent(part.spatial[:-1])
    channels, depth = part.spatial[-1].var.hi + 1, extent(part.reduce)
    tile = next(n for n in (2 if rows > 1 else 4, 2, 1) if channels % n == 0)
    s = Schedule(loops, tm=pixels, tn=tile, dot=4 if nest.compact else 2, word=2)
    pixel = pixel_loop(s, part)
    if pixel and (windowed(loops, part) or depth % s.knobs["dot"]):
        gather_window(s, part, pixel, names(part.reduce), "dot")
    s.do("pack", part.b, "tn", "dot")
    k = fuse_all(s, names(part.reduce), "k")
    if depth % s.knobs["dot"]:
        s.do("pad", k, "dot")
    *outer, k = in_parts(s, k, rule.part, s.knobs["dot"])
    if nest.compact:
        s.do("split", k, "dot").do("use_interleaved_dot", f"{k}_i", part.b)
    else:
        s.do("use_i16", part.b).do("split", k, "dot").do("use_dot", f"{k}_i")
    steps = [*outer, f"{k}_o"]
    if tile > 1:
        s.do("split", channel, "tn").do("unroll_and_jam", f"{channel}_i", steps)
    if rows > 1:
        s.do("tile", pixel, "tm", [n for n in (f"{channel}_o", channel, *steps) if has(s.loops, n)])
    for name in dict.fromkeys(n for n in loop_names(s.loops.body) if n.startswith(f"{channel}_i")):
        s.do("unroll", name)
    if rows > 1:
        s.do("unroll", f"{pixel}_i", "register")
    return s.done()


def in_parts(s: Schedule, k: str, least: int, step: int = 1) -> list[str]:
    """Sums of 64 bits are added up in parts that are sure to fit 32 bits, of a multiple of ``step`` products, unless
    the parts would have less than ``least``; the loops that the reduction becomes, inner last."""
    if not _wide(s.loops):
        return [k]
    depth = trip(s.loops, k)
    size = max((n for n in range(step, MOST + 1, step) if depth % n == 0), default=0)
    if size < min(depth, least):
        return [k]
    s.knobs["part"] = size
    if size == depth:
        s.do("partial", k)
        return [k]
    s.do("split", k, "part").do("partial", f"{k}_i")
    return [f"{k}_o", f"{k}_i"]


def _wide(loops: Loops) -> bool:
    """Whether sums have 64 bits."""
    return any(isinstance(n, Alloc) and n.buffer.dtype == I64 for n in walk(loops.body))
