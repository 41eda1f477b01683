"""The rule for depthwise windows of integers on cores that sum two products at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sdk.compiler.ir.loops import Alloc, Loops
from sdk.compiler.ir.pattern import Contraction
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.model import Machine
from sdk.compiler.machines.nest import Choice, Factors, Nest
from sdk.compiler.schedules.locate import has
from sdk.compiler.schedules.rules.integer_window import apart, copy_in_runs, is_depthwise, pixels_of, taps_along
from sdk.compiler.schedules.rules.nest import names, trip, unrolled
from sdk.compiler.schedules.trace import Schedule

__all__ = ["PairWindow"]


@dataclass(frozen=True, slots=True)
class PairWindow:
    """One channel at a time: the rows that some rows of the result read are staged in 16 bits, padded; of neighbouring
    pixels two products are summed at once. It takes ``least`` multiply-accumulates of such ``factors``.

    ``region`` bytes of rows are staged together, ``pitch`` elements apart where rows are so short and the best tile
    divides them; of ``tiles``, most pixels first, the best that divides a row is computed at once.
    """

    factors: Factors
    least: int
    region: int
    pitch: int
    tiles: tuple[int, ...]
    name = "pair-window"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Windows along rows of some pixels, unless another structure is chosen."""
        if not nest.is_product("window", self.factors, self.least) or nest.choice.variant is not None:
            return False
        part = nest.part
        paired = len(part.spatial) > 2 and part.reduce[-1].var in taps_along(nest.loops, part, part.spatial[-2].var)
        return paired and is_depthwise(nest) and pixels_of(part) >= min(self.tiles)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Neighbouring pixels of staged rows, in pairs of products."""
        return _pairs(self, nest.loops, nest.part, nest.choice)


def _pairs(rule: PairWindow, loops: Loops, part: Contraction, choice: Choice) -> Loops:
    channel, pixel, row = (loop.var.name for loop in part.spatial[:-4:-1])
    pixels, step = pixels_of(part), apart(loops, part, part.spatial[-2].var)
    sizes = rule.tiles if step == 1 else rule.tiles[::-1]  # windows that share few elements gain little by being many
    best = next((size for size in sizes if pixels % size == 0), min(rule.tiles[-1] + 1, pixels))
    tm = min(choice.rows or best, pixels)
    width = step * (pixels - 1) + part.reduce[-1].var.hi + 1
    # layers of an image that is halved again and again have rows as far apart, so that one kernel serves them all
    pitch = rule.pitch if tm == sizes[0] and width <= rule.pitch else width
    s = Schedule(loops, rows=_rows_at_once(rule, loops, part, pitch), tm=tm, pitch=pitch)
    *outer, taps = names(part.reduce)
    s.do("pack", part.b, 1, 1, len(loops.param(part.b).buffer.shape) - 1).do("use_i16", part.b)
    s.do("block", row, "rows").do("reorder", pixel, channel).do("reorder", f"{row}_i", channel)
    s.do("line_buffer", channel, part.a, 1, "pitch")
    region = next(n.buffer for n in walk(s.loops.body) if isinstance(n, Alloc) and n.buffer.space == "scratch")
    if region.dtype.bits == 8:
        s.do("use_i16", region.name)
    if has(s.loops, f"{region.name}_f_1"):
        s.do("fuse", f"{region.name}_f_0", f"{region.name}_f_1", f"{region.name}_f")
        if trip(s.loops, f"{region.name}_f") % 2 == 0:
            s.attempt(_fill_words, f"{region.name}_f")
    copy_in_runs(s, f"{region.name}_{len(region.shape) - 1}")
    s.do("overlap", pixel, "tm").do("unroll_and_jam", f"{pixel}_i", [*outer, taps]).do("use_dual_mac", taps)
    for name in outer:
        s.do("unroll", name)
    return unrolled(s, [pixel])


def _fill_words(s: Schedule, fill: str) -> None:
    s.do("split", fill, 2).do("vectorize", f"{fill}_i")


def _rows_at_once(rule: PairWindow, loops: Loops, part: Contraction, pitch: int) -> int:
    """Rows of the result whose windows are staged together: as many as the region has room for."""
    row = part.spatial[-3].var
    taps = math.prod(tap.hi + 1 for tap in taps_along(loops, part, row))
    most = max((rule.region // (2 * pitch) - taps) // apart(loops, part, row) + 1, 1)
    return most if pitch == rule.pitch else min(most, row.hi + 1)
