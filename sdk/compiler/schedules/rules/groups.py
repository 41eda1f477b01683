"""The rule for products with weights in groups of a few bits."""

from __future__ import annotations

from dataclasses import dataclass

from sdk.compiler.ir.loops import Loops
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.group_panels import Factors, format_of_products
from sdk.compiler.schedules.trace import Schedule

__all__ = ["GroupPanels"]


@dataclass(frozen=True, slots=True)
class GroupPanels:
    """Panels of sixteen rows of weights in ``lanes``, by ``tokens`` rows of activations at once, then by fewer, with up
    to ``sums`` vectors of sums; ``factors`` says how its dot products take the activations."""

    lanes: int
    factors: Factors
    sums: int
    tokens: tuple[int, ...]
    name = "group-panels"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Such products, by constants."""
        return format_of_products(nest.loops) is not None and nest.constant("w")

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Panels in lanes.

        Raises:
            ScheduleError: it is no such product.
        """
        s = Schedule(nest.loops)
        s.group_panels(self.lanes, self.factors, self.sums, list(self.tokens))
        return s.done()
