"""What became of a model that was quantised: its layers, its error, its accuracy, as a record."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sdk import notebook

__all__ = ["Accuracy", "LayerRow", "QuantizeReport"]


@dataclass(frozen=True)
class LayerRow:
    """A layer that computes: ``type`` is what it computes on; ``why`` says why it stays in floats; ``sqnr_db`` is the
    signal to noise ratio of the outputs where it alone is quantised (None: not measured; infinite: no error)."""

    name: str
    op: str
    type: str
    why: str | None = None
    sqnr_db: float | None = None


@dataclass(frozen=True)
class Accuracy:
    """The share of ``samples`` whose largest output is that of their label, 0 to 1: before and after."""

    samples: int
    float_top1: float
    quantised_top1: float


@dataclass(frozen=True)
class QuantizeReport:
    """``sdk quantize``: ``sqnr_db`` is that of all outputs over the samples, computed as builds compute them;
    ``weights`` are bytes of constants before and after."""

    model: str
    to: str
    range: str
    samples: int
    rows: tuple[LayerRow, ...]
    sqnr_db: float
    weights: tuple[int, int]
    accuracy: Accuracy | None = None
    notes: tuple[str, ...] = ()

    @property
    def worst(self) -> int | None:
        """The number of the layer with the largest error alone."""
        measured = [k for k, row in enumerate(self.rows) if row.sqnr_db is not None]
        return min(measured, key=lambda k: self.rows[k].sqnr_db or 0.0, default=None)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        shown = {"to": self.to, "samples": self.samples, "SQNR in dB": self.sqnr_db, "weights": self.weights[1]}
        return notebook.section(f"{self.model}, quantised", notebook.pairs(shown))

    def to_json(self) -> dict[str, Any]:
        """The object of ``sdk quantize --json``; null for an error of nothing."""
        found = self.accuracy
        accuracy = None if found is None else {
            "samples": found.samples, "float_top1": found.float_top1, "quantised_top1": found.quantised_top1
        }  # fmt: skip
        return {
            "model": self.model,
            "to": self.to,
            "range": self.range,
            "samples": self.samples,
            "sqnr_db": finite(self.sqnr_db),
            "weights_bytes": {"float": self.weights[0], "quantised": self.weights[1]},
            "accuracy": accuracy,
            "layers": [
                {"name": r.name, "op": r.op, "type": r.type, "why": r.why, "sqnr_db": finite(r.sqnr_db)}
                for r in self.rows
            ],
            "notes": list(self.notes),
        }


def finite(value: float | None) -> float | None:
    """JSON knows no infinity."""
    return value if value is not None and math.isfinite(value) else None
