"""Dims and variables as text, e.g. ``2*n + floordiv(n, 3) - 1`` and ``n in 1..256 multiple 8``.

A variable is its name, bounds and multiple together: where a name alone would not say which one is meant,
``var(n, 1..256 multiple 8)`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sdk.compiler.sym.contents import free_vars, substitute
from sdk.compiler.sym.dim import (
    Dim,
    Expr,
    Var,
    ceildiv,
    dmax,
    dmin,
    floordiv,
    mod,
    show,
)
from sdk.compiler.sym.tokens import Cursor, bare_name
from sdk.errors import SdkError
from sdk.source import Source

__all__ = ["DimPrinter", "parse_dim", "print_bounds", "print_dim", "read_bounds", "read_dim"]

Scope = Mapping[str, Var]
_FUNCS: Final[dict[str, Callable[[Dim, Dim], Dim]]] = {
    "ceildiv": ceildiv,
    "floordiv": floordiv,
    "max": dmax,
    "min": dmin,
    "mod": mod,
}


def print_bounds(var: Var) -> str:
    """``1..256 multiple 8``."""
    return f"{var.lo}..{var.hi}" + (f" multiple {var.multiple}" if var.multiple != 1 else "")


class DimPrinter:
    """Prints dims, each distinct one once."""

    def __init__(self) -> None:
        self._seen: dict[Expr, tuple[str, frozenset[Var]]] = {}

    def text(self, dim: Dim, scope: Scope) -> str:
        """``dim`` as text, variables of ``scope`` by name."""
        if isinstance(dim, int):
            return str(dim)
        found = self._seen.get(dim)
        if found is None:
            found = self._seen[dim] = (_show(dim, None, free_vars(dim)), free_vars(dim))
        text, names = found
        for var in names:
            if scope.get(var.name) is not var:
                return _show(dim, scope, names)
        return text


def _show(dim: Dim, scope: Scope | None, names: frozenset[Var]) -> str:
    """``show`` with the names that need it quoted, and variables that ``scope`` does not mean in full."""
    spelled: dict[Var, Dim] = {}
    for var in names:
        text = bare_name(var.name)
        if scope is not None and scope.get(var.name) is not var:
            text = f"var({text}, {print_bounds(var)})"
        if text != var.name:
            spelled[var] = Var(text, var.lo, var.hi, var.multiple).expr
    return show(substitute(dim, spelled))


def print_dim(dim: Dim, scope: Scope | None = None) -> str:
    """``dim`` as text; without a scope, every variable by its name alone."""
    return _show(dim, scope, free_vars(dim))


def parse_dim(text: str, scope: Scope) -> Dim:
    """Reads back what ``print_dim`` wrote.

    Raises:
        ParseError: not a dim, or a name that ``scope`` lacks.
    """
    cursor = Cursor(Source(text, "<dim>"))
    dim = read_dim(cursor, scope)
    if cursor.kind != "end":
        cursor.fail(f"expected the end of the dim, found {cursor.found()}")
    return dim


def read_bounds(cursor: Cursor, name: str, at: int) -> Var:
    """Reads ``1..256 multiple 8`` as the bounds of the variable ``name`` that stands at mark ``at``."""
    lo = cursor.integer()
    cursor.expect("..")
    hi = cursor.integer()
    multiple = cursor.integer() if cursor.accept("multiple") else 1
    try:
        return Var(name, lo, hi, multiple)
    except SdkError as error:
        cursor.fail(error.message, at, cursor.mark, error.hint)


def read_dim(cursor: Cursor, scope: Scope) -> Dim:
    """Reads a dim at the cursor."""
    value = _product(cursor, scope)
    while cursor.text in ("+", "-"):
        sign = 1 if cursor.advance() == "+" else -1
        value = value + _product(cursor, scope) * sign
    return value


def _product(cursor: Cursor, scope: Scope) -> Dim:
    at = cursor.mark
    value = _atom(cursor, scope)
    while cursor.accept("*"):
        factor = _atom(cursor, scope)
        try:
            value = value * factor
        except SdkError as error:
            cursor.fail(error.message, at, cursor.mark, error.hint)
    return value


def _atom(cursor: Cursor, scope: Scope) -> Dim:
    if cursor.kind == "int":
        return int(cursor.advance())
    if cursor.accept("-"):
        negative = True
        while cursor.accept("-"):
            negative = not negative
        return -_atom(cursor, scope) if negative else _atom(cursor, scope)
    if cursor.accept("("):
        value = read_dim(cursor, scope)
        cursor.expect(")")
        return value
    at = cursor.mark
    quoted = cursor.kind == "string"
    name = cursor.name("a dim")
    if not quoted and cursor.text == "(":
        return _call(cursor, scope, name, at)
    var = scope.get(name)
    if var is None:
        cursor.fail(f"unknown dim {name}", at, hint=_declared(scope))
    return var.expr


def _declared(scope: Scope) -> str:
    return f"dims declared here: {', '.join(sorted(scope)) or 'none'}"


def _call(cursor: Cursor, scope: Scope, name: str, at: int) -> Dim:
    cursor.expect("(")
    if name == "var":
        label_at = cursor.mark
        label = cursor.name("a dim")
        cursor.expect(",")
        var = read_bounds(cursor, label, label_at)
        cursor.expect(")")
        return var.expr
    if name not in _FUNCS:
        cursor.fail(f"unknown function {name} of dims", at, hint=f"one of {', '.join(sorted(_FUNCS))}")
    first = read_dim(cursor, scope)
    cursor.expect(",")
    second = read_dim(cursor, scope)
    cursor.expect(")")
    try:
        return _FUNCS[name](first, second)
    except SdkError as error:
        cursor.fail(error.message, at, cursor.mark)
