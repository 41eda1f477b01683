"""Sizes as exporters write them into a model: names, and arithmetic on names such as ``2*n`` or ``(n + 1)//2``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Final

from sdk.compiler.sym import Dim, ceildiv, dmax, dmin, floordiv, mod
from sdk.frontends.names import identifier

__all__ = ["names_of", "read_size"]

LONGEST = 400  # characters of an expression
_OPERATIONS: Final[dict[type[ast.operator], Callable[[Dim, Dim], Dim]]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: floordiv,
    ast.Mod: mod,
}
_FUNCTIONS: Final[dict[str, Callable[[Dim, Dim], Dim]]] = {
    "floordiv": floordiv,
    "ceildiv": ceildiv,
    "mod": mod,
    "Mod": mod,
    "max": dmax,
    "Max": dmax,
    "min": dmin,
    "Min": dmin,
}


class _Other(Exception):
    """The text is no arithmetic that is known here."""


def names_of(text: str) -> tuple[str, ...] | None:
    """The names in an expression, in order; None for text that is none, which is a name as a whole."""
    try:
        found: dict[str, None] = {}
        _walk(_tree(text), found)
    except _Other:
        return None
    return tuple(found) or None


def read_size(text: str, scope: Mapping[str, Dim]) -> Dim:
    """The value of an expression that ``names_of`` gives names for, with these for them.

    Raises:
        SdkError: a division by something that may be 0 or negative.
    """
    return _value(_tree(text), scope)


def _tree(text: str) -> ast.expr:
    if len(text) > LONGEST:
        raise _Other
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _Other from None


def _walk(node: ast.expr, found: dict[str, None]) -> None:
    if isinstance(node, ast.Name) and node.id == identifier(node.id):
        found[node.id] = None
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        _walk(node.left, found)
        _walk(node.right, found)
    elif isinstance(node, ast.Call):
        known = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
        if not known or len(node.args) != 2 or node.keywords:
            raise _Other
        for argument in node.args:
            _walk(argument, found)
    elif not (isinstance(node, ast.Constant) and type(node.value) is int):
        raise _Other


def _value(node: ast.expr, scope: Mapping[str, Dim]) -> Dim:
    if isinstance(node, ast.Name):
        return scope[node.id]
    if isinstance(node, ast.BinOp):
        return _OPERATIONS[type(node.op)](_value(node.left, scope), _value(node.right, scope))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        first, second = (_value(a, scope) for a in node.args)
        return _FUNCTIONS[node.func.id](first, second)
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    raise _Other
