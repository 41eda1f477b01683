"""Channels that always hold one value, or that nothing reads, go: the results are the same to the bit."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sdk.compiler.ir.graph import Call, Graph, Node, Value
from sdk.compiler.ir.module import Const, Module
from sdk.compiler.passes.edit import Array, GraphEdit
from sdk.compiler.passes.pruning.classes import kept_channels
from sdk.compiler.passes.pruning.cut import cut_call
from sdk.compiler.passes.pruning.ranges import ranges
from sdk.compiler.passes.pruning.roles import role_of

__all__ = ["PruneChannels"]


@dataclass(frozen=True)
class PruneChannels:
    """Takes channels, the positions of last axes, out of everything between the sums that make and read them.

    A channel goes when all sums that read it multiply it with zeros, or when it is a constant that their biases can
    stand for. It is a constant where its weights are zeros, and wherever the bounds of the integers in it meet.
    Of those that could go some stay to make the number of channels a multiple of ``multiple``, the lanes of a vector
    or what is computed at once.
    """

    multiple: int = 1
    name = "prune-channels"

    def run(self, module: Module) -> Module:
        """The module without such channels; itself where there are none."""
        consts: dict[str, Const] = {}
        graphs = {name: _without(module, graph, consts, self.multiple) for name, graph in module.graphs.items()}
        if all(graphs[name] is g for name, g in module.graphs.items()):
            return module
        return replace(module, graphs=graphs).with_consts(*consts.values())


def _without(module: Module, graph: Graph, consts: dict[str, Const], multiple: int) -> Graph:
    """A graph without the channels it can do without."""

    def data(value: Value) -> Array | None:
        const = module.consts.get(value.name) if value.const else None
        return const.data if const is not None and not const.layout.steps else None

    roles = [role_of(node, data) for node in graph.body]
    if not any(role.sums is not None for role in roles):
        return graph
    bounds = ranges(graph, roles, data)
    keep = kept_channels(graph, roles, bounds, multiple)
    if all(flags.all() for flags in keep.values()):
        return graph
    of = {n.out.name: r for n, r in zip(graph.body, roles, strict=True) if isinstance(n, Call) and r.kind != "opaque"}

    def rule(edit: GraphEdit, node: Node) -> bool:
        role = of.get(node.out.name) if isinstance(node, Call) and len(node.outs) == 1 else None
        return role is not None and isinstance(node, Call) and cut_call(edit, node, role, keep, bounds)

    return GraphEdit(module, graph, consts).run(rule)
