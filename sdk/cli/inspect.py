"""``sdk inspect``: a model's program as text, at any stage of its way to C."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sdk.cli import options


@click.command()
@options.model_argument
@click.option("--board", metavar="B", default="host", help="Board to compile for.", show_default=True)
@click.option("--stage", metavar="NAME", help="Stage to print: imported, typed, scheduled or planned.")
@options.build_options
def inspect(model: Path, board: str, stage: str | None, **compile_options: Any) -> None:
    """Print MODEL's program as text."""
    from sdk import driver

    text = driver.inspect(
        options.existing(model), options.find_board(board), options.make_options(**compile_options), stage
    )
    click.echo(text)
