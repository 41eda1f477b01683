"""Whether a size of a file is arithmetic on symbols, and not code: PyTorch evaluates it as Python."""

from __future__ import annotations

import ast
import re
from typing import Final

from sdk.errors import BuildError

__all__ = ["check_expression"]

_LONGEST: Final = 8192  # characters
_LARGEST: Final = 1 << 64
_EXPONENT: Final = 8
_SYMBOL: Final = re.compile(r"[a-z]{1,4}\d{1,9}")
_DECIMAL: Final = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d{1,3})?")
_CONSTANTS: Final = frozenset({"False", "Infinity", "NegativeInfinity", "True", "false", "int_oo", "oo", "true"})
_POWERS: Final = frozenset({"FloatPow", "Pow", "PowByNatural"})
_FUNCTIONS: Final = _POWERS | frozenset({
    "Abs", "Add", "And", "CeilDiv", "CeilToInt", "CleanDiv", "Eq", "Equality", "FloatTrueDiv", "Float", "FloorDiv",
    "FloorToInt", "Ge", "GreaterThan", "Gt", "Identity", "IntTrueDiv", "Integer", "Le", "LessThan", "Lt", "Max", "Min",
    "Mod", "ModularIndexing", "Mul", "Ne", "Not", "OpaqueUnaryFn_sqrt", "Or", "PythonMod", "Rational", "RoundDecimal",
    "RoundToInt", "StrictGreaterThan", "StrictLessThan", "Symbol", "ToFloat", "TruncToFloat", "TruncToInt",
    "Unequality", "Where", "ceiling", "floor", "sqrt",
})  # fmt: skip
_TEXTS: Final = {"Symbol": _SYMBOL, "Float": _DECIMAL}  # what is made of text, and of which
_OPERATORS: Final = (
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.USub, ast.UAdd, ast.Invert, ast.BitAnd,
    ast.BitOr, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE,
)  # fmt: skip


def check_expression(text: object) -> None:
    """Refuses what is no arithmetic on symbols such as ``s0``, small enough to be evaluated.

    Raises:
        BuildError: names it.
    """
    error = BuildError(f"the size {str(text)[:80]!r} is no arithmetic on sizes")
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise error
    try:
        allowed = _is_allowed(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        allowed = False
    if not allowed:
        raise error


def _is_allowed(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name):
            return name in _CONSTANTS or _SYMBOL.fullmatch(name) is not None
        case ast.Constant(value=value):
            return isinstance(value, (bool, int, float)) and abs(value) <= _LARGEST
        case ast.UnaryOp(op=op, operand=inner):
            return isinstance(op, _OPERATORS) and _is_allowed(inner)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _is_power(left, right)
        case ast.BinOp(left=left, op=op, right=right):
            return isinstance(op, _OPERATORS) and _is_allowed(left) and _is_allowed(right)
        case ast.Compare(left=left, ops=ops, comparators=others):
            return all(isinstance(op, _OPERATORS) for op in ops) and all(map(_is_allowed, (left, *others)))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=given):
            return name in _FUNCTIONS and _is_call(name, args, given)
    return False


def _is_call(name: str, args: list[ast.expr], given: list[ast.keyword]) -> bool:
    if name in _TEXTS:  # Symbol('s0', integer=True), Float('0.5', precision=53)
        (text,) = args
        facts = all(isinstance(k.value, ast.Constant) and isinstance(k.value.value, int) and k.value.value < 128
                    for k in given)  # fmt: skip
        whole = isinstance(text, ast.Constant) and isinstance(text.value, str)
        return facts and whole and _TEXTS[name].fullmatch(str(text.value)) is not None  # type: ignore[attr-defined]
    if given:
        return False
    return _is_power(*args) if name in _POWERS else all(map(_is_allowed, args))


def _is_power(base: ast.expr, exponent: ast.expr) -> bool:
    """A power whose exponent is a small number and whose base has none in it, so that no number grows without end."""
    inner = exponent.args[0] if isinstance(exponent, ast.Call) and len(exponent.args) == 1 else exponent
    if isinstance(inner, ast.UnaryOp) and isinstance(inner.op, ast.USub):
        inner = inner.operand
    small = isinstance(inner, ast.Constant) and isinstance(inner.value, (int, float)) and abs(inner.value) <= _EXPONENT
    nested = any(
        isinstance(n, ast.Pow) or (isinstance(n, ast.Name) and n.id in _POWERS) for n in ast.walk(base)
    )
    return small and not nested and _is_allowed(base) and _is_allowed(exponent)
