"""A model as nodes and edges to be drawn: operators of the source model with what each makes, holds and costs."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

from sdk.amounts import Amount, amounts_json
from sdk.compiler.analysis.work import macs
from sdk.compiler.ir.graph import (
    Attr,
    Call,
    Graph,
    Node,
    ReadState,
    Value,
    WriteState,
    fresh_dims,
    node_args,
    node_outs,
)  # fmt: skip
from sdk.compiler.ir.module import Const, Module, Stack
from sdk.compiler.ir.types import TensorType
from sdk.compiler.memory.repeats import Repeated
from sdk.compiler.ops.apart import loops_apart
from sdk.compiler.ops.registry import get_op
from sdk.compiler.passes.repeats import flattened
from sdk.compiler.sym import Dim, free_vars, max_value
from sdk.driver.plots.families import GLUE, family_of
from sdk.driver.plots.words import dim_text

__all__ = ["Drawing", "DrawnGraph", "DrawnNode", "Tensor", "draw_module", "tensor_json"]

Bounds = tuple[int, int, int]
MAX_SHOWN = 8  # elements of an attribute


@dataclass(frozen=True)
class Tensor:
    """What a node makes: a name, an element type, extents, symbolic ones as text ("?": not known), and scale and zero
    point where integers stand for real numbers."""

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None
    quant: tuple[float, int] | None = None

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.dtype}[?]"
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]" if self.shape else self.dtype


@dataclass(frozen=True)
class DrawnNode:
    """An operator, an input or an output. ``kind`` and ``name`` are the source model's, ``ops`` the calls that it
    became, ``attributes`` what these were given; ``inputs`` come from other nodes, then constants. ``macs`` are at most
    over the dims, None where unknown; ``macs_text`` says how they follow from them, as ``cost`` does (0 where unknown).
    ``weights`` are bytes of constants. ``why``: the reason for which it is refused ("" = it is not), and ``hint`` what
    helps; ``checked``: whether anything was found out about it."""

    kind: str
    name: str
    family: str
    outputs: tuple[Tensor, ...]
    ops: tuple[str, ...] = ()
    macs: int | None = None
    macs_text: str = ""
    weights: int = 0
    states: tuple[str, ...] = ()
    why: str = ""
    hint: str = ""
    checked: bool = True
    cost: Dim = 0
    inputs: tuple[Tensor, ...] = ()
    attributes: tuple[str, ...] = ()

    @property
    def glue(self) -> bool:
        """Whether it only moves or relabels data: drawn small."""
        return self.family in GLUE and not self.why


@dataclass(frozen=True)
class DrawnGraph:
    """An entry: nodes in the order of the program, edges (from, to, tensor of the former). ``dims`` have bounds
    (lo, hi, what they are a multiple of), None where none were given; ``fresh`` ones get their values during a run.
    ``macs``, ``macs_text`` and ``cost`` are as of nodes."""

    entry: str
    nodes: tuple[DrawnNode, ...]
    edges: tuple[tuple[int, int, int], ...]
    dims: Mapping[str, Bounds | None]
    fresh: Mapping[str, Bounds]
    macs: int | None = None
    macs_text: str = ""
    cost: Dim = 0

    @property
    def sizes(self) -> list[str]:
        """All dims with their bounds, as text."""
        found = [f"{n} in {_bounds_text(b)}" if b else f"{n} without bounds" for n, b in self.dims.items()]
        return found + [f"{n} in {_bounds_text(b)}, found in a run" for n, b in self.fresh.items()]


@dataclass(frozen=True)
class Drawing:
    """All of a model. ``format`` names that of its file; ``states`` are kept from run to run; ``weights`` are bytes of
    all constants as imported, ``parameters`` the elements of those that the file holds; ``problem``, ``why`` and
    ``hint`` say why it cannot be compiled ("" = it can be imported)."""

    model: str
    graphs: tuple[DrawnGraph, ...]
    states: tuple[Tensor, ...] = ()
    state_bytes: int = 0
    weights: int = 0
    problem: str = ""
    why: str = ""
    hint: str = ""
    format: str = ""
    parameters: int = 0

    def to_json(self) -> dict[str, Any]:
        """The object of ``sdk inspect --json``."""
        return {
            "model": self.model,
            "format": self.format,
            "supported": not self.problem,
            "weights_bytes": self.weights,
            **amounts_json(Amount(self.weights), {g.entry: Amount(g.macs) for g in self.graphs}),
            "parameters": self.parameters,
            "state_bytes": self.state_bytes,
            "states": [tensor_json(s) for s in self.states],
            "entries": [_graph_json(g) for g in self.graphs],
        }


def _bounds_text(bounds: Bounds) -> str:
    lo, hi, multiple = bounds
    return f"{lo}..{hi}" + (f", a multiple of {multiple}" if multiple > 1 else "")


def tensor_json(tensor: Tensor) -> dict[str, Any]:
    """A tensor as an object of JSON."""
    shape = None if tensor.shape is None else list(tensor.shape)
    quant = None if tensor.quant is None else dict(zip(("scale", "zero_point"), tensor.quant, strict=True))
    return {"name": tensor.name, "dtype": tensor.dtype, "shape": shape, "quant": quant}


def _graph_json(graph: DrawnGraph) -> dict[str, Any]:
    nodes = []
    for k, n in enumerate(graph.nodes):
        inputs = [{"node": a, "output": which} for a, b, which in graph.edges if b == k]
        nodes.append({
            "index": k, "kind": n.kind, "name": n.name, "family": n.family, "ops": list(n.ops),
            "inputs": inputs, "outputs": [tensor_json(t) for t in n.outputs], "macs": n.macs,
            "macs_text": n.macs_text or None, "weights_bytes": n.weights, "states": list(n.states),
            "supported": False if n.why else True if n.checked else None, "why": n.why or None, "hint": n.hint or None,
        })  # fmt: skip
    return {
        "entry": graph.entry, "dims": {n: b and list(b) for n, b in graph.dims.items()},
        "fresh_dims": {n: list(b) for n, b in graph.fresh.items()},
        "macs": graph.macs, "macs_text": graph.macs_text or None, "nodes": nodes,
    }  # fmt: skip


def draw_module(module: Module, model: str, format: str = "", unbounded: Collection[str] = ()) -> Drawing:
    """The drawing of an imported module: each operator of the source model is one node, whatever it became.

    The bounds of the dims ``unbounded`` were made up for the import: nothing that follows from them is told.
    """
    entries = (g for g in module.graphs.values() if g.entry)
    graphs = tuple(_Reader(module, *flattened(module, g), unbounded).drawn() for g in entries)
    states = tuple(_tensor(s.name, s.type) for s in module.states.values())
    held = sum(s.iterations * (max_value(s.type.nbytes) or 0) for s in module.states.values())
    return Drawing(model, graphs, states, held, sum(c.nbytes for c in _used(module)), format=format)


def _used(module: Module) -> list[Const | Stack]:
    """The constants that a node, a result or a state takes: importers may leave others."""
    taken = {a.name for g in module.graphs.values() for n in g.body for a in node_args(n) if a.const}
    taken |= {v.name for g in module.graphs.values() for v in g.results if v.const}
    taken |= {s.init for s in module.states.values() if isinstance(s.init, str)}
    return [const for const in module.constants if const.name in taken]


def _tensor(name: str, type: TensorType) -> Tensor:
    quant = None if type.quant is None else (type.quant.scale, type.quant.zero_point)
    return Tensor(name, str(type.dtype), tuple(d if isinstance(d, int) else dim_text(d) for d in type.shape), quant)


class _Reader:
    """A graph as nodes. ``held`` are the constants behind values that nothing but constants make."""

    def __init__(
        self, module: Module, graph: Graph, iterations: Sequence[Repeated], unbounded: Collection[str]
    ) -> None:
        self.module, self.graph, self.unbounded = module, graph, unbounded
        self.iterations = {id(node): t.count for t in iterations for node in graph.body[t.first - 1 : t.last]}
        self.total: Dim = 0  # multiply-accumulates of all nodes
        self.nodes: list[DrawnNode] = []
        self.edges: dict[tuple[int, int, int], None] = {}
        self.maker: dict[str, tuple[int, int]] = {}  # value -> node, number among its outputs
        self.held: dict[str, frozenset[str]] = {}
        self.users: dict[str, set[int]] = {}  # value -> ids of the nodes that take it
        for n in graph.body:
            for a in node_args(n):
                self.users.setdefault(a.name, set()).add(id(n))
        self.counted: dict[Hashable, Dim] = {}  # multiply-accumulates of calls that are alike

    def drawn(self) -> DrawnGraph:
        for param in self.graph.params:
            self.maker[param.name] = len(self.nodes), 0
            self.nodes.append(DrawnNode("input", param.name, "input", (_tensor(param.name, param.type),)))
        wanted = {v.name for v in self.graph.results}
        for group in self._groups():
            self._add(group, wanted)
        for result in self.graph.results:
            self._link(result, len(self.nodes))
            self.nodes.append(DrawnNode("output", result.name, "output", (_tensor(result.name, result.type),)))
        dims = {v.name: None if v.name in self.unbounded else (v.lo, v.hi, v.multiple) for v in self.graph.dims}
        fresh = {v.name: (v.lo, v.hi, v.multiple) for v in fresh_dims(self.graph)}
        return DrawnGraph(
            self.graph.name, tuple(self.nodes), tuple(self.edges), dims, fresh, *self._counted(self.total), self.total
        )

    def _counted(self, macs: Dim) -> tuple[int | None, str]:
        """The most that a dim can be, None where nothing bounds it, and how it follows from others."""
        open = any(v.name in self.unbounded for v in free_vars(macs))
        return None if open else max_value(macs), "" if isinstance(macs, int) else dim_text(macs)

    def _groups(self) -> Iterator[list[Node]]:
        """Nodes of one source operator. Those that only constants go into are left out, and what they hold is noted; so
        are those that nothing comes of."""
        live = []
        for node in self._used():
            args = node_args(node)
            if isinstance(node, Call) and all(a.const or a.name in self.held for a in args):
                behind = frozenset[str]().union(*map(self._behind, args))
                self.held |= {out.name: behind for out in node.outs}
            else:
                live.append(node)
        for source, group in groupby(live, key=lambda n: n.source):
            nodes = list(group)
            yield from [nodes] if source else [[n] for n in nodes]

    def _used(self) -> list[Node]:
        """The nodes that a result or a state follows from."""
        wanted, used = {v.name for v in self.graph.results}, []
        for node in reversed(self.graph.body):
            outs = node_outs(node)
            if not outs or any(out.name in wanted for out in outs):
                wanted.update(a.name for a in node_args(node))
                used.append(node)
        return used[::-1]

    def _behind(self, value: Value) -> frozenset[str]:
        return frozenset({value.name}) if value.const else self.held.get(value.name, frozenset())

    def _add(self, group: Sequence[Node], wanted: set[str]) -> None:
        inside = {out.name for n in group for out in node_outs(n)}
        own = set(map(id, group))
        outs = [
            out for n in group for out in node_outs(n) if out.name in wanted or self.users.get(out.name, own) - own
        ]
        for n in group:
            for arg in node_args(n):
                if not arg.const and arg.name not in inside:
                    self._link(arg, len(self.nodes))
        for k, out in enumerate(outs):
            self.maker[out.name] = len(self.nodes), k
        self.nodes.append(self._node(group, outs))

    def _link(self, value: Value, to: int) -> None:
        if value.name in self.maker:
            node, which = self.maker[value.name]
            self.edges[node, to, which] = None

    def _macs(self, call: Call) -> Dim:
        """Multiply-accumulates of a call, counted where profiles count them: in the loops that it is lowered to."""
        op = get_op(call.callee) if call.kind == "op" else None
        if op is None or op.loops is None:
            return 0
        types, made = tuple(a.type for a in call.args), tuple(o.type for o in call.outs)
        key = call.callee, types, made, call.attrs
        if key not in self.counted:
            self.counted[key] = macs(loops_apart(partial(op.loops, call.callee), types, made, call.attrs))
        return self.counted[key]

    def _node(self, group: Sequence[Node], outs: Sequence[Value]) -> DrawnNode:
        calls = [n for n in group if isinstance(n, Call)]
        ops = tuple(c.callee for c in calls)
        kind, _, name = group[0].source.partition(" ")
        states = tuple(dict.fromkeys(n.state for n in group if isinstance(n, (ReadState, WriteState))))
        kind = kind or (ops[0] if ops else "write state" if isinstance(group[0], WriteState) else "state")
        name = name or (outs[0].name if outs else ", ".join(states))
        behind = frozenset[str]().union(*(self._behind(a) for n in group for a in node_args(n)))
        total: Dim = 0
        for call in calls:
            total = total + self._macs(call) * self.iterations.get(id(call), 1)
        self.total = self.total + total
        family = "state" if states and not calls else family_of(ops, kind)
        return DrawnNode(
            kind, name, family, tuple(_tensor(o.name, o.type) for o in outs), ops, *self._counted(total),
            sum(c.nbytes for c in self.module.constants if c.name in behind), states, cost=total,
            inputs=tuple(_tensor(v.name, v.type) for v in _taken(group)), attributes=tuple(_attributes(calls)),
        )  # fmt: skip


def _taken(group: Sequence[Node]) -> list[Value]:
    """What comes into a group of nodes from outside, constants last."""
    made = {out.name for n in group for out in node_outs(n)}
    values = {a.name: a for n in group for a in node_args(n) if a.name not in made}
    return sorted(values.values(), key=lambda v: v.const)


def _attributes(calls: Sequence[Call]) -> Iterator[str]:
    """``conv2d: strides 2, 2`` for each call that has any."""
    for call in calls:
        told = ", ".join(f"{name} {_attribute(value)}" for name, value in call.attrs)
        if told:
            yield f"{call.callee}: {told}"


def _attribute(value: Attr) -> str:
    if isinstance(value, tuple):
        shown = " ".join(map(_attribute, value[:MAX_SHOWN]))
        return f"[{shown} ...]" if value[MAX_SHOWN:] else f"[{shown}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
