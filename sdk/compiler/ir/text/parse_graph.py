"""Reads graphs, and checks the written types of ops against what the ops infer."""

from __future__ import annotations

from sdk.compiler.ir.graph import (
    Attrs,
    BindDim,
    Call,
    CalleeKind,
    Edge,
    Graph,
    MatchCast,
    Node,
    ReadState,
    Value,
    WriteState,
)
from sdk.compiler.ir.text.parse_types import (
    Reader,
    read_attrs,
    read_defined,
    read_dims_header,
    read_new_dim,
    read_type,
)
from sdk.compiler.ir.text.scope import Scope
from sdk.compiler.ir.types import TensorType
from sdk.compiler.sym.text import print_dim
from sdk.errors import SdkError

__all__ = ["read_graph", "type_text"]


def type_text(type: TensorType) -> str:
    """A type in an error message: without its quantisation, which ops do not infer."""
    return f"{type.dtype}[{', '.join(print_dim(d) for d in type.shape)}]"


def read_graph(outer: Reader, entry: bool) -> Graph:
    """Reads a graph after the word ``graph``."""
    r = Reader(outer.cursor, Scope(values=dict(outer.scope.values)), outer.ops)
    cursor = r.cursor
    name = cursor.sigil("@", "the name of the graph, as @name")
    dims = read_dims_header(r)
    cursor.expect("(")
    params = cursor.many(lambda: _param(r), ")")
    cursor.expect("{")
    body: list[Node] = []
    while not cursor.accept("return"):
        body.append(_node(r))
    results = _results(r)
    cursor.expect("}")
    return Graph(name, dims, params, tuple(body), results, entry)


def _param(r: Reader) -> Value:
    at = r.cursor.mark
    const = r.cursor.text.startswith("@")
    name = _value_name(r)
    r.cursor.expect(":")
    return _define(r, Value(name, read_type(r), const), at)


def _value_name(r: Reader) -> str:
    sigil = "@" if r.cursor.text.startswith("@") else "%"
    return r.cursor.sigil(sigil, "a value, as %name")


def _define(r: Reader, value: Value, at: int) -> Value:
    if not value.const and str(value) in r.scope.values:
        r.cursor.fail(f"{value} is defined twice", at)
    r.scope.values[str(value)] = value.type
    return value


def _use(r: Reader) -> Value:
    at = r.cursor.mark
    const = r.cursor.text.startswith("@")
    name = _value_name(r)
    if r.cursor.accept(":"):
        return Value(name, read_type(r), const)
    key = f"{'@' if const else '%'}{name}"
    type_ = r.scope.values.get(key)
    if type_ is None:
        r.cursor.fail(f"{key} is not defined", at, hint="values and constants are defined above their uses")
    return Value(name, type_, const)


def _results(r: Reader) -> tuple[Value, ...]:
    """Reads ``%a, %b``, or ``()`` for none."""
    cursor = r.cursor
    results: list[Value] = []
    if cursor.accept("("):
        cursor.expect(")")
    else:
        results.append(_use(r))
        while cursor.accept(","):
            results.append(_use(r))
    return tuple(results)


def _source(r: Reader) -> str:
    return r.cursor.string() if r.cursor.accept("from") else ""


def _node(r: Reader) -> Node:
    cursor = r.cursor
    if cursor.accept("write"):
        return _write(r)
    if cursor.accept("bind"):
        return _bind(r)
    at = cursor.mark
    names = _out_names(r)
    cursor.expect("=")
    if cursor.text == "read":
        cursor.advance()
        state = cursor.sigil("@", "a state, as @name")
        cursor.expect(":")
        out = _single(r, names, at)
        return ReadState(out, state, _source(r))
    if cursor.text == "match_cast":
        cursor.advance()
        cursor.expect("(")
        value = _use(r)
        cursor.expect(")")
        cursor.expect(":")
        out = _single(r, names, at)
        return MatchCast(out, value, _source(r))
    return _call(r, names, at)


def _write(r: Reader) -> WriteState:
    cursor = r.cursor
    state = cursor.sigil("@", "a state, as @name")
    at = None
    if cursor.accept("["):
        at = r.dim()
        cursor.expect("]")
    cursor.expect("=")
    value = _use(r)
    kernel = cursor.sigil("@", "a loops function, as @name") if cursor.accept("via") else ""
    return WriteState(state, value, _source(r), at, kernel)


def _bind(r: Reader) -> BindDim:
    var = read_new_dim(r)
    r.cursor.expect("=")
    return BindDim(var, _use(r), _source(r))


def _out_names(r: Reader) -> list[str]:
    cursor = r.cursor
    if cursor.accept("("):
        cursor.expect(")")
        return []
    names = [cursor.sigil("%", "a node, as %name = …, bind, write or return")]
    while cursor.accept(","):
        names.append(cursor.sigil("%", "a value, as %name"))
    return names


def _single(r: Reader, names: list[str], at: int) -> Value:
    return _outs(r, names, at, 1)[0]


def _outs(r: Reader, names: list[str], at: int, count: int | None = None) -> tuple[Value, ...]:
    types_at = r.cursor.mark
    types = read_defined(r)
    if len(types) != len(names):
        r.cursor.fail(f"{len(names)} values but {len(types)} types", types_at, r.cursor.mark)
    if count is not None and len(names) != count:
        r.cursor.fail(f"this node defines {count} value, not {len(names)}", at)
    values = [Value(n, t) for n, t in zip(names, types, strict=True)]
    # each name is followed by a comma or the equals sign
    return tuple(_define(r, v, at + 2 * k) for k, v in enumerate(values))


def _callee(r: Reader) -> tuple[CalleeKind, str]:
    cursor = r.cursor
    if cursor.text.startswith("@"):
        return "loops", cursor.sigil("@", "a function")
    if cursor.text == "graph":
        cursor.advance()
        return "graph", cursor.sigil("@", "the name of a graph, as @name")
    if cursor.text == "extern":
        cursor.advance()
        return "extern", cursor.string()
    return "op", cursor.name('an op, @function, graph @function or extern "symbol"')


def _call(r: Reader, names: list[str], at: int) -> Call:
    cursor = r.cursor
    callee_at = cursor.mark
    kind, callee = _callee(r)
    cursor.expect("(")
    args = cursor.many(lambda: _use(r), ")")
    given = read_attrs(r)
    cursor.expect(":")
    types_at = cursor.mark
    outs = _outs(r, names, at)
    if kind == "op" and r.ops is not None:
        _check(r, callee, args, given, outs, (callee_at, types_at))
    place = cursor.string() if cursor.accept("on") else ""
    replicas = r.index() if cursor.accept("replicas") else ()
    edge: Edge = "one"
    if cursor.accept("edge"):
        cursor.expect("all")
        edge = "all"
    iterations = cursor.integer() if cursor.accept("iterations") else 1
    return Call(outs, kind, callee, args, given, _source(r), place, replicas, edge, iterations)


def _check(
    r: Reader, op: str, args: tuple[Value, ...], given: Attrs, outs: tuple[Value, ...], marks: tuple[int, int]
) -> None:
    callee_at, types_at = marks
    assert r.ops is not None
    try:
        inferred = r.ops.infer(op, [v.type for v in args], given)
    except SdkError as error:
        r.cursor.fail(error.message, callee_at, hint=error.hint)
    except TypeError as error:
        r.cursor.fail(f"attributes of op {op}: {error}", callee_at)
    if [(t.dtype, t.shape) for t in inferred] != [(v.type.dtype, v.type.shape) for v in outs]:
        written, found = (", ".join(map(type_text, ts)) for ts in ([v.type for v in outs], inferred))
        r.cursor.fail(f"written {written} but {op} infers {found}", types_at, r.cursor.mark)
