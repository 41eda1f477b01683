"""The rule for work items: neighbours read neighbouring weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sdk.compiler.analysis.pattern import has_condition
from sdk.compiler.ir.layout import Permute
from sdk.compiler.ir.loops import Load, Loops
from sdk.compiler.ir.walk import rewrite, walk
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.schedules.pack import stored_as
from sdk.compiler.sym import free_vars

__all__ = ["ColumnsLast"]


@dataclass(frozen=True)
class ColumnsLast:
    """Stores the constant factor of a product with the axis of the innermost loop last, and leaves the nest as it is.

    before: ``… for o { … acc = acc + x[p, k] * w[o, k] … }``
    after:  ``… for o { … acc = acc + x[p, k] * w[k, o] … }``
    """

    name = "columns-last"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Products with a constant."""
        return nest.pattern.product is not None and nest.constant(nest.part.b)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """The nest scheduled."""
        loops, part = nest.loops, nest.part
        buffer = loops.param(part.b).buffer
        axis = _axis(nest)
        if axis == len(buffer.shape) - 1 or has_condition(loops, part.b) or part.b in loops.layouts:
            raise ScheduleError(f"columns-last({part.b}): it is stored so, or read under a condition")
        if any(not isinstance(d, int) for d in buffer.shape):
            raise ScheduleError(f"columns-last({part.b}): the shape {buffer.shape} is not one of numbers")
        order = Permute((*(k for k in range(len(buffer.shape)) if k != axis), axis))

        def one(node: Any) -> Any:
            if isinstance(node, Load) and node.buffer == part.b:
                return replace(node, index=tuple(node.index[k] for k in order.order))
            return node

        return stored_as(replace(loops, body=rewrite(loops.body, one)), part.b, order)


def _axis(nest: Nest) -> int:
    """The one axis of the constant that the innermost loop over the output goes along.

    Raises:
        ScheduleError: it goes along none alone, or along several.
    """
    var, found = nest.part.spatial[-1].var, set()
    for node in walk(nest.loops.body):
        if isinstance(node, Load) and node.buffer == nest.part.b:
            if node.dtype.lanes > 1:
                raise ScheduleError(f"columns-last({nest.part.b}): it is read in lanes")
            found.add(tuple(k for k, d in enumerate(node.index) if var in free_vars(d)))
    if len(found) != 1 or len(axes := found.pop()) != 1:
        raise ScheduleError(f"columns-last({nest.part.b}): {var.name} goes along no axis alone")
    return axes[0]
