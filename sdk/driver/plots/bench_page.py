"""The page of ``sdk bench --html``: samples in the order in which they were taken, and the machine meanwhile."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sdk.driver.plots.templates import render
from sdk.report import BenchReport

if TYPE_CHECKING:
    from sdk.driver.history import Past
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


@dataclass(frozen=True)
class _Plot:
    """Dots over an axis of values."""

    series: tuple[_Series, ...]
    ticks: tuple[tuple[float, str], ...]
    unit: str
    what: str


def bench_page(
    a: BenchReport, b: BenchReport | None = None, pair: PairReport | None = None, past: Sequence[Past] = ()
) -> str:
    """The page, as HTML that is XML too: of one build, or of two that were measured in turns; and how the cost went
    since the first of the ``past``."""
    reports = [a] if b is None else [a, b]
    unit, scale = _UNITS.get(a.counter, (a.counter, 1.0))
    named = [(f"{'AB'[k]}: {r.model}" if b else r.model, r.samples) for k, r in enumerate(reports)]
    told = [(name, [s / scale for s in samples], [""] * len(samples)) for name, samples in named]
    plots = [_plot(told, unit, f"{'blocks' if pair else 'runs'}, in the order in which they were taken")]
    if past:
        when = [f" {one.time}, {one.version}" for one in past]
        costs = [one.cost for one in past]
        plots.append(_plot([("", costs, when)], unit, f"measurements from {past[0].time} to {past[-1].time}"))
    return render(
        "bench.html.j2",
        heading=" and ".join(dict.fromkeys(report.model for report in reports)) + f" on {a.board}",
        report=a, plots=plots, verdict=_verdict(pair), width=WIDTH, height=HEIGHT, left=LEFT, right=WIDTH - RIGHT,
        facts=list(_facts(a)), notes=list(dict.fromkeys(line for report in reports for line in report.notes)),
    )  # fmt: skip


def _plot(told: Sequence[tuple[str, Sequence[float], Sequence[str]]], unit: str, what: str) -> _Plot:
    """Series by name, with values and what is said of each, over one axis."""
    every = [value for _, values, _ in told for value in values]
    low, high = min(every), max(every)
    pad = (high - low) * _MARGIN or max(abs(high) * _MARGIN, 1e-9)
    low, high = max(0.0, low - pad), high + pad
    series = tuple(_series(name, f"c{k}", values, more, low, high) for k, (name, values, more) in enumerate(told))
    steps = [low + (high - low) * k / 4 for k in range(5)]
    return _Plot(series, tuple((_y(value, low, high), f"{value:.4g}") for value in steps), unit, what)


def _series(
    name: str, color: str, values: Sequence[float], more: Sequence[str], low: float, high: float
) -> _Series:
    step = max(1, -(-len(values) // _DOTS))
    wide = WIDTH - LEFT - RIGHT
    dots = tuple(
        (LEFT + wide * (k + 0.5) / len(values), _y(value, low, high), f"{k + 1}: {value:.6g}{more[k]}")
        for k, value in enumerate(values)
        if k % step == 0
    )
    cells = (len(values), min(values), statistics.median(values), max(values))
    middle = _y(statistics.median(values), low, high)
    return _Series(name, color, dots, middle, tuple(f"{cell:.6g}" for cell in cells))


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
