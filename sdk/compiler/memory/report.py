"""What a plan's memory looks like to a person: peak against bound, regions, live tensors step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Copy, Plan, PlanBuffer, PlanCall, PlanStmt, RegionKind, Repeat
from sdk.compiler.memory.rings import stored_type
from sdk.compiler.sym import Dim, Var, max_value, substitute
from sdk.errors import BuildError

__all__ = ["LiveTensor", "PlanSummary", "RegionUse", "TimelineRow", "plan_summary"]


@dataclass(frozen=True, slots=True)
class RegionUse:
    """A region and its bytes, at most over the dims."""

    name: str
    kind: RegionKind
    bytes: int


@dataclass(frozen=True, slots=True)
class LiveTensor:
    """Bytes of the arena held from step ``first`` to ``last``, by buffers that share them in turn."""

    names: tuple[str, ...]
    bytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One call or copy: its step, what runs, the source ops it computes, bytes of the arena live meanwhile.

    Inside a repeat every row counts what the whole repeat keeps.
    """

    step: int
    call: str
    ops: str
    live_bytes: int


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """The memory of one entry; sizes in bytes, at most over the dims.

    ``at_peak``: what is live at the fullest step, largest first.
    """

    entry: str
    peak: int
    lower_bound: int
    regions: tuple[RegionUse, ...]
    at_peak: tuple[LiveTensor, ...]
    timeline: tuple[TimelineRow, ...]


@dataclass(frozen=True, slots=True)
class _Step:
    """A statement with the steps during which what it touches is in use (the whole repeat around it)."""

    stmt: PlanCall | Copy
    first: int
    last: int


def plan_summary(module: Module, plan: Plan, at: Mapping[Var, int] | None = None) -> PlanSummary:
    """The memory of ``plan``, an entry of the planned ``module``; with ``at``, at these dims, not at most.

    Raises:
        BuildError: the plan is not of this module, or a size has no bound.
    """
    if module.plans.get(plan.name) != plan:
        raise BuildError(f"module {module.name} has no such plan @{plan.name}")
    steps = list(_steps(plan.body, 1))
    env: Mapping[Var, int] = {} if at is None else plan.placed(at)
    tensors = _tensors(plan, steps, env)
    live = [[t for t in tensors if t.first <= k <= t.last] for k in range(len(steps) + 2)]
    fullest = max(live, key=lambda held: sum(t.bytes for t in held))
    rows = (_row(k, s.stmt, sum(t.bytes for t in live[k])) for k, s in enumerate(steps, 1))
    regions = tuple(RegionUse(r.name, r.kind, _most(r.bytes, env)) for r in plan.regions)
    return PlanSummary(
        plan.name,
        sum(r.bytes for r in regions if r.kind == "arena"),
        plan.lower_bound,
        regions,
        tuple(sorted(fullest, key=lambda t: (-t.bytes, t.names))),
        tuple(rows),
    )


def _most(size: Dim, env: Mapping[Var, int]) -> int:
    most = max_value(substitute(size, dict(env)))
    if most is None:
        raise BuildError(f"the region size {size} has no upper bound")
    return most


def _steps(body: tuple[PlanStmt, ...], start: int) -> Iterator[_Step]:
    """Calls and copies in textual order, numbered from ``start``."""
    at = start
    for stmt in body:
        if isinstance(stmt, Repeat):
            inner = list(_steps(stmt.body, at))
            yield from (_Step(s.stmt, at, at + len(inner) - 1) for s in inner)
            at += len(inner)
        elif isinstance(stmt, PlanCall | Copy):
            yield _Step(stmt, at, at)
            at += 1


def _touched(stmt: PlanCall | Copy) -> tuple[str, ...]:
    return (stmt.dst, stmt.src) if isinstance(stmt, Copy) else (*stmt.args, stmt.scratch)


def _tensors(plan: Plan, steps: list[_Step], env: Mapping[Var, int]) -> list[LiveTensor]:
    """Buffers of the arena, those that alias one another as one."""
    arenas = {r.name for r in plan.regions if r.kind == "arena"}
    by_name = {b.name: b for b in plan.buffers}
    groups: dict[str, list[PlanBuffer]] = {}
    for buffer in plan.buffers:
        if buffer.region in arenas:
            groups.setdefault(_root(buffer, by_name), []).append(buffer)
    out = []
    for held in groups.values():
        names = {b.name for b in held}
        uses = [k for s in steps if names & set(_touched(s.stmt)) for k in (s.first, s.last)]
        uses += [0] if names & set(plan.inputs) else []
        uses += [len(steps) + 1] if names & set(plan.outputs) else []
        if uses:
            size = max(_most(stored_type(b.type, b.ring).nbytes, env) for b in held)
            out.append(LiveTensor(tuple(b.name for b in held), size, min(uses), max(uses)))
    return out


def _root(buffer: PlanBuffer, by_name: dict[str, PlanBuffer]) -> str:
    while buffer.alias:
        buffer = by_name[buffer.alias]
    return buffer.name


def _row(step: int, stmt: PlanCall | Copy, live: int) -> TimelineRow:
    if isinstance(stmt, Copy):
        return TimelineRow(step, f"copy {stmt.dst} = {stmt.src}", "", live)
    return TimelineRow(step, stmt.callee, " + ".join(stmt.ops), live)
