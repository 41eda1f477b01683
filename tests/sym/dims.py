"""Random dims with what they mean, computed the plain way."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from sdk.compiler.sym import Dim, Var, ceildiv, dmax, dmin, floordiv, mod

Meaning = Callable[[dict[Var, int]], int]
VARS = (Var("n", 1, 7), Var("k", -3, 4), Var("m", 0, 12, 4), Var("h", 2, 2))


def random_dim(rng: Random, depth: int = 3) -> tuple[Dim, Meaning]:
    """A dim over ``VARS`` and a function that evaluates it without the simplifier."""
    if depth == 0 or rng.random() < 0.15:
        if rng.random() < 0.4:
            value = rng.randint(-5, 9)
            return value, lambda env: value
        var = rng.choice(VARS)
        return var.expr, lambda env: env[var]
    a, fa = random_dim(rng, depth - 1)
    kind = rng.choice(("add", "sub", "mul", "floordiv", "mod", "ceildiv", "min", "max"))
    if kind in ("floordiv", "mod", "ceildiv"):
        by = rng.randint(1, 6)
        match kind:
            case "floordiv":
                return floordiv(a, by), lambda env: fa(env) // by
            case "mod":
                return mod(a, by), lambda env: fa(env) % by
            case _:
                return ceildiv(a, by), lambda env: -(-fa(env) // by)
    b, fb = random_dim(rng, depth - 1)
    match kind:
        case "add":
            return a + b, lambda env: fa(env) + fb(env)
        case "sub":
            return a - b, lambda env: fa(env) - fb(env)
        case "mul":
            return a * b, lambda env: fa(env) * fb(env)
        case "min":
            return dmin(a, b), lambda env: min(fa(env), fb(env))
        case _:
            return dmax(a, b), lambda env: max(fa(env), fb(env))


def domain(var: Var) -> list[int]:
    """Every value of a variable."""
    return [v for v in range(var.lo, var.hi + 1) if v % var.multiple == 0]
