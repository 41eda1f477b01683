"""Rules for 8-bit products on cores whose dot instruction adds a whole vector of products to one sum; for depthwise
windows, neighbouring pixels of staged rows with channels in lanes, as AArch64 takes them too."""

from __future__ import annotations

from dataclasses import dataclass

from sdk.compiler.ir.loops import Alloc, Buffer, Loops
from sdk.compiler.ir.pattern import Contraction, has_condition
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.model import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.locate import ScheduleError, has
from sdk.compiler.schedules.rules.gather import COPY_RUN, gather_window, pixel_loop, windowed
from sdk.compiler.schedules.rules.nest import extent, fuse_all, names, products_of, trip
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
    tm, tn = (1, 4) if alone else (machine.tile_rows, machine.tile_cols)
    dot = products_of(machine)
    s = Schedule(loops, tm=tm, tn=tn, dot=dot, lanes=4)
    channel, pixel = part.spatial[-1].var.name, pixel_loop(s, part)
    if windowed(loops, part):
        s.knobs |= {"word": dot, "run": COPY_RUN}
        gather_window(s, part, pixel, names(part.reduce), 1)
    s.do("pack", part.b, 1, 1)
    k = fuse_all(s, names(part.reduce), "k")
    s.do("split", k, "dot")
    if has(s.loops, f"{k}_i"):
        s.do("use_dot", f"{k}_i")
    for rest in (k, f"{k}_t"):
        if has(s.loops, rest):
            s.do("use_dot_first", rest, "dot")
    s.do("split", channel, "lanes")
    tiled = has(s.loops, f"{channel}_i")
    if tiled:
        s.do("set_aside", f"{channel}_i", "local").do("vectorize", f"{channel}_i_e")
        s.do("split", f"{channel}_i", "tn").do("jam", f"{channel}_i_i", [f"{k}_o"] if has(s.loops, f"{k}_o") else [])
    if not alone:
        s.do("split", pixel, "tm")
        if has(s.loops, f"{pixel}_i"):
            into = (f"{channel}_o", f"{channel}_i_o", f"{k}_o")
            s.do("jam", f"{pixel}_i", [name for name in into if has(s.loops, name)])
    _write_out(s, f"{k}_o", rule.steps)
    for loop in (f"{pixel}_i", f"{channel}_i_i", f"{channel}_i_o"):
        for name in (loop, f"{loop}_t"):
            if has(s.loops, name):
                s.do("unroll", name)
    return s.done()


def _write_out(s: Schedule, steps: str, most: int) -> None:
    for name in (steps, f"{steps}_t"):
        if has(s.loops, name) and trip(s.loops, name) <= most:
            s.do("unroll", name)


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
    staged, channels = has_condition(loops, part.a), part.spatial[-1].hi
    for group, lanes in rule.groups[:-1]:
        if channels >= group and (staged or group == lanes):
            done = _grouped(rule, loops, part, group, lanes)
            if not staged or _region(done).type.max_bytes <= rule.region:
                return done
    return _grouped(rule, loops, part, *rule.groups[-1])


def _grouped(rule: QuadWindow, loops: Loops, part: Contraction, group: int, lanes: int) -> Loops:
    """As ``_window``, so many channels staged at a time, so many of them in a vector."""
    channel, pixel, reduce = part.spatial[-1].var.name, part.spatial[-2].var.name, names(part.reduce)
    pixels = part.spatial[-2].var.hi + 1
    s = Schedule(loops, group=group, lanes=lanes, tm=min(rule.at_once, pixels))
    s.do("reorder", pixel, channel).do("overlap", channel, "group")
    if has_condition(loops, part.a):
        s.do("stage_region", f"{channel}_o", part.a)
        _copy_lanes(s)
    s.do("split", f"{channel}_i", "lanes").do("reorder", f"{channel}_i_i", pixel).do("vectorize", f"{channel}_i_i")
    s.do("overlap", pixel, "tm").do("jam", f"{pixel}_i", reduce).do("unroll", f"{pixel}_i")
    if extent(part.reduce) <= rule.taps:
        for name in reduce:
            s.do("unroll", name)
    return s.done()


def _region(loops: Loops) -> Buffer:
    """The region that is staged."""
    return next(n.buffer for n in walk(loops.body) if isinstance(n, Alloc) and n.buffer.space == "scratch")


def _copy_lanes(s: Schedule) -> None:
    """Copies the innermost axis of a region by vectors."""
    region = _region(s.loops)
    for part in ("l", "", "r"):
        name = f"{region.name}_{len(region.shape) - 1}{part}"
        if has(s.loops, name):
            s.do("vectorize", name)
