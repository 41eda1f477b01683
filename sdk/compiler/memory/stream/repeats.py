"""A stream as statements of a plan: nested repeats whose bodies call each node for the row of its iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sdk.compiler.ir.plan import PlanCall, PlanStmt, Repeat
from sdk.compiler.memory.stream.flow import Flow
from sdk.compiler.sym import Dim, Var, dmax, dmin

__all__ = ["Repeats"]


class Repeats:
    """The repeats of a stream, one in the other: nodes of a rate are called in the body of the repeat of that rate."""

    def __init__(self, flow: Flow, names: Sequence[str]) -> None:
        """``names`` are those of the variables of the repeats, outer first, one for each rate."""
        self.flow = flow
        levels = flow.levels
        self.vars = {
            rate: Var(name, flow.lo * rate, flow.hi * rate - 1) for rate, name in zip(levels, names, strict=True)
        }

    def order(self) -> list[int]:
        """The steps as the plan calls them: those of the innermost repeat come first."""
        placed = zip(self.flow.rates, self.flow.steps, strict=True)
        return [step for _, step in sorted(placed, key=lambda p: (-p[0], p[1]))]

    def rows(self, step: int) -> tuple[Dim, Dim]:
        """The row that a step's node runs in its iteration, from and to: none before its first and behind its last."""
        k = self.flow.steps.index(step)
        iteration = self.vars[self.flow.rates[k]].expr + self.flow.ahead[k]
        extent = self.flow.extents[k]
        return _clamped(iteration, extent), _clamped(iteration + 1, extent)

    def statement(self, calls: Mapping[int, PlanCall]) -> Repeat:
        """The outer repeat; ``calls`` by step."""
        levels = self.flow.levels
        inner: tuple[PlanStmt, ...] = ()
        for k in reversed(range(len(levels))):
            rate = levels[k]
            own = tuple(
                calls[s] for s, r in zip(self.flow.steps, self.flow.rates, strict=True) if r == rate
            )
            lo: Dim = self.flow.lo
            hi: Dim = self.flow.hi
            if k > 0:
                times = rate // levels[k - 1]
                outer = self.vars[levels[k - 1]].expr
                lo, hi = times * outer, times * outer + times
            inner = (Repeat(self.vars[rate], lo, hi, (*inner, *own)),)
        (outermost,) = inner
        assert isinstance(outermost, Repeat)  # there is at least one rate
        return outermost


def _clamped(row: Dim, extent: int) -> Dim:
    return dmax(dmin(row, extent), 0)
