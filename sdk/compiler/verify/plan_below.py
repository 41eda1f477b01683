"""Proofs that bytes end below a dim, for every run of a plan: by form, by what the run checks, by every value."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.plan import Bind, Check, Plan, PlanBuffer
from sdk.compiler.memory.rings import stored_type
from sdk.compiler.sym import Dim, Var, evaluate_grid, free_vars, max_value, substitute
from sdk.compiler.verify.plan_covered import Covered

__all__ = ["Below"]

MAX_POINTS: Final = 1 << 16
Grid = NDArray[np.int64]


class Below:
    """What ends where in one plan; dims and places as its runs have them."""

    def __init__(self, plan: Plan) -> None:
        """Reads off the plan what its dims have to do with each other."""
        self.plan, self.places = plan, dict(plan.places)
        self.derived: dict[Var, Dim] = {}  # what a run computes, in the dims of the entry
        self.checked: list[tuple[Dim, Dim]] = []
        self.equal: dict[Var, Dim] = {}
        for stmt in plan.body:
            if isinstance(stmt, Bind) and not isinstance(stmt.value, str):
                self.derived[stmt.var] = self.entry(stmt.value)
            elif isinstance(stmt, Check):
                self._check(self.entry(stmt.left), self.entry(stmt.right))
        self.covered: dict[Dim, Covered] = {}
        self.grid: dict[Var, Grid] | None = None

    def entry(self, dim: Dim) -> Dim:
        """``dim`` in the dims of the entry, as far as they tell it."""
        return substitute(dim, self.derived)

    def size(self, buffer: PlanBuffer) -> Dim:
        """The bytes of a buffer; the most there can be where a run finds out only then, or refuses what is more."""
        type = stored_type(buffer.type, buffer.ring)
        size = self.entry(type.nbytes)
        maximum = max_value(size)
        told = free_vars(size) <= set(self.plan.dims) and maximum is not None and maximum <= type.max_bytes
        return size if told else type.max_bytes

    def _check(self, left: Dim, right: Dim) -> None:
        if not free_vars(left) | free_vars(right) <= set(self.plan.dims):
            return
        self.checked.append((left, right))
        for var in self.plan.dims:
            for one, other in ((left, right), (right, left)):
                if one is var.expr and var not in self.equal:
                    self.equal[var] = other
                    return

    def holds(self, value: Dim, room: Dim, early: bool = False) -> bool:
        """Whether ``value`` is proved to be no more than ``room``; ``early``: before the run checks anything."""
        if isinstance(value, int) and isinstance(room, int):
            return value <= room
        if self._covers(value, room):
            return True
        if not early and self.equal and self._covers(substitute(value, self.equal), room):
            return True
        return self._everywhere(value, room, early)

    def _covers(self, value: Dim, room: Dim) -> bool:
        if room not in self.covered:
            self.covered[room] = Covered(room, self.places)
        return self.covered[room].holds(value)

    def _everywhere(self, value: Dim, room: Dim, early: bool) -> bool:
        """By trying all dims, where they are few."""
        if self.grid is None:
            self.grid = self._points()
        if not self.grid:
            return False
        fits = np.asarray(evaluate_grid(room, self.grid) >= evaluate_grid(value, self.grid))
        for left, right in () if early else self.checked:
            fits = fits | (evaluate_grid(left, self.grid) != evaluate_grid(right, self.grid))
        return bool(fits.all())

    def _points(self) -> dict[Var, Grid]:
        """All values of dims and places; none where they are too many."""
        spans = [np.arange(v.minimum, v.maximum + 1, v.multiple, dtype=np.int64) for v in self.plan.dims]
        if not spans or np.prod([float(len(s)) for s in spans]) > MAX_POINTS:
            return {}
        grids = np.meshgrid(*spans, indexing="ij")
        env: dict[Var, Grid] = dict(zip(self.plan.dims, grids, strict=True))
        for var, place in self.plan.places:
            env[var] = evaluate_grid(place, env)
        return env
