"""What ``sdk profile`` reports: one record an operator, as counted or timed, with what the operator has to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from sdk import notebook
from sdk.amounts import UNKNOWN, Amount, amounts_json
from sdk.report import Json, Placed

__all__ = ["COSTS", "OpProfile", "Peak", "ProfileReport"]

COSTS: Final = ("median_us", "cycles", "est_cycles", "instructions")  # the most telling first


@dataclass(frozen=True)
class OpProfile:
    """One call of the plan, over a whole run.

    ``index`` is that of the hooks around it, ``step`` that of ``sdk memory``; ``name`` is its kernel, ``kind`` what the
    kernel was lowered from ("conv2d"), ``source_ops`` the operators of the model file. ``calls`` is how often it is
    called in a run (row by row in a stream). Costs are medians of one run: instructions are counted, ``est_cycles``
    estimated from them, ``cycles`` read from a counter, ``median_us`` from a clock; None where the device cannot say.
    ``macs`` counts multiply-accumulates, ``bytes`` what is read and written at least once, weights included. ``share``
    of the whole run, 0..1. ``live_bytes`` of the arena are in use during the call.
    """

    index: int
    step: int
    name: str
    kind: str
    source_ops: str
    calls: int
    macs: int
    bytes: int
    live_bytes: int
    share: float
    median_us: float | None = None
    instructions: int | None = None
    cycles: int | None = None
    est_cycles: int | None = None
    peak_compute: float | None = None  # MACs by what the device could do in that time at most, 0..1
    peak_bandwidth: float | None = None  # bytes likewise


@dataclass(frozen=True)
class Peak:
    """What a device does at most: multiply-accumulates and bytes in one unit of cost (cycle or microsecond), and
    where the numbers are from."""

    unit: str
    macs: float
    bytes: float
    source: str


@dataclass(frozen=True)
class ProfileReport(Placed):
    """A run by operators. ``total`` holds the costs of the whole run by name ("instructions", "est_cycles",
    "median_us", "cycles") with nothing of the measuring inside; ``overhead`` is what measuring added to the run, as a
    fraction of it; ``covered`` the part of the run that the operators make up, as a fraction. ``weights`` are bytes of
    the whole model's constants, ``macs`` of this run of ``entry``; ``board_ram_bytes`` None where
    an operating system has them; ``conditions`` are those of the machine, before and after."""

    at: Mapping[str, int]
    threads: int
    runs: int
    counter: str
    ops: tuple[OpProfile, ...]
    total: Mapping[str, float | int | None]
    overhead: float
    covered: float
    peak: Peak | None = None
    notes: tuple[str, ...] = field(default=())
    entry: str = "main"
    weights: Amount = UNKNOWN
    macs: Amount = UNKNOWN
    board_ram_bytes: int | None = None
    conditions: Json | None = None

    @property
    def unit(self) -> str:
        """The cost to sort and draw by: the name of the first that the device can say."""
        return next((name for name in COSTS if self.total.get(name) is not None), self.counter)

    @property
    def whole(self) -> float:
        """The whole run's cost in ``unit``; 0 where none is known."""
        return float(self.total.get(self.unit) or 0)

    def cost(self, op: OpProfile) -> float:
        """An operator's cost in ``unit``."""
        return float(getattr(op, self.unit) or 0)

    def _repr_html_(self) -> str:
        """What a notebook shows: the operators, the costliest first."""
        rows = [
            (op.step, op.source_ops or op.name, self.cost(op), f"{op.share:.1%}", op.macs)
            for op in sorted(self.ops, key=lambda op: -op.share)
        ]
        title = f"Profile of {self.model} on {self.board} ({self.ran_on})"
        head = ("step", "operator", self.unit.replace("_", " "), "share", "MACs")
        return notebook.section(title, notebook.table(head, rows))

    def to_json(self) -> Json:
        """The object of ``sdk profile --json``."""
        return {
            **self.place(),
            "at": dict(self.at),
            "threads": self.threads,
            "runs": self.runs,
            "board_ram_bytes": self.board_ram_bytes,
            **amounts_json(self.weights, {self.entry: self.macs}),
            "unit": self.unit,
            "total": dict(self.total),
            "overhead": self.overhead,
            "covered": self.covered,
            "peak": None if self.peak is None else asdict(self.peak),
            "ops": [asdict(op) for op in self.ops],
            "notes": list(self.notes),
            "conditions": self.conditions,
        }
