"""``sdk bench --farm``: each model on each board that a farm has, in one report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from sdk.cli import options, output
from sdk.errors import UsageError
from sdk.notebook import show

if TYPE_CHECKING:
    from sdk.driver import BuildOptions
    from sdk.farm.campaign import FarmReport
    from sdk.farm.kept import Result

SCHEMA: Final = 1  # of the object of a farm
_COLUMNS: Final = ("min_ms", "median_ms", "p90_ms", "instructions", "est_cycles")

tls_option = click.option(
    "--tls", nargs=3, type=options.FILE, metavar="CA CERT KEY", help="TLS: authority, certificate, key, in PEM files."
)


def refuse(given: Mapping[str, object]) -> None:
    """Raise UsageError where an option was given that is for one device."""
    wrong = [name for name, value in given.items() if value is not None]
    if wrong:
        hint = "leave it out; --json and --history have what a farm measured"
        raise UsageError(f"{wrong[0]} and --farm exclude each other", why="a farm has devices of its own", hint=hint)


def bench(
    targets: Sequence[options.Model],
    address: str,
    tls: tuple[Path, Path, Path] | None,
    board: str | None,
    build: BuildOptions,
    at: Mapping[str, int],
    repeat: int,
    entry: str | None,
    *,
    warmup: int,
    min_time_s: float,
    resume: Path | None,
    history: Path | None,
    as_json: bool,
) -> int:
    """Measure, print, and return the exit code: that of the first job that came to nothing, 0 where none did."""
    from sdk import driver
    from sdk.farm import Place, bench_farm

    if board is None:
        raise UsageError("no board", where="--farm", hint="--board 'nrf*' takes those that begin so, --board '*' all")

    def remember(result: Result) -> None:
        if history is not None:
            driver.remember(history, result.report.to_json(), f"{result.device} at {result.host}")

    report = bench_farm(
        *(Place.read(address, tls), board, [options.existing(one) for one in targets], build, at, repeat, entry),
        warmup=warmup, min_time_s=min_time_s, resume=resume, on_result=remember,
    )  # fmt: skip
    if as_json:
        output.print_json(report.to_json(), SCHEMA)
    else:
        _say(report)
    return report.failed[0].failure.exit_code if report.failed else 0


def _say(report: FarmReport) -> None:
    rows = []
    for one in report.measured:
        data = one.to_json()
        where = f"{one.result.device} at {one.result.host}{' (kept)' if one.kept else ''}"
        rows.append([data["model"], data["board"], *(show(data[column]) for column in _COLUMNS), where])
    if rows:
        output.print_table("", ("model", "board", *_COLUMNS, "where"), rows)
    for line in _remarks(report):
        output.say(line)


def _remarks(report: FarmReport) -> Iterator[str]:
    """What went wrong, and what a reader of the numbers must know."""
    from sdk.farm.campaign import Attempt

    for one in report.measured:
        name = f"{one.result.report.model} on {one.result.report.board}"
        yield from (f"{name}: tried again after {_tried(attempt.to_json())}" for attempt in one.attempts)
        yield from (f"note: {name}: {line}" for line in one.result.report.notes)
    for lost in report.failed:
        tries = [_tried(attempt.to_json()) for attempt in lost.attempts]
        last = _tried(Attempt("", "", lost.failure).to_json())
        if lost.attempts and lost.attempts[-1].failure == lost.failure:
            last = tries.pop()
        yield f"not measured: {lost.model} on {lost.board}: {last}"
        yield from (f"  tried before: {line}" for line in tries)
        if lost.failure.hint:
            yield f"  hint: {lost.failure.hint}"


def _tried(attempt: Mapping[str, Any]) -> str:
    place = f"{attempt['device']} at {attempt['host']}: " if attempt["host"] else ""
    return f"{place}{attempt['message']}{': ' + attempt['why'] if attempt['why'] else ''}"
