"""Dims that a run of a plan may have: values within bounds that pass every ``bind`` and ``check`` on the way."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final

from sdk.compiler.ir.plan import Bind, Check, Plan, walk_plan
from sdk.compiler.sym import Dim, Var, evaluate, free_vars, linear

__all__ = ["complete", "some_run"]

ROUNDS: Final = 8
TRIES: Final = 200


def complete(plan: Plan, env: Mapping[Var, int]) -> dict[Var, int] | None:
    """``env`` with the dims that the run computes; None where such a run ends with an error.

    ``env`` gives the entry's dims, and the values that buffers give to dims.
    """
    out = dict(env)
    for stmt in walk_plan(plan.body):
        if isinstance(stmt, Bind):
            if not isinstance(stmt.value, str):
                out[stmt.var] = evaluate(stmt.value, out)
            if not stmt.var.holds(out[stmt.var]):
                return None
        elif isinstance(stmt, Check) and evaluate(stmt.left, out) != evaluate(stmt.right, out):
            return None
    return out


def some_run(plan: Plan, rng: Random) -> dict[Var, int] | None:
    """Random dims that a run accepts: where a check fails, one of its dims gets the value that makes it hold.
    None when none was found."""
    free = [*plan.dims, *(s.var for s in walk_plan(plan.body) if isinstance(s, Bind) and isinstance(s.value, str))]
    for _ in range(TRIES):
        env = {v: _any_value(v, rng) for v in free}
        for _ in range(ROUNDS):
            found = complete(plan, env)
            if found is not None:
                return found
            if not _repair(plan, env, rng):
                break
    return None


def _any_value(var: Var, rng: Random) -> int:
    return rng.randrange(var.minimum, var.maximum + 1, var.multiple)


def _repair(plan: Plan, env: dict[Var, int], rng: Random) -> bool:
    """Changes one free dim so that the first failing statement holds; False where it cannot."""
    out = dict(env)
    values: dict[Var, Dim] = {}
    for stmt in walk_plan(plan.body):
        if isinstance(stmt, Bind) and not isinstance(stmt.value, str):
            out[stmt.var] = evaluate(stmt.value, out)
            values[stmt.var] = stmt.value
            if not stmt.var.holds(out[stmt.var]):
                return _solve(stmt.value - _any_value(stmt.var, rng), env, out, rng)
        elif isinstance(stmt, Check) and evaluate(stmt.left, out) != evaluate(stmt.right, out):
            return _solve(stmt.left - stmt.right, env, out, rng)
    return False


def _solve(zero: Dim, env: dict[Var, int], known: Mapping[Var, int], rng: Random) -> bool:
    """Puts a value into ``env`` for one of its dims that makes ``zero`` 0, the others as ``known``."""
    names = sorted(free_vars(zero) & env.keys(), key=lambda v: v.name)
    rng.shuffle(names)
    for var in names:
        found = linear(zero, var)
        if found is None:
            continue
        value, over = divmod(-evaluate(found[1], known), found[0])
        if over == 0 and var.holds(value):
            env[var] = value
            return True
    return False
