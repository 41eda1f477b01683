"""What the commands report, as records with their JSON objects (docs/json.md lists the fields)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdk import notebook
from sdk.amounts import Amount, amounts_json, named_macs, named_weights
from sdk.measures import cost, median_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sdk.compiler.memory.report import LiveTensor, PlanSummary, TimelineRow

__all__ = [
    "BenchReport", "BuildReport", "LayerRow", "LayersReport", "MemoryMode", "MemoryReport", "RunResult", "VerifyReport",
    "finite",
]  # fmt: skip

Json = dict[str, Any]
FREE_STACK = 512  # stack below this is any firmware's; what a model needs above it counts as its RAM


@dataclass(frozen=True)
class BuildReport:
    """A build: memory and sizes in bytes, ``macs`` of a run by entry, at the upper bounds of the dims. ``sections`` are
    of the compiled model alone, none where nothing was compiled; ``io_bytes`` are of inputs and outputs in buffers of
    the caller, on boards whose RAM that takes; ``external_bytes`` are those of ``.rodata`` in external flash;
    ``removed`` are bytes of constants before and after each pass that has left fewer; ``warnings`` tell of code that
    the compiler found wrong and went around; ``compiler`` is the C compiler that the sections and the stack are of, ""
    where nothing was compiled."""

    model: str
    board: str
    out: Path | None
    arena_bytes: int
    arena_lower_bound_bytes: int
    state_bytes: int
    context_bytes: int
    stack_bytes: int
    weights: Amount
    sections: Mapping[str, int]
    dims: Mapping[str, tuple[int, int]]
    files: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    io_bytes: int = 0
    external_bytes: int = 0
    removed: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    compiler: str = ""
    macs: Mapping[str, Amount] = field(default_factory=dict)

    @property
    def weights_bytes(self) -> int:
        """Bytes of the constants as compiled."""
        return self.weights.compiled or 0

    @property
    def ram_parts(self) -> dict[str, int]:
        """What the model's RAM is made of, by words for people."""
        return {
            "arena": self.arena_bytes,
            **({"inputs and outputs": self.io_bytes} if self.io_bytes else {}),
            "states": self.state_bytes,
            "context": self.context_bytes,
            ".data": self.sections.get("data", 0),
            ".bss": self.sections.get("bss", 0),
            f"stack above {FREE_STACK}": max(self.stack_bytes - FREE_STACK, 0),
        }

    @property
    def ram_bytes(self) -> int:
        """All that, in bytes."""
        return sum(self.ram_parts.values())

    @property
    def flash_parts(self) -> dict[str, int]:
        """What a build keeps in the board's own flash: code, constants, and the start of its variables."""
        found = {name: self.sections.get(name, 0) for name in ("text", "rodata", "data")}
        return found | {"rodata": found["rodata"] - self.external_bytes}

    @property
    def flash_bytes(self) -> int:
        """All that, in bytes."""
        return sum(self.flash_parts.values())

    @property
    def sizes_html(self) -> str:
        """The sizes, as notebooks show them."""
        sizes = {"RAM": self.ram_bytes, "code": self.sections.get("text", 0)}
        known = dict([*named_weights(self.weights), *named_macs(self.macs)])
        return notebook.pairs({**sizes, **known}) + notebook.stripes(self.ram_parts)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return notebook.section(f"{self.model} for {self.board}", self.sizes_html)

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
            "io_bytes": self.io_bytes,
            "external_bytes": self.external_bytes,
            "stack_bytes": self.stack_bytes,
            "weights_bytes": self.weights_bytes,
            **amounts_json(self.weights, self.macs),
            "sections": dict(self.sections),
            "dims": {name: list(bounds) for name, bounds in self.dims.items()},
            "removed": {name: list(sizes) for name, sizes in self.removed.items()},
            "files": list(self.files),
            "warnings": list(self.warnings),
            "compiler": self.compiler,
        }


@dataclass(frozen=True)
class MemoryMode:
    """The memory of a build with one objective, entry by entry."""

    build: BuildReport
    entries: tuple[PlanSummary, ...]

    def to_json(self) -> Json:
        """Its sizes."""
        return {"ram_bytes": self.build.ram_bytes, "arena_bytes": self.build.arena_bytes}


@dataclass(frozen=True)
class MemoryReport:
    """Where the memory of a build goes: ``memory`` is its objective ("time", "min" or "limit"), ``entries`` what each
    entry holds when; ``at`` gives dims other than the upper bounds. ``others``: what other objectives would need, where
    that is quick to find out."""

    build: BuildReport
    memory: str = "time"
    entries: tuple[PlanSummary, ...] = ()
    others: Mapping[str, MemoryMode] = field(default_factory=dict)
    at: Mapping[str, int] = field(default_factory=dict)

    @property
    def arena_at(self) -> int:
        """Bytes of arena that a run needs at the dims ``at``."""
        return max((e.peak for e in self.entries), default=self.build.arena_bytes)

    @property
    def modes(self) -> dict[str, MemoryMode]:
        """By objective, this build first."""
        return {self.memory: MemoryMode(self.build, self.entries), **self.others}

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        objectives = [(f"--memory {n}", m.build.ram_bytes, m.build.arena_bytes) for n, m in self.modes.items()]
        held = [(t.title, t.live) for e in self.entries for t in e.at_peak]
        return notebook.section(
            f"Memory of {self.build.model} on {self.build.board}",
            notebook.table(("", "RAM", "arena"), objectives),
            notebook.stripes(self.build.ram_parts),
            notebook.table(("in use at the peak", "bytes"), held[:8]),
        )

    def to_json(self) -> Json:
        """The object of ``sdk memory --json``: that of build, and what is held when."""
        return {
            **self.build.to_json(),
            "memory": self.memory,
            "optimal": all(e.optimal for e in self.entries),
            "modes": {name: mode.to_json() for name, mode in self.modes.items()},
            "peak": max((_peak(e) for e in self.entries), key=lambda p: p["live_bytes"], default=None),
            "regions": [{"entry": e.entry, **asdict(r)} for e in self.entries for r in e.regions],
            "tensors": [{"entry": e.entry, **_tensor(t)} for e in self.entries for t in e.tensors],
            "steps": [{"entry": e.entry, **_step(r)} for e in self.entries for r in e.timeline],
            "at": dict(self.at),
            "arena_at": self.arena_at,
        }


def _peak(entry: PlanSummary) -> Json:
    step, rows = entry.fullest.step, entry.fullest.rows
    row = entry.timeline[step - 1] if 0 < step <= len(entry.timeline) else None
    return {
        "entry": entry.entry,
        "step": step,
        "call": None if row is None else row.call,
        "source_ops": None if row is None else row.ops,
        "rows": None if rows is None else list(rows),
        "live_bytes": entry.fullest.bytes,
        "tensors": [{"name": t.title, "live_bytes": t.live} for t in entry.at_peak],
    }


def _tensor(tensor: LiveTensor) -> Json:
    found = asdict(tensor)
    name, buffers, live = found.pop("title"), list(found.pop("names")), found.pop("live")
    return {"name": name, "buffers": buffers, **found, "live_at_peak": live}


def _step(row: TimelineRow) -> Json:
    return {
        "step": str(row.step),
        "call": row.call,
        "source ops": row.ops,
        "live bytes": str(row.live_bytes),
        "live_bytes": row.live_bytes,
        "runs": row.runs,
        "rows": row.rows,
        "repeats": [list(r) for r in row.repeats],
    }


@dataclass(frozen=True)
class Placed:
    """A model on a device: what every run, measurement and comparison says first."""

    model: str
    board: str
    device: str
    emulated: bool

    @property
    def ran_on(self) -> str:
        """The device, for people."""
        return f"{self.device}, emulated" if self.emulated else self.device

    def place(self) -> Json:
        """The fields as JSON."""
        return {
            "model": self.model,
            "board": self.board,
            "device": self.device,
            "emulated": self.emulated,
        }


def _told(report: Placed, rows: Json) -> str:
    """What a notebook shows of a report: where it was made, and what is known."""
    known = {name.replace("_", " "): value for name, value in rows.items() if value is not None}
    return notebook.section(f"{report.model} on {report.board} ({report.ran_on})", notebook.pairs(known))


@dataclass(frozen=True)
class RunResult(Placed):
    """One run: outputs by name, and where it ran; ``notes`` are what the device said of it."""

    at: Mapping[str, int]
    outputs: Mapping[str, NDArray[Any]]
    sample: float
    counter: str
    notes: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """The object of ``sdk run --json`` without the outputs."""
        return {
            **self.place(),
            "at": dict(self.at),
            **cost((self.sample,), self.counter, self.emulated),
            **({"notes": list(self.notes)} if self.notes else {}),
        }


@dataclass(frozen=True)
class BenchReport(Placed):
    """Samples of single runs; ``counter`` says their unit: time (ns), instructions or cycles. Of one run
    an emulator executed ``instructions``, from which ``est_cycles`` are estimated. ``first`` is the first run of all,
    ``conditions`` are those of the machine, ``notes`` what a reader of the numbers must know."""

    at: Mapping[str, int]
    threads: int
    samples: tuple[float, ...]
    counter: str
    instructions: float | None = None
    est_cycles: float | None = None
    first: float | None = None
    conditions: Json | None = None
    notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return _told(self, {"runs": len(self.samples), **cost(self.samples, self.counter, self.emulated)})

    def to_json(self) -> Json:
        """The object of ``sdk bench --json``; null where the device cannot say."""
        timed, sure = self.counter == "time" and not self.emulated, median_interval(self.samples)
        return {
            **self.place(),
            "at": dict(self.at),
            "threads": self.threads,
            "runs": len(self.samples),
            **cost(self.samples, self.counter, self.emulated),
            **({} if self.instructions is None else {"instructions": round(self.instructions)}),
            "est_cycles": None if self.est_cycles is None else round(self.est_cycles),
            "first_ms": self.first / 1e6 if timed and self.first is not None else None,
            "median_ms_95": [value / 1e6 for value in sure] if timed and sure else None,
            "conditions": self.conditions,
            "notes": list(self.notes),
        }


def finite(value: float) -> float | None:
    """JSON knows no infinity: null where an output has another shape, or a NaN or an infinity of its own."""
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class VerifyReport(Placed):
    """A comparison with a reference on ``cases`` inputs; ``reference_options`` are the settings that its results depend
    on, ``worst`` says where the largest difference was. ``float64_cases`` were compared with the model in float64:
    there the reference's own rounding chose the other side of half a step. Of ``unsteady_cases`` the reference itself
    gives other results when only the last bits of the inputs move, and ours are as near."""

    reference: str
    reference_options: Mapping[str, str | int | bool]
    cases: int
    exact_cases: int
    max_abs_err: float
    max_rel_err: float
    passed: bool
    worst: str = ""
    float64_cases: int = 0
    unsteady_cases: int = 0
    notes: tuple[str, ...] = ()

    @property
    def compared_with(self) -> str:
        """The reference and its options, for people."""
        options = ", ".join(f"{name} {notebook.show(value)}" for name, value in self.reference_options.items())
        return f"{self.reference} ({options})" if options else self.reference

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        found = {**self.to_json(), "reference": self.compared_with}
        names = ("reference", "cases", "exact_cases", "max_abs_err", "max_rel_err", "passed", "worst")
        return _told(self, {name: found[name] for name in names})

    def to_json(self) -> Json:
        """The object of ``sdk verify --json``."""
        return {
            **self.place(),
            "reference": self.reference,
            "reference_options": dict(self.reference_options),
            "cases": self.cases,
            "exact_cases": self.exact_cases,
            "float64_cases": self.float64_cases,
            "unsteady_cases": self.unsteady_cases,
            "max_abs_err": finite(self.max_abs_err),
            "max_rel_err": finite(self.max_rel_err),
            **({"notes": list(self.notes)} if self.notes else {}),
            "passed": self.passed,
            "worst": self.worst or None,
        }


@dataclass(frozen=True)
class LayerRow:
    """A tensor that an operator of the source model makes against the reference's: the largest differences, whether
    they are taken for the same, and where ours was computed: on the board, by a "build" that keeps it, or "apart"
    as the build fuses it into others; or by our interpreter ("interp"), where the board cannot hold it."""

    operator: str
    name: str
    dtype: str
    shape: tuple[int | str, ...]
    max_abs_err: float
    max_rel_err: float
    passed: bool
    ran: str

    @property
    def difference(self) -> str:
        """For people: of integers how many steps, of floats in parts of the reference's largest number, or of 1."""
        if self.max_abs_err == 0:
            return "0"
        if not math.isfinite(self.max_abs_err):
            return "inf"
        return f"{self.max_rel_err:.2g}" if self.dtype.startswith("f") else f"{self.max_abs_err:.0f} steps"

    def to_json(self) -> Json:
        """The row as JSON."""
        errors = {"max_abs_err": finite(self.max_abs_err), "max_rel_err": finite(self.max_rel_err)}
        return {**asdict(self), "shape": list(self.shape), **errors}


@dataclass(frozen=True)
class LayersReport:
    """A comparison tensor by tensor: ``build`` is that of the outputs of the build as it is, ``reference`` what the
    intermediate tensors in ``rows`` were compared with, in the order of the source model."""

    build: VerifyReport
    reference: str
    rows: tuple[LayerRow, ...]

    @property
    def first(self) -> int | None:
        """The number of the first row that departs."""
        return next((k for k, row in enumerate(self.rows) if not row.passed), None)

    @property
    def passed(self) -> bool:
        """Whether the build and each tensor agree with the reference."""
        return self.build.passed and self.first is None

    @property
    def verdict(self) -> str:
        """What was found, for people."""
        if self.first is not None:
            row = self.rows[self.first]
            fused = any(one.ran == "apart" for one in self.rows[: self.first]) and row.ran == "build"
            more = "; those before it that are marked apart may be fused into it" if fused else ""
            return f"the first operator that departs is {row.operator}, which makes {row.name}{more}"
        if not self.build.passed:
            return "no operator departs, but the build's outputs do: what it fuses, or does in place, is wrong"
        return "no operator departs"

    def to_json(self) -> Json:
        """The object of ``sdk verify --layers --json``."""
        return {
            **self.build.to_json(),
            "passed": self.passed,
            "build_passed": self.build.passed,
            "layers_reference": self.reference,
            "first": self.first,
            "layers": [row.to_json() for row in self.rows],
        }
