"""``sdk diff``: two models or two builds side by side: sizes, RAM, what a run takes, and results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sdk.cli import options, output
from sdk.errors import UsageError
from sdk.notebook import show

if TYPE_CHECKING:
    from sdk.differences import DiffReport

_ROWS = {
    "ram_bytes": "RAM",
    "arena_bytes": "  arena",
    "state_bytes": "  state",
    "stack_bytes": "stack",
    "flash_bytes": "flash",
    "text_bytes": "  code",
    "model_weights_bytes": "weights in the model",
    "weights_bytes": "weights as compiled",
    "operators": "operators",
    "model_macs": "MACs in the model",
    "macs": "MACs as compiled",
    "instructions": "instructions",
    "est_cycles": "est. cycles",
    "median_ms": "median ms",
}


@click.command()
@click.argument("before", metavar="A", type=click.Path(path_type=Path))
@click.argument("after", metavar="B", type=click.Path(path_type=Path))
@options.any_board_option
@options.at_option
@options.entry_option
@click.option(
    "--cases", type=click.IntRange(1, 1000), default=5, show_default=True, help="Random inputs to compare results on."
)
@options.build_options
@options.json_option
def diff(
    before: Path, after: Path, board: str | None, at: tuple[str, ...], entry: str | None, cases: int, as_json: bool,
    **compile_options: Any,
) -> None:  # fmt: skip
    """Compare A with B: two model files, or folders that sdk build made.

    Sizes, what an inference takes where the board runs here, and how far apart the results are.
    """
    from sdk import driver

    paths = [options.existing_path(path) for path in (before, after)]
    if board is None and not any(path.is_dir() for path in paths):
        raise UsageError(
            "no board to build the models for", hint="add --board host for this machine; sdk boards lists others"
        )
    report = driver.diff(
        paths[0], paths[1], None if board is None else options.find_board(board),
        options.make_options(**compile_options), options.parse_at(at), entry, cases,
    )  # fmt: skip
    if as_json:
        output.print_json(report.to_json())
    else:
        print_diff(report, [str(before), str(after)])


def print_diff(report: DiffReport, names: list[str]) -> None:
    """Print the comparison for people."""
    one, other = report.before, report.after
    builds = (one.build, other.build)
    same_board = len({b.board for b in builds}) == 1
    heads = [name if same_board else f"{name} ({b.board})" for name, b in zip(names, builds, strict=True)]
    rows = []
    for key, label in _ROWS.items():
        a, b = one.numbers[key], other.numbers[key]
        if a is not None or b is not None:
            rows.append([label, show(a), show(b), _change(a, b)])
    output.print_table(one.build.board if same_board else "", ("", *heads, "change"), rows)
    if one.build.compiler != other.build.compiler and all(b.compiler for b in builds):
        output.say(f"sizes are of different compilers: {one.build.compiler}; {other.build.compiler}")
    for line in _results(report):
        output.say(line)


def _change(a: int | float | None, b: int | float | None) -> str:
    if a is None or b is None:
        return "-"
    if a == b:
        return "same"
    more = b - a
    share = f" ({more / a:+.1%})" if a else ""
    return f"{more:+,.6g}{share}" if isinstance(more, float) else f"{more:+,}{share}"


def _results(report: DiffReport) -> list[str]:
    lines = list(report.notes)
    if report.same_results:
        lines.append(f"results: the same on {report.cases} random inputs")
    for out in report.outputs:
        if out.why:
            lines.append(f"results: {out.name} has other shapes: {out.why}")
        elif not out.same:
            apart = f"{out.max_abs:.3g} ({out.max_rel:.2g} of the largest number)"
            lines.append(f"results: {out.name} differs by up to {apart} on {report.cases} random inputs")
    return lines
