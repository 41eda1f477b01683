"""Graphs as text."""

from __future__ import annotations

from collections.abc import Iterable

from sdk.compiler.ir.graph import BindDim, Call, Graph, MatchCast, Node, ReadState, Value, WriteState
from sdk.compiler.ir.text.print_types import TypePrinter, dims_header, var_header
from sdk.compiler.ir.text.scope import Scope
from sdk.compiler.sym.tokens import bare_name, sigil_name, string

__all__ = ["OP_WORDS", "print_graph"]

# Words that begin another kind of node: an op of such a name is quoted.
OP_WORDS = frozenset({"extern", "graph", "match_cast", "read"})


def value_name(value: Value) -> str:
    """``%x`` or ``@w``."""
    return sigil_name("@" if value.const else "%", value.name)


def print_graph(graph: Graph, constants: Scope, types: TypePrinter) -> list[str]:
    """The lines of a graph; ``constants`` knows the types of the module's constants."""
    scope = Scope(values=dict(constants.values))
    header = f"graph {sigil_name('@', graph.name)}{dims_header(graph.dims, scope)}"
    params = ", ".join(f"{value_name(v)}: {types.type(v.type, scope)}" for v in graph.params)
    _declare(graph.params, scope)
    body = [f"  {_node(node, scope, types)}" for node in graph.body]
    results = ", ".join(_use(v, scope, types) for v in graph.results)
    kept = "" if graph.entry else "internal "
    return [f"{kept}{header}({params}) {{", *body, f"  return {results or '()'}", "}"]


def _declare(values: Iterable[Value], scope: Scope) -> None:
    for value in values:
        scope.values[str(value)] = value.type


def _use(value: Value, scope: Scope, types: TypePrinter) -> str:
    """A value where it is used: with its type only when that is not the one it was defined with."""
    name = value_name(value)
    return name if scope.values.get(str(value)) == value.type else f"{name}: {types.type(value.type, scope)}"


def _node(node: Node, scope: Scope, types: TypePrinter) -> str:
    source = f" from {string(node.source)}" if node.source else ""
    match node:
        case Call():
            return _call(node, scope, types) + source
        case WriteState():
            return _write(node, scope, types) + source
        case BindDim():
            scope.dims[node.var.name] = node.var
            return f"bind {var_header(node.var)} = {_use(node.value, scope, types)}{source}"
        case ReadState():
            right = f"read {sigil_name('@', node.state)}"
        case MatchCast():
            right = f"match_cast({_use(node.value, scope, types)})"
    text = f"{value_name(node.out)} = {right} : {types.defined([node.out.type], scope)}{source}"
    _declare([node.out], scope)
    return text


def _write(node: WriteState, scope: Scope, types: TypePrinter) -> str:
    at = "" if node.at is None else f"[{types.dim(node.at, scope)}]"
    kernel = f" via {sigil_name('@', node.kernel)}" if node.kernel else ""
    return f"write {sigil_name('@', node.state)}{at} = {_use(node.value, scope, types)}{kernel}"


def _call(node: Call, scope: Scope, types: TypePrinter) -> str:
    args = ", ".join([_use(v, scope, types) for v in node.args])
    outs = ", ".join([value_name(v) for v in node.outs]) or "()"
    match node.kind:
        case "op":
            callee = string(node.callee) if node.callee in OP_WORDS else bare_name(node.callee)
        case "loops":
            callee = sigil_name("@", node.callee)
        case "graph":
            callee = f"graph {sigil_name('@', node.callee)}"
        case "extern":
            callee = f"extern {string(node.callee)}"
    given = types.attrs(node.attrs, scope)  # before the types, which may declare dims
    text = f"{outs} = {callee}({args}){given} : {types.defined([v.type for v in node.outs], scope)}"
    _declare(node.outs, scope)
    if node.place:
        text += f" on {string(node.place)}"
    if node.replicas:
        text += f" replicas{types.index(node.replicas, scope)}"
    text += " edge all" if node.edge == "all" else ""
    return text + (f" iterations {node.iterations}" if node.iterations != 1 else "")
