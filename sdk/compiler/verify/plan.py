"""The plan verifier: runs a plan on tagged bytes, so that every read must find what its producer wrote.

It knows nothing of how offsets were chosen. Each byte of a region carries a tag, (buffer, row) of the last
write; calls write rows, reads compare tags. That covers overlap, order, lifetime, rings and states at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

import numpy as np

from sdk.compiler.analysis.instances import specialised
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Plan, PlanBuffer
from sdk.compiler.memory.dims_of_run import complete, some_run
from sdk.compiler.memory.effects import Effects
from sdk.compiler.sym import Expr, Var, free_vars, values
from sdk.compiler.verify.diagnostic import Diagnostic
from sdk.compiler.verify.plan_live import Live, above, by_rows
from sdk.compiler.verify.plan_simulate import Proved, simulate
from sdk.compiler.verify.plan_structure import check_structure
from sdk.errors import BuildError

__all__ = ["check_plan", "verify_plan"]

RANDOM_POINTS: Final = 4
SEED: Final = 0  # of those points


def check_plan(module: Module, plan: Plan) -> None:
    """Raises what ``verify_plan`` finds.

    Raises:
        BuildError: with every finding.
    """
    found = verify_plan(module, plan)
    if found:
        raise BuildError(
            f"the plan of entry @{plan.name} is wrong: {found[0].message}",
            where=found[0].where,
            why="; ".join(f"{d.where}: {d.message}" for d in found[1:]) or None,
            hint="this is a fault of the compiler: please report it with the model",
        )


def verify_plan(module: Module, plan: Plan) -> list[Diagnostic]:
    """Every finding about a plan of a planned module; empty when it is sound.

    Symbolic plans are run at the corners of the box of dims, where each size peaks, and at random dims.
    """
    module, plan = specialised(module, plan)
    found = check_structure(module, plan)
    if not found:
        found = _check_live(module, plan)
    if not found:
        ran = False
        proved: Proved = {}
        for env in _points(plan, Random(SEED)):
            ran = True
            found += simulate(module, plan, env, proved, by_rows(plan))
            if found:
                break
        if not ran:
            found.append(Diagnostic("planned", f"plan @{plan.name}", "found no dims that pass all of its checks"))
    return list(dict.fromkeys(found))


def _check_live(module: Module, plan: Plan) -> list[Diagnostic]:
    """What holds whatever the dims are; of rows that come and go only a run tells."""
    if by_rows(plan):
        found = [*above(plan)]
    else:
        live = Live(plan, Effects(module, plan).written)
        found = [*live.bound(), *(live.apart() if plan.dims else ())]
    return [Diagnostic("planned", f"plan @{plan.name}{where}", text) for where, text in found]


def _points(plan: Plan, rng: Random) -> Iterator[dict[Var, int]]:
    names = (*plan.dims, *plan.fresh)
    if not names:
        if complete(plan, {}) is not None:
            yield {}
        return
    low, high = {v: v.minimum for v in names}, {v: v.maximum for v in names}
    corners = [high, low, *({**high, **peak} for peak in map(_peak, plan.buffers) if peak)]
    yield from (found for found in (complete(plan, env) for env in corners) if found is not None)
    for _ in range(RANDOM_POINTS):
        found = some_run(plan, rng)
        if found is not None:
            yield found


def _peak(buffer: PlanBuffer) -> dict[Var, int]:
    """Dims where the size is largest, when that is neither obvious nor too many to try."""
    size = buffer.type.nbytes
    if not isinstance(size, Expr) or all(c > 0 for _, c in size.terms):
        return {}
    grid = values(size)
    if grid is None:
        return {}
    names = sorted(free_vars(size), key=lambda v: v.name)
    at = np.unravel_index(int(grid.argmax()), grid.shape)
    return {v: v.minimum + int(k) * v.multiple for v, k in zip(names, at, strict=True)}
