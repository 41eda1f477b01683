"""Repeated calls one after the other, for what is recorded or listed call by call.

before: graph @main { %y = graph @layer(%x) iterations 2; return %y }; graph @layer { %b = @f(%a, @w); return %b }
after:  graph @main { %b_0 = @f(%x, @w_0); %b_1 = @f(%b_0, @w_1); return %b_1 }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sdk.budget import Budget
from sdk.compiler.ir.graph import Call, Graph, Node, ReadState, Value, WriteState, fresh_name, node_args
from sdk.compiler.ir.module import Module, State
from sdk.compiler.passes.inline import inlined
from sdk.compiler.passes.repeats import apart, has_repeats

__all__ = ["UnrollRepeats"]

Names = Mapping[tuple[str, int], str]  # of what is another constant or state in each iteration


@dataclass(frozen=True)
class UnrollRepeats:
    """Puts the body of a graph that is called repeatedly in the place of the call, once for each iteration, whose
    stacks and states become constants and states of their own."""

    name = "unroll-repeats"

    def run(self, module: Module) -> Module:
        """The module without iterations; itself where it has none.

        Raises:
            BuildError: a call does not fit its graph, or the nodes would be too many.
        """
        if not any(map(has_repeats, module.graphs.values())):
            return module
        taken = {c.name for c in module.constants} | {*module.states}
        counts = {s.name: s.iterations for s in module.stacks.values()}
        counts |= {s.name: s.iterations for s in module.states.values()}
        names = {
            (name, k): fresh_name(f"{name}_{k}", taken) for name, n in counts.items() if n > 1 for k in range(n)
        }
        consts = dict(module.consts)
        states: dict[str, State] = {}
        for stack in module.stacks.values():
            made = (replace(stack.of_iteration(k), name=names[stack.name, k]) for k in range(stack.iterations))
            consts |= {const.name: const for const in made}
        for state in module.states.values():
            own = [names[state.name, k] for k in range(state.iterations)] if state.iterations > 1 else [state.name]
            states |= {name: replace(state, name=name, iterations=1) for name in own}
        graphs = {name: _unrolled(module, g, names) for name, g in module.graphs.items() if g.entry}
        return replace(module, consts=consts, stacks={}, states=states, graphs=graphs)


def _unrolled(module: Module, graph: Graph, names: Names) -> Graph:
    taken = {v.name for v in graph.values()}
    body: list[Node] = []
    called: dict[str, Graph] = {}
    for node in graph.body:
        if not isinstance(node, Call) or node.iterations == 1:
            body.append(node)
            continue
        value = node.args[0]
        for k in range(node.iterations):
            name = f"{node.callee}_{k}"
            if name not in called:
                called[name] = _of_iteration(apart(module.graphs[node.callee], name), k, names)
            last = k + 1 == node.iterations
            out = node.out if last else Value(fresh_name(f"{name}_out", taken), node.out.type)
            body.append(replace(node, outs=(out,), callee=name, args=(value, *node.args[1:]), iterations=1))
            value = out
    return inlined(replace(graph, body=tuple(body)), called, Budget())


def _of_iteration(graph: Graph, iteration: int, names: Names) -> Graph:
    """The graph with the constants and states of one iteration."""

    def of(value: Value) -> Value:
        return replace(value, name=names.get((value.name, iteration), value.name)) if value.const else value

    def one(node: Node) -> Node:
        if not isinstance(node, Call):
            (own,) = map(of, node_args(node)) if node_args(node) else (None,)
            node = node if own is None or isinstance(node, ReadState) else replace(node, value=own)
        else:
            node = replace(node, args=tuple(map(of, node.args)))
        if isinstance(node, ReadState | WriteState):
            node = replace(node, state=names.get((node.state, iteration), node.state))
        return node

    return replace(graph, body=tuple(map(one, graph.body)), results=tuple(map(of, graph.results)))
