"""``sdk bench``: what a run costs: time where a clock can be trusted, instructions under emulation."""

from __future__ import annotations

from typing import Any

import click

from sdk.cli import options, output
from sdk.notebook import show

_COLUMNS = ("runs", "min_ms", "median_ms", "p90_ms", "instructions", "cycles", "est_cycles")


@click.command()
@options.target_argument
@options.any_board_option
@options.device_option
@options.at_option
@options.entry_option
@click.option("--repeat", type=click.IntRange(1), default=10, show_default=True, help="Runs to measure.")
@options.build_options
@options.json_option
def bench(
    target: options.Model,
    board: str | None,
    device: str | None,
    at: tuple[str, ...],
    entry: str | None,
    repeat: int,
    as_json: bool,
    **compile_options: Any,
) -> None:
    """Measure a model, or a folder that sdk build made."""
    from sdk import driver

    built_with = options.make_options(**compile_options)
    report = driver.bench(
        options.existing(target),
        options.find_place(board, device),
        device,
        built_with,
        options.parse_at(at),
        repeat,
        built_with.threads,
        entry,
    )
    data = report.to_json()
    if as_json:
        output.print_json(data)
        return
    where = f"{data['board']} ({data['device']}{', emulated' if data['emulated'] else ''})"
    output.print_table(
        f"{data['model']} on {where}", _COLUMNS, [[show(data[name]) for name in _COLUMNS]]
    )
