"""A measurement in the trace format of Chrome and Perfetto: its runs one after the other, the machine as counters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sdk.report import BenchReport

__all__ = ["bench_trace"]

_PROCESS: Final = 1
_PER_US: Final = {"time": 1e3}  # of what samples count; other units are shown as that many microseconds
_COUNTERS: Final = {"mhz": "clock in MHz", "cap_mhz": "clock allowed in MHz", "temperature_c": "temperature in degrees",
                    "load": "load"}  # fmt: skip


def bench_trace(a: BenchReport, b: BenchReport | None = None) -> dict[str, Any]:
    """The object of the file: each sample as long as it is, in the order in which they were taken and without what lies
    between; of two builds each has a line of its own, on which it waits for the other's turns.

    Traces count microseconds; cycles and instructions are shown as that many of them, as the name of the process says.
    """
    reports = [a] if b is None else [a, b]
    scale = _PER_US.get(a.counter, 1.0)
    shown = "" if a.counter in _PER_US else f" (1 µs shown is 1 {a.counter.removesuffix('s')})"
    events = list(_events(reports, scale))
    end = max((event["ts"] + event.get("dur", 0.0) for event in events), default=0.0)
    return {
        "displayTimeUnit": "ns",
        "otherData": {
            "unit": a.counter, "threads": a.threads, "models": [report.model for report in reports], **a.place(),
            "conditions": a.conditions, "notes": list(dict.fromkeys(x for report in reports for x in report.notes)),
        },
        "traceEvents": [*_names(reports, shown), *events, *_counters(a, end)],
    }  # fmt: skip


def _names(reports: list[BenchReport], shown: str) -> Iterator[dict[str, Any]]:
    place = f"{reports[0].board} ({reports[0].ran_on}){shown}"
    yield {"ph": "M", "name": "process_name", "pid": _PROCESS, "tid": 0, "args": {"name": place}}
    for thread, report in enumerate(reports):
        name = f"{'AB'[thread]}: {report.model}" if len(reports) > 1 else report.model
        yield {"ph": "M", "name": "thread_name", "pid": _PROCESS, "tid": thread, "args": {"name": name}}


def _events(reports: list[BenchReport], scale: float) -> Iterator[dict[str, Any]]:
    at = 0.0
    what = "run" if len(reports) == 1 else "block"
    if len(reports) == 1 and reports[0].first is not None:
        yield _event("first run", "first", 0, at, reports[0].first / scale, 0)
        at += reports[0].first / scale
    for number in range(max(len(report.samples) for report in reports)):
        turns = list(enumerate(reports))
        for thread, report in turns if number % 2 == 0 else reversed(turns):
            if number < len(report.samples):
                cost = report.samples[number] / scale
                yield _event(f"{what} {number + 1}", what, thread, at, cost, number + 1)
                at += cost


def _event(name: str, kind: str, thread: int, at: float, cost: float, number: int) -> dict[str, Any]:
    return {"ph": "X", "name": name, "cat": kind, "pid": _PROCESS, "tid": thread, "ts": at, "dur": cost,
            "args": {"number": number}}  # fmt: skip


def _counters(report: BenchReport, end: float) -> Iterator[dict[str, Any]]:
    """What was known of the machine before and after."""
    for key, name in _COUNTERS.items():
        for at, value in zip((0.0, end), (report.conditions or {}).get(key) or (), strict=False):
            if value is not None:
                yield {"ph": "C", "name": name, "pid": _PROCESS, "ts": at, "args": {"value": value}}
