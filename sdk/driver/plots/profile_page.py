"""The page of ``sdk profile --html``: one file that asks for nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sdk.amounts import named_weights
from sdk.driver.plots.profile_plot import UNITS, macs_per_unit, profile_plot, short_title, units
from sdk.driver.plots.templates import render
from sdk.driver.plots.words import bytes_text, short_number
from sdk.profile import OpProfile, ProfileReport

__all__ = ["profile_page"]


@dataclass(frozen=True)
class _Row:
    """What the table says of an operator beside its own fields."""

    op: OpProfile
    title: str
    more: str
    cost: float
    rate: float | None
    peak: float | None
    tip: str


def profile_page(*reports: ProfileReport) -> str:
    """The page, as HTML that is XML too: each run as a plot, and a table that sorts by any column. Runs in one unit are
    drawn over the same axes, so that what is as wide takes as long, and what is as high as much memory."""
    views = [
        _view(report, [r for r in reports if r.unit == report.unit], f"m{number}-" if number else "")
        for number, report in enumerate(reports)
    ]
    told = " and ".join(dict.fromkeys(f"{r.model} on {r.board}" for r in reports))
    return render("profile.html.j2", views=views, heading=f"Profile of {told}")


def _view(report: ProfileReport, beside: Sequence[ProfileReport], prefix: str) -> dict[str, Any]:
    """What the page shows of a run over the axes of all that are shown ``beside`` it; ``prefix`` begins the names of
    what is in several places."""
    rows = [_row(op, report) for op in report.ops]
    others = [name for name in UNITS if name != report.unit and any(getattr(r.op, name) is not None for r in rows)]
    return dict(
        id=prefix,
        report=report,
        rows=rows,
        unit=units(report),
        others=[(name, UNITS[name][2]) for name in others],
        maximum=max((r.op.share for r in rows), default=0.0) or 1.0,
        plot=profile_plot(report, beside) if rows else None,
        cards=list(_cards(report)),
        summary=_summary(report),
        peaks=any(r.peak is not None for r in rows),
        turns=any(op.calls > 1 for op in report.ops),
    )


def _row(op: OpProfile, report: ProfileReport) -> _Row:
    peaks = [p for p in (op.peak_compute, op.peak_bandwidth) if p is not None]
    title = short_title(op)
    more = op.source_ops.removeprefix(title).removeprefix(", ")
    cost = f"{_number(report.cost(op))} {units(report)[0]}, {_percent(op.share)} of the run"
    facts = [op.source_ops or op.name, cost]
    facts += [f"{op.macs:,} multiply-accumulates"] if op.macs else []
    facts += [f"{op.bytes:,} bytes read and written", f"{op.live_bytes:,} bytes of the arena in use"]
    facts += [f"kernel {op.name}" + (f", called {op.calls} times" if op.calls != 1 else "")]
    rate = macs_per_unit(op, report)
    return _Row(op, title, more, report.cost(op), rate, max(peaks, default=None), "\n".join(facts))


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or float(value).is_integer() else f"{value:.3g}"


def _cards(report: ProfileReport) -> Iterator[tuple[str, str]]:
    for name, unit in UNITS.items():
        value = report.total.get(name)
        if value is not None:
            yield unit[0], _number(value)
    macs, total = sum(op.macs for op in report.ops), report.whole
    if macs and total:
        yield from ((name, short_number(count)) for name, count in report.macs.named("MACs") if count is not None)
        yield f"MACs per {units(report)[3]}", f"{macs / total:.2f}"
        if report.peak is not None and report.peak.macs:
            yield "of the peak", f"{100 * macs / total / report.peak.macs:.0f} %"
    yield from ((name, bytes_text(size)) for name, size in named_weights(report.weights) if size is not None)
    held, have = max((op.live_bytes for op in report.ops), default=0), report.board_ram_bytes
    yield "arena at most", bytes_text(held)
    if have:
        yield f"of the board's {bytes_text(have)}", f"{100 * held / have:.1f} %"


def _summary(report: ProfileReport) -> str:
    """What takes most, in a sentence."""
    if not report.ops:
        return "There is no operator to measure."
    first, *rest = sorted(report.ops, key=lambda op: -op.share)
    text = f"{len(report.ops)} operators. Most is {short_title(first)} with {_percent(first.share)}"
    if rest:
        text += f", then {short_title(rest[0])} with {_percent(rest[0].share)}"
    heavy, held = 0, 0.0
    for op in (first, *rest):
        if held >= 0.8:
            break
        heavy, held = heavy + 1, held + op.share
    return f"{text}; {heavy} make up {_percent(held)} of the run."
