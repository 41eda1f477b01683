"""``sdk memory``: where every byte of a model's memory goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sdk.cli import options, output
from sdk.cli.build import print_build


@click.command()
@options.model_argument
@options.board_option
@options.at_option
@options.build_options
@options.json_option
def memory(model: Path, board: str, at: tuple[str, ...], as_json: bool, **compile_options: Any) -> None:
    """Show MODEL's memory plan against its lower bound."""
    from sdk import driver

    dims = options.parse_at(at)
    report = driver.memory(
        options.existing(model), options.find_board(board), options.make_options(**compile_options), dims
    )
    data = report.to_json()
    if as_json:
        output.print_json(data)
        return
    print_build(data)
    columns, *rows = report.table
    where = ", ".join(f"{name}={value}" for name, value in dims.items())
    output.print_table(f"arena at {where}: {data['arena_at']} bytes" if dims else "arena", columns, rows)
