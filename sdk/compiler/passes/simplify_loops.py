"""Simplification of nests: loops that run once give way to their body."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sdk.compiler.analysis.row_calls import drop_single_trips, loops_of_product
from sdk.compiler.ir.module import Module

__all__ = ["SimplifyLoops"]


@dataclass(frozen=True)
class SimplifyLoops:
    """Drops every loop whose trip count is proved to be 1; with ``products`` those stay without which a rule would not
    see that bytes are multiplied and added, of such with ``channels`` that over a single channel of the result too."""

    products: bool = False
    channels: bool = False
    name = "simplify-loops"

    def run(self, module: Module) -> Module:
        """The module with simpler nests; itself when none changes."""
        kept = {name: loops_of_product(f, self.channels) for name, f in module.loops.items() if self.products}
        loops = {name: drop_single_trips(f, kept.get(name, frozenset())) for name, f in module.loops.items()}
        if all(loops[name] is f for name, f in module.loops.items()):
            return module
        return replace(module, loops=loops)
