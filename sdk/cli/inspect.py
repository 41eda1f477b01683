"""``sdk inspect``: a model's program as text, at any stage of its way to C, or the model as a drawn graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sdk.cli import complete, options, output
from sdk.errors import UsageError


@click.command()
@options.model_argument
@click.option(
    "--board", metavar="B", default="host", help="Board to compile for.", show_default=True,
    shell_complete=complete.board_names,
)  # fmt: skip
@click.option(
    "--stage", metavar="NAME", help="Stage to print: imported, typed, scheduled or planned.",
    shell_complete=complete.stage_names,
)  # fmt: skip
@options.build_options
@click.option("--html", metavar="F", type=click.Path(path_type=Path), help="Draw the model: write a page.")
@click.option("--svg", metavar="F", type=click.Path(path_type=Path), help="Draw the model: write a plot alone.")
@options.json_option
def inspect(
    model: Path,
    board: str,
    stage: str | None,
    html: Path | None,
    svg: Path | None,
    as_json: bool,
    **compile_options: Any,
) -> int:
    """Print MODEL's program as text, or draw MODEL as a graph.

    A model with operators that are not supported is drawn too, with the reasons; the exit code then is that of a build.
    """
    from sdk import driver

    chosen = options.make_options(**compile_options)
    if html is None and svg is None and not as_json:
        output.say_text(driver.inspect(options.existing(model), options.find_board(board), chosen, stage))
        return 0
    if stage is not None:
        raise UsageError("--stage is for text", hint="leave out --html, --svg and --json, or --stage")
    drawing, error = driver.draw(options.existing(model), chosen)
    for option, path, made in (("--html", html, driver.graph_page), ("--svg", svg, driver.graph_svg)):
        if path is not None:
            output.write_file(path, made(drawing), option)
            output.say(f"wrote {path}", err=as_json)
    if as_json:
        output.print_json({**drawing.to_json(), "error": None if error is None else output.error_json(error)})
    return 0 if error is None else output.report_error(error, as_json=False)
