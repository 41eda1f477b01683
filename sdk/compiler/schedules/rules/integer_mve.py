"""Rules for 8-bit products on cores whose dot instruction adds a whole vector of products to one sum; for depthwise
windows, neighbouring pixels of staged rows with channels in lanes, as AArch64 takes them too."""

from __future__ import annotations

from dataclasses import dataclass

from sdk.compiler.analysis.pattern import Contraction, has_condition
from sdk.compiler.ir.loops import Buffer, Loops
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.locate import ScheduleError, loop_of, loops_of
from sdk.compiler.schedules.rules.gather import COPY_RUN, gather_window, pixel_loop, windowed
from sdk.compiler.schedules.rules.nest import extent, fuse_all, products_of, trip, write_out
from sdk.compiler.schedules.trace import Schedule

__all__ = ["AcrossTiles", "QuadWindow"]


@dataclass(frozen=True, slots=True)
class AcrossTiles:
    """Sums of two pixels by two channels in registers, of one pixel by four where it stands alone; what becomes of
    the sums of four channels is computed in lanes. Up to ``steps`` steps of a sum are written out. It takes ``least``
    multiply-accumulates."""

    least: int
    steps: int
    name = "across-tiles"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Products of bytes."""
        return nest.is_product("contraction", "bytes", self.least)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Tiles of sums, each of a dot along the reduction.

        Raises:
            ScheduleError: there are no rows, or a step does not apply.
        """
        return _across(self, nest.loops, nest.part, machine)


def _across(rule: AcrossTiles, loops: Loops, part: Contraction, machine: Machine) -> Loops:
    if len(part.spatial) < 2:
        raise ScheduleError("no rows")
    alone = extent(part.spatial[:-1]) == 1
    tn = 4 if alone else machine.tile_cols
    dot = products_of(machine)
    s = Schedule(loops)
    channel, pixel = loop_of(part.spatial[-1]), pixel_loop(s, part)
    assert pixel is not None  # there are rows
    if windowed(loops, part):
        gather_window(s, part, pixel, loops_of(part.reduce), word=dot, run=COPY_RUN)
    s.pack(part.b, 1, 1)
    steps = s.split(fuse_all(s, loops_of(part.reduce), "k"), dot)
    if steps.whole:
        s.use_dot(steps.inner)
    if steps.tail:
        s.use_dot_first(steps.tail, dot)
    quads, tile = s.split(channel, 4), []
    inside = [quads.outer]
    if quads.whole:
        (after,) = s.fission(quads.inner, "local")
        pairs = s.vectorize(after).split(quads.inner, tn)
        s.unroll_and_jam(pairs.inner, steps.loops)
        tile = [pairs.inner, pairs.outer]
        inside = [quads.outer, pairs.outer]
    sums = [steps.outer] if steps.whole else []
    words = quads.everywhere(sums)
    if not alone:
        tiles = s.split(pixel, machine.tile_rows)
        words, tile = list(dict.fromkeys([*words, *tiles.in_tail(sums)])), tiles.everywhere(tile)
        if tiles.whole:
            s.unroll_and_jam(tiles.inner, [*inside, *sums])
            tile.append(tiles.inner)
    return write_out(s, (*(n for n in words if trip(s.loops, n) <= rule.steps), *tile))


@dataclass(frozen=True, slots=True)
class QuadWindow:
    """Depthwise: channels in lanes. The rows that a row of the result reads are staged, padded, some channels at a
    time: of ``groups``, (channels staged, channels in a vector of sums), the first is taken that the layer has and that
    takes ``region`` bytes at most, or the last. The windows of ``at_once`` neighbouring pixels share what is read. Up
    to ``taps`` taps of a window are written out."""

    region: int
    at_once: int
    taps: int
    groups: tuple[tuple[int, int], ...]
    name = "quad-window"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Windows of bytes."""
        return nest.is_product("window", "bytes", 0)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Pixels of staged rows, channels in lanes.

        Raises:
            ScheduleError: there are no pixels, fewer channels than lanes, or a step does not apply.
        """
        return _window(self, nest.loops, nest.part)


def _window(rule: QuadWindow, loops: Loops, part: Contraction) -> Loops:
    if len(part.spatial) < 2 or not isinstance(part.spatial[-2].hi, int) or not isinstance(part.spatial[-1].hi, int):
        raise ScheduleError("no pixels, or no number of channels")
    staged = has_condition(loops, part.a)
    for group, lanes in rule.groups[:-1]:
        if part.spatial[-1].hi >= group and (staged or group == lanes):
            done, lines = _grouped(rule, loops, part, group, lanes)
            if lines is None or lines.type.max_bytes <= rule.region:
                return done
    return _grouped(rule, loops, part, *rule.groups[-1])[0]


def _grouped(
    rule: QuadWindow, loops: Loops, part: Contraction, group: int, lanes: int
) -> tuple[Loops, Buffer | None]:
    """As ``_window``, so many channels staged at a time, so many in a vector, and the buffer for them where there is
    one."""
    channel, pixel, reduce = loop_of(part.spatial[-1]), loop_of(part.spatial[-2]), loops_of(part.reduce)
    pixels, s, lines = part.spatial[-2].var.hi + 1, Schedule(loops), None
    groups = s.reorder(pixel, channel).overlap(channel, group)
    if has_condition(loops, part.a):
        lines = s.line_buffer(groups.outer, part.a)
        for copy in (lines.copy, *lines.borders):
            s.vectorize(copy)
    across = s.split(groups.inner, lanes).inner
    tile = s.reorder(across, pixel).vectorize(across).overlap(pixel, min(rule.at_once, pixels)).inner
    s.unroll_and_jam(tile, reduce)
    done = write_out(s, [tile, *(reduce if extent(part.reduce) <= rule.taps else [])])
    return done, lines.buffer if lines else None
