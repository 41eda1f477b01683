"""Repeated calls as nodes of their caller, for the planner: what is called stands there once, between two marks.

before: graph @main { %y = graph @layer(%x) iterations 8; return %y }; graph @layer { %b = @f(%a); return %b }
after:  graph @main { %a = mark %x; %b = @f(%a); %c = mark %b; %y = %c; return %y }, the nodes from 1 to 3 8 times
"""

from __future__ import annotations

from dataclasses import replace

from sdk.budget import Budget
from sdk.compiler.ir.graph import Call, Graph, MatchCast, Node, Value, fresh_name, map_args, map_outs, node_outs
from sdk.compiler.ir.module import Module
from sdk.compiler.memory.repeats import Repeated, carried
from sdk.compiler.passes.inline import inlined

__all__ = ["apart", "flattened", "has_repeats"]


def has_repeats(graph: Graph) -> bool:
    """Whether the graph calls another repeatedly."""
    return any(isinstance(n, Call) and n.iterations != 1 for n in graph.body)


def flattened(module: Module, graph: Graph) -> tuple[Graph, tuple[Repeated, ...]]:
    """The graph with the nodes of what it calls repeatedly, and which those are; itself where it does not. Their values
    are called the same whatever their order is.

    Raises:
        BuildError: a call does not fit its graph.
    """
    if not has_repeats(graph):
        return graph, ()
    taken = {v.name for v in graph.values()}
    body: list[Node] = []
    counts = []
    begins, ends = set[str](), set[str]()
    for node in graph.body:
        if not isinstance(node, Call) or node.iterations == 1:
            body.append(node)
            continue
        came, done, goes = (Value(fresh_name(node.callee, taken), node.out.type) for _ in range(3))
        once = replace(node, outs=(done,), args=(came, *node.args[1:]), iterations=1)
        body += [carried(came, node.args[0]), once, carried(goes, done), MatchCast(node.out, goes, node.source)]
        counts.append(node.iterations)
        begins.add(came.name)
        ends.add(goes.name)
    found = {n.callee for n in graph.body if isinstance(n, Call) and n.iterations != 1}
    called = {name: apart(module.graphs[name], name) for name in found}
    flat = inlined(replace(graph, body=tuple(body)), called, Budget())
    steps = [[k for k, n in enumerate(flat.body, 1) if any(v.name in s for v in node_outs(n))] for s in (begins, ends)]
    return flat, tuple(Repeated(n, a, b) for n, a, b in zip(counts, *steps, strict=True))


def apart(graph: Graph, name: str) -> Graph:
    """The graph with ``name`` before those of its values, which then are none of its caller's."""
    env = {v.name: replace(v, name=f"{name}_{v.name}") for v in graph.values()}
    body = tuple(map_outs(map_args(node, env), env) for node in graph.body)
    results = tuple(v if v.const else env[v.name] for v in graph.results)
    return replace(graph, params=tuple(env[p.name] for p in graph.params), body=body, results=results)
