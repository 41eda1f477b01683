"""What a model is, in short: its operators by kind, and what of it is not supported and why."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sdk import notebook
from sdk.compiler.sym import Dim, max_value
from sdk.driver.options import BuildOptions
from sdk.driver.plots.draw import draw
from sdk.driver.plots.drawing import Drawing, DrawnNode, Tensor, tensor_json
from sdk.driver.plots.words import dim_text
from sdk.errors import SdkError
from sdk.frontends.base import ModelFile

__all__ = ["Kind", "Refused", "Summary", "summarise"]


@dataclass(frozen=True)
class Kind:
    """Operators of a kind: how many, what they compute at most (None where unknown; ``macs_text``: that follows from
    dims), bytes of their constants, and how many are refused."""

    kind: str
    count: int
    macs: int | None
    macs_text: str
    weights_bytes: int
    refused: int


@dataclass(frozen=True)
class Refused:
    """Operators of a kind that are refused for a reason, by name, and what helps."""

    kind: str
    names: tuple[str, ...]
    why: str
    hint: str


@dataclass(frozen=True)
class Summary:
    """What is known of a model without a board; ``error`` is that with which a build would end, None for none;
    ``drawing`` is None where the file could not be read at all."""

    model: str
    drawing: Drawing | None
    error: SdkError | None

    @property
    def nodes(self) -> list[DrawnNode]:
        """The operators of all entries."""
        graphs = () if self.drawing is None else self.drawing.graphs
        return [n for g in graphs for n in g.nodes if n.family not in ("input", "output")]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The operators by kind, those that compute most first."""
        groups = defaultdict[str, list[DrawnNode]](list)
        for node in self.nodes:
            groups[node.kind].append(node)
        made = [_kind(name, nodes) for name, nodes in groups.items()]
        return tuple(sorted(made, key=lambda k: (-(k.macs or 0), -k.weights_bytes, -k.count, k.kind)))

    @property
    def refused(self) -> tuple[Refused, ...]:
        """The operators that cannot be imported, those of one kind and reason together."""
        groups = defaultdict[tuple[str, str, str], list[DrawnNode]](list)
        for node in self.nodes:
            if node.why:
                groups[node.kind, re.sub(r" \([^()]*\)", "", node.why), node.hint].append(node)  # without names
        return tuple(
            Refused(kind, tuple(n.name for n in nodes), why if len(nodes) > 1 else nodes[0].why, hint)
            for (kind, why, hint), nodes in groups.items()
        )

    def ends(self, side: str) -> list[tuple[str, Tensor]]:
        """The inputs or the outputs (``side``), each with its entry."""
        graphs = () if self.drawing is None else self.drawing.graphs
        return [(g.entry, n.outputs[0]) for g in graphs for n in g.nodes if n.family == side]

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        rows = [(k.kind, k.count, k.macs, k.weights_bytes) for k in self.kinds]
        columns = ("operator", "number", "MACs at most", "bytes of weights")
        wrong = {} if self.error is None else {"cannot be compiled": self.error.message}
        return notebook.section(self.model, notebook.pairs(wrong), notebook.table(columns, rows))

    def to_json(self) -> dict[str, Any]:
        """The object of ``sdk inspect --json`` but for the error."""
        if self.drawing is None:
            return {"model": self.model, "supported": False}
        return {
            **self.drawing.to_json(),
            "inputs": [{"entry": e, **tensor_json(t)} for e, t in self.ends("input")],
            "outputs": [{"entry": e, **tensor_json(t)} for e, t in self.ends("output")],
            "operators": [asdict(k) for k in self.kinds],
            "refused": [asdict(r) for r in self.refused],
        }


def summarise(model: Path | ModelFile, options: BuildOptions) -> Summary:
    """``sdk inspect``: what a model file is.

    Raises:
        SdkError: it cannot be read, or is damaged.
    """
    drawing, error = draw(model, options)
    return Summary(drawing.model, drawing, error)


def _kind(name: str, nodes: list[DrawnNode]) -> Kind:
    total: Dim = sum((n.cost for n in nodes), 0)
    macs = None if any(n.macs is None for n in nodes) else max_value(total)
    text = "" if isinstance(total, int) else dim_text(total)
    return Kind(name, len(nodes), macs, text, sum(n.weights for n in nodes), sum(bool(n.why) for n in nodes))
