"""A profile in the trace format of Chrome and Perfetto: one run as a timeline, the arena as a counter below it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sdk.driver.plots.profile_plot import UNITS, macs_per_unit, short_title, units
from sdk.profile import OpProfile, ProfileReport

__all__ = ["chrome_trace"]

_PROCESS, _THREAD = 1, 1


def chrome_trace(report: ProfileReport) -> dict[str, Any]:
    """The object of the file: operators one after the other, each as long as all of its calls.

    Traces count microseconds; a cost in another unit is shown as that many of them, as the name of the process says.
    """
    whole = report.whole or sum(map(report.cost, report.ops))
    return {
        "displayTimeUnit": "ns",
        "otherData": {
            **report.place(), "unit": report.unit, "total": whole, "overhead": report.overhead,
            "notes": list(report.notes),
        },
        "traceEvents": [*_names(report), *_events(report, whole)],
    }  # fmt: skip


def _names(report: ProfileReport) -> Iterator[dict[str, Any]]:
    scale = "" if report.unit == "median_us" else f" (1 µs shown is 1 {units(report)[1]})"
    for what, text in (
        ("process_name", f"{report.model} on {report.board}{scale}"),
        ("thread_name", f"one run, {report.ran_on}"),
    ):
        yield {"ph": "M", "name": what, "pid": _PROCESS, "tid": _THREAD, "args": {"name": text}}


def _events(report: ProfileReport, whole: float) -> Iterator[dict[str, Any]]:
    same = {"pid": _PROCESS, "tid": _THREAD}
    yield {"ph": "X", "name": "run", "cat": "run", "ts": 0.0, "dur": whole, **same, "args": {"unit": report.unit}}
    at = 0.0
    for op in report.ops:
        cost = report.cost(op)
        yield {
            "ph": "X", "name": short_title(op), "cat": op.kind or "op", "ts": at, "dur": cost, **same,
            "args": _facts(op, report),
        }  # fmt: skip
        yield {"ph": "C", "name": "arena bytes in use", "pid": _PROCESS, "ts": at, "args": {"bytes": op.live_bytes}}
        at += cost
    yield {"ph": "C", "name": "arena bytes in use", "pid": _PROCESS, "ts": at, "args": {"bytes": 0}}


def _facts(op: OpProfile, report: ProfileReport) -> dict[str, Any]:
    """What a viewer lists of an operator: all that is known."""
    facts = {
        "source ops": op.source_ops, "kernel": op.name, "step": op.step, "calls": op.calls, "MACs": op.macs,
        "bytes": op.bytes, "share": round(op.share, 6), f"MACs per {units(report)[1]}": macs_per_unit(op, report),
        **{name: getattr(op, name) for name in UNITS},
    }  # fmt: skip
    return {name: value for name, value in facts.items() if value is not None}
