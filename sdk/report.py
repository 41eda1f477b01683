"""What the commands report, as records with their JSON objects (docs/json.md lists the fields)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BenchReport", "BuildReport", "MemoryReport", "RunResult", "VerifyReport"]

Json = dict[str, Any]


@dataclass(frozen=True)
class BuildReport:
    """A build: memory and sizes in bytes. ``ram_bytes`` = arena + states + context + .data + .bss of the model's
    code + what its stack needs above 512 bytes; ``sections`` are of the compiled model alone."""

    model: str
    board: str
    out: Path | None
    ram_bytes: int
    arena_bytes: int
    arena_lower_bound_bytes: int
    state_bytes: int
    context_bytes: int
    stack_bytes: int
    weights_bytes: int
    sections: Mapping[str, int]
    dims: Mapping[str, tuple[int, int]]
    files: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """The object of ``sdk build --json``."""
        return {
            "model": self.model,
            "board": self.board,
            "out": None if self.out is None else str(self.out),
            "ram_bytes": self.ram_bytes,
            "arena_bytes": self.arena_bytes,
            "arena_lower_bound_bytes": self.arena_lower_bound_bytes,
            "state_bytes": self.state_bytes,
            "context_bytes": self.context_bytes,
            "stack_bytes": self.stack_bytes,
            "weights_bytes": self.weights_bytes,
            "sections": dict(self.sections),
            "dims": {name: list(bounds) for name, bounds in self.dims.items()},
            "files": list(self.files),
        }

    @classmethod
    def from_json(cls, data: Json) -> BuildReport:
        """The report that ``to_json`` wrote."""
        dims = {name: (int(lo), int(hi)) for name, (lo, hi) in data["dims"].items()}
        out = None if data["out"] is None else Path(data["out"])
        return cls(**{**data, "out": out, "dims": dims, "files": tuple(data["files"])})


@dataclass(frozen=True)
class MemoryReport:
    """The memory of a build and ``table``: column names, then a row per call of the plan.

    ``at`` gives dims other than the upper bounds, ``arena_at`` the bytes of arena that a run needs there.
    """

    build: BuildReport
    table: tuple[tuple[str, ...], ...]
    at: Mapping[str, int] = field(default_factory=dict)
    arena_at: int | None = None

    def to_json(self) -> Json:
        """The object of ``sdk memory --json``: that of build, and the steps of the plan."""
        columns, *rows = self.table
        steps = [dict(zip(columns, row, strict=True)) for row in rows]
        arena = self.build.arena_bytes if self.arena_at is None else self.arena_at
        return {**self.build.to_json(), "steps": steps, "at": dict(self.at), "arena_at": arena}


@dataclass(frozen=True)
class Placed:
    """A model on a device: what every run, measurement and comparison says first."""

    model: str
    board: str
    device: str
    emulated: bool

    def place(self) -> Json:
        """The fields as JSON."""
        return {
            "model": self.model,
            "board": self.board,
            "device": self.device,
            "emulated": self.emulated,
        }


@dataclass(frozen=True)
class RunResult(Placed):
    """One run: outputs by name, and where it ran."""

    at: Mapping[str, int]
    outputs: Mapping[str, NDArray[Any]]
    sample: float
    counter: str

    def to_json(self) -> Json:
        """The object of ``sdk run --json`` without the outputs."""
        return {
            **self.place(),
            "at": dict(self.at),
            **_cost((self.sample,), self.counter, self.emulated),
        }


@dataclass(frozen=True)
class BenchReport(Placed):
    """Samples of single runs; ``counter`` says their unit: time (ns), instructions or cycles."""

    at: Mapping[str, int]
    threads: int
    samples: tuple[float, ...]
    counter: str

    def to_json(self) -> Json:
        """The object of ``sdk bench --json``; null where the device cannot say."""
        return {
            **self.place(),
            "at": dict(self.at),
            "threads": self.threads,
            "runs": len(self.samples),
            **_cost(self.samples, self.counter, self.emulated),
            "est_cycles": None,
        }


def _cost(samples: tuple[float, ...], counter: str, emulated: bool) -> Json:
    """The samples in their unit; an emulator's time is nobody's."""
    ordered = sorted(samples)
    median = statistics.median(ordered)
    p90 = ordered[-(-9 * len(ordered) // 10) - 1]
    timed = counter == "time" and not emulated
    return {
        "min_ms": ordered[0] / 1e6 if timed else None,
        "median_ms": median / 1e6 if timed else None,
        "p90_ms": p90 / 1e6 if timed else None,
        "instructions": round(median) if counter == "instructions" else None,
        "cycles": round(median) if counter == "cycles" else None,
    }


@dataclass(frozen=True)
class VerifyReport(Placed):
    """A comparison with a reference on ``cases`` inputs; ``worst`` says where the largest difference was."""

    reference: str
    cases: int
    exact_cases: int
    max_abs_err: float
    max_rel_err: float
    passed: bool
    worst: str = ""

    def to_json(self) -> Json:
        """The object of ``sdk verify --json``."""
        return {
            **self.place(),
            "reference": self.reference,
            "cases": self.cases,
            "exact_cases": self.exact_cases,
            "max_abs_err": self.max_abs_err,
            "max_rel_err": self.max_rel_err,
            "passed": self.passed,
            "worst": self.worst or None,
        }
