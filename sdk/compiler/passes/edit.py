"""Rebuilding a graph node by node: replaced values, new calls with inferred types, new constants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from sdk.compiler.ir.graph import (
    Attr,
    Call,
    Graph,
    Node,
    Value,
    attrs,
    fresh_name,
    map_args,
    node_args,
    node_outs,
)
from sdk.compiler.ir.module import Const, Module
from sdk.compiler.ir.types import Quant, TensorType
from sdk.compiler.ops.registry import infer

__all__ = ["GraphEdit", "edit_graphs", "shared_const"]

Array = NDArray[Any]


class GraphEdit:
    """The new body of a graph as it is built. ``maker`` gives the node that defines a value, as rewritten."""

    def __init__(self, module: Module, graph: Graph, consts: dict[str, Const]) -> None:
        self.consts = consts
        self.maker: dict[str, Node] = {}
        self.uses: Counter[str] = Counter(v.name for n in graph.body for v in node_args(n) if not v.const)
        self.results = {v.name for v in graph.results if not v.const}
        self.uses.update(self.results)
        self._module = module
        self._graph = graph
        self._env: dict[str, Value] = {}
        self._body: list[Node] = []
        self._names = {v.name for v in graph.values()}

    def run(self, rule: Callable[[GraphEdit, Node], bool]) -> Graph:
        """Offers each node to ``rule``, which says whether it has put something in its place."""
        for node in self._graph.body:
            current = map_args(node, self._env)
            if not rule(self, current):
                self.keep(current)
        body = tuple(self._body)
        results = tuple(v if v.const else self._env.get(v.name, v) for v in self._graph.results)
        same = len(body) == len(self._graph.body) and all(a is b for a, b in zip(body, self._graph.body, strict=True))
        return self._graph if same else replace(self._graph, body=body, results=results)

    def keep(self, node: Node) -> None:
        """Appends a node."""
        self._body.append(node)
        for value in node_outs(node):
            self.maker[value.name] = node

    def replace(self, old: Value, new: Value) -> None:
        """Uses of ``old`` from here on are of ``new``."""
        self._env[old.name] = new

    def made_by(self, value: Value, *ops: str) -> Call | None:
        """The call of one of ``ops`` (of any op without) that defines ``value``, if one does."""
        node = None if value.const else self.maker.get(value.name)
        if not isinstance(node, Call) or node.kind != "op" or (ops and node.callee not in ops):
            return None
        return node

    def data(self, value: Value) -> Array | None:
        """The elements of a constant in its plain layout; None for anything else."""
        const = self._const(value)
        return const.data if const is not None and not const.layout.steps else None

    def number(self, value: Value) -> float | None:
        """The contents of a constant of one element; None for anything else."""
        data = self.data(value)
        return float(data.reshape(-1)[0]) if data is not None and data.size == 1 else None

    def _const(self, value: Value) -> Const | None:
        if not value.const:
            return None
        return self.consts.get(value.name) or self._module.consts.get(value.name)

    def const(self, stem: str, data: Array, quant: Quant | None, like: TensorType) -> Value:
        """A constant of the element type of ``like``; one that exists already where it is the same."""
        return shared_const(self._module, self.consts, stem, data, TensorType(like.dtype, data.shape, quant))

    def fresh(self, stem: str) -> str:
        """A name no value has."""
        return fresh_name(stem, self._names)

    def call(self, op: str, args: Sequence[Value], like: Call, stem: str, **given: Attr) -> Value:
        """Appends a call of ``op`` that takes its source and place from ``like``; its result."""
        (type_,) = infer(op, [v.type for v in args], attrs(**given))
        out = Value(self.fresh(stem), type_)
        self.keep(Call((out,), "op", op, tuple(args), attrs(**given), like.source, like.place))
        return out

    def into(self, old: Call, op: str, args: Sequence[Value], **given: Attr) -> None:
        """Appends a call of ``op`` that defines the result of ``old`` in its place."""
        self.keep(replace(old, callee=op, args=tuple(args), attrs=attrs(**given)))


def edit_graphs(module: Module, rule: Callable[[GraphEdit, Node], bool]) -> Module:
    """The module with ``rule`` applied to every node; the same module when it replaced none."""
    consts: dict[str, Const] = {}
    graphs = {name: GraphEdit(module, g, consts).run(rule) for name, g in module.graphs.items()}
    if all(graphs[name] is g for name, g in module.graphs.items()):
        return module
    return replace(module, graphs=graphs).with_consts(*consts.values())


def shared_const(module: Module, made: dict[str, Const], stem: str, data: Array, type: TensorType) -> Value:
    """A constant of these contents: one of the module or of those ``made`` for it, else a new one, put into ``made``.

    Its name is ``stem``, with a number where another constant is called that.
    """
    new = Const(stem, type, data)
    name, k = stem, 2
    while (old := made.get(name) or module.constant(name)) is not None:
        if (old.type, old.layout, old.digest) == (type, new.layout, new.digest):
            return Value(name, type, const=True)
        name, k = f"{stem}_{k}", k + 1
    made[name] = new if name == stem else replace(new, name=name)
    return Value(name, type, const=True)
