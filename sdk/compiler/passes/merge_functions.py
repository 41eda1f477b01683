"""Sharing of kernels: functions that are alike but for numbers become one, which calls give their numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from sdk.compiler.analysis.row_calls import drop_single_trips
from sdk.compiler.analysis.work import Cost, cost
from sdk.compiler.ir.loops import Alloc, Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Plan, PlanCall, PlanStmt, Repeat, walk_plan
from sdk.compiler.ir.walk import statements
from sdk.compiler.passes.merging import Group, Limits, grouped, unrolled

__all__ = ["MergeFunctions"]

# what merging may cost: of all work, and of that of each function
LIMITS: Final = {"time": Limits(0.01, 0.14), "size": Limits(0.25, math.inf)}
COUNTED: Final = Limits(0.04, 0.14)  # where instructions are counted


@dataclass(frozen=True)
class MergeFunctions:
    """Planned to planned: calls of functions that one can stand for become calls of that one.

    What it costs stays below a few percent of all work and 14 % of that of each function, with ``opt`` "size" below a
    quarter of all. Plans do not change otherwise: a call keeps its buffers, rows and scratch. ``rolled``: hot loops are
    written as the core has them, so that neither this pass nor the compiler need unroll them; ``cost`` is what a
    function takes then (None: what its loops tell).
    """

    opt: Literal["time", "size"] = "time"
    rolled: bool = False
    cost: Callable[[Loops], Cost] | None = field(default=None, compare=False)
    name = "merge-functions"

    def run(self, module: Module) -> Module:
        """The module with fewer functions; itself where none can be merged."""
        if module.stage != "planned":
            return module
        if self.opt == "size" and not self.rolled:
            module = replace(module, loops={name: unrolled(f) for name, f in module.loops.items()})
        calls = [s for p in module.plans.values() for s in walk_plan(p.body) if isinstance(s, PlanCall)]
        kept = {c.callee for c in calls if c.split is not None or c.extern}
        functions = [f for f in module.loops.values() if f.name not in kept and _can_merge(f)]
        counts = self.cost is not None and self.opt == "time"
        limits, cost_of = (COUNTED, self._counted) if counts else (LIMITS[self.opt], self._guessed)
        groups = grouped(functions, Counter(c.callee for c in calls), limits, cost_of)
        return _rewritten(module, groups) if groups else module

    def _counted(self, loops: Loops) -> Cost:
        assert self.cost is not None
        return self.cost(drop_single_trips(loops))

    def _guessed(self, loops: Loops) -> Cost:
        return cost(loops, unrolls=self.opt == "time" and not self.rolled)


def _can_merge(loops: Loops) -> bool:
    """Functions of numbers alone, whose scratch begins where it begins in all that are alike."""
    scratch = {n.buffer.name for n in statements(loops.body) if isinstance(n, Alloc) and n.buffer.space == "scratch"}
    return not loops.dims and len(scratch) <= 1


def _rewritten(module: Module, groups: list[Group]) -> Module:
    """The module with the shared functions where the first of each group stood."""
    gives = {
        f.name: (g.shared.loops, v)
        for g in groups
        if g.shared is not None
        for f, v in zip(g.functions, g.shared.values, strict=True)
    }
    loops: dict[str, Loops] = {}
    for name, f in module.loops.items():
        if name in gives:
            loops[gives[name][0].name] = gives[name][0]
        else:
            loops[name] = f
    plans: Mapping[str, Plan] = {
        n: replace(p, body=tuple(_called(s, gives) for s in p.body)) for n, p in module.plans.items()
    }
    return replace(module, loops=loops, plans=plans)


def _called(stmt: PlanStmt, gives: Mapping[str, tuple[Loops, tuple[int, ...]]]) -> PlanStmt:
    if isinstance(stmt, Repeat):
        return replace(stmt, body=tuple(_called(s, gives) for s in stmt.body))
    if not isinstance(stmt, PlanCall) or stmt.callee not in gives:
        return stmt
    loops, values = gives[stmt.callee]
    return replace(stmt, callee=loops.name, dims=values)
