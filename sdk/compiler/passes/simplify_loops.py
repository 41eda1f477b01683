"""Simplification of nests: loops that run once give way to their body."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sdk.compiler.analysis.row_calls import drop_single_trips, loops_of_product
from sdk.compiler.ir.module import Module

__all__ = ["SimplifyLoops"]


@dataclass(frozen=True)
class SimplifyLoops:
    """Drops every loop whose trip count is proved to be 1; with ``products`` those stay without which a rule would not
    see that bytes are multiplied and added."""

    products: bool = False
    name = "simplify-loops"

    def run(self, module: Module) -> Module:
        """The module with simpler nests; itself when none changes."""
        kept = loops_of_product if self.products else lambda _: frozenset()
        loops = {name: drop_single_trips(f, kept(f)) for name, f in module.loops.items()}
        if all(loops[name] is f for name, f in module.loops.items()):
            return module
        return replace(module, loops=loops)
