"""The rule that keeps a nest as it is, ahead of rules for other nests that would take it too."""

from __future__ import annotations

from dataclasses import dataclass

from sdk.compiler.ir.loops import Loops
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Factors, Nest

__all__ = ["PlainWindow"]


@dataclass(frozen=True, slots=True)
class PlainWindow:
    """Windows of such ``factors`` that no rule for them takes stay plain, from ``minimum`` multiply-accumulates on: the
    rules for lanes widen each factor to 32 bits."""

    factors: Factors
    minimum: int
    name = "plain-window"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Windows of such factors."""
        return nest.is_product("window", self.factors, self.minimum)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """The nest itself."""
        return nest.loops
