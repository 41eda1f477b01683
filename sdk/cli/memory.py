"""``sdk memory``: where every byte of a model's memory goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sdk.cli import options, output
from sdk.cli.build import print_build

if TYPE_CHECKING:
    from sdk.compiler.memory.report import LiveTensor, PlanSummary, TimelineRow
    from sdk.report import MemoryReport
    from sdk.toolchains.linkmap import LinkMap

TOP = 8  # tensors listed
OWNERS = 12  # owners of an image's bytes listed
BAR = 12  # characters of the fullest step


@click.command()
@options.model_argument
@options.board_option
@options.at_option
@options.build_options
@click.option(
    "--html", metavar="F", type=options.FILE, help="Write a page with plots; F.svg: a plot alone."
)
@click.option("--firmware", is_flag=True, help="Link the board's image too, and show what it puts where.")
@options.json_option
def memory(
    model: options.Model,
    board: str,
    at: tuple[str, ...],
    html: Path | None,
    firmware: bool,
    as_json: bool,
    **compile_options: Any,
) -> None:
    """Show MODEL's memory plan against its lower bound."""
    from sdk import driver

    dims, target = options.parse_at(at), options.find_board(board)
    file, build_options = options.existing(model), options.make_options(**compile_options)
    linked = driver.firmware_map(file, target, build_options) if firmware else None
    report = driver.memory(file, target, build_options, dims)
    if html is not None:
        alone = html.suffix == ".svg"
        output.write_file(html, driver.memory_svg(report) if alone else driver.memory_page(report, target), "--html")
    if as_json:
        output.print_json(report.to_json() | {"firmware": None if linked is None else linked.to_json()})
        return
    print_build(report.to_json(), target)
    for line in memory_lines(report, output.width()):
        output.say(line)
    for line in () if linked is None else firmware_lines(linked):
        output.say(line)
    if html is not None:
        output.say(f"wrote {html}")


def memory_lines(report: MemoryReport, width: int) -> Iterator[str]:
    """The report in lines of at most ``width`` characters."""
    for line in _modes(report):
        yield from output.wrapped(line, width)
    for entry in report.entries:
        where = ", ".join(f"{name}={value}" for name, value in entry.dims.items())
        title = f"arena of {entry.entry}" if len(report.entries) > 1 else "arena"
        yield ""
        yield from output.wrapped(f"{title}{' at ' + where if where else ''}: {_against_bound(entry)}", width)
        yield from _Lines(entry, width).all()


def firmware_lines(linked: LinkMap) -> Iterator[str]:
    """The map of an image in lines."""
    for region in linked.regions:
        parts = ", ".join(f"{kind} {count:,}" for kind, count in region.parts.items())
        yield f"{region.name}: {region.used:,} of {region.size:,} B{': ' + parts if parts else ''}"
    yield f"{'flash':>9} {'RAM':>9}  of"
    for owner, flash, ram in linked.owners[:OWNERS]:
        yield f"{flash:>9,} {ram:>9,}  {owner}"
    rest = linked.owners[OWNERS:]
    if rest:
        yield f"{sum(r[1] for r in rest):>9,} {sum(r[2] for r in rest):>9,}  {len(rest)} others"


def _modes(report: MemoryReport) -> Iterator[str]:
    """What the other objectives would need."""
    for name, mode in report.others.items():
        ram, own = mode.build.ram_bytes, report.build.ram_bytes
        change = f" ({100 * (ram - own) / own:+.0f} %)" if own and ram != own else ", the same"
        yield f"--memory {name}: {ram:,} bytes of RAM{change}"


def _against_bound(entry: PlanSummary) -> str:
    if entry.optimal:
        return f"{entry.peak:,} bytes, proved: these tensors fit into no less"
    over = 100 * (entry.peak - entry.lower_bound) / max(entry.lower_bound, 1)
    return f"{entry.peak:,} bytes, {over:.1f} % above the lower bound of {entry.lower_bound:,}"


class _Lines:
    """The memory of an entry in lines; numbers of bytes are as wide as the largest."""

    def __init__(self, entry: PlanSummary, width: int) -> None:
        self.entry, self.width = entry, width
        self.digits = max([9, *(len(f"{r.bytes:,}") for r in entry.regions)])

    def all(self) -> Iterator[str]:
        for part in (self._peak(), self._regions(), self._largest(), self._steps()):
            yield ""
            yield from (output.cut(line, self.width) for line in part)

    def _peak(self) -> Iterator[str]:
        """The fullest step and what it holds."""
        step, rows = self.entry.fullest.step, self.entry.fullest.rows
        fullest = f"most in use, {self.entry.fullest.bytes:,} bytes"
        if not step:
            yield f"{fullest}, before step 1"
        elif step > len(self.entry.timeline):
            yield f"{fullest}, after the last step"
        else:
            row = self.entry.timeline[step - 1]
            part = f", at its row {rows[0]}" if rows is not None and row.runs > 1 else ""
            yield f"{fullest}, in step {step}{part}"
            yield f"{'':{self.digits}}  {row.ops or row.call}"
        yield from self._listed([(self._bytes(t.live), t.title) for t in self.entry.at_peak])

    def _regions(self) -> Iterator[str]:
        """The stretches of memory, and how much of them is in use at most."""
        yield f"{'bytes':>{self.digits}} {'in use':>{self.digits}}  region"
        for region in self.entry.regions:
            kind = "" if region.name == region.kind else f" ({region.kind})"
            yield f"{self._bytes(region.bytes)} {self._bytes(region.live)}  {region.name}{kind}"

    def _largest(self) -> Iterator[str]:
        """The largest tensors, and how they are kept."""
        yield f"{'bytes':>{self.digits}}  steps    largest tensors"
        yield from self._listed(
            [(f"{self._bytes(t.bytes)}  {_span(t):<7}", t.title + _kept(t)) for t in self.entry.tensors]
        )

    def _listed(self, rows: Sequence[tuple[str, str]]) -> Iterator[str]:
        """The first rows, and how many more there are."""
        yield from (f"{left}  {text}" for left, text in rows[:TOP])
        if len(rows) > TOP:
            yield f"{'':{self.digits}}  and {len(rows) - TOP} smaller"

    def _bytes(self, count: int) -> str:
        return f"{count:>{self.digits},}"

    def _steps(self) -> Iterator[str]:
        """A line for each step: bytes in use, at most, and what it computes."""
        steps = self.entry.timeline
        nested = max((len(r.repeats) for r in steps), default=0)
        runs = max([4, *(len(_runs(r)) for r in steps)])
        yield f"{'':{nested}}step {'in use':>{self.digits}}  {'':{BAR}}  {'rows':<{runs}}  source ops"
        for row in steps:
            bar = "#" * max(round(BAR * row.live_bytes / max(self.entry.peak, 1)), 1)
            turns = "".join("+" if first == row.step else "|" for first, _ in row.repeats)
            left = f"{turns:<{nested}}{row.step:>4} {self._bytes(row.live_bytes)}  {bar:<{BAR}}  {_runs(row):<{runs}}"
            yield f"{left}  {row.ops or row.call}"
        if nested:
            yield "+| steps take turns, row by row; in use: the most of all"


def _span(tensor: LiveTensor) -> str:
    return f"{tensor.first}-{tensor.last}" if tensor.first != tensor.last else str(tensor.first)


def _kept(tensor: LiveTensor) -> str:
    """How a tensor lies in memory where that is not whole and alone."""
    if tensor.ring is not None:
        return f", ring of {tensor.ring} of {tensor.rows} rows"
    return f", over {tensor.over[0]}" if tensor.over else ""


def _runs(row: TimelineRow) -> str:
    if row.rows is None:
        return "" if row.runs == 1 else f"{row.runs} x"
    return f"{row.runs} x {row.rows}" if row.runs > 1 else str(row.rows)
