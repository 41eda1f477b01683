"""What stands in a dim, and putting values in its place: variables, substitution, evaluation, products."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from sdk.compiler.sym.dim import Dim, Expr, Var, dmax, dmin, floordiv
from sdk.errors import SdkError

__all__ = ["evaluate", "flat_index", "free_vars", "product", "substitute"]

REMEMBERED: Final = 1 << 14  # products: sizes are asked for again and again


def free_vars(a: Dim) -> frozenset[Var]:
    """Every variable in ``a``."""
    return a.free if isinstance(a, Expr) else frozenset()


APPLY: Final[dict[str, Callable[[Dim, Dim], Dim]]] = {"floordiv": floordiv, "max": dmax, "min": dmin}


def substitute(a: Dim, env: Mapping[Var, Dim]) -> Dim:
    """``a`` with every variable of ``env`` replaced; the same object when none occurs."""
    if isinstance(a, int) or a.free.isdisjoint(env):
        return a
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


def evaluate(a: Dim, env: Mapping[Var, int]) -> int:
    """The value of ``a`` with every variable given.

    Raises:
        SdkError: a variable has no value.
    """
    out = substitute(a, dict(env))
    if not isinstance(out, int):
        raise SdkError(f"{a} still depends on {', '.join(sorted(v.name for v in free_vars(out)))}")
    return out


def flat_index(index: Sequence[Dim], shape: Sequence[Dim]) -> Dim:
    """The offset of an element in a dense array whose last axis is adjacent in memory."""
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
