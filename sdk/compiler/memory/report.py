"""What a plan's memory looks like to a person: peak against bound, regions, tensors, what each step holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sdk.compiler.analysis.dependence import row_axis
from sdk.compiler.analysis.instances import specialised
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Copy, Plan, PlanBuffer, PlanCall, PlanStmt, RegionKind, Repeat, iterated, walk_plan
from sdk.compiler.memory.dims_of_run import complete
from sdk.compiler.memory.rings import stored_type
from sdk.compiler.memory.trace import Moment, Trace, trace_plan
from sdk.compiler.sym import Dim, Var, evaluate, max_value, substitute
from sdk.errors import BuildError

__all__ = ["LiveTensor", "PlanSummary", "RegionUse", "TimelineRow", "plan_summary"]


@dataclass(frozen=True, slots=True)
class RegionUse:
    """A region, its bytes at most over the dims, and how many of them hold something at the fullest moment (of an
    arena; all of others)."""

    name: str
    kind: RegionKind
    bytes: int
    live: int


@dataclass(frozen=True, slots=True)
class LiveTensor:
    """A place in an arena, ``bytes`` from ``offset``, that buffers ``names`` have in turn from step ``first`` to
    ``last``: results in place, and views.

    ``title``: the tensor's name in the source model, where it has one. ``ring`` of its ``rows`` rows are kept (None:
    all). ``live``: how many of its bytes hold something at the fullest moment. ``over``: titles of the tensors whose
    bytes it takes row by row while those are still in use.
    """

    names: tuple[str, ...]
    title: str
    bytes: int
    first: int
    last: int
    region: str
    offset: int
    role: str
    dtype: str
    shape: tuple[int, ...]
    ring: int | None
    rows: int
    live: int
    over: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One call or copy: its step, what runs, the source ops it computes, bytes of the arenas that hold something
    meanwhile: the most of all its runs.

    ``runs``: how often it runs; ``rows``: for how many rows at once (None: it has none). ``repeats``: the steps from
    and to of the repeats around it, outermost first.
    """

    step: int
    call: str
    ops: str
    live_bytes: int
    runs: int
    rows: int | None
    repeats: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class PlanSummary:
    """The memory of one entry; sizes in bytes, of regions at most over the dims, of all else at ``dims``.

    ``peak``: of the arenas. ``lower_bound``: no placement of these buffers needs less; at dims that were asked for, the
    most bytes held there. ``fullest``: the first moment with the most bytes held. ``tensors``: largest first.
    """

    entry: str
    dims: Mapping[str, int]
    peak: int
    lower_bound: int
    regions: tuple[RegionUse, ...]
    tensors: tuple[LiveTensor, ...]
    timeline: tuple[TimelineRow, ...]
    fullest: Moment
    trace: Trace
    titles: Mapping[str, str]

    @property
    def optimal(self) -> bool:
        """Whether the arena is proved to be as small as these buffers allow."""
        return self.peak <= self.lower_bound

    @cached_property
    def at_peak(self) -> tuple[LiveTensor, ...]:
        """The tensors held at the fullest moment, the most bytes first."""
        held = [t for t in self.tensors if t.live]
        return tuple(sorted(held, key=lambda t: (-t.live, t.names)))


def plan_summary(module: Module, plan: Plan, at: Mapping[Var, int] | None = None) -> PlanSummary:
    """The memory of ``plan``, an entry of the planned ``module``; with ``at``, at these dims, else at their upper
    bounds.

    Raises:
        BuildError: the plan is not of this module, or a size has no bound.
    """
    if module.plans.get(plan.name) != plan:
        raise BuildError(f"module {module.name} has no such plan @{plan.name}")
    names = {s.index: s.callee for s in walk_plan(plan.body) if isinstance(s, PlanCall)}
    module, plan = specialised(module, plan)
    env = _dims(plan, at)
    trace = trace_plan(module, plan, env)
    fullest = max(trace.moments, key=lambda m: m.bytes)
    titles = _titles(module, plan, trace)
    placed = plan.placed(env)
    regions = tuple(_region(r.name, r.kind, r.bytes, placed if at else {}, trace) for r in plan.regions)
    return PlanSummary(
        plan.name,
        {v.name: env[v] for v in plan.dims},
        sum(r.bytes for r in regions if r.kind == "arena"),
        plan.lower_bound if at is None else fullest.bytes,
        regions,
        _tensors(plan, trace, fullest, placed, titles),
        _timeline(plan, trace, names),
        fullest,
        trace,
        titles,
    )


def _dims(plan: Plan, at: Mapping[Var, int] | None) -> dict[Var, int]:
    """Values of all dims, those that the run computes too: what follows from the others, or at most."""
    env = {v: v.maximum for v in (*plan.dims, *plan.fresh)} | dict(at or {})
    return complete(plan, env) or env


def _region(name: str, kind: RegionKind, size: Dim, env: Mapping[Var, int], trace: Trace) -> RegionUse:
    maximum = max_value(substitute(size, dict(env)))
    if maximum is None:
        raise BuildError(f"the region size {size} has no upper bound")
    live = max(sum(h.hi - h.lo for h in m.held if h.region == name) for m in trace.moments)
    return RegionUse(name, kind, maximum, live if kind == "arena" else maximum)


# --- names -----------------------------------------------------------------------------------------------


def _titles(module: Module, plan: Plan, trace: Trace) -> dict[str, str]:
    """What a person calls each buffer: the tensor that the source op makes, else the name in the plan.

    Of several buffers that an op goes through the last has its name, the others have theirs behind it.
    """
    out = {b.name: b.name for b in plan.buffers}
    used: set[str] = set()
    for step, stmt in reversed(list(enumerate(trace.steps, 1))):
        if isinstance(stmt, Copy):
            continue
        if stmt.scratch:
            out[stmt.scratch] = f"scratch of step {step}"
        made = _made(module, stmt)
        name = stmt.ops[-1].partition(" ")[2] if stmt.ops else ""
        if len(made) != 1 or not name:
            continue
        out[made[0]] = f"{name} ({made[0]})" if name in used else name
        used.add(name)
    for b in plan.buffers:  # outputs and inputs have the names that callers know
        if b.name in (*plan.inputs, *plan.outputs):
            out[b.name] = b.name
    return out


def _made(module: Module, call: PlanCall) -> list[str]:
    function = module.loops.get(call.callee)
    if function is None:
        return []
    return [name for name, p in zip(call.args, function.params, strict=True) if p.mode != "read"]


# --- tensors ---------------------------------------------------------------------------------------------


def _tensors(
    plan: Plan, trace: Trace, fullest: Moment, env: Mapping[Var, int], titles: Mapping[str, str]
) -> tuple[LiveTensor, ...]:
    """The places of the arenas: buffers that alias one another as one."""
    arenas = {r.name for r in plan.regions if r.kind == "arena"}
    by_name = {b.name: b for b in plan.buffers}
    groups: dict[str, list[PlanBuffer]] = {}
    for buffer in plan.buffers:
        if buffer.region in arenas:
            groups.setdefault(_root(buffer, by_name), []).append(buffer)
    moments: dict[str, list[int]] = {}  # of each group, when it holds something
    for k, moment in enumerate(trace.moments):
        for root in {_root(by_name[h.buffer], by_name) for h in moment.held}:
            moments.setdefault(root, []).append(k)
    found = {}
    for root, held in groups.items():
        if root in moments:
            found[root] = _tensor(held, moments[root], trace, fullest, env, titles)
    for root, others in _overlaid(found, moments).items():
        found[root] = replace(found[root], over=tuple(found[o].title for o in others))
    return tuple(sorted(found.values(), key=lambda t: (-t.bytes, t.names)))


def _root(buffer: PlanBuffer, by_name: Mapping[str, PlanBuffer]) -> str:
    while buffer.alias and by_name[buffer.alias].region == buffer.region:
        buffer = by_name[buffer.alias]
    return buffer.name


def _tensor(
    held: Sequence[PlanBuffer],
    moments: Sequence[int],
    trace: Trace,
    fullest: Moment,
    env: Mapping[Var, int],
    titles: Mapping[str, str],
) -> LiveTensor:
    names = {b.name for b in held}
    size = {b.name: evaluate(stored_type(b.type, b.ring).nbytes, env) for b in held}
    live = [h for h in fullest.held if h.buffer in names]
    shown = next((b for b in held if live and b.name == live[0].buffer), held[0])
    shape = tuple(evaluate(d, env) for d in shown.type.shape)
    return LiveTensor(
        tuple(b.name for b in held),
        titles[shown.name],
        max(size.values()),
        trace.moments[moments[0]].step,
        trace.moments[moments[-1]].step,
        shown.region,
        min(evaluate(b.offset, env) for b in held),
        shown.role,
        str(shown.type.dtype),
        shape,
        shown.ring,
        shape[row_axis(shown.type.shape)] if shape else 1,
        sum(h.hi - h.lo for h in live),
    )


def _overlaid(found: Mapping[str, LiveTensor], moments: Mapping[str, list[int]]) -> dict[str, list[str]]:
    """Places that meet while both hold something: by the one that begins later those that it takes the bytes of."""
    out: dict[str, list[str]] = {}
    order = sorted(found, key=lambda r: (moments[r][0], r))
    at = {root: set(found_at) for root, found_at in moments.items()}
    held: list[str] = []  # those that began before and hold something still
    for later in order:
        b = found[later]
        held = [root for root in held if moments[root][-1] >= moments[later][0]]
        for earlier in held:
            a = found[earlier]
            meet = a.region == b.region and a.offset < b.offset + b.bytes and b.offset < a.offset + a.bytes
            if meet and at[earlier] & at[later]:
                out.setdefault(later, []).append(earlier)
        held.append(later)
    return out


# --- steps -----------------------------------------------------------------------------------------------


def _timeline(plan: Plan, trace: Trace, names: Mapping[int, str]) -> tuple[TimelineRow, ...]:
    runs: dict[int, list[Moment]] = {}
    for moment in trace.moments:
        runs.setdefault(moment.step, []).append(moment)
    around, iterations = _repeats(plan), [count for _, count in iterated(plan)]
    rows = (_row(k, s, runs.get(k, []), around[k - 1], names) for k, s in enumerate(trace.steps, 1))
    return tuple(row if n == 1 else replace(row, runs=n) for row, n in zip(rows, iterations, strict=True))


def _row(
    step: int,
    stmt: PlanCall | Copy,
    runs: Sequence[Moment],
    around: tuple[tuple[int, int], ...],
    names: Mapping[int, str],
) -> TimelineRow:
    live = max((m.bytes for m in runs), default=0)
    if isinstance(stmt, Copy):
        return TimelineRow(step, f"copy {stmt.dst} = {stmt.src}", "", live, len(runs), None, around)
    rows = max((m.rows[1] - m.rows[0] for m in runs if m.rows is not None), default=None)
    return TimelineRow(step, names[stmt.index], " + ".join(stmt.ops), live, len(runs), rows, around)


def _repeats(plan: Plan) -> list[tuple[tuple[int, int], ...]]:
    """The repeats around each step."""
    out: list[tuple[tuple[int, int], ...]] = []

    def visit(body: Sequence[PlanStmt], around: tuple[tuple[int, int], ...]) -> None:
        for stmt in body:
            if isinstance(stmt, Repeat):
                count = sum(isinstance(s, PlanCall | Copy) for s in walk_plan(stmt.body))
                visit(stmt.body, (*around, (len(out) + 1, len(out) + count)))
            elif isinstance(stmt, PlanCall | Copy):
                out.append(around)

    visit(plan.body, ())
    return out
