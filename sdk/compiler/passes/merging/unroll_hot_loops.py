"""The loops that take the time of a run, unrolled by a few iterations: compilers do not when they aim at size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sdk.compiler.analysis.work import length, max_trips
from sdk.compiler.ir.loops import Alloc, Block, For, Let, Loops
from sdk.compiler.ir.walk import inner_blocks, statements, walk
from sdk.compiler.schedules.locate import ScheduleError, loop_of
from sdk.compiler.schedules.reshape_loops import split, unroll
from sdk.compiler.sym import Dim, Var, substitute

__all__ = ["unrolled"]

ITERATIONS: Final = 4
FEWEST: Final = 8
PART: Final = 3  # loops that take at least this part of the work of their function


def unrolled(loops: Loops) -> Loops:
    """``for i in 0..n { S(i) }`` --> ``for o in 0..n/4 { S(4*o) … S(4*o + 3) }`` and the rest, of the innermost loops
    that take most."""
    env: dict[Var, Dim] = {} if loops.rows is None else {loops.rows.lo: 0, loops.rows.hi: loops.rows.extent}
    found = list(_innermost(loops.body, 1, env))
    total = sum(work for work, _ in found)
    for work, loop in found:
        if work * PART >= total and _worth(loop):
            try:
                cut, tiles = split(loops, loop_of(loop), ITERATIONS)
                loops = unroll(cut, tiles.inner)
            except ScheduleError:
                continue
    return loops


def _innermost(block: Block, times: int, env: dict[Var, Dim]) -> Iterator[tuple[int, For]]:
    """The innermost loops, with what all their iterations take."""
    for stmt in block.body:
        if not isinstance(stmt, For):
            for inner in inner_blocks(stmt):
                yield from _innermost(inner, times, env)
        else:
            runs = times * max_trips(substitute(stmt.hi - stmt.lo, env))
            if any(isinstance(n, For) and n.kind != "unroll" for n in walk(stmt.body)) or stmt.kind != "serial":
                yield from _innermost(stmt.body, runs, env)
            else:
                yield runs * length(stmt.body), stmt


def _worth(loop: For) -> bool:
    trips = loop.hi - loop.lo
    declares = any(isinstance(n, Alloc | Let) for n in statements(loop.body))
    return isinstance(trips, int) and trips >= FEWEST and loop.until is None and not declares
