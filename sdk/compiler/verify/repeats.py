"""What must hold of graphs that are called repeatedly, and of what is another constant or state in each."""

from __future__ import annotations

from collections.abc import Iterator

from sdk.compiler.ir.graph import Call, Graph, ReadState, WriteState, fresh_dims, node_args
from sdk.compiler.ir.module import Module

__all__ = ["verify_repeats"]


def verify_repeats(graph: Graph, called: set[int], module: Module) -> Iterator[tuple[str, str]]:
    """Findings of a graph that is called so many times in a row, as (place, message).

    Each iteration has stacks and states of its own: what the graph names are as many as it has iterations. It finds out
    no dims, calls no graph, and results are not handed on from anywhere but its own values.
    """
    where = f"graph @{graph.name}"
    if len(called) > 1:
        yield where, f"is called in {' and in '.join(map(str, sorted(called)))} iterations"
        return
    iterations = min(called, default=1)
    if iterations < 1:
        yield where, f"is called in {iterations} iterations"
    values = (*(v for n in graph.body for v in node_args(n)), *graph.results)
    stacks = {v.name: module.stacks[v.name].iterations for v in values if v.const and v.name in module.stacks}
    nodes = (n for n in graph.body if isinstance(n, ReadState | WriteState))
    states = {n.state: module.states[n.state].iterations for n in nodes if n.state in module.states}
    for name, count in {**stacks, **states}.items():
        if count != iterations:
            yield where, f"runs in {iterations} iterations, @{name} has {count}"
    if iterations == 1:
        return
    if fresh_dims(graph):
        yield where, f"a graph that is called repeatedly finds out {fresh_dims(graph)[0].name}"
    if any(isinstance(n, Call) and n.kind in ("graph", "extern") for n in graph.body):
        yield where, "a graph that is called repeatedly calls a graph or a library"
