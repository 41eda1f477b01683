"""Repeated calls as a planner sees them: the nodes of the called graph once, between a mark where the carried value
comes in and one where it goes on to the next iteration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sdk.compiler.ir.graph import Call, Value, fresh_dims, fresh_name
from sdk.compiler.ir.module import Module
from sdk.compiler.sym import Dim, Var, free_vars

__all__ = ["CARRY", "Repeated", "carried", "iteration_vars", "marks"]

CARRY: Final = "carry"  # what a mark is called: it copies, where the two are not in one place anyway


@dataclass(frozen=True)
class Repeated:
    """Nodes that run ``count`` times: those between the mark at step ``first`` and that at step ``last``."""

    count: int
    first: int
    last: int


def carried(out: Value, value: Value) -> Call:
    """The mark where ``out`` begins to be ``value``."""
    return Call((out,), "loops", CARRY, (value,))


def marks(iterations: tuple[Repeated, ...]) -> frozenset[int]:
    """The steps that are marks."""
    return frozenset(step for t in iterations for step in (t.first, t.last))


def iteration_vars(module: Module) -> Mapping[int, Var]:
    """The number of the iteration, by how many there are: the same in all entries, since states are."""
    graphs, states = module.graphs.values(), module.states.values()
    taken = {v.name for g in graphs for v in (*g.dims, *fresh_dims(g))}
    dims: list[Dim] = [d for s in states for d in s.type.shape]
    taken |= {v.name for d in dims for v in free_vars(d)}
    name = fresh_name("iteration", taken)
    counts = {n.iterations for g in graphs for n in g.body if isinstance(n, Call)} | {s.iterations for s in states}
    return {count: Var(name, 0, count - 1) for count in sorted(counts) if count > 1}
