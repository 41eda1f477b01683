"""When the buffers of a plan are in use, read off its statements: none share bytes then, for any dims; the largest
live set is the lower bound that the plan states."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from sdk.compiler.ir.plan import Copy, Plan, PlanBuffer, PlanCall, PlanStmt, Repeat, named, walk_plan
from sdk.compiler.memory.rings import stored_type
from sdk.compiler.sym import Dim, evaluate, free_vars, max_value, substitute
from sdk.compiler.verify.plan_below import Below

__all__ = ["Finding", "Live", "above", "by_rows", "named", "stacked"]

Finding = tuple[str, str]  # where, what


@dataclass(frozen=True)
class _Group:
    """Buffers that share bytes by turns or at once: in use from step ``first`` to step ``last`` (inclusive)."""

    name: str
    region: str
    offset: Dim
    size: Dim
    maximum: int
    first: int
    last: int


def by_rows(plan: Plan) -> bool:
    """Whether parts of buffers come and go, so that only a run tells what is in use when: rows, or what a call reads
    and writes its result over."""
    rows = any(isinstance(s, Repeat) and s.carry is None for s in plan.body)
    if rows or any(b.ring is not None for b in plan.buffers):
        return True
    if plan.dims:
        return False  # no call of such a plan writes over what it reads
    named = {b.name: b for b in plan.buffers}
    calls = (s for s in walk_plan(plan.body) if isinstance(s, PlanCall))
    return any(_meet(named[a], named[b]) for call in calls for a, b in combinations(dict.fromkeys(call.args), 2))


def _meet(a: PlanBuffer, b: PlanBuffer) -> bool:
    """Whether two buffers at places that are numbers share some of their bytes but do not begin together."""
    if a.region != b.region or a.role == "const" or not (isinstance(a.offset, int) and isinstance(b.offset, int)):
        return False
    sizes = [max_value(stored_type(x.type, x.ring).nbytes) or 0 for x in (a, b)]
    if 0 in sizes:
        return False
    if a.offset == b.offset:
        return sizes[0] != sizes[1]
    return a.offset < b.offset + sizes[1] and b.offset < a.offset + sizes[0]


def stacked(sizes: list[int], align: int) -> int:
    """The bytes of blocks on one another, each but one reaching up to a multiple of ``align``."""
    padded = [-(-n // align) * align for n in sizes]
    return sum(padded) - max((p - n for p, n in zip(padded, sizes, strict=True)), default=0)


def above(plan: Plan) -> Iterator[Finding]:
    """A lower bound above the arenas themselves."""
    maximum = sum(max_value(r.bytes) or 0 for r in plan.regions if r.kind == "arena")
    if plan.lower_bound > maximum:
        yield "", f"states a lower bound of {plan.lower_bound} bytes, its arenas have {maximum}"


class Live:
    """The groups of buffers of a plan without rows that come and go. Step 0 is before its first statement; what is
    copied out at the end is all copied in the last step. Repeats are there once: what they find stays to their end."""

    def __init__(self, plan: Plan, written: set[str]) -> None:
        """``written``: the buffers with contents of their own, any other is a view."""
        self.plan, self.written = plan, written
        self.by_name = {b.name: b for b in plan.buffers}
        self.kinds = {r.name: r.kind for r in plan.regions}
        self.statements: list[PlanStmt] = []
        self.spans: list[tuple[int, int]] = []  # the steps of iterations, first and last
        for stmt in plan.body:
            if isinstance(stmt, Repeat):
                self.spans.append((len(self.statements) + 1, len(self.statements) + len(stmt.body)))
            self.statements += stmt.body if isinstance(stmt, Repeat) else (stmt,)
        self.iterations = {s.var for s in plan.body if isinstance(s, Repeat)}
        self.end = len(self.statements) + 1
        self.below = Below(plan)

    def root(self, buffer: PlanBuffer) -> PlanBuffer:
        """The buffer at the end of the chain of those it shares bytes with."""
        while buffer.alias:
            buffer = self.by_name[buffer.alias]
        return buffer

    @cached_property
    def groups(self) -> list[_Group]:
        """Every group that is in use, outside of constants."""
        spans: dict[str, list[int]] = {}

        def use(name: str, step: int) -> None:
            spans.setdefault(self.root(self.by_name[name]).name, []).append(step)

        for b in self.plan.buffers:
            if b.role == "input":
                use(b.name, 0)
            elif b.role == "state":
                spans[self.root(b).name] = [0, self.end]
        for step, stmt in enumerate(self.statements, 1):
            last = isinstance(stmt, Copy) and stmt.dst in self.plan.outputs
            for name in named(stmt):
                use(name, self.end if last else step)
        for name in self.plan.outputs:
            use(name, self.end)
        for repeat, (first, done) in zip((s for s in self.plan.body if isinstance(s, Repeat)), self.spans, strict=True):
            into, gone = (self.root(self.by_name[name]).name for name in named(repeat))
            use(gone, done)
            for root, at in spans.items():
                if root != into and min(at) < first <= max(at):
                    at.append(done)
        members: dict[str, list[PlanBuffer]] = {}
        for b in self.plan.buffers:
            if b.name in self.written or not b.alias:
                members.setdefault(self.root(b).name, []).append(b)
        found = (self._group(members[name], min(at), max(at)) for name, at in spans.items())
        return [g for g in found if self.kinds[g.region] != "const"]

    def _group(self, members: list[PlanBuffer], first: int, last: int) -> _Group:
        maximum = max(max_value(stored_type(b.type, b.ring).nbytes) or 0 for b in members)
        offset, size = members[0].offset, self.below.size(members[0])
        for var in free_vars(offset) & self.iterations:  # all iterations have theirs
            apart = substitute(offset, {var: var.hi}) - substitute(offset, {var: 0})
            offset, size = substitute(offset, {var: 0}), size + apart
        return _Group(members[0].name, members[0].region, offset, size, maximum, first, last)

    # --- bytes apart -----------------------------------------------------------------------------------------------

    def apart(self) -> Iterator[Finding]:
        """Groups that are in use at the same step and not proved to lie one below the other."""
        top = self.plan.placed({v: v.maximum for v in self.plan.dims})
        for region in dict.fromkeys(g.region for g in self.groups):
            held = [g for g in self.groups if g.region == region and g.maximum > 0]
            held.sort(key=lambda g: (evaluate(g.offset, top), g.first))
            below: list[int] = []  # of each, those proved to end below it, a bit each
            for k, upper in enumerate(held):
                known = 0
                for j in reversed(range(k)):
                    lower = held[j]
                    if known >> j & 1 or lower.last < upper.first or upper.last < lower.first:
                        continue
                    if self.below.holds(lower.offset + lower.size, upper.offset):
                        known |= below[j] | 1 << j
                    else:
                        yield f", {upper.name}", f"not proved to lie apart from {lower.name}, in use at the same time"
                below.append(known)

    # --- the bound -------------------------------------------------------------------------------------------------

    def bound(self) -> Iterator[Finding]:
        """The lower bound is the largest live set of the arenas, with no more padding than alignment asks for."""
        stated = self.plan.lower_bound
        arenas = {r.name: r.align for r in self.plan.regions if r.kind == "arena"}
        held = [g for g in self.groups if g.region in arenas and g.maximum > 0]
        sets = [[g.maximum for g in held if g.first <= b.first <= g.last] for b in held]
        minimum = max(map(sum, sets), default=0)
        grains = [1 << k for k in range(max(arenas.values(), default=1).bit_length())]
        allowed = {stacked(sizes, grain) for sizes in sets for grain in grains} | {minimum}
        if stated and (stated < minimum or stated not in allowed):
            yield "", f"states a lower bound of {stated} bytes, its largest live set has {minimum}"
        yield from above(self.plan)
