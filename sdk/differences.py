"""What ``sdk diff`` reports: two builds side by side, as records with their JSON objects."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from sdk.report import BuildReport, Json, finite

__all__ = ["DiffReport", "OutputDiff", "Side"]


@dataclass(frozen=True)
class Side:
    """One of two builds that are compared: its sizes, and what an inference of it takes; None where it was not run, or
    what the device cannot say."""

    build: BuildReport
    operators: int
    macs: int
    model_macs: int | None = None
    instructions: int | None = None
    est_cycles: int | None = None
    median_ms: float | None = None

    @property
    def numbers(self) -> dict[str, int | float | None]:
        """All that is compared, by the names of the JSON objects."""
        build = self.build
        return {
            "ram_bytes": build.ram_bytes,
            "arena_bytes": build.arena_bytes,
            "state_bytes": build.state_bytes,
            "stack_bytes": build.stack_bytes,
            "flash_bytes": build.flash_bytes,
            "text_bytes": build.sections.get("text", 0),
            "model_weights_bytes": build.weights.model,
            "weights_bytes": build.weights_bytes,
            "operators": self.operators,
            "model_macs": self.model_macs,
            "macs": self.macs,
            "instructions": self.instructions,
            "est_cycles": self.est_cycles,
            "median_ms": self.median_ms,
        }

    def to_json(self) -> Json:
        """The side's object in that of ``sdk diff --json``."""
        return {"model": self.build.model, "board": self.build.board, "compiler": self.build.compiler, **self.numbers}


@dataclass(frozen=True)
class OutputDiff:
    """An output of two models, ``name`` in the first: the largest difference over all inputs, in real units where the
    types differ; ``why`` says what cannot be compared."""

    name: str
    same: bool
    max_abs: float
    max_rel: float
    why: str | None = None

    def to_json(self) -> Json:
        """Its object; null for infinity."""
        return {**asdict(self), "max_abs": finite(self.max_abs), "max_rel": finite(self.max_rel)}


@dataclass(frozen=True)
class DiffReport:
    """Two builds side by side. ``cases`` inputs went through both, 0 where ``notes`` say why not."""

    before: Side
    after: Side
    cases: int
    outputs: tuple[OutputDiff, ...]
    notes: tuple[str, ...] = ()

    @property
    def same_results(self) -> bool | None:
        """Whether all outputs are equal; None where none were compared."""
        return all(o.same for o in self.outputs) if self.outputs else None

    def to_json(self) -> Json:
        """The object of ``sdk diff --json``."""
        return {
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "cases": self.cases,
            "same_results": self.same_results,
            "outputs": [o.to_json() for o in self.outputs],
            "notes": list(self.notes),
        }
