"""The plan level: calls in order with every buffer at a place in a region, ``repeat`` over rows, and copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from sdk.compiler.ir.types import TensorType
from sdk.compiler.sym import Dim, Var, evaluate

__all__ = [
    "Bind",
    "Check",
    "Copy",
    "Plan",
    "PlanBuffer",
    "PlanCall",
    "PlanStmt",
    "Region",
    "RegionKind",
    "Repeat",
    "Role",
    "Split",
    "Wait",
    "iterated",
    "named",
    "walk_plan",
]

RegionKind = Literal["arena", "state", "const", "caller"]
Role = Literal["input", "output", "state", "const", "temp", "scratch"]


@dataclass(frozen=True, slots=True)
class Region:
    """A stretch of memory: ``bytes`` long (a dim), its base aligned to ``align``."""

    name: str
    kind: RegionKind
    bytes: Dim
    align: int = 16


@dataclass(frozen=True, slots=True)
class PlanBuffer:
    """A tensor at ``offset`` bytes in a region. ``ring`` = rows of axis 0 kept; ``alias`` = buffer whose bytes
    it may share because it is a view of it or takes them over in place."""

    name: str
    type: TensorType
    region: str
    offset: Dim
    role: Role
    ring: int | None = None
    alias: str = ""


@dataclass(frozen=True, slots=True)
class Split:
    """A call's rows may run in parts, at most ``threads`` of them at the same time, cut at multiples of ``granule``
    rows; so many rows take about ``work`` operations."""

    threads: int
    granule: int
    work: Dim


@dataclass(frozen=True, slots=True)
class PlanCall:
    """Runs a loops function on buffers (in its parameter order), for rows ``lo..hi`` where it has rows.

    ``scratch`` names the buffer of its scratch space ("" = none), of which each of the threads of ``split`` has an
    equal share. ``index`` numbers the call for hooks and profile; ``ops`` are the ops of the source model it computes.
    """

    index: int
    callee: str
    args: tuple[str, ...]
    dims: tuple[Dim, ...] = ()
    rows: tuple[Dim, Dim] | None = None
    scratch: str = ""
    ops: tuple[str, ...] = ()
    place: str = ""
    extern: bool = False
    split: Split | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """Copies all bytes of ``src`` to ``dst``; the two may overlap."""

    dst: str
    src: str


@dataclass(frozen=True, slots=True)
class Repeat:
    """``repeat var in lo..hi`` (hi exclusive) of the body, in order.

    With ``carry`` (two buffers at one place) each is an iteration: places of the body's constants and states depend on
    ``var`` and nothing else does; what the second buffer holds at the end of an iteration the first holds in the next.
    """

    var: Var
    lo: Dim
    hi: Dim
    body: tuple[PlanStmt, ...]
    carry: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Blocks until the call numbered ``on`` has finished: one per true dependency across places."""

    on: int


@dataclass(frozen=True, slots=True)
class Bind:
    """``bind k in 0..64 = value``: the run gives the dim ``var`` a value, and ends with an error where that is not
    within its bounds. The value is a dim, or the one integer that a buffer (named) holds at this point."""

    var: Var
    value: Dim | str
    what: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """``check a == b``: the run ends with an error where the dims differ; ``what`` says in words whose they are."""

    left: Dim
    right: Dim
    what: str = ""


PlanStmt = PlanCall | Copy | Repeat | Wait | Bind | Check


@dataclass(frozen=True)
class Plan:
    """An entry as straight calls on placed buffers; inputs and outputs are names of buffers.

    ``places`` name bytes that offsets and sizes of regions are made of, each by the dims and those before it.
    """

    name: str
    dims: tuple[Var, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    regions: tuple[Region, ...]
    buffers: tuple[PlanBuffer, ...]
    body: tuple[PlanStmt, ...]
    lower_bound: int = 0
    places: tuple[tuple[Var, Dim], ...] = ()

    def placed(self, env: Mapping[Var, int]) -> dict[Var, int]:
        """``env``, which gives the dims, with the values of the places."""
        out = dict(env)
        for var, value in self.places:
            out[var] = evaluate(value, out)
        return out

    def buffer(self, name: str) -> PlanBuffer:
        """The buffer called ``name``; KeyError when absent."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> Mapping[str, PlanBuffer]:
        """The first buffer of each name."""
        return {b.name: b for b in reversed(self.buffers)}

    @cached_property
    def fresh(self) -> tuple[Var, ...]:
        """The dims that a run gives values, in order: those that ``dims`` carries out."""
        return _bound(self.body)

    def region(self, name: str) -> Region:
        """The region called ``name``; KeyError when absent."""
        for region in self.regions:
            if region.name == name:
                return region
        raise KeyError(name)


def _bound(body: tuple[PlanStmt, ...]) -> tuple[Var, ...]:
    return tuple(s.var for s in walk_plan(body) if isinstance(s, Bind))


def walk_plan(body: tuple[PlanStmt, ...]) -> Iterator[PlanStmt]:
    """Every statement, outer before inner."""
    for stmt in body:
        yield stmt
        if isinstance(stmt, Repeat):
            yield from walk_plan(stmt.body)


def iterated(plan: Plan) -> Iterator[tuple[PlanCall | Copy, int]]:
    """The calls and copies as ``walk_plan`` has them, each with the iterations that it runs in."""
    for stmt in plan.body:
        turned = isinstance(stmt, Repeat) and stmt.carry is not None and isinstance(stmt.hi, int)
        count = stmt.hi if turned and isinstance(stmt, Repeat) and isinstance(stmt.hi, int) else 1
        yield from ((one, count) for one in walk_plan((stmt,)) if isinstance(one, PlanCall | Copy))


def named(stmt: PlanStmt) -> tuple[str, ...]:
    """The buffers that a statement names itself."""
    match stmt:
        case PlanCall():
            return (*stmt.args, stmt.scratch) if stmt.scratch else stmt.args
        case Copy():
            return stmt.dst, stmt.src
        case Bind(value=str() as name):
            return (name,)
        case Repeat(carry=tuple() as names):
            return names
        case _:
            return ()
