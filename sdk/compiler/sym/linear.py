"""Dims as ``c*v + d`` of one variable: what it is multiplied by and what is left, and for which value they fit."""

from __future__ import annotations

from collections.abc import Container, Set

from sdk.compiler.sym.contents import free_vars, substitute
from sdk.compiler.sym.dim import Dim, Term, Var, ordered

__all__ = ["linear", "only_unknown", "separate", "slope"]


def linear(dim: Dim, var: Var) -> tuple[int, Dim] | None:
    """``(c, rest)`` with ``dim == c*var + rest`` and rest free of var, or None."""
    if isinstance(dim, int) or var not in free_vars(dim):
        return 0, dim
    for term, coeff in dim.terms:
        if term == ((var, 1),):
            rest = dim - coeff * var.expr
            return (coeff, rest) if var not in free_vars(rest) else None
    return None


def separate(dim: Dim, variables: Set[Var]) -> tuple[Dim, Dim]:
    """``(a, b)`` with ``dim == a + b``: the terms with any of the variables in them, and all others."""
    if isinstance(dim, int) or variables.isdisjoint(dim.free):
        return 0, dim
    inside, others = dict[Term, int](), dict[Term, int]()
    for term, coeff in dim.terms:
        free = (frozenset((f,)) if isinstance(f, Var) else f.free for f, _ in term)
        (others if all(map(variables.isdisjoint, free)) else inside)[term] = coeff
    return ordered(0, inside), ordered(dim.const, others)


def slope(dim: Dim, var: Var) -> Dim | None:
    """By how much ``dim`` grows where ``var`` does by one; None where that differs from value to value."""
    found = linear(dim, var)
    if found is not None:
        return found[0]
    step = substitute(dim, {var: var.expr + 1}) - dim
    return None if var in free_vars(step) else step


def only_unknown(dim: Dim, known: Container[Var]) -> tuple[Var, int, Dim] | None:
    """``(v, c, rest)`` with ``dim == c*v + rest``, where ``v`` is the only variable in it that is not ``known``; None
    for other forms."""
    unknown = [v for v in free_vars(dim) if v not in known]
    found = linear(dim, unknown[0]) if len(unknown) == 1 else None
    return None if found is None else (unknown[0], *found)
