"""``sdk bench``: what a run costs: time where a clock can be trusted, instructions under emulation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sdk.cli import options, output, rack
from sdk.errors import RegressionError, UsageError
from sdk.notebook import show

if TYPE_CHECKING:
    from sdk.driver.measuring import PairReport

PAIR_SCHEMA = 1  # of the object of two builds
_COLUMNS = ("runs", "min_ms", "median_ms", "p90_ms", "instructions", "cycles", "est_cycles")
_TWO = 2
_MAX_PERCENT = 10_000


@click.command()
@click.argument(
    "targets", nargs=-1, required=True, metavar="MODEL|DIR...",
    callback=lambda *given: options.models_of(given[-1]),
)  # fmt: skip
@options.any_board_option
@options.device_option
@options.at_option
@options.entry_option
@click.option("--repeat", type=click.IntRange(1), default=10, show_default=True, help="Runs to measure.")
@click.option("--warmup", type=click.IntRange(0), default=2, show_default=True, help="Runs before, not counted.")
@click.option("--min-time", type=click.FloatRange(0), default=0.0, metavar="S", help="Go on for so many seconds.")
@click.option("--blocks", type=click.IntRange(1), default=31, show_default=True, help="Turns of two builds.")
@click.option("--baseline", type=options.FILE, metavar="FILE", help="Compare with an earlier --json.")
@click.option("--fail-above", metavar="P%", help="Exit with 9 when it costs so much more than the baseline, or than A.")
@click.option("--history", metavar="FILE.sqlite", type=options.FILE, help="Add the result to it; --html plots it.")
@click.option("--html", metavar="F", type=options.FILE, help="Write a page with a plot.")
@click.option("--trace", metavar="F", type=options.FILE, help="Write a trace for Perfetto and Chrome.")
@click.option("--farm", metavar="ADDRESS", help="Measure each model on each board of a farm that --board names.")
@rack.tls_option
@click.option("--resume", metavar="FILE", type=options.FILE, help="Keep a farm's results; do not measure them again.")
@options.build_options
@options.json_option
def bench(
    targets: tuple[options.Model, ...],
    board: str | None,
    device: str | None,
    at: tuple[str, ...],
    entry: str | None,
    repeat: int,
    warmup: int,
    min_time: float,
    blocks: int,
    baseline: Path | None,
    fail_above: str | None,
    history: Path | None,
    html: Path | None,
    trace: Path | None,
    farm: str | None,
    tls: tuple[Path, Path, Path] | None,
    resume: Path | None,
    as_json: bool,
    **compile_options: Any,
) -> None:
    """Measure a model, or a folder that sdk build made; two of them in turns, which tells small differences; any number
    of models on the boards of a farm."""
    from sdk import driver

    allowed = _part(fail_above)
    if farm is not None:
        alone = {"--device": device, "--baseline": baseline, "--fail-above": allowed, "--html": html, "--trace": trace}
        rack.refuse(alone)
        code = rack.bench(
            *(targets, farm, tls, board, options.make_options(**compile_options), options.parse_at(at), repeat, entry),
            warmup=warmup, min_time_s=min_time, resume=resume, history=history, as_json=as_json,
        )  # fmt: skip
        if code:
            raise click.exceptions.Exit(code)
        return
    if tls is not None or resume is not None:
        raise UsageError("--tls and --resume are of a farm", hint="give --farm ADDRESS too")
    if len(targets) > _TWO or (len(targets) == _TWO and (baseline or history) is not None):
        raise UsageError("one build is measured, or two in turns", hint="sdk bench OLD NEW --board B")
    if allowed is not None and baseline is None and len(targets) == 1:
        raise UsageError("--fail-above compares", hint="give --baseline FILE, or two builds: sdk bench OLD NEW")
    place, sizes = options.find_place(board, device, compile_options["gpu"]), options.parse_at(at)
    files = [options.existing(target) for target in targets]
    if len(files) == 1:
        options.resolve_gpu(compile_options, files[0], place, device, sizes, entry)
    built_with = options.make_options(**compile_options)
    if len(files) == _TWO:
        pair = driver.bench_pair((files[0], files[1]), place, device, built_with, sizes, entry, blocks=blocks)
        _write(html, "--html", lambda: driver.bench_page(pair.a, pair.b, pair))
        _write(trace, "--trace", lambda: json.dumps(driver.bench_trace(pair.a, pair.b)))
        if as_json:
            output.print_json(pair.to_json(), PAIR_SCHEMA)
        else:
            _say_pair(pair)
        _judge(allowed is None or not pair.differs or pair.change <= allowed)
        return
    report = driver.bench(
        *(files[0], place, device, built_with, sizes, repeat, built_with.threads, entry),
        warmup=warmup,
        min_time_s=min_time,
    )
    data = report.to_json()
    held = None if baseline is None else driver.compare_with(baseline, data, 0.0 if allowed is None else allowed)
    past = [] if history is None else driver.remember(history, data, device)
    _write(html, "--html", lambda: driver.bench_page(report, past=past))
    _write(trace, "--trace", lambda: json.dumps(driver.bench_trace(report)))
    if as_json:
        output.print_json(data if held is None else {**data, "baseline": held.to_json()})
    else:
        _say(data)
        if held is not None:
            output.say(f"{_signed(held.change)} of {held.before:g} {held.unit} in {held.file}")
        if past:
            output.say(f"{len(past)} {'measurement' if len(past) == 1 else 'measurements'} of it in {history}")
    _judge(held is None or allowed is None or held.passed)


def _judge(passed: bool) -> None:
    if not passed:
        raise click.exceptions.Exit(RegressionError.exit_code)


def _write(file: Path | None, option: str, text: Callable[[], str]) -> None:
    if file is not None:
        output.write_file(file, text(), option)


def _part(text: str | None) -> float | None:
    """The part that "5%" or "5" is; raise UsageError."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,5}(\.\d{1,6})?) ?%?", text.strip())
    if found is None or float(found[1]) > _MAX_PERCENT:
        raise UsageError(f"--fail-above {text} is no percentage", hint="--fail-above 5%")
    return float(found[1]) / 100


def _say(data: dict[str, Any]) -> None:
    where = f"{data['board']} ({data['device']}{', emulated' if data['emulated'] else ''})"
    output.print_table(f"{data['model']} on {where}", _COLUMNS, [[show(data[name]) for name in _COLUMNS]])
    for line in _remarks(data):
        output.say(line)


def _remarks(data: dict[str, Any]) -> Iterator[str]:
    if data.get("first_ms") is not None and data.get("median_ms_95"):
        low, high = data["median_ms_95"]
        yield f"median {low:.4g} to {high:.4g} ms, 19 times in 20; the first run took {data['first_ms']:.4g} ms"
    yield from (f"note: {line}" for line in data.get("notes", ()))


def _say_pair(pair: PairReport) -> None:
    a, b = pair.a.to_json(), pair.b.to_json()
    names = ["A", "B"]
    rows = [[name, data["model"], *(show(data[column]) for column in _COLUMNS[1:-1])]
            for name, data in zip(names, (a, b), strict=True)]  # fmt: skip
    where = f"{a['board']} ({a['device']}{', emulated' if a['emulated'] else ''})"
    output.print_table(f"in turns on {where}", ("", "model", *_COLUMNS[1:-1]), rows)
    sure = pair.interval
    between = "" if sure is None else f", {_signed(sure[0])} to {_signed(sure[1])} 19 times in 20"
    word = "B differs from A" if pair.differs else "no difference is told from chance"
    output.say(f"B: {_signed(pair.change)} of A{between}, by {len(pair.ratios)} blocks: {word}")
    for line in dict.fromkeys([*a["notes"], *b["notes"]]):
        output.say(f"note: {line}")


def _signed(part: float) -> str:
    return f"{100 * part:+.2f} %"
