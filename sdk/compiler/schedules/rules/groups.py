"""The rules for products with weights in groups of a few bits, and for single rows of these."""

from __future__ import annotations

from dataclasses import dataclass

from sdk.compiler.ir.loops import Loops
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.group_panels import Activations, Factors, format_of_products
from sdk.compiler.schedules.group_rows import format_of_rows
from sdk.compiler.schedules.trace import Schedule

__all__ = ["GroupPanels", "GroupRows", "GroupWords"]


@dataclass(frozen=True, slots=True)
class GroupPanels:
    """Panels of sixteen rows of weights in ``lanes``, by ``tokens`` rows of activations at once, then by fewer, with up
    to ``sums`` vectors of sums; ``factors`` says how its dot products take the activations. By "signs" it takes signed
    numbers of 8 bits alone, by activations that ``quantize_groups`` makes."""

    lanes: int
    factors: Factors
    sums: int
    tokens: tuple[int, ...]
    name = "group-panels"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Such products, by constants."""
        form = format_of_products(nest.loops)
        if form is None or (self.factors == "signs" and not (form.signed and nest.quantised)):
            return False
        return nest.constant("w")

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Panels in lanes.

        Raises:
            ScheduleError: it is no such product.
        """
        s = Schedule(nest.loops)
        given: Activations = "quantised" if nest.quantised else "any"
        s.group_panels(self.lanes, self.factors, self.sums, list(self.tokens), given)
        return s.done()


@dataclass(frozen=True, slots=True)
class GroupRows:
    """Rows out of the panels that ``GroupPanels`` reads, so that a matrix of both is stored once."""

    name = "group-rows"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Rows of constants."""
        return format_of_rows(nest.loops) is not None and nest.constant("w")

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """The same rows out of panels.

        Raises:
            ScheduleError: it takes no such rows.
        """
        s = Schedule(nest.loops)
        s.group_rows()
        return s.done()


@dataclass(frozen=True, slots=True)
class GroupWords:
    """Panels of sixteen rows of weights in words, each result a sum of its own, which is the work of an item."""

    name = "group-words"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Such products, by constants."""
        return format_of_products(nest.loops) is not None and nest.constant("w")

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Panels in words.

        Raises:
            ScheduleError: it is no such product.
        """
        s = Schedule(nest.loops)
        s.group_words()
        return s.done()
