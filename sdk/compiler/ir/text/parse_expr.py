"""Reads the value expressions of loops, by precedence."""

from __future__ import annotations

from typing import Final

from sdk.budget import TEXT_NESTING
from sdk.compiler.ir.intrinsics import INTRINSICS
from sdk.compiler.ir.loops import Idx, Imm, Load, Op, Ref, ValueExpr
from sdk.compiler.ir.text.parse_types import Reader, read_dtype, read_number
from sdk.compiler.ir.text.print_loops import INFIX
from sdk.compiler.ir.text.scope import implied_dtype, is_word
from sdk.compiler.ir.types import F32, I32, DType, dtype

__all__ = ["read_expr"]

_SIGNS: Final = {sign: (name, strength) for name, (sign, strength) in INFIX.items()}


def read_expr(r: Reader, strength: int = 0) -> ValueExpr:
    """Reads an expression whose operations bind at least as strongly as ``strength``."""
    cursor = r.cursor
    left = _primary(r)
    for _ in range(TEXT_NESTING.maximum):  # each operation stands around those before it
        found = _SIGNS.get(cursor.text)
        if found is None or found[1] < strength:
            return left
        name, own = found
        cursor.advance()
        left = _op(r, name, (left, read_expr(r, own + 1)), None, cursor.mark)
    cursor.too_deep()


def _suffix(r: Reader) -> DType | None:
    """Reads ``:i8`` if it is here."""
    return read_dtype(r.cursor) if r.cursor.accept(":") else None


def _op(r: Reader, name: str, args: tuple[ValueExpr, ...], given: DType | None, at: int) -> Op:
    result = given or implied_dtype(name, args)
    if result is None:
        known = name in INTRINSICS
        message = f"the result of {name} needs its type" if known else f"unknown operation {name}"
        hint = f"write {name}(…):i32" if known else f"one of {', '.join(INTRINSICS)}"
        r.cursor.fail(message, at, hint=hint)
    return Op(name, args, result)


def _primary(r: Reader) -> ValueExpr:
    cursor = r.cursor
    kind = cursor.kind
    if kind == "sigil":
        return _load(r) if cursor.text[0] == "%" else _ref(r)
    if kind == "name" and cursor.text not in ("inf", "nan"):
        return _named(r)
    if kind == "string":
        return _quoted(r)
    if cursor.accept("("):
        value = read_expr(r)
        cursor.expect(")")
        return value
    if kind not in ("int", "float", "name") and cursor.text != "-":
        cursor.fail(f"expected a value, found {cursor.found()}")
    number = read_number(cursor)
    return Imm(number, _suffix(r) or (F32 if isinstance(number, float) else I32))


def _load(r: Reader) -> Load:
    at = r.cursor.mark
    name = r.cursor.sigil("%", "a buffer, as %name")
    index = r.index()
    count = r.first()
    given = _suffix(r)
    if given is None:
        buffer = r.scope.buffers.get(name)
        if buffer is None:
            r.cursor.fail(f"buffer %{name} is not declared", at)
        given = buffer.dtype
    return Load(name, index, given, count)


def _ref(r: Reader) -> Ref:
    at = r.cursor.mark
    name = r.cursor.sigil("$", "a scalar, as $name")
    given = _suffix(r) or r.scope.lets.get(name)
    if given is None:
        r.cursor.fail(f"scalar ${name} is not bound", at)
    return Ref(name, given)


def _args(r: Reader) -> tuple[ValueExpr, ...]:
    r.cursor.expect("(")
    return r.cursor.many(lambda: read_expr(r), ")")


def _named(r: Reader) -> ValueExpr:
    cursor = r.cursor
    at, name = cursor.mark, cursor.text
    if cursor.peek() != "(":
        return _variable(r)
    cursor.advance()
    if name == "idx":
        cursor.expect("(")
        dim = r.dim()
        cursor.expect(")")
        return Idx(dim, _suffix(r) or I32)
    args = _args(r)
    if is_word(name):
        if len(args) != 1:
            cursor.fail(f"conversion to {name} takes one value", at, cursor.mark)
        return Op("cast", args, dtype(name))
    return _op(r, name, args, _suffix(r), at)


def _quoted(r: Reader) -> ValueExpr:
    if r.cursor.peek() != "(":
        return _variable(r)
    at = r.cursor.mark
    name = r.cursor.string()
    args = _args(r)
    return _op(r, name, args, _suffix(r), at)


def _variable(r: Reader) -> Idx:
    at = r.cursor.mark
    name = r.cursor.name()
    var = r.scope.dims.get(name)
    if var is None:
        r.cursor.fail(f"unknown name {name}", at, hint="scalars are written $name, buffers %name[…]")
    return Idx(var.expr, _suffix(r) or I32)
