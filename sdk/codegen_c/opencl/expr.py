"""Dims and values as OpenCL C: scalars as C operators, lanes as the language's own vectors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final

import numpy as np

from sdk.compiler.ir.loops import Idx, Imm, Load, Op, Ref, ValueExpr
from sdk.compiler.ir.types import BOOL, DType
from sdk.compiler.sym import Dim, Func, Var, prove_ge
from sdk.errors import BuildError

__all__ = ["Values", "c_name", "c_type", "dim_text"]

_SCALARS: Final = {
    "bool": "uchar", "i8": "char", "u8": "uchar", "i16": "short", "u16": "ushort", "i32": "int", "u32": "uint",
    "i64": "long", "u64": "ulong", "f32": "float", "f64": "double",
}  # fmt: skip
_INFIX: Final = {
    "add": "+", "sub": "-", "mul": "*", "tdiv": "/", "shl": "<<", "shr": ">>", "and": "&", "or": "|", "xor": "^",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip
# Functions of the language, for floats; accuracies are those of its specification (section 7.4).
_FUNCTIONS: Final = {
    "exp": "exp", "log": "log", "tanh": "tanh", "erf": "erf", "sqrt": "sqrt", "rsqrt": "rsqrt", "sin": "sin",
    "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh",
    "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "pow": "pow", "floor": "floor", "ceil": "ceil",
    "round": "rint", "trunc": "trunc", "fmod": "fmod",
}  # fmt: skip
_WORDS: Final = frozenset(
    (
        "auto", "break", "case", "char", "const", "constant", "continue", "default", "do", "double", "else", "enum",
        "float", "for", "global", "goto", "half", "if", "inline", "int", "kernel", "local", "long", "main", "private",
        "register", "restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef",
        "uchar", "uint", "ulong", "union", "unsigned", "ushort", "void", "volatile", "while",
    )
)  # fmt: skip


def c_name(text: str) -> str:
    """``text`` as an identifier of OpenCL C."""
    name = re.sub(r"[^0-9A-Za-z_]", "_", text)
    name = f"v{name}" if not name or name[0].isdigit() else name
    return f"{name}_" if name in _WORDS else name


def c_type(dtype: DType) -> str:
    """The type of a value: ``float``, ``int4``.

    Raises:
        BuildError: the language has no such type.
    """
    base = _SCALARS.get(str(dtype.scalar))
    if base is None or dtype.lanes not in (1, 2, 3, 4, 8, 16):
        raise BuildError(f"OpenCL C has no data type {dtype}")
    return base if dtype.lanes == 1 else f"{base}{dtype.lanes}"


def dim_text(dim: Dim, name: Callable[[Var], str]) -> str:
    """An index in ``int``.

    Raises:
        BuildError: a quotient whose sides may be negative.
    """
    if isinstance(dim, int):
        return str(dim)
    parts = []
    for factors, coefficient in dim.terms:
        texts = [_factor(f, name) for f, power in factors for _ in range(power)]
        parts.append(" * ".join([*texts, str(coefficient)] if coefficient != 1 else texts))
    if dim.const:
        parts.append(str(dim.const))
    return parts[0] if len(parts) == 1 and "*" not in parts[0] else f"({' + '.join(parts)})"


def _factor(factor: Var | Func, name: Callable[[Var], str]) -> str:
    if isinstance(factor, Var):
        return name(factor)
    a, b = dim_text(factor.a, name), dim_text(factor.b, name)
    if factor.name in ("min", "max"):
        return f"{factor.name}({a}, {b})"
    if prove_ge(factor.a, 0) is not True or prove_ge(factor.b, 1) is not True:
        raise BuildError(f"the quotient {factor.a} / {factor.b} may be negative, which OpenCL C would round up")
    return f"({a} / {b})"


class Values:
    """Prints values; ``load`` gives the text of a read, ``name`` that of a variable of an index."""

    def __init__(self, load: Callable[[Load], str], name: Callable[[Var], str]) -> None:
        self._load, self._name = load, name

    def text(self, expr: ValueExpr) -> str:
        """``expr`` as a primary expression.

        Raises:
            BuildError: an operation that is no operator or intrinsic of OpenCL C.
        """
        match expr:
            case Imm():
                return _literal(expr)
            case Idx():
                return dim_text(expr.dim, self._name)
            case Ref():
                return c_name(expr.name)
            case Load():
                return self._load(expr)
            case Op():
                return self._op(expr)

    def _op(self, expr: Op) -> str:
        args = [self.text(a) for a in expr.args]
        float_ = expr.args[0].dtype.is_float
        match expr.name:
            case "cast":
                return self._cast(expr, args[0])
            case "broadcast" if expr.args[0].dtype.lanes == 1:
                return f"({c_type(expr.dtype)})({args[0]})"
            case "select" if expr.args[0].dtype.lanes == 1:
                return f"({args[0]} ? {args[1]} : {args[2]})"
            case "select":
                mask = DType("i", expr.dtype.bits, expr.dtype.lanes)
                return f"select({args[2]}, {args[1]}, convert_{c_type(mask)}({args[0]}))"
            case "min" | "max":
                return f"{'f' if float_ else ''}{expr.name}({args[0]}, {args[1]})"
            case "neg":
                return f"(-{args[0]})"
            case "not":
                return f"(!{args[0]})"
            case "abs":
                return f"{'fabs' if float_ else 'abs'}({args[0]})"
            case "sigmoid":
                return f"(1.0f / (1.0f + exp(-{args[0]})))"
        if expr.name in _INFIX:
            text = f"({args[0]} {_INFIX[expr.name]} {args[1]})"
            narrow = expr.dtype.lanes == 1 and expr.dtype.bits < 32 and expr.dtype != BOOL
            return f"({c_type(expr.dtype)}){text}" if narrow else text
        if expr.name in _FUNCTIONS and float_:
            return f"{_FUNCTIONS[expr.name]}({', '.join(args)})"
        raise BuildError(f"{expr.name} on {expr.args[0].dtype} is no intrinsic of OpenCL C")

    def _cast(self, expr: Op, arg: str) -> str:
        if expr.dtype == BOOL:
            return f"({arg} != 0)"
        return f"convert_{c_type(expr.dtype)}({arg})"


def _literal(expr: Imm) -> str:
    if not expr.dtype.is_float:
        text = f"({c_type(expr.dtype.scalar)}){int(expr.value)}"
    elif math.isnan(expr.value):
        text = "NAN"
    elif math.isinf(expr.value):
        text = "INFINITY" if expr.value > 0 else "(-INFINITY)"
    else:
        text = f"{np.float32(expr.value)!s}f" if expr.dtype.bits == 32 else repr(float(expr.value))
        text = text if re.search(r"[.e]", text) else text.replace("f", ".0f") if "f" in text else f"{text}.0"
    if expr.dtype == DType("i", 32):
        text = f"({int(expr.value)})" if expr.value < 0 else str(int(expr.value))
    return text if expr.dtype.lanes == 1 else f"({c_type(expr.dtype)})({text})"
