"""Reads loops functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, cast

from sdk.compiler.ir.loops import (
    Alloc,
    Atomic,
    Barrier,
    Block,
    Buffer,
    Eval,
    For,
    ForKind,
    If,
    Let,
    Loops,
    Mode,
    Param,
    Rows,
    Space,
    Stmt,
    Store,
)
from sdk.compiler.ir.text.parse_expr import read_expr
from sdk.compiler.ir.text.parse_layout import read_layout
from sdk.compiler.ir.text.parse_types import (
    Reader,
    finish_var,
    one_of,
    read_dims_header,
    read_loop_var,
    read_type,
)
from sdk.compiler.ir.text.scope import Scope
from sdk.compiler.sym import Dim

__all__ = ["read_loops"]

BarrierScope = Literal["group", "device"]
_KINDS: Final = frozenset({"parallel", "vector", "unroll", "bind"})


def read_loops(outer: Reader) -> Loops:
    """Reads a loops function after the word ``loops``."""
    r = Reader(outer.cursor, Scope(), outer.ops)
    cursor = r.cursor
    name = cursor.sigil("@", "the name of the function, as @name")
    dims = read_dims_header(r)
    cursor.expect("(")
    params = cursor.many(lambda: _param(r), ")")
    rows = _rows(r) if cursor.accept("rows") else None
    instances = _instances(r) if cursor.accept("instances") else ()
    trace = cursor.string() if cursor.accept("trace") else ""
    cursor.expect("{")
    return Loops(name, dims, params, _block(r), rows, trace, instances)


def _instances(r: Reader) -> tuple[tuple[int, ...], ...]:
    """Lists of numbers with commas between."""
    cursor = r.cursor
    found: list[tuple[int, ...]] = []
    while not found or cursor.accept(","):
        cursor.expect("[")
        found.append(cursor.many(cursor.integer, "]"))
    return tuple(found)


def _param(r: Reader) -> Param:
    mode = cast(Mode, one_of(r.cursor, Mode, "a mode"))
    buffer = _buffer(r, "param")
    return Param(buffer, mode, read_layout(r.cursor))


def _buffer(r: Reader, usual: Space | None) -> Buffer:
    cursor = r.cursor
    at = cursor.mark
    name = cursor.sigil("%", "a buffer, as %name")
    cursor.expect(":")
    type_ = read_type(r)
    if type_.quant is not None:
        cursor.fail("a buffer has no quantisation", at)
    if usual is None or cursor.text == "in":
        cursor.expect("in")
        usual = cast(Space, one_of(cursor, Space, "a space"))
    ring = cursor.integer() if cursor.accept("ring") else None
    buffer = Buffer(name, type_.dtype, type_.shape, usual, ring)
    r.scope.buffers[name] = buffer
    return buffer


def _rows(r: Reader) -> Rows:
    lo_name, lo, lo_at = read_loop_var(r)
    r.cursor.expect(",")
    hi_name, hi, hi_at = read_loop_var(r)
    r.cursor.expect("of")
    extent = r.dim()
    first = finish_var(r, lo_name, lo, extent + 1, lo_at)
    rows = Rows(first, finish_var(r, hi_name, hi, extent + 1, hi_at), extent)
    r.scope.dims[lo_name] = rows.lo
    r.scope.dims[hi_name] = rows.hi
    return rows


def _inner(r: Reader) -> Reader:
    return Reader(r.cursor, r.scope.child(), r.ops)


def _block(r: Reader) -> Block:
    """Statements up to and with ``}``."""
    body: list[Stmt] = []
    while not r.cursor.accept("}"):
        body.append(_stmt(r))
    return Block(tuple(body))


def _stmt(r: Reader) -> Stmt:
    cursor = r.cursor
    if cursor.kind == "sigil":
        target, index = _target(r)
        count = r.first()
        cursor.expect("=")
        return Store(target, index, read_expr(r), count)
    read = _STATEMENTS.get(cursor.text)
    if read is None:
        cursor.fail(
            f"expected a statement, found {cursor.found()}",
            hint=f"a statement begins with %buffer[…] = or one of {', '.join(_STATEMENTS)}",
        )
    cursor.advance()
    return read(r)


def _target(r: Reader) -> tuple[str, tuple[Dim, ...]]:
    return r.cursor.sigil("%", "a buffer, as %name"), r.index()


def _for(r: Reader) -> For:
    cursor = r.cursor
    name, given, at = read_loop_var(r)
    cursor.expect("in")
    lo, hi = r.range()
    var = finish_var(r, name, given, hi, at)
    kind = cast(ForKind, cursor.advance()) if cursor.text in _KINDS else "serial"
    axis = cursor.string() if cursor.accept("axis") else ""
    inner = _inner(r)
    inner.scope.dims[name] = var
    until = read_expr(inner) if cursor.accept("until") else None
    cursor.expect("{")
    return For(var, lo, hi, _block(inner), kind, axis, until)


def _if(r: Reader) -> If:
    cond = read_expr(r)
    r.cursor.expect("{")
    then = _block(_inner(r))
    if not r.cursor.accept("else"):
        return If(cond, then)
    r.cursor.expect("{")
    return If(cond, then, _block(_inner(r)))


def _let(r: Reader) -> Let:
    name = r.cursor.sigil("$", "a scalar, as $name")
    r.cursor.expect("=")
    value = read_expr(r)
    r.scope.let(name, value.dtype)
    return Let(name, value)


def _eval(r: Reader) -> Eval:
    symbol = r.cursor.string()
    r.cursor.expect("(")
    return Eval(symbol, r.cursor.many(lambda: read_expr(r), ")"))


def _atomic(r: Reader) -> Atomic:
    op = r.cursor.name("an operation")
    target, index = _target(r)
    r.cursor.expect("=")
    return Atomic(op, target, index, read_expr(r))


def _barrier(r: Reader) -> Barrier:
    scope = cast(BarrierScope, one_of(r.cursor, BarrierScope, "a scope"))
    return Barrier(scope)


_STATEMENTS: Final[dict[str, Callable[[Reader], Stmt]]] = {
    "for": _for,
    "if": _if,
    "let": _let,
    "alloc": lambda r: Alloc(_buffer(r, None)),
    "eval": _eval,
    "barrier": _barrier,
    "atomic": _atomic,
    "{": lambda r: _block(_inner(r)),
}
