"""Lowering: every op call becomes a call of a loops function that the op's declaration builds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sdk.compiler.ir.graph import Call, Node
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import TensorType
from sdk.compiler.ops.registry import get_op

__all__ = ["Lower"]


@dataclass(frozen=True)
class Lower:
    """Ops to loops, one call at a time; views, states and library calls stay as they are."""

    name = "lower"

    def run(self, module: Module) -> Module:
        """The module with a loops function per distinct (op, types, attributes)."""
        made: dict[object, Loops] = {}
        taken = set(module.loops)
        graphs = {}
        for graph in module.graphs.values():
            body = tuple(self._node(n, made, taken) for n in graph.body)
            graphs[graph.name] = (
                graph if all(a is b for a, b in zip(body, graph.body, strict=True)) else replace(graph, body=body)
            )
        if not made:
            return replace(module, stage="scheduled") if module.stage != "scheduled" else module
        loops = {**module.loops, **{f.name: f for f in made.values()}}
        return replace(module, stage="scheduled", graphs=graphs, loops=loops)

    def _node(self, node: Node, made: dict[object, Loops], taken: set[str]) -> Node:
        if not isinstance(node, Call) or node.kind != "op":
            return node
        op = get_op(node.callee)
        if op.loops is None:
            return node
        types = tuple(_plain(a.type) for a in node.args)
        outs = tuple(_plain(o.type) for o in node.outs)
        key = (node.callee, types, outs, node.attrs)
        if key not in made:
            name, k = node.callee, 2
            while name in taken:
                name, k = f"{node.callee}_{k}", k + 1
            taken.add(name)
            made[key] = op.loops(name, types, outs, dict(node.attrs))
        source = node.source or node.callee
        return replace(node, kind="loops", callee=made[key].name, attrs=(), source=source)


def _plain(type: TensorType) -> TensorType:
    """The type without what its integers mean: kernels only see the stored values."""
    return type if type.quant is None else replace(type, quant=None)
