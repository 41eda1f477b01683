"""The plot of a profile: each operator as wide as it costs, what it does in that time, and the memory meanwhile."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sdk.driver.plots.families import family_of_words
from sdk.driver.plots.graph import color_of
from sdk.driver.plots.labels import fitting, short_names
from sdk.driver.plots.words import short_number
from sdk.profile import OpProfile, ProfileReport

__all__ = ["UNITS", "Bar", "Panel", "ProfilePlot", "length", "macs_per_unit", "profile_plot", "short_title", "units"]

WIDTH = 960.0
LEFT = 66.0
NAMES = 96.0  # height of the operators' boxes
PANEL = 84.0
GAP = 26.0  # between panels, with a heading
FAR = 3.0  # a peak that is this much above all is not drawn, only told

# What a cost is called: of several, of one, and both in the narrow head of a table.
UNITS = {
    "median_us": ("µs", "µs", "µs", "µs"),
    "cycles": ("cycles", "cycle", "cycles", "cycle"),
    "est_cycles": ("estimated cycles", "estimated cycle", "est. cycles", "cycle"),
    "instructions": ("instructions", "instruction", "instructions", "instr."),
}
Ticks = tuple[tuple[float, str], ...]


def units(report: ProfileReport) -> tuple[str, str, str, str]:
    """What the cost of a report is called, as in ``UNITS``."""
    return UNITS.get(report.unit, (report.unit,) * 4)


@dataclass(frozen=True)
class Bar:
    """An operator in a panel: its number in the report, a rectangle, the colour, a label that fits ("" = none)."""

    op: int
    x: float
    y: float
    width: float
    height: float
    color: str
    label: str = ""
    turned: bool = False


@dataclass(frozen=True)
class Panel:
    """A stripe of the plot with a heading, heights of round numbers, and a line at what is possible at most."""

    heading: str
    top: float
    bottom: float
    bars: tuple[Bar, ...]
    ticks: Ticks = ()
    line: float | None = None


@dataclass(frozen=True)
class ProfilePlot:
    """Panels from top to bottom over one axis of cost; ``rest``: where what belongs to no operator begins, ``end``:
    where the run ends."""

    width: float
    height: float
    left: float
    panels: tuple[Panel, ...]
    axis: Ticks
    rest: float
    end: float
    legend: tuple[tuple[str, str], ...]


def length(report: ProfileReport) -> float:
    """What a run takes, in the unit of its report."""
    return max(report.whole, sum(map(report.cost, report.ops)), 1e-9)


def profile_plot(report: ProfileReport, beside: Sequence[ProfileReport] = ()) -> ProfilePlot:
    """The plot of a run, over the axes of all runs that are shown ``beside`` it: in one unit, wherever a bar of one is
    as large as that of another it stands for as much."""
    shown = (report, *beside)
    total = max(map(length, shown))
    scale = (WIDTH - LEFT - 8) / total
    spans, at = [], LEFT
    for op in report.ops:
        spans.append((at, report.cost(op) * scale))
        at += report.cost(op) * scale
    families = [family_of_words(_kind(op)) for op in report.ops]
    colors = [color_of(f) for f in families]
    panels = [_names(report.ops, spans, colors)]
    if any(op.macs for op in report.ops):
        maximum = max(macs_per_unit(op, r) or 0.0 for r in shown for op in r.ops)
        panels.append(_rates(report, spans, colors, panels[-1].bottom + GAP, maximum))
    if any(op.live_bytes for op in report.ops):
        held = max(op.live_bytes for r in shown for op in r.ops)
        panels.append(_memory(report, spans, panels[-1].bottom + GAP, held))
    axis = tuple((LEFT + value * scale, short_number(value)) for value in _round(total, 6))
    legend = tuple((f, color_of(f)) for f in dict.fromkeys(families))
    end = LEFT + length(report) * scale
    return ProfilePlot(WIDTH, panels[-1].bottom + 24, LEFT, tuple(panels), axis, at, end, legend)


def macs_per_unit(op: OpProfile, report: ProfileReport) -> float | None:
    """Multiply-accumulates in one unit of cost; None where there are none, or no cost."""
    return op.macs / report.cost(op) if op.macs and report.cost(op) else None


def short_title(op: OpProfile) -> str:
    """The operator's name in the source model, of several the first."""
    return op.source_ops.split(", ")[0] or op.name


def _kind(op: OpProfile) -> str:
    return f"{op.kind} {op.source_ops.split(' ')[0]}" if op.kind else op.source_ops.split(" ")[0]


def _names(ops: Sequence[OpProfile], spans: Sequence[tuple[float, float]], colors: Sequence[str]) -> Panel:
    top, bars = 18.0, []
    titles = [_without_kind(short_title(op)) for op in ops]
    for k, (names, (x, width), color) in enumerate(zip(short_names(titles), spans, colors, strict=True)):
        words = [short_title(ops[k]), titles[k], *names]
        label = fitting(words, width, NAMES)
        turned = "" if label else fitting(words, NAMES, width)
        bars.append(Bar(k, x, top, width, NAMES, color, label or turned, bool(turned)))
    return Panel("operators, as wide as they cost", top, top + NAMES, tuple(bars))


def _without_kind(title: str) -> str:
    return title.split(" ", 1)[-1]


def _rates(
    report: ProfileReport, spans: Sequence[tuple[float, float]], colors: Sequence[str], top: float, maximum: float
) -> Panel:
    rates = [macs_per_unit(op, report) or 0.0 for op in report.ops]
    peak = report.peak.macs if report.peak is not None else None
    shown = peak is not None and peak < FAR * maximum
    maximum = max(maximum, peak or 0.0) if shown else maximum

    def y(rate: float) -> float:
        return top + PANEL * (1 - rate / maximum)

    bars = tuple(
        Bar(k, x, y(rate), width, top + PANEL - y(rate), color)
        for k, (rate, (x, width), color) in enumerate(zip(rates, spans, colors, strict=True))
        if rate
    )
    heading = f"multiply-accumulates per {units(report)[1]}"
    if peak is not None:
        heading += f", at most {short_number(peak)}" + (" (the line)" if shown else "")
    return Panel(heading, top, top + PANEL, bars, _ticks(maximum, y), y(peak) if shown and peak else None)


def _memory(report: ProfileReport, spans: Sequence[tuple[float, float]], top: float, maximum: int) -> Panel:
    def y(size: float) -> float:
        return top + PANEL * (1 - size / maximum)

    bars = tuple(
        Bar(k, x, y(op.live_bytes), width, top + PANEL - y(op.live_bytes), "c0 soft")
        for k, (op, (x, width)) in enumerate(zip(report.ops, spans, strict=True))
    )
    used, have = max(op.live_bytes for op in report.ops), report.board_ram_bytes
    of_board = f", at most {100 * used / have:.1f} % of the board's RAM" if have else ""
    return Panel(f"bytes of the arena in use{of_board}", top, top + PANEL, bars, _ticks(maximum, y))


def _ticks(maximum: float, y: Callable[[float], float]) -> Ticks:
    return tuple((y(value), short_number(value)) for value in _round(maximum, 3))


def _round(maximum: float, count: int) -> Iterator[float]:
    """Round numbers from 0 to ``maximum``, about ``count`` above 0."""
    step = maximum / count
    unit = 10.0 ** math.floor(math.log10(step))
    step = next(unit * k for k in (1, 2, 5, 10) if unit * k >= step * 0.75)
    for k in range(int(maximum / step * (1 + 1e-9)) + 1):
        yield float(f"{k * step:.6g}")
