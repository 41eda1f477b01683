"""Fusion of epilogues: an elementwise function that alone uses a result is computed where the result is made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sdk.compiler.ir.graph import Call, Graph, Node, Value, fresh_name, node_args
from sdk.compiler.ir.loops import Alloc, For, Load, Loops, Param, Store
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.pattern import classify, identity_of
from sdk.compiler.ir.walk import rename_buffers, rewrite, substitute_dims, walk
from sdk.compiler.sym import Dim, Var

__all__ = ["Fuse", "fuse_loops"]


@dataclass(frozen=True)
class Fuse:
    """Merges producer and elementwise consumer at the loops level, however the ops are called.

    The merged call stands where the consumer stood, so that everything the consumer reads is there.
    ``max_ops`` bounds how many ops one kernel may hold.
    """

    max_ops: int = 8
    name = "fuse"

    def run(self, module: Module) -> Module:
        """The module with every chain of epilogues merged into its producer."""
        loops = dict(module.loops)
        graphs = {g.name: self._graph(g, loops) for g in module.graphs.values()}
        if all(graphs[k] is g for k, g in module.graphs.items()):
            return module
        used = {n.callee for g in graphs.values() for n in g.body if isinstance(n, Call) and n.kind == "loops"}
        return replace(module, graphs=graphs, loops={k: f for k, f in loops.items() if k in used})

    def _graph(self, graph: Graph, loops: dict[str, Loops]) -> Graph:
        body: list[Node] = list(graph.body)
        kept = {v.name for v in graph.results}
        merged: dict[tuple[str, str, tuple[int, ...]], str] = {}
        at = 0
        while at < len(body):
            node = body[at]
            where = self._producer(body, at, kept, loops) if isinstance(node, Call) else None
            if where is None or not isinstance(node, Call):
                at += 1
                continue
            producer = body[where]
            assert isinstance(producer, Call)  # _producer only returns calls
            body[at] = self._merge(producer, node, loops, merged)
            del body[where]
            at -= 1
        return graph if len(body) == len(graph.body) else replace(graph, body=tuple(body))

    def _producer(self, body: list[Node], at: int, kept: set[str], loops: dict[str, Loops]) -> int | None:
        """The last defined argument of ``body[at]`` that may be computed there instead."""
        node = body[at]
        if not isinstance(node, Call) or node.kind != "loops" or identity_of(loops[node.callee]) is None:
            return None
        for where in reversed(range(at)):
            maker = body[where]
            if not isinstance(maker, Call) or maker.kind != "loops" or len(maker.outs) != 1:
                continue
            out = maker.out
            if not any(not a.const and a.name == out.name for a in node.args) or out.name in kept:
                continue
            users = [n for n in body if n is not node and _uses(n, out)]
            if users or not _fusable(loops[maker.callee], loops[node.callee], out, node):
                continue
            if len(_ops(maker)) + len(_ops(node)) <= self.max_ops:
                return where
        return None

    def _merge(
        self,
        maker: Call,
        node: Call,
        loops: dict[str, Loops],
        merged: dict[tuple[str, str, tuple[int, ...]], str],
    ) -> Call:
        places = tuple(k for k, a in enumerate(node.args) if not a.const and a.name == maker.out.name)
        key = (maker.callee, node.callee, places)
        if key not in merged:
            name = fresh_name(f"{maker.callee}_{node.callee.rstrip('0123456789').rstrip('_')}", set(loops))
            loops[name] = fuse_loops(name, loops[maker.callee], loops[node.callee], places)
            merged[key] = name
        args = (*maker.args, *(a for k, a in enumerate(node.args) if k not in places))
        return replace(node, callee=merged[key], args=args, source="+".join(dict.fromkeys((*_ops(maker), *_ops(node)))))


def _ops(call: Call) -> list[str]:
    return call.source.split("+")


def _uses(node: Node, value: Value) -> bool:
    return any(not a.const and a.name == value.name for a in node_args(node))


def _fusable(maker: Loops, user: Loops, out: Value, node: Call) -> bool:
    """One store makes each element of the result, and the user reads it at its own index."""
    if classify(maker).kind not in ("contraction", "window", "elementwise", "reduction"):
        return False
    outs = [p.buffer.name for p in maker.params if p.mode != "read"]
    stores = [n for n in walk(maker.body) if isinstance(n, Store) and n.buffer in outs]
    loads = [n for n in walk(maker.body) if isinstance(n, Load) and n.buffer in outs]
    if len(stores) != 1 or loads or node.out.type.shape != out.type.shape or len(node.outs) != 1:
        return False
    reads = [p.buffer.name for p in user.params if p.mode == "read"]
    target = next(n for n in walk(user.body) if isinstance(n, Store))
    mine = {reads[k] for k, a in enumerate(node.args) if not a.const and a.name == out.name}
    return all(
        _same_element(n.index, target.index, out)
        for n in walk(target.value)
        if isinstance(n, Load) and n.buffer in mine
    )


def _same_element(index: tuple[Dim, ...], target: tuple[Dim, ...], out: Value) -> bool:
    """Equal indices, where the only index of an axis of extent 1 may be written either way."""
    return len(index) == len(target) and all(
        a is b or a == b or size == 1 for a, b, size in zip(index, target, out.type.shape, strict=True)
    )


def fuse_loops(name: str, maker: Loops, user: Loops, places: tuple[int, ...]) -> Loops:
    """``user`` computed at the store of ``maker``; ``places`` are the user's arguments that are maker's result.

    rewrite: ``o[e] = v`` with ``for i { p[i] = f(o[i], q[i]) }`` --> ``p[e] = f(v, q[e])``
    """
    outs = [p for p in maker.params if p.mode != "read"]
    (out,) = outs
    taken = {p.buffer.name for p in maker.params} | {n.buffer.name for n in walk(maker.body) if isinstance(n, Alloc)}
    taken |= {n.var.name for n in walk(maker.body) if isinstance(n, For)}
    reads = [p for p in user.params if p.mode == "read"]
    inner = {p.buffer.name for k, p in enumerate(reads) if k in places}
    names = {p.buffer.name: fresh_name(p.buffer.name, taken) for k, p in enumerate(reads) if k not in places}
    (result,) = (p for p in user.params if p.mode != "read")
    names[result.buffer.name] = out.buffer.name
    extra = tuple(_renamed(p, names) for k, p in enumerate(reads) if k not in places)
    order = identity_of(user)
    assert order is not None  # checked by the caller: the user is elementwise
    (update,) = (n for n in walk(user.body) if isinstance(n, Store))

    def one(node: Any) -> Any:
        if not isinstance(node, Store) or node.buffer != out.buffer.name:
            return node
        env: dict[Var, Dim] = {v: d for v, d in zip(order, node.index, strict=True) if v is not None}
        value = substitute_dims(rename_buffers(update.value, names), env)
        made = rewrite(value, lambda n: node.value if isinstance(n, Load) and n.buffer in inner else n)
        return Store(out.buffer.name, node.index, made)

    body = rewrite(maker.body, one)
    params = (*(p for p in maker.params if p.mode == "read"), *extra, _renamed(result, names))
    return replace(maker, name=name, params=params, body=body, dims=tuple(dict.fromkeys((*maker.dims, *user.dims))))


def _renamed(p: Param, names: dict[str, str]) -> Param:
    return replace(p, buffer=replace(p.buffer, name=names[p.buffer.name]))
