"""The graph level: functions of single-assignment calls on tensors, with state access as ordered effects."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from sdk.compiler.ir.types import TensorType
from sdk.compiler.sym import Dim, Expr, Var, evaluate, free_vars

__all__ = [
    "Attr",
    "Attrs",
    "BindDim",
    "Call",
    "CalleeKind",
    "Edge",
    "Graph",
    "MatchCast",
    "Node",
    "ReadState",
    "Value",
    "WriteState",
    "attr_symbols",
    "attr_values",
    "attrs",
    "fresh_dims",
    "map_attr",
    "node_symbols",
]

Attr = int | float | str | bool | Expr | tuple["Attr", ...]
Attrs = tuple[tuple[str, Attr], ...]
CalleeKind = Literal["op", "loops", "graph", "extern"]
Edge = Literal["one", "all"]


def map_attr(value: Attr, fn: Callable[[Expr], Dim]) -> Attr:
    """The attribute with ``fn`` applied to every symbolic dim in it."""
    if isinstance(value, Expr):
        return fn(value)
    return tuple(map_attr(v, fn) for v in value) if isinstance(value, tuple) else value


def attr_symbols(given: Attrs) -> set[Var]:
    """The symbols that attributes use."""
    found: set[Var] = set()

    def one(dim: Expr) -> Dim:
        found.update(free_vars(dim))
        return dim

    for _, value in given:
        map_attr(value, one)
    return found


def attr_values(given: Attrs, env: Mapping[Var, int]) -> dict[str, Attr]:
    """The attributes by name, symbolic dims as the numbers they have in ``env``."""
    return {name: map_attr(value, lambda dim: evaluate(dim, env)) for name, value in given}


def attrs(**items: Attr) -> Attrs:
    """Attributes in their canonical order (by name); every NaN is one object, or none would be equal to itself."""
    return tuple((name, _one_nan(items[name])) for name in sorted(items))


def _one_nan(value: Attr) -> Attr:
    if isinstance(value, tuple):
        return tuple(map(_one_nan, value))
    return math.nan if isinstance(value, float) and math.isnan(value) else value


@dataclass(frozen=True, slots=True)
class Value:
    """A named tensor: ``%x`` defined once in a graph, or ``@w`` a constant of the module."""

    name: str
    type: TensorType
    const: bool = False

    def __str__(self) -> str:
        return f"{'@' if self.const else '%'}{self.name}"


@dataclass(frozen=True, slots=True)
class Call:
    """``%out = callee(%args) {attrs}``: an op of the registry, a loops or graph function, or a library symbol.

    ``place`` names where it runs (a core or queue; "" = anywhere). ``replicas`` and ``edge`` say that a called
    graph is instantiated over extents, its edges one-to-one or all-to-all (HPVM, arXiv 1611.00860, section 2).
    A called graph of one result runs ``iterations`` times in a row: that result is the first argument of the next
    iteration. Stacks and states with iterations that its body names are another one in each.
    """

    outs: tuple[Value, ...]
    kind: CalleeKind
    callee: str
    args: tuple[Value, ...]
    attrs: Attrs = ()
    source: str = ""
    place: str = ""
    replicas: tuple[Dim, ...] = ()
    edge: Edge = "one"
    iterations: int = 1

    @property
    def out(self) -> Value:
        """The only result."""
        (value,) = self.outs
        return value

    def attr(self, name: str) -> Attr:
        """The attribute ``name``; KeyError when absent."""
        return dict(self.attrs)[name]


@dataclass(frozen=True, slots=True)
class ReadState:
    """``%out = read @state``: the state as it is here, in program order."""

    out: Value
    state: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class WriteState:
    """``write @state = %value``: replaces the state from here on.

    With ``at`` (``write @state[at] = %value``) only rows of it, on its axis: row ``at + k`` becomes row ``k`` of the
    value, which in a state of layout ring lies in slot ``(at + k) mod`` its extent; rows in order, so the last stay.
    ``kernel`` names the loops function that does it (``via @kernel``), of the value read and the state updated.
    """

    state: str
    value: Value
    source: str = ""
    at: Dim | None = None
    kernel: str = ""


@dataclass(frozen=True, slots=True)
class MatchCast:
    """``%out = match_cast(%value) : type``: what the model states it knows; checked at run time where unproved."""

    out: Value
    value: Value
    source: str = ""


@dataclass(frozen=True, slots=True)
class BindDim:
    """``bind k in 0..64 = %count``: from here on the dim ``k`` is the one integer that ``%count`` holds at run time.

    With ``MatchCast`` the only way in which a graph gets a dim that its parameters do not tell.
    """

    var: Var
    value: Value
    source: str = ""


Node = Call | ReadState | WriteState | MatchCast | BindDim


def node_outs(node: Node) -> tuple[Value, ...]:
    """Values the node defines."""
    match node:
        case Call():
            return node.outs
        case ReadState() | MatchCast():
            return (node.out,)
        case WriteState() | BindDim():
            return ()


def node_args(node: Node) -> tuple[Value, ...]:
    """Values the node uses."""
    match node:
        case Call():
            return node.args
        case WriteState() | MatchCast() | BindDim():
            return (node.value,)
        case ReadState():
            return ()


def node_symbols(node: Node) -> set[Var]:
    """The symbols that a node uses beside those of its values' types: in attributes and positions."""
    match node:
        case Call():
            return attr_symbols(node.attrs).union(*map(free_vars, node.replicas))
        case WriteState():
            return set() if node.at is None else set(free_vars(node.at))
        case ReadState() | MatchCast() | BindDim():
            return set()


def map_args(node: Node, env: Mapping[str, Value]) -> Node:
    """The node with each used ``%name`` of ``env`` replaced; the same object when none is."""
    args = node_args(node)
    new = tuple(a if a.const else env.get(a.name, a) for a in args)
    if all(a is b for a, b in zip(args, new, strict=True)):
        return node
    match node:
        case Call():
            return replace(node, args=new)
        case WriteState() | MatchCast() | BindDim():
            return replace(node, value=new[0])
        case ReadState():
            return node


def map_outs(node: Node, env: Mapping[str, Value]) -> Node:
    """The node with each value that it defines replaced by that of ``env``."""
    outs = tuple(env.get(v.name, v) for v in node_outs(node))
    match node:
        case Call():
            return replace(node, outs=outs)
        case ReadState() | MatchCast():
            return replace(node, out=outs[0])
        case WriteState() | BindDim():
            return node


@dataclass(frozen=True, slots=True)
class Graph:
    """A function of tensors: dims with bounds, parameters, nodes in program order, results."""

    name: str
    dims: tuple[Var, ...]
    params: tuple[Value, ...]
    body: tuple[Node, ...]
    results: tuple[Value, ...]
    entry: bool = True

    def values(self) -> Iterator[Value]:
        """Parameters and every value defined, in order."""
        yield from self.params
        for node in self.body:
            yield from node_outs(node)

    def users(self) -> dict[str, list[Node]]:
        """For each ``%name``, the nodes that use it (results are not nodes)."""
        out: dict[str, list[Node]] = {}
        for node in self.body:
            for arg in dict.fromkeys(node_args(node)):
                if not arg.const:
                    out.setdefault(arg.name, []).append(node)
        return out


def fresh_dims(graph: Graph) -> tuple[Var, ...]:
    """The dims that get their values in the body, in order."""
    known = dict.fromkeys(graph.dims)
    for node in graph.body:
        brought = {v for o in node_outs(node) for d in o.type.shape for v in free_vars(d)}
        found = (node.var,) if isinstance(node, BindDim) else sorted(brought, key=lambda v: v.name)
        known |= dict.fromkeys(found)
    return tuple(known)[len(graph.dims) :]


def fresh_name(stem: str, taken: set[str]) -> str:
    """``stem``, or ``stem_2`` … when taken; the result is added to ``taken``."""
    if stem not in taken:
        taken.add(stem)
        return stem
    used, free = 1, 2
    while f"{stem}_{free}" in taken:
        used, free = free, 2 * free
    while free - used > 1:  # numbers are given out in order: their end is found by halving, not by counting up to it
        middle = (used + free) // 2
        used, free = (middle, free) if f"{stem}_{middle}" in taken else (used, middle)
    name = f"{stem}_{free}"
    taken.add(name)
    return name
