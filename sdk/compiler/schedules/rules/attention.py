"""The rule for attention over the caches of a language model."""

from __future__ import annotations

from dataclasses import dataclass

from sdk.compiler.ir.loops import Loops
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.attention_lanes import shape_of_attention
from sdk.compiler.schedules.trace import Schedule

__all__ = ["AttentionLanes"]


@dataclass(frozen=True, slots=True)
class AttentionLanes:
    """Attention in the lanes of floats, ``tokens`` rows at once, then fewer; sums take half of the registers."""

    tokens: tuple[int, ...] = (8, 4, 1)
    name = "attention-lanes"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Attention, where floats have lanes."""
        return machine.floats.lanes > 1 and shape_of_attention(nest.loops) is not None

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Rows in lanes.

        Raises:
            ScheduleError: the sizes are no whole vectors.
        """
        s = Schedule(nest.loops)
        sums = machine.floats.registers // 2
        s.attention_lanes(machine.floats.lanes, sums, [t for t in self.tokens if t <= sums])
        return s.done()
