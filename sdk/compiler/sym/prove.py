"""Three-valued proofs about dims: by normal form, by intervals, then by evaluating every value when few enough.

A sum is taken apart into parts that share no variable: each part takes its values whatever the others do, so the
extremes of the sum are the sums of theirs, and only the values of one part have to be tried at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.sym.contents import evaluate_mixed, free_vars
from sdk.compiler.sym.dim import Dim, Expr, Term, Var, from_terms, interval

__all__ = [
    "bounds",
    "evaluate_grid",
    "max_value",
    "min_value",
    "prove_eq",
    "prove_ge",
    "prove_lt",
    "values",
]

EXHAUSTIVE_LIMIT: Final = 1 << 20
REMEMBERED: Final = 1 << 14
Grid = NDArray[np.int64]
Range = tuple[int | None, int | None]


def _domain(var: Var) -> Grid:
    return np.arange(var.minimum, var.hi + 1, var.multiple, dtype=np.int64)


def values(a: Dim) -> Grid | None:
    """Every value ``a`` takes over its variables (with repeats), or None when there are more than 2**20."""
    names = sorted(free_vars(a), key=lambda v: (v.name, v.lo, v.hi, v.multiple))
    count = 1
    for var in names:
        count *= (var.hi - var.lo) // var.multiple + 1
        if count > EXHAUSTIVE_LIMIT:
            return None
    env: dict[Var, Grid] = {}
    for axis, var in enumerate(names):
        shape = [1] * len(names)
        shape[axis] = -1
        env[var] = _domain(var).reshape(shape)
    return np.asarray(evaluate_grid(a, env))


def evaluate_grid(a: Dim, env: Mapping[Var, Grid]) -> Grid:
    """``a`` over broadcastable int64 arrays of its variables."""
    return np.asarray(evaluate_mixed(a, env), dtype=np.int64)


def _parts(a: Expr) -> list[Expr]:
    """The sum of ``a`` without its constant, in parts that share no variable."""
    groups: list[tuple[set[Var], list[tuple[Term, int]]]] = []
    for term, coeff in a.terms:
        names = set(free_vars(from_terms(((term, coeff),))))
        items = [(term, coeff)]
        kept = []
        for found, held in groups:
            if found & names:
                names |= found
                items += held
            else:
                kept.append((found, held))
        groups = [*kept, (names, items)]
    return [from_terms(tuple(items)) for _, items in groups]


@lru_cache(maxsize=REMEMBERED)
def _exact(part: Expr) -> tuple[int, int] | None:
    """The least and the largest value of a part; None when it has too many to try."""
    if len(part.terms) == 1 and all(isinstance(factor, Var) for factor, _ in part.terms[0][0]):
        lo, hi = interval(part)  # a product peaks at the ends of its factors
        return None if lo is None or hi is None else (lo, hi)
    grid = values(part)
    return None if grid is None else (int(grid.min()), int(grid.max()))


def _range(a: Dim) -> tuple[Range, bool]:
    """Bounds of ``a``, and whether they are reached."""
    if isinstance(a, int):
        return (a, a), True
    lo: int | None = a.const
    hi: int | None = a.const
    exact = True
    for part in _parts(a):
        found = _exact(part)
        exact &= found is not None
        minimum, maximum = found if found is not None else interval(part)
        lo = None if lo is None or minimum is None else lo + minimum
        hi = None if hi is None or maximum is None else hi + maximum
    return (lo, hi), exact


def bounds(a: Dim) -> Range:
    """Smallest and largest value known of ``a``: exact when its variables have few values, else by intervals."""
    return _range(a)[0]


def max_value(a: Dim) -> int | None:
    """The largest value of ``a``, or None when no bound is known."""
    return bounds(a)[1]


def min_value(a: Dim) -> int | None:
    """The smallest value of ``a``, or None when no bound is known."""
    return bounds(a)[0]


def prove_ge(a: Dim, b: Dim) -> bool | None:
    """Is ``a >= b`` for every value of the variables? None when it cannot be told."""
    diff = a - b
    lo, hi = interval(diff)
    if lo is not None and lo >= 0:
        return True
    if hi is not None and hi < 0:
        return False
    (lo, hi), exact = _range(diff)
    if lo is not None and lo >= 0:
        return True
    return False if exact or (hi is not None and hi < 0) else None


def prove_lt(a: Dim, b: Dim) -> bool | None:
    """Is ``a < b`` for every value of the variables? None when it cannot be told."""
    return prove_ge(b, a + 1)


def prove_eq(a: Dim, b: Dim) -> bool | None:
    """Is ``a == b`` for every value of the variables? None when it cannot be told."""
    diff = a - b
    if isinstance(diff, int):
        return diff == 0
    lo, hi = interval(diff)
    if (lo is not None and lo > 0) or (hi is not None and hi < 0):
        return False
    total, unknown = diff.const, False
    for part in _parts(diff):
        found = _exact(part)
        if found is None:
            unknown = True
        elif found[0] != found[1]:
            return False  # it varies, whatever the other parts do
        else:
            total += found[0]
    return None if unknown else total == 0
