"""Rules for windows of floats: channels in lanes, the borders of padded images apart from their inside."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from sdk.compiler.analysis.path_conditions import conditions_of
from sdk.compiler.ir.loops import For, Idx, Load, Loops, Op
from sdk.compiler.ir.types import F32
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.locate import Loop, ScheduleError, Tiles, find, has, loop_of, loops_in, loops_of
from sdk.compiler.schedules.rules.nest import trip
from sdk.compiler.schedules.rules.reduction import chain, column_lanes
from sdk.compiler.schedules.trace import Schedule
from sdk.compiler.sym import free_vars, prove_ge, substitute

__all__ = ["Window"]

UNROLL_TAPS: Final = 16


@dataclass(frozen=True, slots=True)
class Window:
    """Pools and depthwise products: the taps written out, and rows and pixels whose window lies inside the image
    run without checks."""

    name = "window"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Windows and reductions."""
        return nest.kind in ("window", "reduction")

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """The window written out, its channels in lanes where they are not floats computed one by one.

        Raises:
            ScheduleError: it is no small window, or the channels do not run in lanes.
        """
        return _window(nest.loops, machine)


def _window(loops: Loops, machine: Machine) -> Loops:
    around = chain(loops)
    taps = loops_in(around[-1].body) if around else []
    if len(around) < 2 or not taps or any(not isinstance(find(loops, t).hi, int) for t in taps):
        raise ScheduleError("no pixels, or no window")
    if math.prod(trip(loops, t) for t in taps) > UNROLL_TAPS:
        raise ScheduleError("the window is large")
    s = Schedule(loops).inline().simplify_conditions()
    column, pixel = loop_of(around[-1]), loop_of(around[-2])
    columns, last_taps = [column], [taps[-1]]
    for loop in loops_of(around[:-1][-2:]):
        inside = _inside(s.loops, loop)
        if inside is not None:
            parts = s.partition(loop, *inside)
            columns, last_taps = _copies(columns, parts), _copies(last_taps, parts)
            s.simplify_conditions()
    across = {column: column}
    if not _one_by_one(around[-1], machine):
        across = {name: column_lanes(s, name, machine) for name in columns}
    if has(s.loops, pixel) and _shares(s.loops, pixel):
        tiles = s.attempt(_tile, pixel, [across[column], *taps], 4 if machine.floats.registers >= 32 else 2)
        last_taps = tiles.everywhere(last_taps) if tiles else last_taps
    for tap in taps:
        s.unroll(tap)
    if machine.floats.fma:
        s.attempt(_fuse, last_taps)
    return s.done()


def _copies(loops: list[Loop], parts: list[dict[Loop, Loop]]) -> list[Loop]:
    """What loops are in each part that another loop was cut in."""
    return list(dict.fromkeys(part.get(loop, loop) for loop in loops for part in parts))


def _one_by_one(column: For, machine: Machine) -> bool:
    """Whether all that is computed for a column are floats, in a unit for one at a time."""
    values = (n.dtype for n in walk(column.body) if isinstance(n, Load))
    return machine.lanes == 1 and machine.floats.registers >= 32 and all(t == F32 for t in values)


def _shares(loops: Loops, pixel: Loop) -> bool:
    """Whether pixels read elements of a parameter in common: weights."""
    loop = find(loops, pixel)
    params = {p.buffer.name for p in loops.params}
    loads = [n for n in walk(loop.body) if isinstance(n, Load) and n.buffer in params]
    return any(all(loop.var not in free_vars(d) for d in n.index) for n in loads)


def _tile(s: Schedule, pixel: Loop, into: list[Loop], size: int) -> Tiles:
    """Several pixels at a time: each weight read serves all of them."""
    tiles = s.split(pixel, size)
    s.unroll_and_jam(tiles.inner, into).unroll(tiles.inner)
    return tiles


def _fuse(s: Schedule, taps: list[Loop]) -> Schedule:
    """Products are added in one operation where the window holds some."""
    for tap in taps:
        s.use_fma(tap)
    return s


def _inside(loops: Loops, name: Loop) -> tuple[int, int] | None:
    """From where to where (exclusive) the windows over a loop lie inside the image; None where none is checked.

    Raises:
        ScheduleError: none lies inside.
    """
    loop = find(loops, name)
    first, last = loop.var.lo, loop.var.hi + 1
    checked = False
    for node in walk(loop.body):
        if isinstance(node, Op) and node.name in ("lt", "ge") and isinstance(node.args[0], Idx):
            for condition in conditions_of(node, {}):
                if loop.var not in free_vars(condition):
                    continue
                values = range(loop.var.lo, loop.var.hi + 1)
                held = [k for k in values if prove_ge(substitute(condition, {loop.var: k}), 0)]
                if not held:
                    raise ScheduleError("no window lies inside the image")
                checked = True
                first, last = max(first, held[0]), min(last, held[-1] + 1)
    if first >= last:
        raise ScheduleError("no window lies inside the image")
    return (first, last) if checked else None
