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
@options.build_options
@options.json_option
def memory(model: Path, board: str, as_json: bool, **compile_options: Any) -> None:
    """Show MODEL's memory plan against its lower bound."""
    from sdk import driver

    report = driver.memory(
        options.existing(model), options.find_board(board), options.make_options(**compile_options)
    )
    data = report.to_json()
    if as_json:
        output.print_json(data)
        return
    print_build(data)
    columns, *rows = report.table
    output.print_table("arena", columns, rows)
