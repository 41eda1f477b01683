"""The order of operators that needs least memory at once.

before: %a = @big(%x); %b = @big(%x); %c = @small(%a); %d = @small(%b)
after:  %a = @big(%x); %c = @small(%a); %b = @big(%x); %d = @small(%b)
"""

from __future__ import annotations

from dataclasses import dataclass

from sdk.compiler.ir.graph import Call, Graph
from sdk.compiler.ir.module import Module
from sdk.compiler.memory.scheduling import arena_bytes, best_order
from sdk.compiler.memory.storage import Io
from sdk.compiler.passes.repeats import has_repeats

__all__ = ["MemoryAwareScheduling"]


@dataclass(frozen=True)
class MemoryAwareScheduling:
    """Puts the nodes of each entry into the order of least peak, where that makes its arena smaller.

    ``io`` and ``align`` as those of ``plan-memory``.
    """

    io: Io = "arena"
    align: int = 16
    name = "memory-aware-scheduling"

    def run(self, module: Module) -> Module:
        """The module with its entries in order, and what these call in iterations; around iterations nothing moves.

        Raises:
            BuildError: an entry is not fully lowered, or a size has no bound.
        """
        nodes = (n for g in module.graphs.values() for n in g.body)
        bodies = {n.callee for n in nodes if isinstance(n, Call) and n.iterations != 1}
        for graph in module.graphs.values():
            if not has_repeats(graph) and (graph.entry or graph.name in bodies):
                module = module.with_graph(self._ordered(module, graph))
        return module

    def _ordered(self, module: Module, graph: Graph) -> Graph:
        states = {s.name: s.type for s in module.states.values()}
        io: Io = self.io if graph.entry else "arena"
        found = best_order(graph, module.loops, states, io, self.align)
        if found.graph is graph:
            return graph
        before, after = (arena_bytes(g, module.loops, states, io, self.align) for g in (graph, found.graph))
        return found.graph if after < before else graph
