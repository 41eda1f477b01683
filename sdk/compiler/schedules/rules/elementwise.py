"""Rules for loops whose iterations do not depend on each other: the innermost one in lanes, the rest masked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sdk.compiler.ir.loops import For, Load, Loops, Op, Store
from sdk.compiler.ir.walk import statements, walk
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.locate import Loop, ScheduleError, find, loop_of, loops_in
from sdk.compiler.schedules.trace import Schedule

__all__ = ["MIN_ITERATIONS", "Elementwise", "innermost", "to_lanes", "vector_lanes"]

MIN_ITERATIONS: Final = 4  # iterations below which a loop is left as it is


def vector_lanes(node: object, machine: Machine) -> int:
    """How many elements of the widest type in ``node`` fill a vector of the machine; 1 where it has none.

    64-bit types count only where nothing is narrower: what mixes them is computed in two vectors each.
    """
    widths = set()
    for n in walk(node):
        if isinstance(n, Load | Op):
            widths.add(n.dtype.scalar.nbytes)
        elif isinstance(n, Store):
            widths.add(n.value.dtype.scalar.nbytes)
    widest = max(widths, default=4)
    return 1 if machine.lanes == 1 else machine.lanes * 4 // (widest if widths == {8} else min(widest, 4))


def innermost(loops: Loops) -> list[Loop]:
    """The loops without loops inside, in order."""
    return list(
        dict.fromkeys(
            loop_of(n)
            for n in statements(loops.body)
            if isinstance(n, For) and not any(isinstance(m, For) for m in statements(n.body))
        )
    )


def to_lanes(s: Schedule, loop: Loop, lanes: int) -> Schedule:
    """Cuts a loop in strips of ``lanes`` and makes lanes of them and of the rest.

    Raises:
        ScheduleError: an iteration depends on another, or an operand is neither consecutive nor constant.
    """
    for part in s.strip(loop, lanes):
        s.vectorize(part)
    return s


@dataclass(frozen=True, slots=True)
class Elementwise:
    """The innermost loop in lanes where operands are consecutive or constant along it."""

    name = "elementwise"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Elements that are computed or moved one by one."""
        return nest.kind in ("elementwise", "injective")

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """The innermost loop in strips of lanes."""
        loops = nest.loops
        inside = loops_in(loops.body)
        lanes = vector_lanes(loops.body, machine)
        if not inside or lanes == 1 or find(loops, inside[-1]).var.hi + 1 < MIN_ITERATIONS:
            raise ScheduleError("no loop that is worth a vector, or no vectors")
        return to_lanes(Schedule(loops), inside[-1], lanes).done()
