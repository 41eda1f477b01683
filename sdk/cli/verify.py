"""``sdk verify``: a model's results against a reference engine, on random inputs and on extreme ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from sdk.cli import options, output
from sdk.errors import MismatchError, UsageError
from sdk.frontends import engine_names

if TYPE_CHECKING:
    from sdk.report import LayerRow, LayersReport

_RAN = {
    "build": "tensors as the build computes them",
    "apart": "that it fuses away, in builds that keep them (apart)",
    "interp": "in our interpreter, as the board cannot hold them",
}
_RARE = ("float64_cases", "unsteady_cases")
_SHOWN = ("reference", "cases", "exact_cases", *_RARE, "max_abs_err", "max_rel_err", "passed")


@click.command()
@options.model_argument
@options.any_board_option
@options.device_option
@click.option(
    "--against",
    type=click.Choice(["auto", *engine_names(), "interp"]),
    default="auto",
    show_default=True,
    help="Reference to compare with.",
)
@options.at_option
@options.entry_option
@click.option("--cases", type=click.IntRange(1), default=20, show_default=True, help="Inputs to try.")
@click.option("--layers", is_flag=True, help="Compare each intermediate tensor, and name the operator that departs.")
@options.build_options
@options.json_option
def verify(
    model: options.Model,
    board: str | None,
    device: str | None,
    against: str,
    at: tuple[str, ...],
    entry: str | None,
    cases: int,
    layers: bool,
    as_json: bool,
    **compile_options: Any,
) -> None:
    """Compare MODEL with a reference; exit code 8 when they differ."""
    from sdk import driver

    if layers:
        _layers(model, board, device, against, at, entry, cases, as_json, options.make_options(**compile_options))
        return
    file, place, sizes = (
        options.existing(model), options.find_place(board, device, compile_options["gpu"]), options.parse_at(at),
    )  # fmt: skip
    options.resolve_gpu(compile_options, file, place, device, sizes, entry)
    report = driver.verify(
        file,
        place,
        device,
        options.make_options(**compile_options),
        against,
        cases,
        sizes,
        entry,
    )
    data = report.to_json()
    if as_json:
        output.print_json(data)
    else:
        shown = {**data, "reference": report.compared_with}
        output.print_pairs(f"{data['model']} on {data['board']}", _pairs(shown))
        for note in report.notes:
            output.say(f"note: {note}")
    if not data["passed"]:
        raise click.exceptions.Exit(MismatchError.exit_code)


def _pairs(shown: dict[str, Any]) -> list[tuple[str, Any]]:
    """Rows; of cases that were not compared as others only where there are any."""
    return [(name, shown[name]) for name in _SHOWN if name not in _RARE or shown[name]]


def _layers(
    model: options.Model, board: str | None, device: str | None, against: str, at: tuple[str, ...], entry: str | None,
    cases: int, as_json: bool, chosen: Any,
) -> None:  # fmt: skip
    """Compare tensor by tensor."""
    from sdk import driver

    if device is not None or board is None:
        raise UsageError("--layers runs builds of its own", hint="give --board, and leave out --device")
    place = options.find_board(board)
    report = driver.verify_layers(
        options.existing(model), place, chosen, against, cases, options.parse_at(at), entry
    )
    if as_json:
        output.print_json(report.to_json())
    else:
        _print_layers(report)
    if not report.passed:
        raise click.exceptions.Exit(MismatchError.exit_code)


def _print_layers(report: LayersReport) -> None:
    build = report.build
    title = f"{build.model} on {build.board} ({build.ran_on}) against {report.reference}, {build.cases} inputs"
    rows = [
        (row.operator, row.name, f"{row.dtype}[{', '.join(map(str, row.shape))}]", row.difference, _status(row))
        for row in report.rows
    ]
    output.print_table(title, ("operator", "tensor", "type", "difference", "status"), rows, bold=report.first)
    output.say("")
    output.say(f"compared: {', '.join(_compared(report))}")
    outputs = "agree" if build.passed else f"differ by {build.max_abs_err:g} in {build.worst}"
    output.say(f"outputs of the build as it is: {outputs} ({build.compared_with})")
    output.say(report.verdict)


def _status(row: LayerRow) -> str:
    return ("ok" if row.passed else "departs") + {"build": "", "apart": ", apart"}.get(row.ran, ", in the interpreter")


def _compared(report: LayersReport) -> Iterator[str]:
    """What was compared, by where it was computed."""
    for ran, how in _RAN.items():
        count = sum(row.ran == ran for row in report.rows)
        if count:
            yield f"{count} {how}"
