"""The page of ``sdk memory --html``, or its plot alone: one file that asks for nothing from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from sdk.amounts import named_weights
from sdk.boards import Board
from sdk.compiler.memory.report import LiveTensor, PlanSummary
from sdk.driver.plots.memory_plot import Plot, plot_of
from sdk.driver.plots.templates import render
from sdk.report import BuildReport, MemoryReport

__all__ = ["memory_page", "memory_svg"]

TOP = 12  # tensors listed


@dataclass(frozen=True)
class _Entry:
    """What the page shows of an entry."""

    summary: PlanSummary
    plot: Plot
    largest: tuple[LiveTensor, ...]
    fullest: str

    @property
    def colors(self) -> dict[int, str]:
        """The class that colours each tensor."""
        return {s.tensor: s.classes.split()[0] for panel in self.plot.panels for s in panel.shapes}

    @property
    def over_bound(self) -> str:
        """How far the arena is above its bound."""
        if self.summary.optimal:
            return "proved: these tensors fit into no less"
        over = 100 * (self.summary.peak / self.summary.lower_bound - 1)
        return f"{over:.1f} % above the lower bound"


def memory_page(report: MemoryReport, board: Board) -> str:
    """The page, as HTML that is XML too."""
    modes = {name: (mode, [_entry(e) for e in mode.entries]) for name, mode in report.modes.items()}
    return render(
        "memory.html.j2",
        report=report,
        build=report.build,
        board=board,
        modes=modes,
        bars={name: _bar(mode.build, report, board) for name, mode in report.modes.items()},
        bounds={name: max((e.lower_bound for e in mode.entries), default=0) for name, mode in report.modes.items()},
        parts={what: k for k, (what, size) in enumerate(report.build.ram_parts.items()) if size},
        several=len(report.entries) > 1,
        named_weights=named_weights,
    )


def memory_svg(report: MemoryReport) -> str:
    """The plot of the first entry alone, as an SVG file."""
    entry = _entry(report.entries[0])
    title = f"Memory of {report.build.model} on {report.build.board}: arena of {entry.summary.peak:,} bytes"
    return render("memory.svg.j2", s=entry.summary, p=entry.plot, title=title)


def _entry(summary: PlanSummary) -> _Entry:
    return _Entry(summary, plot_of(summary), summary.tensors[:TOP], _fullest(summary))


def _fullest(summary: PlanSummary) -> str:
    step = summary.fullest.step
    if not step:
        return "before step 1"
    if step > len(summary.timeline):
        return "after the last step"
    row = summary.timeline[step - 1]
    rows = summary.fullest.rows
    part = f", at its row {rows[0]}" if rows is not None and row.runs > 1 else ""
    return f"in step {step}{part}: {row.ops or row.call}"


def _bar(build: BuildReport, report: MemoryReport, board: Board) -> list[tuple[str, int, float, int]]:
    """What the RAM is made of: words, bytes, percent of the board's RAM (of the largest plan, where that is larger or
    the board has none of its own), colour."""
    largest = max([1, *(m.build.ram_bytes for m in report.modes.values())])
    widest = max(largest, board.ram_bytes or 0)
    parts = enumerate(build.ram_parts.items())
    return [(name, size, 100 * size / widest, color) for color, (name, size) in parts if size]
