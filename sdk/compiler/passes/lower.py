"""Lowering: every op call becomes a call of a loops function that the op's declaration builds, and every write of rows
of a state names the loops function that does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sdk.compiler.ir.graph import Call, Node, WriteState, attrs, fresh_dims
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module, State
from sdk.compiler.ir.types import TensorType
from sdk.compiler.ops.apart import Make, loops_apart
from sdk.compiler.ops.registry import get_op
from sdk.compiler.ops.state_rows import write_rows
from sdk.compiler.sym import free_vars

__all__ = ["Lower"]


@dataclass(frozen=True)
class Lower:
    """Ops to loops, one call at a time; views, states and library calls stay as they are."""

    name = "lower"

    def run(self, module: Module) -> Module:
        """The module with a loops function per distinct (op, types, attributes)."""
        made: dict[object, Loops] = {}
        dims = _dims(module)
        taken = {*module.loops, *module.graphs}
        graphs = {}
        for graph in module.graphs.values():
            body = tuple(self._node(n, made, taken, module.states, dims) for n in graph.body)
            graphs[graph.name] = (
                graph if all(a is b for a, b in zip(body, graph.body, strict=True)) else replace(graph, body=body)
            )
        if not made:
            return replace(module, stage="scheduled") if module.stage != "scheduled" else module
        loops = {**module.loops, **{f.name: f for f in made.values()}}
        return replace(module, stage="scheduled", graphs=graphs, loops=loops)

    def _node(
        self, node: Node, made: dict[object, Loops], taken: set[str], states: Mapping[str, State], dims: frozenset[str]
    ) -> Node:
        if isinstance(node, WriteState) and node.at is not None and not node.kernel:
            state = states[node.state]
            types = _plain(node.value.type), _plain(state.type)
            key: object = ("write", types, node.at, state.layout, state.axis)
            if key not in made:
                make = _row_writer(_free("write_rows", taken), state)
                made[key] = loops_apart(make, types, (), attrs(at=node.at), dims)
            return replace(node, kernel=made[key].name)
        if not isinstance(node, Call) or node.kind != "op":
            return node
        op = get_op(node.callee)
        if op.loops is None:
            return node
        args = tuple(_plain(a.type) for a in node.args)
        outs = tuple(_plain(o.type) for o in node.outs)
        key = (node.callee, args, outs, node.attrs)
        if key not in made:
            made[key] = loops_apart(partial(op.loops, _free(node.callee, taken)), args, outs, node.attrs, dims)
        source = node.source or node.callee
        return replace(node, kind="loops", callee=made[key].name, attrs=(), source=source)


def _row_writer(name: str, state: State) -> Make:
    """Makes the function that writes rows of a state, with the place of the first as the attribute ``at``."""

    def make(types: Sequence[TensorType], _: Sequence[TensorType], given: Mapping[str, Any]) -> Loops:
        rows, whole = types
        return write_rows(name, rows, replace(state, type=whole), given["at"])

    return make


def _dims(module: Module) -> frozenset[str]:
    """The names of every dim of the module."""
    found = {v for g in module.graphs.values() for v in (*g.dims, *fresh_dims(g))}
    found |= {v for s in module.states.values() for d in s.type.shape for v in free_vars(d)}
    return frozenset(v.name for v in found)


def _free(stem: str, taken: set[str]) -> str:
    name, k = stem, 2
    while name in taken:
        name, k = f"{stem}_{k}", k + 1
    taken.add(name)
    return name


def _plain(type: TensorType) -> TensorType:
    """The type without what its integers mean: kernels only see the stored values."""
    return type if type.quant is None else replace(type, quant=None)
