"""Dims as C: index arithmetic in ``int32_t``, with the rounding of the IR and few parentheses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sdk.codegen_c.functions.unit import Unit
from sdk.compiler.sym import Dim, Func, Var, bounds, prove_ge
from sdk.errors import BuildError

__all__ = ["ATOM", "CMP", "MUL", "SUM", "TERNARY", "UNARY", "DimPrinter", "wrap"]

# How tightly the outermost operator of a text binds.
ATOM: Final = 100
UNARY: Final = 90
MUL: Final = 80
SUM: Final = 70
CMP: Final = 50
TERNARY: Final = 10
_INT32_MAX: Final = (1 << 31) - 1

Printed = tuple[str, int]


def wrap(printed: Printed, minimum: int) -> str:
    """The text, in parentheses when it binds less tightly than ``minimum``."""
    text, binds = printed
    return text if binds >= minimum else f"({text})"


class DimPrinter:
    """Prints dims; ``name`` gives the C name of a variable.

    ``nonnegative`` holds dims that the code around the text has checked to be >= 0.
    """

    def __init__(self, unit: Unit, name: Callable[[Var], str]) -> None:
        self._unit = unit
        self._name = name
        self.nonnegative: list[Dim] = []

    def text(self, dim: Dim, minimum: int = TERNARY) -> str:
        """``dim`` in C, parenthesised unless it binds at least as tightly as ``minimum``."""
        return wrap(self.printed(dim), minimum)

    def printed(self, dim: Dim) -> Printed:
        """``dim`` in C and how tightly its outermost operator binds."""
        if isinstance(dim, int):
            if abs(dim) > _INT32_MAX:
                raise BuildError(f"the index {dim} does not fit 32 bits")
            return str(dim), ATOM if dim >= 0 else UNARY
        terms = sorted(
            dim.terms, key=lambda term: term[1] < 0
        )  # positive first: no leading minus when avoidable
        parts: list[tuple[bool, str]] = []
        for factors, coefficient in terms:
            names = [self._factor(f) for f, power in factors for _ in range(power)]
            size = abs(coefficient)
            parts.append((coefficient < 0, " * ".join([*names, *([str(size)] if size != 1 else [])])))
        if dim.const:
            parts.append((dim.const < 0, str(abs(dim.const))))
        first_negative, text = parts[0]
        text = f"-{text}" if first_negative else text
        for negative, part in parts[1:]:
            text += f" {'-' if negative else '+'} {part}"
        if len(parts) > 1 or first_negative:
            return text, SUM
        ((factors, coefficient),) = terms
        if coefficient != 1 or len(factors) > 1 or factors[0][1] > 1:
            return text, MUL
        return self._quotient(factors[0][0]) or (text, ATOM)

    def _quotient(self, factor: Var | Func) -> Printed | None:
        """A division that stands alone needs no parentheses."""
        if isinstance(factor, Func) and self._plain_division(factor):
            return f"{self.text(factor.a, MUL)} / {self.text(factor.b, UNARY)}", MUL
        return None

    def _factor(self, factor: Var | Func) -> str:
        if isinstance(factor, Var):
            return self._name(factor)
        quotient = self._quotient(factor)
        if quotient:
            return wrap(quotient, ATOM)
        helper = {"floordiv": "floordiv", "min": "min_i32", "max": "max_i32"}[factor.name]
        return f"{self._unit.helper(helper)}({self.text(factor.a)}, {self.text(factor.b)})"

    def _plain_division(self, factor: Func) -> bool:
        """C's ``/`` truncates: the same as floordiv when neither side is negative."""
        if factor.name != "floordiv":
            return False
        return self.is_nonnegative(factor.a) and prove_ge(factor.b, 1) is True

    def is_nonnegative(self, dim: Dim) -> bool:
        """Whether ``dim >= 0`` is proved, or checked around here."""
        if any(dim is known for known in self.nonnegative):
            return True
        return prove_ge(dim, 0) is True

    def slot(self, row: Dim, rows: int) -> str:
        """Where a ring of so many rows keeps ``row``, as a C factor. A row that is accessed is never negative."""
        lo, hi = bounds(row)
        if lo is not None and hi is not None and lo >= 0 and hi < rows:
            return self.text(row, UNARY)
        if rows & (rows - 1) == 0:
            return f"({self.text(row, UNARY)} & {rows - 1})" if rows > 1 else "0"
        return f"(int32_t)((uint32_t){self.text(row, UNARY)} % {rows}u)"
