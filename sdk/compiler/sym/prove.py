"""Three-valued proofs about dims: by normal form, by intervals, then by evaluating every value when few enough."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.sym.dim import Dim, Expr, Factor, Var, free_vars, interval

__all__ = ["bounds", "max_value", "min_value", "prove_eq", "prove_ge", "prove_lt", "values"]

EXHAUSTIVE_LIMIT: Final = 1 << 20
Grid = NDArray[np.int64]


def _domain(var: Var) -> Grid:
    first = -(-var.lo // var.multiple) * var.multiple
    return np.arange(first, var.hi + 1, var.multiple, dtype=np.int64)


def values(a: Dim) -> Grid | None:
    """Every value ``a`` takes over its variables (with repeats), or None when there are more than 2**20."""
    names = sorted(free_vars(a), key=lambda v: v.name)
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


def evaluate_grid(a: Dim, env: dict[Var, Grid]) -> Grid:
    """``a`` over broadcastable int64 arrays of its variables."""
    if isinstance(a, int):
        return np.asarray(a, dtype=np.int64)
    out: Grid = np.asarray(a.const, dtype=np.int64)
    for term, coeff in a.terms:
        value: Grid = np.asarray(coeff, dtype=np.int64)
        for factor, power in term:
            value = value * _factor_grid(factor, env) ** power
        out = out + value
    return out


def _factor_grid(factor: Factor, env: dict[Var, Grid]) -> Grid:
    if isinstance(factor, Var):
        return env[factor]
    x, y = evaluate_grid(factor.a, env), evaluate_grid(factor.b, env)
    match factor.name:
        case "floordiv":
            return x // y
        case "max":
            return np.maximum(x, y)
        case _:
            return np.minimum(x, y)


def bounds(a: Dim) -> tuple[int | None, int | None]:
    """Smallest and largest value known of ``a``: exact when its variables have few values, else by intervals."""
    lo, hi = interval(a)
    if isinstance(a, Expr) and (len(a.terms) > 1 or any(not isinstance(f, Var) for t, _ in a.terms for f, _ in t)):
        grid = values(a)
        if grid is not None:
            return int(grid.min()), int(grid.max())
    return lo, hi


def max_value(a: Dim) -> int | None:
    """The largest value of ``a``, or None when no bound is known."""
    return bounds(a)[1]


def min_value(a: Dim) -> int | None:
    """The smallest value of ``a``, or None when no bound is known."""
    return bounds(a)[0]


def prove_ge(a: Dim, b: Dim) -> bool | None:
    """Is ``a >= b`` for every value of the variables? None when it cannot be told."""
    lo, hi = interval(a - b)
    if lo is not None and lo >= 0:
        return True
    if hi is not None and hi < 0:
        return False
    grid = values(a - b)
    return None if grid is None else bool((grid >= 0).all())


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
    grid = values(diff)
    return None if grid is None else bool((grid == 0).all())
