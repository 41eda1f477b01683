"""Reads plans."""

from __future__ import annotations

from typing import Final, cast, get_args

from sdk.compiler.ir.plan import (
    Bind,
    Check,
    Copy,
    Plan,
    PlanBuffer,
    PlanCall,
    PlanStmt,
    Region,
    RegionKind,
    Repeat,
    Role,
    Split,
    Wait,
)
from sdk.compiler.ir.text.parse_types import (
    Reader,
    finish_var,
    one_of,
    read_dims_header,
    read_loop_var,
    read_type,
    read_var,
)
from sdk.compiler.ir.text.scope import Scope
from sdk.compiler.sym import Dim, Var

__all__ = ["read_plan"]

_ROLES: Final[frozenset[str]] = frozenset(get_args(Role))


def _buffer_name(r: Reader) -> str:
    return r.cursor.sigil("%", "a buffer, as %name")


def _names(r: Reader) -> tuple[str, ...]:
    r.cursor.expect("(")
    return r.cursor.many(lambda: _buffer_name(r), ")")


def read_plan(outer: Reader) -> Plan:
    """Reads a plan after the word ``plan``."""
    r = Reader(outer.cursor, Scope(), outer.ops)
    cursor = r.cursor
    name = cursor.sigil("@", "the name of the plan, as @name")
    dims = read_dims_header(r)
    inputs = _names(r)
    cursor.expect("->")
    outputs = _names(r)
    if cursor.accept("binds"):
        read_dims_header(r)
    bound = cursor.integer() if cursor.accept("lower_bound") else 0
    cursor.expect("{")
    places: list[tuple[Var, Dim]] = []
    while cursor.accept("place"):
        var = read_var(cursor)
        cursor.expect("=")
        places.append((var, r.dim()))
        r.scope.dims[var.name] = var
    regions: list[Region] = []
    while cursor.accept("region"):
        regions.append(_region(r))
    buffers: list[PlanBuffer] = []
    while cursor.text in _ROLES:
        buffers.append(_buffer(r))
    return Plan(name, dims, inputs, outputs, tuple(regions), tuple(buffers), _body(r), bound, tuple(places))


def _region(r: Reader) -> Region:
    cursor = r.cursor
    name = cursor.name("the name of a region")
    cursor.expect(":")
    kind = cast(RegionKind, one_of(cursor, RegionKind, "a kind of region"))
    cursor.expect("[")
    size = r.dim()
    cursor.expect("]")
    cursor.expect("align")
    return Region(name, kind, size, cursor.integer())


def _buffer(r: Reader) -> PlanBuffer:
    cursor = r.cursor
    role = cast(Role, cursor.advance())
    name = _buffer_name(r)
    cursor.expect(":")
    type_ = read_type(r)
    cursor.expect("at")
    region = cursor.name("the name of a region")
    cursor.expect("[")
    offset = r.dim()
    cursor.expect("]")
    ring = cursor.integer() if cursor.accept("ring") else None
    alias = _buffer_name(r) if cursor.accept("alias") else ""
    return PlanBuffer(name, type_, region, offset, role, ring, alias)


def _body(r: Reader) -> tuple[PlanStmt, ...]:
    body: list[PlanStmt] = []
    while not r.cursor.accept("}"):
        body.append(_stmt(r))
    return tuple(body)


def _stmt(r: Reader) -> PlanStmt:
    cursor = r.cursor
    if cursor.accept("call"):
        return _call(r)
    if cursor.accept("copy"):
        dst = _buffer_name(r)
        cursor.expect("=")
        return Copy(dst, _buffer_name(r))
    if cursor.accept("wait"):
        return Wait(cursor.integer())
    if cursor.accept("repeat"):
        return _repeat(r)
    if cursor.accept("bind"):
        return _bind(r)
    if cursor.accept("check"):
        left = r.dim()
        cursor.expect("==")
        return Check(left, r.dim(), _what(r))
    cursor.fail(f"expected call, copy, wait, repeat, bind or check, found {cursor.found()}")


def _bind(r: Reader) -> Bind:
    at = r.cursor.mark
    name = r.cursor.name("the name of a dim")
    if name not in r.scope.dims:
        hint = f"a plan declares it after its outputs: binds <{name} in LO..HI>"
        r.cursor.fail(f"the dim {name} is not declared", at, hint=hint)
    r.cursor.expect("=")
    value = _buffer_name(r) if r.cursor.text.startswith("%") else r.dim()
    return Bind(r.scope.dims[name], value, _what(r))


def _what(r: Reader) -> str:
    return r.cursor.string() if r.cursor.accept("from") else ""


def _repeat(r: Reader) -> Repeat:
    name, given, at = read_loop_var(r)
    r.cursor.expect("in")
    lo, hi = r.range()
    var = finish_var(r, name, given, hi, at)
    inner = Reader(r.cursor, r.scope.child(), r.ops)
    inner.scope.dims[name] = var
    carry = None
    if r.cursor.accept("carry"):
        into = _buffer_name(r)
        r.cursor.expect("=")
        carry = (into, _buffer_name(r))
    r.cursor.expect("{")
    return Repeat(var, lo, hi, _body(inner), carry)


def _call(r: Reader) -> PlanCall:
    cursor = r.cursor
    number = cursor.integer()
    extern = cursor.accept("extern")
    callee = cursor.string() if extern else cursor.sigil("@", "a loops function, as @name")
    args = _names(r)
    dims = r.index() if cursor.accept("dims") else ()
    rows = r.range() if cursor.accept("rows") else None
    split = _split(r) if cursor.accept("split") else None
    scratch = _buffer_name(r) if cursor.accept("scratch") else ""
    place = cursor.string() if cursor.accept("on") else ""
    ops: tuple[str, ...] = ()
    if cursor.accept("from"):
        cursor.expect("(")
        ops = cursor.many(cursor.string, ")")
    return PlanCall(number, callee, args, dims, rows, scratch, ops, place, extern, split)


def _split(r: Reader) -> Split:
    threads = r.cursor.integer()
    r.cursor.expect("by")
    granule = r.cursor.integer()
    r.cursor.expect("work")
    return Split(threads, granule, r.dim())
