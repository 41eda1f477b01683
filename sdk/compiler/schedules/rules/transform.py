"""Rules for nests that move elements: where the last axis moves, square tiles are transposed in registers."""

from __future__ import annotations

from dataclasses import dataclass

from sdk.compiler.ir.loops import For, Load, Loops, Store
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.locate import Loop, ScheduleError, find, loop_of, loops_of
from sdk.compiler.schedules.rules.elementwise import MIN_ITERATIONS
from sdk.compiler.schedules.rules.reduction import chain
from sdk.compiler.schedules.trace import Schedule
from sdk.compiler.sym import Dim, free_vars, linear

__all__ = ["Transform"]


@dataclass(frozen=True, slots=True)
class Transform:
    """A copy whose source runs along another loop than its destination: tiles of both, the rest element by element."""

    name = "transform"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Elements that are moved."""
        return nest.kind == "injective"

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Square tiles transposed in registers.

        Raises:
            ScheduleError: it is no such copy, or the machine has no vectors.
        """
        return _transposed(nest.loops, machine)


def _transposed(loops: Loops, machine: Machine) -> Loops:
    around = chain(loops)
    lanes = machine.lanes
    store = around[-1].body.body[0] if around else None
    if lanes == 1 or not isinstance(store, Store) or not isinstance(store.value, Load) or not store.index:
        raise ScheduleError("no copy, or no vectors")
    loops_around = loops_of(around)
    column, row = _stepping(store.index, around), _stepping(store.value.index, around)
    if column == row or loops_around[-1] != column:
        raise ScheduleError("the copy keeps its last axis, or is not in the order of its destination")
    size = lanes
    while size > min(find(loops, row).var.hi, find(loops, column).var.hi) + 1:
        size //= 2
    if size < MIN_ITERATIONS:
        raise ScheduleError("no tile fits")
    s = Schedule(loops)
    for inner in loops_around[loops_around.index(row) + 1 : -1]:
        s.reorder(row, inner)
    rows = s.split(row, size)
    if not rows.whole:
        raise ScheduleError("no tile fits")
    s.reorder(rows.inner, column)
    return s.transpose_tile(s.split(column, size).inner, rows.inner).done()


def _stepping(index: tuple[Dim, ...], around: list[For]) -> Loop:
    """The loop that steps through consecutive elements."""
    found = [v for v in free_vars(index[-1]) if (step := linear(index[-1], v)) is not None and step[0] == 1]
    stepping = [loop for loop in around if found == [loop.var]]
    if not stepping:
        raise ScheduleError("no loop steps through consecutive elements")
    return loop_of(stepping[0])
