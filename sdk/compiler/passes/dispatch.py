"""Partial lowering: what a library computes, given as small graphs, becomes calls of its symbols; the rest is compiled.

before: internal graph @lib_gate<n in 1..4096>(%x: f32[n]) { %a = sigmoid(%x); %b = mul(%x, %a); return %b }
        graph @main { %s = sigmoid(%h); %y = mul(%h, %s) }
after:  graph @main { %y = extern "lib_gate"(%h) {dims = ([m],)} }, where the shape of %h says that n is m
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sdk.compiler.analysis.unify import unify
from sdk.compiler.ir.graph import (
    Attr,
    Call,
    Graph,
    Node,
    Value,
    attrs,
    fresh_dims,
    map_attr,
    node_args,
)
from sdk.compiler.ir.module import Module
from sdk.compiler.sym import Dim, Expr, Var, prove_eq, substitute
from sdk.errors import BuildError

__all__ = ["Dispatch"]


@dataclass(frozen=True)
class Dispatch:
    """Puts a library call in the place of each group of ops that is one of the patterns, the first that fits.

    A pattern is an internal graph that nothing calls, named as the symbol; ``symbols`` (joined by ``+``) limits them.
    Its parameters stand for any value of their type, its dims for any dim within their bounds, its constants for
    constants of the same contents; op names and attributes must be equal. Nothing else may use what is computed in
    between. The symbol gets the arguments, the results and then the dims (``int32_t``), in the order of the pattern,
    which stays in the module as the meaning of the symbol.
    """

    symbols: str = ""
    name = "dispatch"

    def run(self, module: Module) -> Module:
        """The module with library calls; itself when nothing fits.

        Raises:
            BuildError: a pattern holds something else than ops, or ops that its first result does not need.
        """
        patterns = [_Pattern.of(g, module) for g in self._patterns(module)]
        names = {p.graph.name for p in patterns}
        if not patterns:
            return module
        graphs = {k: g if k in names else _rewrite(g, patterns, module) for k, g in module.graphs.items()}
        if all(graphs[k] is g for k, g in module.graphs.items()):
            return module
        return replace(module, graphs=graphs)

    def _patterns(self, module: Module) -> list[Graph]:
        called = {n.callee for g in module.graphs.values() for n in g.body if isinstance(n, Call) and n.kind == "graph"}
        found = [g for g in module.graphs.values() if not g.entry and g.name not in called]
        wanted = [s for s in self.symbols.split("+") if s]
        missing = [s for s in wanted if s not in {g.name for g in found}]
        if missing:
            raise BuildError(f"there is no pattern for the symbol {missing[0]}", hint="an internal graph of that name")
        return [g for g in found if not wanted or g.name in wanted]


@dataclass(frozen=True)
class _Pattern:
    graph: Graph
    makers: Mapping[str, Call]
    root: Call

    @classmethod
    def of(cls, graph: Graph, module: Module) -> _Pattern:
        where = f"pattern @{graph.name}"
        makers: dict[str, Call] = {}
        for node in graph.body:
            if not isinstance(node, Call) or node.kind != "op":
                raise BuildError("a pattern holds calls of ops alone", where=where)
            makers |= {v.name: node for v in node.outs}
        if not graph.results or any(r.const or r.name not in makers for r in graph.results):
            raise BuildError("the results of a pattern are computed in it", where=where)
        root = graph.body[-1]
        assert isinstance(root, Call)  # all are
        if len(set(map(id, _below(root, makers)))) != len(graph.body):
            raise BuildError("every op of a pattern leads to its last one", where=where)
        return cls(graph, makers, root)


def _below(node: Call, makers: Mapping[str, Call]) -> Iterator[Call]:
    yield node
    for arg in node.args:
        if not arg.const and arg.name in makers:
            yield from _below(makers[arg.name], makers)


@dataclass
class _Match:
    """A pattern tried on a body, whose nodes' positions ``makers`` gives by the values they define: what of the
    graph stands for the pattern's values, by name, and for its nodes."""

    pattern: _Pattern
    body: Sequence[Node | None]
    makers: Mapping[str, int]
    module: Module
    values: dict[str, Value] = field(default_factory=dict)
    nodes: dict[int, int] = field(default_factory=dict)  # id of the pattern's node -> position in the body

    def node(self, want: Call, at: int) -> bool:
        """Whether the node at ``at`` is ``want``, and what it uses is what that uses."""
        have = self.body[at]
        if id(want) in self.nodes:
            return self.nodes[id(want)] == at
        if not isinstance(have, Call) or have.kind != "op" or have.callee != want.callee or at in self.nodes.values():
            return False
        if len(have.args) != len(want.args) or len(have.outs) != len(want.outs):
            return False
        self.nodes[id(want)] = at
        for a, b in zip(want.outs, have.outs, strict=True):
            self.values[a.name] = b
        return all(map(self._value, want.args, have.args))

    def _value(self, want: Value, have: Value) -> bool:
        if want.const:
            if not have.const:
                return False
            a, b = self.module.consts.get(want.name), self.module.consts.get(have.name)
            if a is None or b is None:
                return False  # another one in each iteration
            return (a.type, a.layout, a.digest) == (b.type, b.layout, b.digest)
        if want.name in self.pattern.makers:
            if have.const or have.name not in self.makers:
                return False
            return self.node(self.pattern.makers[want.name], self.makers[have.name])
        return self.values.setdefault(want.name, have) == have

    def dims(self, graph: Graph) -> dict[Var, Dim] | None:
        """The values of the pattern's dims by which all of its types and attributes are those of the graph."""
        formal = self.pattern.graph
        if any(p.name not in self.values for p in formal.params):
            return None
        wrong: list[str] = []
        typed = [*formal.params, *(v for n in formal.body if isinstance(n, Call) for v in n.outs)]
        pairs = [(str(v), v.type, self.values[v.name].type) for v in typed]
        if any(want.quant is not None and want.quant != have.quant for _, want, have in pairs):
            return None
        scope = {v.name: v for v in (*graph.dims, *fresh_dims(graph))}
        dims = unify(formal.dims, pairs, scope, wrong.append)
        if wrong:
            return None
        nodes = [(want, self.body[self.nodes[id(want)]]) for want in formal.body]
        return dims if all(_alike(want, have, dims) for want, have in nodes) else None

    def closed(self, graph: Graph, at: int) -> bool:
        """Whether only results are used elsewhere in the graph, and only after ``at``, the place of the call."""
        mine = set(self.nodes.values())
        results = {self.values[r.name].name for r in self.pattern.graph.results}
        made = {v.name for k in mine for v in getattr(self.body[k], "outs", ())}
        if {v.name for v in graph.results} & (made - results):
            return False
        for k, node in enumerate(self.body):
            if node is None or k in mine:
                continue
            used = {a.name for a in node_args(node) if not a.const} & made
            if used - results or (used and k < at):
                return False
        return True


def _rewrite(graph: Graph, patterns: list[_Pattern], module: Module) -> Graph:
    body: list[Node | None] = list(graph.body)
    for at in reversed(range(len(body))):
        for pattern in patterns:
            call = _try(graph, body, at, pattern, module)
            if call is not None:
                new, removed = call
                for k in removed:
                    body[k] = None
                body[at] = new
                break
    done = tuple(n for n in body if n is not None)
    same = len(done) == len(graph.body) and all(a is b for a, b in zip(done, graph.body, strict=True))
    return graph if same else replace(graph, body=done)


def _try(
    graph: Graph, body: list[Node | None], at: int, pattern: _Pattern, module: Module
) -> tuple[Call, list[int]] | None:
    """The library call for the ops that end at ``at``, and where those stand; None where they do not fit."""
    makers = {v.name: k for k, n in enumerate(body) if isinstance(n, Call) for v in n.outs}
    found = _Match(pattern, body, makers, module)
    dims = found.dims(graph) if found.node(pattern.root, at) else None
    if dims is None or not found.closed(graph, at):
        return None
    root = body[at]
    assert isinstance(root, Call)  # it was matched
    given = tuple(dims[v] for v in pattern.graph.dims)
    args = tuple(found.values[p.name] for p in pattern.graph.params)
    outs = tuple(found.values[r.name] for r in pattern.graph.results)
    nodes = [body[k] for k in sorted(found.nodes.values())]
    source = "+".join(dict.fromkeys(n.source or n.callee for n in nodes if isinstance(n, Call)))
    call = Call(outs, "extern", pattern.graph.name, args, attrs(dims=given) if given else (), source, root.place)
    return call, list(found.nodes.values())


def _alike(want: Node, have: Node | None, dims: Mapping[Var, Dim]) -> bool:
    """Whether two calls have the same attributes, the dims of the pattern given."""
    if not isinstance(want, Call) or not isinstance(have, Call):
        return False
    a = {k: map_attr(v, lambda d: substitute(d, dims)) for k, v in want.attrs}
    b = dict(have.attrs)
    return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)


def _same(a: Attr, b: Attr) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, Expr) or isinstance(b, Expr):
        whole = isinstance(a, int | Expr) and isinstance(b, int | Expr)
        return whole and prove_eq(a, b) is True  # type: ignore[arg-type]  # both are dims here
    return type(a) is type(b) and a == b
