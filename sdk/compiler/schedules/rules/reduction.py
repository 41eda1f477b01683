"""Rules for nests that carry values: rows of several loops (softmax, norms, sums of rows), and columns in lanes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from sdk.compiler.ir.intrinsics import INTRINSICS, Cost
from sdk.compiler.ir.loops import Alloc, Block, For, Loops, Op
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.locate import Loop, ScheduleError, find, loop_of, loops_in
from sdk.compiler.schedules.rules.elementwise import MIN_ITERATIONS, innermost, to_lanes, vector_lanes
from sdk.compiler.schedules.rules.nest import trip
from sdk.compiler.schedules.trace import Schedule

__all__ = ["Columns", "Rows", "chain", "column_lanes"]

SHORT: Final = 16  # iterations of loops that are worth no second vector beside each
ACCUMULATORS: Final = 4  # vectors that one loop accumulates in: what hides the time an addition takes


@dataclass(frozen=True, slots=True)
class Rows:
    """Every innermost loop in lanes: independent iterations as they are, sums and extremes in vectors."""

    name = "rows"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Nests of several loops that are no product."""
        return nest.kind in ("injective", "window", "reduction")

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """The loops that allow it in lanes.

        Raises:
            ScheduleError: no loop allows it, or the machine has no vectors.
        """
        return _rows(nest.loops, machine)


def _rows(loops: Loops, machine: Machine) -> Loops:
    s = Schedule(loops)
    for name in innermost(loops):
        loop = find(loops, name)
        lanes = vector_lanes(loop.body, machine)
        if lanes == 1 or loop.var.hi + 1 < MIN_ITERATIONS or loop.kind not in ("serial", "parallel"):
            continue
        if not s.attempt(to_lanes, name, lanes):
            s.attempt(_accumulate, name, lanes)
    if not s.steps:
        raise ScheduleError("no loop runs in lanes")
    return s.done()


def _accumulate(s: Schedule, name: Loop, lanes: int) -> Schedule:
    """A short run, and one whose terms are dear, needs fewer accumulators."""
    loop = find(s.loops, name)
    dear = any(isinstance(n, Op) and INTRINSICS[n.name].cost is Cost.DEAR for n in walk(loop.body))
    return s.accumulate(name, lanes, 1 if dear or loop.var.hi + 1 < lanes * ACCUMULATORS else ACCUMULATORS)


@dataclass(frozen=True, slots=True)
class Columns:
    """The innermost axis of the output in lanes, its accumulators in registers while the reduction runs.

    For sums over other axes than the last, pools, and depthwise products: all read consecutive channels.
    """

    name = "columns"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Windows and reductions."""
        return nest.kind in ("window", "reduction")

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """The columns in lanes.

        Raises:
            ScheduleError: an operand is not consecutive along that axis, or the machine has no vectors.
        """
        around = chain(nest.loops)
        if not around:
            raise ScheduleError("no columns")
        s = Schedule(nest.loops).inline().simplify_conditions()
        column_lanes(s, loop_of(around[-1]), machine)
        return s.done()


def column_lanes(s: Schedule, column: Loop, machine: Machine) -> Loop:
    """Makes lanes of the loop ``column`` around a reduction into registers, a few vectors of it at a time; the
    loop over these.

    Raises:
        ScheduleError: as ``Columns``.
    """
    loop = find(s.loops, column)
    lanes = vector_lanes(loop, machine)
    if lanes == 1 or loop.var.hi + 1 < (2 if machine.part_vectors else MIN_ITERATIONS) or loop.lo != 0:
        raise ScheduleError("no columns, or no vectors")
    accs = [n.buffer for n in loop.body.body if isinstance(n, Alloc)]
    inside = list(dict.fromkeys(loops_in(loop.body)))
    if not accs or not inside or any(b.space != "register" or b.shape for b in accs):
        raise ScheduleError("no accumulators in registers")
    maximum = max(1, min(ACCUMULATORS, machine.floats.registers // 4))  # where few, what is read fills them
    long = math.prod(trip(s.loops, name) for name in inside) > SHORT
    if machine.part_vectors and isinstance(loop.hi, int) and loop.hi >= lanes and (loop.hi % lanes or not long):
        blocks = s.overlap(column, _block(loop.hi, lanes, maximum, long))
    else:
        wide = min(maximum, -(-(loop.var.hi + 1) // lanes)) * lanes
        blocks = s.pad_loop(column, wide).split(column, wide)
    vectors = s.split(blocks.inner, lanes)
    s.unroll_and_jam(vectors.inner, inside).vectorize(vectors.inner)
    for buffer in accs:
        s.vector_registers(buffer.name, lanes)
    s.unroll_and_jam(vectors.outer, inside).unroll(vectors.outer)
    return blocks.outer


def _block(columns: int, lanes: int, maximum: int, long: bool) -> int:
    """Columns of a block, the last of which goes back over columns before it: no mask is made anew for each access. As
    many vectors as fit where loops inside are long, else so many that few columns are computed twice."""
    vectors = min(maximum, columns // lanes)
    if long:
        return vectors * lanes
    return min((n * lanes for n in range(vectors, 0, -1)), key=lambda size: -(-columns // size) * size)


def chain(loops: Loops) -> list[For]:
    """The loops around the statements that make one element."""
    out: list[For] = []
    block: Block = loops.body
    while len(block.body) == 1 and isinstance(block.body[0], For):
        out.append(block.body[0])
        block = block.body[0].body
    return out
