"""``sdk verify``: a model's results against a reference engine, on random inputs and on extreme ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sdk.cli import options, output
from sdk.errors import MismatchError
from sdk.frontends import engine_names

_SHOWN = ("reference", "cases", "exact_cases", "max_abs_err", "max_rel_err", "passed")


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
@options.build_options
@options.json_option
def verify(
    model: Path,
    board: str | None,
    device: str | None,
    against: str,
    at: tuple[str, ...],
    entry: str | None,
    cases: int,
    as_json: bool,
    **compile_options: Any,
) -> None:
    """Compare MODEL with a reference; exit code 8 when they differ."""
    from sdk import driver

    report = driver.verify(
        options.existing(model),
        options.find_place(board, device),
        device,
        options.make_options(**compile_options),
        against,
        cases,
        options.parse_at(at),
        entry,
    )
    data = report.to_json()
    if as_json:
        output.print_json(data)
    else:
        shown = {**data, "reference": report.compared_with}
        output.print_pairs(f"{data['model']} on {data['board']}", [(name, shown[name]) for name in _SHOWN])
    if not data["passed"]:
        raise click.exceptions.Exit(MismatchError.exit_code)
