"""The plan level: calls in order with every buffer at a place in a region, ``repeat`` over rows, and copies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sdk.compiler.ir.types import TensorType
from sdk.compiler.sym import Dim, Var

__all__ = [
    "Copy",
    "Plan",
    "PlanBuffer",
    "PlanCall",
    "PlanStmt",
    "Region",
    "RegionKind",
    "Repeat",
    "Role",
    "Wait",
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
class PlanCall:
    """Runs a loops function on buffers (in its parameter order), for rows ``lo..hi`` where it has rows.

    ``scratch`` names the buffer of its scratch space ("" = none). ``index`` numbers the call for hooks and profile;
    ``ops`` are the ops of the source model it computes.
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


@dataclass(frozen=True, slots=True)
class Copy:
    """Copies all bytes of ``src`` to ``dst``; the two may overlap."""

    dst: str
    src: str


@dataclass(frozen=True, slots=True)
class Repeat:
    """``repeat var in lo..hi`` (hi exclusive) of the body, in order."""

    var: Var
    lo: Dim
    hi: Dim
    body: tuple[PlanStmt, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Blocks until the call numbered ``on`` has finished: one per true dependency across places."""

    on: int


PlanStmt = PlanCall | Copy | Repeat | Wait


@dataclass(frozen=True, slots=True)
class Plan:
    """An entry as straight calls on placed buffers; inputs and outputs are names of buffers."""

    name: str
    dims: tuple[Var, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    regions: tuple[Region, ...]
    buffers: tuple[PlanBuffer, ...]
    body: tuple[PlanStmt, ...]
    lower_bound: int = 0

    def buffer(self, name: str) -> PlanBuffer:
        """The buffer called ``name``; KeyError when absent."""
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise KeyError(name)

    def region(self, name: str) -> Region:
        """The region called ``name``; KeyError when absent."""
        for region in self.regions:
            if region.name == name:
                return region
        raise KeyError(name)


def walk_plan(body: tuple[PlanStmt, ...]) -> Iterator[PlanStmt]:
    """Every statement, outer before inner."""
    for stmt in body:
        yield stmt
        if isinstance(stmt, Repeat):
            yield from walk_plan(stmt.body)
