"""``sdk fit``: which boards a model fits, with how much to spare, and how long a run would take there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from sdk.cli import options, output, progress
from sdk.notebook import show

if TYPE_CHECKING:
    from sdk.driver.fitting import BoardFit, FitReport
    from sdk.driver.roofline import PhoneReport

SCHEMA = 4  # of the object of --json: 3 had min_ram_bytes, 2 counted no firmware, 1 called the objective aim
PHONES_SCHEMA = 2  # 1 had least, most and least_ms
_COLUMNS = ("board", "core", "MHz", "fits", "RAM", "of it", "flash", "of it", "instructions", "est. ms")
_WORDS = {"ram": "RAM", "flash": "flash"}
_OBJECTIVES = {"time": "yes", "min": "min", None: "no"}


@click.command()
@options.model_argument
@options.dim_option
@options.at_option
@options.opt_option
@options.custom_option
@options.tensors_option
@click.option("--all", "every", is_flag=True, help="Also boards that exist in an emulator only.")
@click.option("--phones", is_flag=True, help="Phones and Linux boards instead: what their fastest core needs at least.")
@options.json_option
def fit(
    model: options.Model, dims: tuple[str, ...], at: tuple[str, ...], opt: Literal["time", "size"],
    custom: tuple[str, ...], safetensors: tuple[str, ...], every: bool, phones: bool, as_json: bool,
) -> None:  # fmt: skip
    """Compare MODEL with every board: does it fit, what is left, how long does a run take?"""
    from sdk import driver
    from sdk.boards import board_names, load_board

    boards = [b for b in map(load_board, board_names()) if every or not b.emulated_only]
    choices = driver.BuildOptions(
        dims=options.parse_dims(dims), opt=opt, custom=tuple(map(Path, custom)),
        safetensors=tuple(map(Path, safetensors)),
    )  # fmt: skip
    if phones:
        _phones(driver.fit_phones(options.existing(model), choices, options.parse_at(at), boards), as_json)
        return
    seen = _told if progress.is_shown(as_json) else lambda _: None
    report = driver.fit(options.existing(model), choices, options.parse_at(at), boards, seen)
    if as_json:
        output.print_json(report.to_json(), SCHEMA)
        return
    fitting = [b for b in report.boards if b.objective is not None]
    output.print_table(
        f"{report.model}: fits {len(fitting)} of {len(report.boards)} boards", _COLUMNS, list(map(_row, report.boards))
    )
    for line in _lines(report, fitting):
        output.say(line)


def _phones(report: PhoneReport, as_json: bool) -> None:
    if as_json:
        output.print_json(report.to_json(), PHONES_SCHEMA)
        return
    rows = [
        [p.board, p.cpu, f"{p.clock_hz / 1e6:g}", f"{p.ram_bytes:,}", f"{p.weights_bytes:,}", _ms(p.min_ms)]
        for p in report.phones
    ]
    title = f"{report.model}: a run in one thread of the fastest core"
    output.print_table(title, ("board", "core", "MHz", "RAM", "weights", "at least ms"), rows)
    kind, times = {"float": "floats", "int8": "8 bits"}[report.kind], report.published
    output.say("")
    output.say("at least ms: products at the core's peak, or weights at the memory's, whichever takes longer.")
    output.say(
        f"Published runs in {kind} take {times.minimum:.1f} to {times.maximum:.1f} times as long, the median "
        f"{times.median:.1f} (sdk help fit). RAM: arena and states."
    )


def _told(row: BoardFit) -> None:
    """Says of a board what is known, before the table of all."""
    time = "" if row.est_ms is None else f", est. {_ms(row.est_ms)} ms"
    fits = f"fits: {_OBJECTIVES[row.objective]}, {row.ram_bytes:,} bytes of RAM, {row.flash_bytes:,} of flash{time}"
    output.say(f"{row.board}: {fits}", err=True)


def _row(row: BoardFit) -> list[str]:
    return [
        row.board,
        row.cpu,
        "-" if row.clock_hz is None else f"{row.clock_hz / 1e6:g}",
        "tight" if row.tight and row.objective == "time" else _OBJECTIVES[row.objective],
        f"{row.ram_bytes:,}",
        _percent(row.ram_part),
        f"{row.flash_bytes:,}",
        _percent(row.flash_part),
        show(row.instructions),
        "-" if row.est_ms is None else _ms(row.est_ms),
    ]


def _ms(value: float) -> str:
    """Three digits at most: no more are known."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _percent(part: float) -> str:
    percent = 100 * part
    return f"{percent:.0f}%" if percent >= 1 else "<1%"


def _lines(report: FitReport, fitting: Sequence[BoardFit]) -> Iterator[str]:
    """What the table does not say."""
    lacking = [b for b in report.boards if b.objective is None]
    yield ""
    for row in lacking:
        yield f"{row.board}: {_short(row.short)}"
    if report.boards:
        yield "of it: with an image's firmware and stack, which take RAM and flash too; tight: above 90 % of either"
    if any(b.objective == "min" for b in fitting):
        yield "min: fits with --memory min, whose RAM, flash and time are shown"
    if fitting:
        smallest = min(fitting, key=lambda b: (b.ram_have, b.flash_have))
        yield f"least RAM of a board that it fits: {smallest.board}, {smallest.ram_have // 1024:,} KiB"
    if any(b.est_ms is not None for b in report.boards):
        yield "est. ms: counted instructions, cycles by each core's public table, the clock; without flash wait states."
        yield f"Published runs take, against such estimates, {_errors(report)} (sdk help fit)."
    yield from report.notes


def _short(short: Mapping[str, int]) -> str:
    """What a board has too little of, even for the plan for least RAM."""
    parts = [f"{over:,} bytes of {_WORDS[what]} too few" for what, over in short.items() if what in _WORDS]
    if "arena" in short and "ram" not in short:
        parts.append(f"its first memory is {short['arena']:,} bytes too small, --region lets the arena use others")
    return ", ".join(parts)


def _errors(report: FitReport) -> str:
    """How far, by core."""
    shown = {b.cpu: b.error for b in report.boards if b.est_ms is not None}
    known = [f"{error[0]:+.0%}..{error[1]:+.0%} ({cpu})" for cpu, error in sorted(shown.items()) if error]
    others = sorted(cpu for cpu, error in shown.items() if not error)
    return ", ".join([*known, *([f"unknown ({', '.join(others)})"] if others else [])])
