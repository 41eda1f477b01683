"""Inlining: a call of a graph becomes the nodes of that graph, its dims those of the call.

before: graph @twice<m in 1..64>(%a: f32[m]) { %b = add(%a, %a); return %b }; graph @main { %y = graph @twice(%x) }
after:  graph @main { %b = add(%x, %x); return %b }, where m is what the shape of %x says
"""

from __future__ import annotations

import graphlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sdk.budget import NODES, Budget
from sdk.compiler.analysis.unify import unify
from sdk.compiler.ir.graph import (
    Attrs,
    BindDim,
    Call,
    Graph,
    MatchCast,
    Node,
    ReadState,
    Value,
    WriteState,
    fresh_dims,
    fresh_name,
    map_args,
    map_attr,
    node_outs,
)
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import TensorType
from sdk.compiler.ops.registry import infer
from sdk.compiler.sym import Dim, Var, free_vars, prove_eq, substitute
from sdk.errors import BuildError

__all__ = ["Inline", "inlined"]


@dataclass(frozen=True)
class Inline:
    """Puts the body of a graph in the place of each call of it without replicas and iterations; graphs that nothing
    calls any more go, but for entries. Dims that the called graph computes get names of their own at each call."""

    name = "inline"

    def run(self, module: Module) -> Module:
        """The module whose entries call no graph, but for replicated ones and iterations; itself when there is none.

        Raises:
            BuildError: a call does not fit its graph, a graph calls itself, or the nodes would be too many.
        """
        done: dict[str, Graph] = {}
        budget = Budget()
        for name in _callees_first(module):
            calls = [n for n in module.graphs[name].body if _inlinable(n)]
            done[name] = inlined(module.graphs[name], done, budget) if calls else module.graphs[name]
        if all(done[name] is g for name, g in module.graphs.items()):
            return module
        called = {n.callee for g in done.values() for n in g.body if isinstance(n, Call) and n.kind == "graph"}
        before = {n.callee for g in module.graphs.values() for n in g.body if isinstance(n, Call) and n.kind == "graph"}
        kept = {k: done[k] for k, g in module.graphs.items() if g.entry or k in called or k not in before}
        return replace(module, graphs=kept)


def inlined(graph: Graph, callees: Mapping[str, Graph], budget: Budget) -> Graph:
    """The graph with the nodes of those of ``callees`` that it calls without replicas and iterations, which call none.

    Raises:
        BuildError: a call does not fit its graph, or the nodes would be too many.
    """
    return _Inliner(graph, callees, budget).run()


def _callees_first(module: Module) -> tuple[str, ...]:
    """The graphs in an order in which each stands after those that it calls."""
    below = {
        name: [n.callee for n in graph.body if isinstance(n, Call) and _inlinable(n)]
        for name, graph in module.graphs.items()
    }
    try:
        return tuple(graphlib.TopologicalSorter(below).static_order())
    except graphlib.CycleError as error:
        raise BuildError(f"graph @{error.args[1][0]} calls itself: {' -> '.join(error.args[1])}") from None


def _inlinable(node: Node) -> bool:
    return isinstance(node, Call) and node.kind == "graph" and not node.replicas and node.iterations == 1


class _Inliner:
    def __init__(self, graph: Graph, callees: Mapping[str, Graph], budget: Budget) -> None:
        self.graph, self.callees, self.budget = graph, callees, budget
        self.values = {v.name for v in graph.values()}
        self.dims = {v.name: v for v in (*graph.dims, *fresh_dims(graph))}
        self.env: dict[str, Value] = {}
        self.named: dict[str, str] = {}  # what the call at hand calls the results of its graph
        self.body: list[Node] = []

    def run(self) -> Graph:
        for node in self.graph.body:
            if isinstance(node, Call) and _inlinable(node):
                self.call(node)
            else:
                self.body.append(map_args(node, self.env))
        results = tuple(v if v.const else self.env.get(v.name, v) for v in self.graph.results)
        return replace(self.graph, body=tuple(self.body), results=results)

    def call(self, call: Call) -> None:
        callee = self.callees[call.callee]
        self.budget.spend(NODES, len(callee.body), f"graph @{self.graph.name}, call of graph @{callee.name}")
        given = tuple(a if a.const else self.env.get(a.name, a) for a in call.args)
        dims = self._bind(callee, given)
        for result, out in zip(callee.results, call.outs, strict=True):
            pairs = list(zip(result.type.shape, out.type.shape, strict=True))
            dims |= {v: have for v in fresh_dims(callee) for want, have in pairs if want is v.expr}
        env: dict[str, Value] = {p.name: a for p, a in zip(callee.params, given, strict=True)}
        params = {p.name for p in callee.params}
        names = {r.name: o.name for r, o in zip(callee.results, call.outs, strict=True) if not r.const}
        self.named = {r: o for r, o in names.items() if r not in params}
        for node in callee.body:
            for var in fresh_dims(replace(callee, body=(node,))):
                if var not in dims:
                    dims[var] = self._fresh_dim(var).expr
            self.body.append(self._copy(node, dims, env, call))
        for out, result in zip(call.outs, callee.results, strict=True):
            found = result if result.const else env[result.name]
            if found.name != out.name and out in self.graph.results:
                # an argument handed back, or one result twice: outputs keep their names
                self.body.append(MatchCast(out, found, call.source))
            else:
                self.env[out.name] = found

    def _bind(self, callee: Graph, args: tuple[Value, ...]) -> dict[Var, Dim]:
        def refuse(text: str) -> None:
            raise BuildError(text, where=f"graph @{self.graph.name}, call of graph @{callee.name}")

        pairs = [(str(p), p.type, a.type) for p, a in zip(callee.params, args, strict=True)]
        return unify(callee.dims, pairs, self.dims, refuse)

    def _fresh_dim(self, var: Var) -> Var:
        name = fresh_name(var.name, set(self.dims))
        new = var if name == var.name else Var(name, var.lo, var.hi, var.multiple)
        self.dims[name] = new
        return new

    def _copy(self, node: Node, dims: Mapping[Var, Dim], env: dict[str, Value], call: Call) -> Node:
        """A node of the callee among those of the caller."""
        node = map_args(node, env)
        outs = tuple(self._value(v, dims) for v in node_outs(node))
        match node:
            case Call():
                given = tuple((k, map_attr(v, lambda d: substitute(d, dims))) for k, v in node.attrs)
                replicas = tuple(substitute(d, dims) for d in node.replicas)
                outs = _inferred(node, given, outs)
                place = node.place or call.place
                made: Node = replace(node, attrs=given, replicas=replicas, place=place, outs=outs)
            case BindDim():
                (new,) = free_vars(dims[node.var])
                made = replace(node, var=new)
            case WriteState():
                made = node if node.at is None else replace(node, at=substitute(node.at, dims))
            case ReadState() | MatchCast():
                made = replace(node, out=outs[0])
        env.update((old.name, new) for old, new in zip(node_outs(node), node_outs(made), strict=True))
        return made

    def _value(self, value: Value, dims: Mapping[Var, Dim]) -> Value:
        shape = tuple(substitute(d, dims) for d in value.type.shape)
        name = self.named.get(value.name) or fresh_name(value.name, self.values)
        return Value(name, replace(value.type, shape=shape))


def _inferred(node: Call, given: Attrs, outs: tuple[Value, ...]) -> tuple[Value, ...]:
    """``outs`` with their dims in the form in which the op infers them, where that is another form of the same."""
    if node.kind != "op":
        return outs
    found = infer(node.callee, [a.type for a in node.args], given)
    return tuple(replace(v, type=_same(v.type, t)) for v, t in zip(outs, found, strict=True))


def _same(stated: TensorType, found: TensorType) -> TensorType:
    pairs = zip(stated.shape, found.shape, strict=True)
    return replace(stated, shape=tuple(b if prove_eq(a, b) is True else a for a, b in pairs))
