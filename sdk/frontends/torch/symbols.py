"""Sizes of an exported program: expressions of sympy over its symbols become dims."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, F64, I64
from sdk.compiler.sym import Dim, ceildiv, dmax, dmin, floordiv, mod
from sdk.errors import BuildError
from sdk.frontends.emit import Emitter

__all__ = ["SizeError", "free_symbols", "is_symbolic", "real_of", "size_of"]

_FUNCTIONS: Final[Mapping[str, Callable[..., Dim]]] = {
    "Add": lambda *given: reduce(operator.add, given),
    "CeilDiv": ceildiv,
    "CleanDiv": floordiv,
    "FloorDiv": floordiv,
    "Max": lambda *given: reduce(dmax, given),
    "Min": lambda *given: reduce(dmin, given),
    "Mod": mod,
    "Mul": lambda *given: reduce(operator.mul, given),
    "PythonMod": mod,
}
_ROUNDED: Final[Mapping[str, Callable[[Dim, Dim], Dim]]] = {"CeilToInt": ceildiv, "FloorToInt": floordiv}

_REAL: Final[Mapping[str, str]] = {
    "Add": "add", "FloatPow": "pow", "FloatTrueDiv": "div", "IntTrueDiv": "div", "Mul": "mul", "Pow": "pow",
}  # fmt: skip
_ROOTS: Final = frozenset({"OpaqueUnaryFn_sqrt", "sqrt"})


class SizeError(BuildError):
    """A size that is no arithmetic on the sizes of inputs."""


def is_symbolic(value: object) -> bool:
    """Whether a value of torch is a number made of sizes (``SymInt``, ``SymFloat``, ``SymBool``)."""
    return type(value).__name__ in ("SymInt", "SymFloat", "SymBool")


def free_symbols(value: object) -> tuple[str, ...]:
    """The names of the symbols that a size of torch is made of."""
    return tuple(sorted(str(s) for s in value.node.expr.free_symbols)) if is_symbolic(value) else ()  # type: ignore[attr-defined]


def size_of(value: Any, scope: Mapping[str, Dim]) -> Dim:
    """A size of torch, an integer or a ``SymInt``, as a dim; ``scope`` has the meaning of its symbols.

    Raises:
        SizeError: it follows from data, or is no arithmetic that dims have.
    """
    return int(value) if not is_symbolic(value) else _dim(value.node.expr, scope)


def _dim(expr: Any, scope: Mapping[str, Dim]) -> Dim:
    if getattr(expr, "is_Integer", False):
        return int(expr)
    if getattr(expr, "is_Symbol", False):
        if str(expr) in scope:
            return scope[str(expr)]
        raise SizeError(f"the size {expr} follows from data", hint="sizes must follow from the shapes of inputs")
    name = type(expr).__name__
    if name == "Pow" and getattr(expr.args[1], "is_Integer", False) and int(expr.args[1]) > 0:
        return reduce(operator.mul, [_dim(expr.args[0], scope)] * int(expr.args[1]))
    if name in _ROUNDED and type(expr.args[0]).__name__ == "IntTrueDiv":
        top, bottom = (_dim(a, scope) for a in expr.args[0].args)
        return _ROUNDED[name](top, bottom)
    if name in _FUNCTIONS:
        return _FUNCTIONS[name](*(_dim(a, scope) for a in expr.args))
    raise SizeError(f"the size {expr} is no sum, product, quotient, minimum or maximum of sizes")


def real_of(node: Emitter, value: Any, scope: Mapping[str, Dim], elements: Mapping[str, Value]) -> Value:
    """A ``SymFloat``, a real number made of sizes and of single elements, as an f32 scalar that the run computes in
    f64; ``elements`` has the tensors of those, by their symbols.

    Raises:
        SizeError: it follows from data in another way, or by a function that is not known here.
    """
    return node.call("cast", _Real(node, scope, elements).of(value.node.expr), to=str(F32))


@dataclass(frozen=True)
class _Real:
    node: Emitter
    scope: Mapping[str, Dim]
    elements: Mapping[str, Value]

    def of(self, expr: Any) -> Value:
        """An expression in f64."""
        name, call = type(expr).__name__, self.node.call
        if getattr(expr, "is_number", False):
            return self.node.scalar(float(expr), F64)
        if str(expr) in self.elements:
            return call("cast", call("reshape", self.elements[str(expr)], shape=()), to=str(F64))
        if name == "ToFloat":
            return self.of(expr.args[0])
        if name in _ROOTS:
            return call("sqrt", self.of(expr.args[0]))
        if name in _REAL and not expr.is_integer:
            return reduce(lambda a, b: call(_REAL[name], a, b), map(self.of, expr.args))
        return call("cast", call("full", shape=(), value=_dim(expr, self.scope), dtype=str(I64)), to=str(F64))
