"""Rules for 8-bit contractions on cores with neither vectors nor packed products: tiles of sums in registers."""

from __future__ import annotations

from dataclasses import dataclass

from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.pattern import Contraction
from sdk.compiler.machines.model import Machine
from sdk.compiler.machines.nest import Choice, Nest
from sdk.compiler.schedules.locate import find, has, loop_names
from sdk.compiler.schedules.rules.gather import COPY_RUN, gather_window, pixel_loop, windowed
from sdk.compiler.schedules.rules.integer16 import in_parts
from sdk.compiler.schedules.rules.nest import extent, fuse_all, names, trip, unrolled
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
    ``part`` products at least. It takes ``least`` multiply-accumulates."""

    least: int
    steps: int
    alone: int
    part: int
    pairs: WordPairs | None = None
    name = "register-tiles"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Products of bytes, or of halves of words by bytes."""
        return any(nest.is_product("contraction", factors, self.least) for factors in ("bytes", "halves"))

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Tiles in registers."""
        s = Schedule(nest.loops, steps=self.steps, run=COPY_RUN)
        even = nest.factors == "bytes" and nest.part.b in nest.even
        if not (self.pairs and even and s.attempt(_halves, nest.part, self.pairs)):
            _tiles(self, s, nest.part, machine, nest.choice)
        return s.done()


def _tiles(rule: RegisterTiles, s: Schedule, part: Contraction, machine: Machine, choice: Choice) -> None:
    one_row = extent(part.spatial[:-1]) == 1
    channels = part.spatial[-1].var.hi + 1
    rows, columns = machine.tile(choice)
    s.knobs["tm"] = rows
    s.knobs["tn"] = _divisor(channels, (choice.cols or rule.alone) if one_row else columns)
    channel, pixel = part.spatial[-1].var.name, pixel_loop(s, part)
    if pixel and windowed(s.loops, part):
        gather_window(s, part, pixel, names(part.reduce), 1)
    s.do("pack", part.b, "tn", 1)
    *outer, k = in_parts(s, fuse_all(s, names(part.reduce), "k"), rule.part)
    if not one_row and rows > 1:
        s.do("split", pixel, "tm")
    if s.knobs["tn"] > 1:
        for name, tail in ((f"{channel}_t", "_t"), (channel, "")):
            if has(s.loops, name):
                s.do("split", name, "tn").do("unroll_and_jam", f"{name}_i", [f"{loop}{tail}" for loop in (*outer, k)])
    if has(s.loops, f"{pixel}_i"):
        _jam_pixels(s, channel, pixel)
    _write_out(s, k)
    s.loops = unrolled(s, [channel, f"{channel}_t", pixel])


def _halves(s: Schedule, part: Contraction, pairs: WordPairs) -> None:
    """The window of a pixel is kept as words where that pays: the core reads those at a number from an address, but no
    signed bytes."""
    channel, pixel = part.spatial[-1].var.name, pixel_loop(s, part)
    words = extent(part.reduce) <= pairs.widest and part.spatial[-1].var.hi + 1 >= pairs.sharing
    if words or windowed(s.loops, part):
        s.do("cache_read", pixel, part.a, names(part.reduce), 1)
    s.do("pack", part.b, 1, 1)
    k = fuse_all(s, names(part.reduce), "k")
    s.do("use_swar", channel, part.b)
    if words:
        s.do("widen", f"{part.a}_window")
    _write_out(s, f"{k}_h")


def _write_out(s: Schedule, k: str) -> None:
    """Writes out some steps of a reduction, as many as divide it."""
    size = _divisor(trip(s.loops, k), s.knobs["steps"])
    if size > 1:
        s.do("split", k, size).do("unroll", f"{k}_i")


def _divisor(n: int, most: int) -> int:
    """The largest number up to ``most`` that divides ``n``: a tile without a tail."""
    return max(size for size in range(1, most + 1) if n % size == 0)


def _jam_pixels(s: Schedule, channel: str, pixel: str) -> None:
    """Several pixels at a time: each weight read serves all of them."""
    inside = dict.fromkeys(loop_names(find(s.loops, f"{pixel}_i").body))
    into = [n for n in inside if not n.endswith("_s") and "_window" not in n and not n.startswith(f"{channel}_i")]
    s.do("unroll_and_jam", f"{pixel}_i", into)
