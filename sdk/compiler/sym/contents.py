"""What stands in a dim, and putting values in its place: variables, substitution, evaluation, products."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.sym.dim import Dim, Expr, Func, Term, Var, dmax, dmin, floordiv, ordered
from sdk.errors import SdkError

__all__ = ["evaluate", "evaluate_mixed", "flat_index", "free_vars", "product", "substitute"]

REMEMBERED: Final = 1 << 14  # products: sizes are asked for again and again
OF_NUMBERS: Final[dict[str, Callable[[int, int], int]]] = {"floordiv": operator.floordiv, "max": max, "min": min}
Grid = NDArray[np.int64]


def free_vars(a: Dim) -> frozenset[Var]:
    """Every variable in ``a``."""
    return a.free if isinstance(a, Expr) else frozenset()


APPLY: Final[dict[str, Callable[[Dim, Dim], Dim]]] = {"floordiv": floordiv, "max": dmax, "min": dmin}


def substitute(a: Dim, env: Mapping[Var, Dim]) -> Dim:
    """``a`` with every variable of ``env`` replaced; the same object when none occurs."""
    if isinstance(a, int) or a.free.isdisjoint(env):
        return a
    found = _substituted_linear(a, env)
    if found is not None:
        return found
    out: Dim = a.const
    for term, coeff in a.terms:
        value: Dim = coeff
        for factor, power in term:
            if isinstance(factor, Var):
                new = env.get(factor, factor.expr)
            else:
                new = APPLY[factor.name](substitute(factor.a, env), substitute(factor.b, env))
            for _ in range(power):
                value = value * new
        out = out + value
    return out


def _substituted_linear(a: Expr, env: Mapping[Var, Dim]) -> Dim | None:
    """The same of a sum of multiples of variables, at once; None where there is anything else."""
    const, terms = a.const, dict[Term, int]()
    for term, coeff in a.terms:
        factor, power = term[0]
        if power != 1 or len(term) != 1 or not isinstance(factor, Var):
            return None
        new = env.get(factor)
        if new is None:
            terms[term] = terms.get(term, 0) + coeff
        elif isinstance(new, int):
            const += coeff * new
        elif new.divides:
            return None
        else:
            const += coeff * new.const
            for other, by in new.terms:
                terms[other] = terms.get(other, 0) + coeff * by
    return ordered(const, terms)


def evaluate(a: Dim, env: Mapping[Var, int]) -> int:
    """The value of ``a`` with every variable given.

    Raises:
        SdkError: a variable has no value.
    """
    if isinstance(a, int):
        return a
    missing = a.free - env.keys()
    if missing:
        raise SdkError(f"{a} still depends on {', '.join(sorted(v.name for v in missing))}")
    return int(evaluate_mixed(a, env))


def evaluate_mixed(a: Dim, env: Mapping[Var, Grid | int]) -> Grid | int:
    """``a`` over broadcastable int64 arrays or numbers of its variables: a number where all of them are."""
    if isinstance(a, int):
        return a
    out: Grid | int = a.const
    for term, coeff in a.terms:
        value: Grid | int = coeff
        for factor, power in term:
            found = env[factor] if isinstance(factor, Var) else _applied(factor, env)
            value = value * (found if power == 1 else found**power)
        out = out + value
    return out


def _applied(factor: Func, env: Mapping[Var, Grid | int]) -> Grid | int:
    x, y = evaluate_mixed(factor.a, env), evaluate_mixed(factor.b, env)
    if isinstance(x, int) and isinstance(y, int):
        return OF_NUMBERS[factor.name](x, y)
    match factor.name:
        case "floordiv":
            return x // y
        case "max":
            return np.maximum(x, y)
        case _:
            return np.minimum(x, y)


def flat_index(index: Sequence[Dim], shape: Sequence[Dim]) -> Dim:
    """The offset of an element in a dense array whose last axis is adjacent in memory."""
    return _flat_index(tuple(index), tuple(shape))


@lru_cache(maxsize=REMEMBERED)
def _flat_index(index: tuple[Dim, ...], shape: tuple[Dim, ...]) -> Dim:
    out: Dim = 0
    for at, size in zip(index, shape, strict=True):
        out = out * size + at
    return out


@lru_cache(maxsize=REMEMBERED)
def product(dims: tuple[Dim, ...]) -> Dim:
    """The product of the dims; 1 for none."""
    out: Dim = 1
    for dim in dims:
        out = out * dim
    return out
