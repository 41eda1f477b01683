"""Fusion: a function whose result one other function alone uses is computed there, in one kernel.

before: %a = @matmul(%x, @w); %b = @sigmoid(%a); %c = @mul(%a, %b)
after:  %c = @matmul_sigmoid_mul(%x, @w)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sdk.compiler.ir.graph import Call, Graph, Node, Value, WriteState, fresh_dims, fresh_name, node_args, node_outs
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.passes.fusion.merge import Pair, compute_at_read, compute_at_store
from sdk.compiler.passes.fusion.rows import compute_on_rows
from sdk.compiler.passes.fusion.specialise import share_arguments, specialise
from sdk.compiler.sym import Var

__all__ = ["Fuse"]

LONGEST = 40  # letters of the name of a kernel


@dataclass(frozen=True)
class Fuse:
    """Merges producer and consumer at the loops level, however the functions came to be: what may be merged is read
    off their index maps, when it is worth it is the rule in ``fusion/cost.py``.

    A consumer takes its producers one by one, those of the producers after, so that everything between a value and
    the one call in which all ways from it meet (its immediate post-dominator) becomes one kernel where it can. The
    merged call stands where the consumer stood: everything that it reads, and every dim, has its value there.
    ``max_ops`` bounds how many ops one kernel may hold. ``dequantize`` lets a product read a smaller type, converted
    and scaled on the way, in place of a dequantized copy.
    """

    max_ops: int = 16
    dequantize: bool = False
    name = "fuse"

    def run(self, module: Module) -> Module:
        """The module with every producer merged into its only consumer where that is worth it."""
        loops = dict(module.loops)
        graphs = {g.name: _Fuser(self, g, loops).run() for g in module.graphs.values()}
        if all(graphs[k] is g for k, g in module.graphs.items()):
            return module
        used = {n.callee for g in graphs.values() for n in g.body if isinstance(n, Call) and n.kind == "loops"}
        used |= {n.kernel for g in graphs.values() for n in g.body if isinstance(n, WriteState)}
        return replace(module, graphs=graphs, loops={k: f for k, f in loops.items() if k in used})


class _Fuser:
    """The nodes of a graph by number (None once merged), with the maker and the users of each value."""

    def __init__(self, options: Fuse, graph: Graph, loops: dict[str, Loops]) -> None:
        self.options, self.graph, self.loops = options, graph, loops
        self.nodes: list[Node | None] = list(graph.body)
        self.kept = {v.name for v in graph.results}
        self.scope: Mapping[str, Var] = {v.name: v for v in (*graph.dims, *fresh_dims(graph))}
        self.maker: dict[str, int] = {}
        self.users: dict[str, set[int]] = {}
        for at, node in enumerate(graph.body):
            self.maker |= dict.fromkeys((v.name for v in node_outs(node)), at)
            self.read(node, at)
        self.merged: dict[object, tuple[str, tuple[int, ...]] | None] = {}

    def read(self, node: Node, at: int) -> None:
        for arg in node_args(node):
            if not arg.const:
                self.users.setdefault(arg.name, set()).add(at)

    def run(self) -> Graph:
        changed = False
        for at in range(len(self.nodes)):
            while self.step(at):
                changed = True
        return replace(self.graph, body=tuple(n for n in self.nodes if n is not None)) if changed else self.graph

    def step(self, at: int) -> bool:
        """Merges one producer into the call at ``at``; whether there was one."""
        node = self.nodes[at]
        if not isinstance(node, Call) or node.kind != "loops" or len(node.outs) != 1:
            return False
        makers = {self.maker[a.name] for a in node.args if not a.const and a.name in self.maker}
        for where in sorted(makers, reverse=True):
            maker = self.nodes[where]
            if isinstance(maker, Call) and self.candidate(maker, node, at) and self.merge(maker, node, where, at):
                return True
        return False

    def candidate(self, maker: Call, node: Call, at: int) -> bool:
        """Whether ``node`` alone uses the result of ``maker``, and both may run in one place."""
        if maker.kind != "loops" or len(maker.outs) != 1 or maker.place != node.place:
            return False
        alone = self.users[maker.out.name] == {at} and maker.out.name not in self.kept
        return alone and len(_ops(maker)) + len(_ops(node)) <= self.options.max_ops

    def merge(self, maker: Call, node: Call, where: int, at: int) -> bool:
        places = tuple(k for k, a in enumerate(node.args) if not a.const and a.name == maker.out.name)
        args = (*maker.args, *(a for k, a in enumerate(node.args) if k not in places))
        first = {arg: k for k, arg in reversed(list(enumerate(args)))}
        key = (maker.callee, node.callee, places, tuple(first[a] for a in args), _dims(maker), _dims(node))
        if key not in self.merged:
            self.merged[key] = self.function(maker, node, places, args)
        found = self.merged[key]
        if found is None:
            return False
        name, left = found
        source = "+".join(dict.fromkeys((*_ops(maker), *_ops(node))))
        new = replace(node, callee=name, args=tuple(args[k] for k in left), source=source)
        for value in maker.args:
            self.users.get(value.name, set()).discard(where)
        self.nodes[where], self.nodes[at] = None, new
        self.read(new, at)
        return True

    def function(
        self, maker: Call, node: Call, places: tuple[int, ...], args: tuple[Value, ...]
    ) -> tuple[str, tuple[int, ...]] | None:
        """The name of the merged function and which of ``args`` it reads; None where nothing is to be merged."""
        one = specialise(self.loops[maker.callee], maker, self.scope)
        two = specialise(self.loops[node.callee], node, self.scope)
        if one is None or two is None:
            return None
        stem = f"{maker.callee}_{node.callee.rstrip('0123456789').rstrip('_')}"[:LONGEST].rstrip("_")
        pair = Pair(fresh_name(stem, set(self.loops)), one, two, places)
        if not pair.sound():
            return None
        made = compute_at_read(pair, self.options.dequantize) or compute_at_store(pair) or compute_on_rows(pair)
        if made is None:
            return None
        shared, left = share_arguments(made, args)
        self.loops[shared.name] = shared
        return shared.name, left


def _dims(call: Call) -> tuple[object, ...]:
    """The shapes of a call, which tell the dims of its function."""
    return tuple(v.type.shape for v in (*call.args, *call.outs))


def _ops(call: Call) -> list[str]:
    return call.source.split("+")
