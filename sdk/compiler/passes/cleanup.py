"""Removal of what is computed twice or not used: nodes, constants, states and functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sdk.compiler.analysis.accumulate import accumulators
from sdk.compiler.ir.graph import (
    BindDim,
    Call,
    Graph,
    MatchCast,
    Node,
    ReadState,
    Value,
    WriteState,
    map_args,
    node_args,
    node_outs,
    node_symbols,
)
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Const, Module, Stack
from sdk.compiler.ir.plan import PlanCall, walk_plan
from sdk.compiler.sym import Var, free_vars

__all__ = ["Cleanup"]


@dataclass(frozen=True)
class Cleanup:
    """Common subexpressions, then dead code. Writes to states and library calls are effects and stay."""

    name = "cleanup"

    def run(self, module: Module) -> Module:
        """The module without what is not needed; itself when all is."""
        module = _share_consts(module)
        effects = _effects(module)
        for graph in module.graphs.values():
            module = module.with_graph(_dead(_common(graph, effects), effects, module))
        return _unused(module)


def _effects(module: Module) -> frozenset[str]:
    """Functions that do more than compute: that go on from what an argument holds, write a state or call a library,
    themselves or through the graphs they call."""
    found = {
        f.name
        for f in module.loops.values()
        if any(p.mode == "update" and p.buffer.name not in accumulators(f) for p in f.params)
    }
    while True:
        more = {g.name for g in module.graphs.values() if any(_is_effect(n, frozenset(found)) for n in g.body)}
        if more <= found:
            return frozenset(found)
        found |= more


def _is_effect(node: Node, effects: frozenset[str]) -> bool:
    match node:
        case WriteState():
            return True
        case Call(kind="extern"):
            return True
        case Call(kind="graph" | "loops"):
            return node.callee in effects
    return False


# --- common subexpressions ------------------------------------------------------------------------------------


def _common(graph: Graph, effects: frozenset[str]) -> Graph:
    """Computes each value once. What a graph returns keeps a value of its own."""
    kept = {v.name for v in graph.results}
    first: dict[object, tuple[Value, ...]] = {}
    env: dict[str, Value] = {}
    version = 0
    body: list[Node] = []
    for node in graph.body:
        node = map_args(node, env)
        outs = node_outs(node)
        if _is_effect(node, effects):
            version += 1
            body.append(node)
            continue
        key = _key(node, version)
        earlier = first.setdefault(key, outs)
        if earlier is outs or any(v.name in kept for v in outs):
            body.append(node)
        else:
            env.update((v.name, w) for v, w in zip(outs, earlier, strict=True))
    return graph if len(body) == len(graph.body) else replace(graph, body=tuple(body))


def _key(node: Node, version: int) -> object:
    """What two nodes share when they compute the same; reads of states only between the same effects."""
    types = tuple(v.type for v in node_outs(node))
    match node:
        case Call():
            reads = version if node.kind == "graph" else 0
            place = (node.place, node.replicas, node.edge, node.iterations, reads)
            return "call", node.kind, node.callee, node.args, _exact(node.attrs), types, place
        case ReadState():
            return "read", node.state, version, types
        case MatchCast():
            return "match_cast", node.value, types
        case WriteState() | BindDim():
            return node


def _exact(value: object) -> object:
    """A key that tells 1 from 1.0 and from True, which are equal."""
    return tuple(map(_exact, value)) if isinstance(value, tuple) else (type(value), value)


def _share_consts(module: Module) -> Module:
    """Constants that are equal but for their names become one."""
    first: dict[object, Const | Stack] = {}
    env: dict[str, str] = {}
    for const in module.constants:
        iterations = const.iterations if isinstance(const, Stack) else None
        same = first.setdefault((const.type, const.layout, iterations, const.digest), const)
        if same is not const:
            env[const.name] = same.name
    if not env or not module.graphs:
        return module
    for graph in module.graphs.values():
        body = tuple(_rename(n, env) for n in graph.body)
        if any(a is not b for a, b in zip(body, graph.body, strict=True)):
            module = module.with_graph(replace(graph, body=body))
    return module


def _rename(node: Node, env: dict[str, str]) -> Node:
    args = node_args(node)
    if not any(v.const and v.name in env for v in args):
        return node
    new = tuple(replace(v, name=env[v.name]) if v.const and v.name in env else v for v in args)
    match node:
        case Call():
            return replace(node, args=new)
        case WriteState() | MatchCast() | BindDim():
            return replace(node, value=new[0])
        case ReadState():
            return node


# --- dead code ------------------------------------------------------------------------------------------------


def _type_vars(values: Iterable[Value]) -> set[Var]:
    return {var for v in values for d in v.type.shape for var in free_vars(d)}


def _node_vars(node: Node, module: Module) -> set[Var]:
    """The dims a node needs: of its types and attributes, and those its callee takes from no shape."""
    found = _type_vars([*node_args(node), *node_outs(node)])
    found |= node_symbols(node)
    if isinstance(node, Call):
        callee = module.loops.get(node.callee) if node.kind == "loops" else module.graphs.get(node.callee)
        found |= set(callee.dims) if callee is not None and node.kind in ("loops", "graph") else set()
    return found


def _dead(graph: Graph, effects: frozenset[str], module: Module) -> Graph:
    """Drops nodes without effect whose values nothing uses, nor the dims that they bring."""
    known = set(graph.dims)
    brings: list[set[Var]] = []
    for node in graph.body:
        own = {node.var} if isinstance(node, BindDim) else _type_vars(node_outs(node))
        brings.append(own - known)
        known |= brings[-1]
    needed = {v.name for v in graph.results}
    dims = _type_vars(graph.results)
    body: list[Node] = []
    for node, own in zip(reversed(graph.body), reversed(brings), strict=True):
        used = any(v.name in needed for v in node_outs(node)) or bool(own & dims)
        if used or _is_effect(node, effects):
            args = node_args(node)
            needed |= {v.name for v in args if not v.const}
            dims |= _node_vars(node, module)
            body.append(node)
    return graph if len(body) == len(graph.body) else replace(graph, body=tuple(reversed(body)))


def _unused(module: Module) -> Module:
    """Drops functions that no entry reaches, then constants and states that nothing names."""
    graphs = _reached(module)
    calls = [n for g in graphs.values() for n in g.body if isinstance(n, Call)]
    steps = [s for p in module.plans.values() for s in walk_plan(p.body) if isinstance(s, PlanCall)]
    called = {c.callee for c in calls if c.kind == "loops"} | {s.callee for s in steps}
    called |= {n.kernel for g in graphs.values() for n in g.body if isinstance(n, WriteState)}
    whole = not graphs and not module.plans
    loops: dict[str, Loops] = {k: f for k, f in module.loops.items() if whole or k in called}
    nodes = [n for g in graphs.values() for n in g.body]
    named = {n.state for n in nodes if isinstance(n, ReadState | WriteState)}
    placed = {b.name for p in module.plans.values() for b in p.buffers}
    states = {k: s for k, s in module.states.items() if whole or k in named or k in placed}
    used = {v.name for n in nodes for v in node_args(n) if v.const} | placed
    used |= {v.name for g in graphs.values() for v in g.results if v.const}
    used |= {s.init for s in states.values() if isinstance(s.init, str)}
    consts = {k: c for k, c in module.consts.items() if whole or k in used}
    stacks = {k: s for k, s in module.stacks.items() if whole or k in used}
    after = replace(module, graphs=graphs, loops=loops, states=states, consts=consts, stacks=stacks)
    return module if _counts(after) == _counts(module) else after


def _counts(module: Module) -> tuple[int, ...]:
    return tuple(map(len, (module.graphs, module.loops, module.states, module.consts, module.stacks)))


def _reached(module: Module) -> dict[str, Graph]:
    todo = [g for g in module.graphs.values() if g.entry]
    found: set[str] = set()
    while todo:
        graph = todo.pop()
        if graph.name not in found:
            found.add(graph.name)
            callees = [n.callee for n in graph.body if isinstance(n, Call) and n.kind in ("graph", "extern")]
            todo += [module.graphs[c] for c in callees if c in module.graphs]  # of a symbol: what it computes
    return {k: g for k, g in module.graphs.items() if k in found}
