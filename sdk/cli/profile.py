"""``sdk profile``: what each operator takes, beside what it has to do."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sdk.amounts import named_macs, named_weights
from sdk.cli import options, output
from sdk.errors import UsageError

if TYPE_CHECKING:
    from sdk.profile import OpProfile, ProfileReport

SCHEMA = 2  # of the object of --json; 1 had what a model of costs predicted
BAR = 10  # characters of the largest share
NAME = 12  # characters of an operator's name that are shown at least
WIDE = 100  # columns from which on there is room for bars
_TITLES = {"median_us": "us", "cycles": "cycles", "est_cycles": "est. cycles", "instructions": "instructions"}


@click.command()
@click.argument(
    "targets", nargs=-1, required=True, metavar="MODEL|DIR...", callback=lambda *given: options.models_of(given[-1])
)
@options.any_board_option
@options.device_option
@options.at_option
@options.entry_option
@click.option("--repeat", type=click.IntRange(1), default=10, show_default=True, help="Runs to time.")
@click.option("--html", metavar="F", type=options.FILE, help="Write a page with plots.")
@click.option("--trace", metavar="F", type=options.FILE, help="Write a trace for Perfetto and Chrome.")
@options.build_options
@options.json_option
def profile(
    targets: tuple[options.Model, ...],
    board: str | None,
    device: str | None,
    at: tuple[str, ...],
    entry: str | None,
    repeat: int,
    html: Path | None,
    trace: Path | None,
    as_json: bool,
    **compile_options: Any,
) -> None:
    """Measure a model, or a folder that sdk build made, operator by operator; several are drawn over one axis."""
    from sdk import driver

    if trace is not None and len(targets) > 1:
        raise UsageError("a trace is of one model", where="--trace", hint="--html draws several over one axis")
    files = [options.existing(target) for target in targets]
    place, sizes = options.find_place(board, device, compile_options["gpu"]), options.parse_at(at)
    if len(files) == 1:
        options.resolve_gpu(compile_options, files[0], place, device, sizes, entry)
    reports = [
        driver.profile(
            file,
            place,
            device,
            options.make_options(**compile_options),
            sizes,
            repeat,
            entry,
        )
        for file in files
    ]
    if html is not None:
        output.write_file(html, driver.profile_page(*reports), "--html")
    if trace is not None:
        output.write_file(trace, json.dumps(driver.chrome_trace(reports[0])), "--trace")
    if as_json:
        objects = [report.to_json() for report in reports]
        output.print_json(objects[0] if len(objects) == 1 else {"models": objects}, SCHEMA)
        return
    for number, report in enumerate(reports):
        for line in ["" for _ in range(min(number, 1))] + [*profile_lines(report, output.width())]:
            output.say(line)
    for path in (html, trace):
        if path is not None:
            output.say(f"wrote {path}")


def profile_lines(report: ProfileReport, width: int) -> Iterator[str]:
    """The report in lines of at most ``width`` characters."""
    dims = ", ".join(f"{name}={value}" for name, value in report.at.items())
    yield output.cut(f"{report.model} on {report.board} ({report.ran_on}){f' at {dims}' if dims else ''}", width)
    table = _Table(report, width)
    yield from table.lines()
    covered, added = 100 * report.covered, 100 * report.overhead
    notes = (
        _amounts(named_weights(report.weights), " B"),
        _amounts(named_macs({report.entry: report.macs})),
        f"the operators are {covered:.1f} % of the run; measuring them adds {added:.2f} %",
        *report.notes,
    )
    for note in notes:
        yield from output.wrapped(note, width)


def _amounts(named: Iterable[tuple[str, int | None]], unit: str = "") -> str:
    """``weights in the model 30,008 B, weights as compiled 37,176 B``."""
    return ", ".join(f"{name} {count:,}{unit}" for name, count in named if count is not None)


class _Table:
    """The columns of a report that a terminal has room for."""

    def __init__(self, report: ProfileReport, width: int) -> None:
        self.report = report
        self.costs = [name for name in _TITLES if report.total.get(name) is not None]
        self.width, self.wide = width, width >= WIDE
        self.maximum = max((op.share for op in report.ops), default=0.0)

    def lines(self) -> Iterator[str]:
        """All of it; where there is no room for the numbers and a name, a paragraph for each operator."""
        if self.width >= len(self.head()) + NAME:
            yield self.head()
            yield from (output.cut(self.line(op), self.width) for op in self.report.ops)
            yield self.total()
            return
        for op in self.report.ops:
            yield output.cut(f"{op.step:>4}  {100 * op.share:>4.1f} %  {op.source_ops or op.name}", self.width)
            yield from output.wrapped(", ".join(self._facts(op)), self.width, " " * 6)
        yield from output.wrapped(f"all: {', '.join(self._sums())}", self.width)

    def _facts(self, op: OpProfile) -> Iterator[str]:
        """The numbers of an operator by name."""
        yield f"MACs {op.macs:,}"
        yield from (f"{_TITLES[name]} {_number(getattr(op, name))}" for name in self.costs)
        if op.macs:
            yield f"{_per_mac(self.report)} {_ratio(self.report.unit, self.report.cost(op), op.macs)}"
        if op.peak_compute is not None and op.macs:
            yield f"peak {100 * op.peak_compute:.0f} %"

    def _sums(self) -> Iterator[str]:
        macs = sum(op.macs for op in self.report.ops)
        yield f"MACs {macs:,}"
        yield from (f"{_TITLES[name]} {_number(self.report.total[name])}" for name in self.costs)
        yield f"{_per_mac(self.report)} {_ratio(self.report.unit, self.report.whole, macs)}"

    def head(self) -> str:
        """Titles of the columns."""
        costs = "".join(f"{_TITLES[name]:>13}" for name in self.costs)
        bar = f"  {'':{BAR}}" if self.wide else ""
        return f"step{'MACs':>12}{costs}{_per_mac(self.report):>8}{'peak':>6} {'share':>6}{bar}  source ops"

    def line(self, op: OpProfile) -> str:
        """An operator."""
        costs = "".join(f"{_number(getattr(op, name)):>13}" for name in self.costs)
        peak = "-" if op.peak_compute is None or not op.macs else f"{100 * op.peak_compute:.0f} %"
        each = _ratio(self.report.unit, self.report.cost(op), op.macs)
        bar = f"  {'#' * round(BAR * op.share / self.maximum) if self.maximum else '':{BAR}}" if self.wide else ""
        numbers = f"{op.step:>4}{op.macs:>12,}{costs}{each:>8}{peak:>6} {100 * op.share:>4.1f} %"
        return f"{numbers}{bar}  {op.source_ops or op.name}"

    def total(self) -> str:
        """The whole run."""
        macs = sum(op.macs for op in self.report.ops)
        costs = "".join(f"{_number(self.report.total[name]):>13}" for name in self.costs)
        return f" all{macs:>12,}{costs}{_ratio(self.report.unit, self.report.whole, macs):>8}"


def _per_mac(report: ProfileReport) -> str:
    return {"median_us": "GMAC/s", "instructions": "i/MAC"}.get(report.unit, "c/MAC")


def _ratio(unit: str, cost: float, macs: int) -> str:
    if not macs or not cost:
        return "-"
    return f"{macs / cost / 1e3:.1f}" if unit == "median_us" else f"{cost / macs:.2f}"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1e6 or float(value).is_integer() else f"{value:,.1f}"
