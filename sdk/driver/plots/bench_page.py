"""The page of ``sdk bench --html``: samples in the order in which they were taken, and the machine meanwhile."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sdk.driver.plots.templates import render
from sdk.report import BenchReport

if TYPE_CHECKING:
    from sdk.driver.measuring import PairReport

__all__ = ["bench_page"]

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 960.0, 280.0, 90.0, 10.0, 16.0, 24.0
_DOTS = 4000  # drawn at most
_MARGIN = 0.08  # of the range, above and below
_UNITS = {"time": ("ms", 1e6), "cycles": ("cycles", 1.0), "instructions": ("instructions", 1.0)}


@dataclass(frozen=True)
class _Series:
    """A build's samples as dots, and its median as a line."""

    name: str
    color: str
    dots: tuple[tuple[float, float, str], ...]
    median: float
    cells: tuple[str, ...]


def bench_page(a: BenchReport, b: BenchReport | None = None, pair: PairReport | None = None) -> str:
    """The page, as HTML that is XML too: of one build, or of two that were measured in turns."""
    reports = [a] if b is None else [a, b]
    unit, scale = _UNITS.get(a.counter, (a.counter, 1.0))
    every = [sample / scale for report in reports for sample in report.samples]
    low, high = min(every), max(every)
    pad = (high - low) * _MARGIN or max(abs(high) * _MARGIN, 1e-9)
    low, high = max(0.0, low - pad), high + pad
    series = [_series(report, k, scale, low, high, len(reports) > 1) for k, report in enumerate(reports)]
    ticks = [(_y(low + (high - low) * k / 4, low, high), f"{low + (high - low) * k / 4:.4g}") for k in range(5)]
    return render(
        "bench.html.j2",
        heading=" and ".join(dict.fromkeys(report.model for report in reports)) + f" on {a.board}",
        report=a, series=series, ticks=ticks, unit=unit, verdict=_verdict(pair),
        width=WIDTH, height=HEIGHT, left=LEFT, right=WIDTH - RIGHT, bottom=HEIGHT - BOTTOM,
        facts=list(_facts(a)), notes=list(dict.fromkeys(line for report in reports for line in report.notes)),
        what="blocks" if pair else "runs",
    )  # fmt: skip


def _series(report: BenchReport, number: int, scale: float, low: float, high: float, several: bool) -> _Series:
    values = [sample / scale for sample in report.samples]
    step = max(1, -(-len(values) // _DOTS))
    wide = WIDTH - LEFT - RIGHT
    dots = tuple(
        (LEFT + wide * (k + 0.5) / len(values), _y(value, low, high), f"{k + 1}: {value:.6g}")
        for k, value in enumerate(values)
        if k % step == 0
    )
    cells = (len(values), min(values), statistics.median(values), max(values))
    name = f"{'AB'[number]}: {report.model}" if several else report.model
    median = _y(statistics.median(values), low, high)
    return _Series(name, f"c{number}", dots, median, tuple(f"{cell:.6g}" for cell in cells))


def _y(value: float, low: float, high: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value - low) / (high - low)


def _verdict(pair: PairReport | None) -> str:
    if pair is None:
        return ""
    sure = pair.interval
    between = "" if sure is None else f" ({100 * sure[0]:+.2f} to {100 * sure[1]:+.2f} %, 19 times in 20)"
    told = "" if pair.differs else ": no difference is told from chance"
    return f"B costs {100 * pair.change:+.2f} % of A{between}{told}."


def _facts(report: BenchReport) -> Iterator[tuple[str, str]]:
    """What was known of the machine, before and after."""
    for name, value in (report.conditions or {}).items():
        if isinstance(value, Sequence) and not isinstance(value, str):
            known = [f"{one:.4g}" if isinstance(one, float) else str(one) for one in value if one is not None]
            if known:
                yield name.replace("_", " "), " to ".join(known) if len(known) > 1 else known[0]
        elif value is not None:
            yield name.replace("_", " "), f"{value:.4g}" if isinstance(value, float) else str(value)
