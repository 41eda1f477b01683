"""``sdk flash``: a model's firmware, or an image of your own, written to a board and checked there."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from sdk.cli import complete, options, output
from sdk.errors import UsageError

if TYPE_CHECKING:
    from sdk.flash.flashing import Plan


@click.command()
@options.image_argument
@options.any_board_option
@click.option("--device", metavar="URI", help="Where the board answers (default: its serial port).")
@click.option(
    "--runner", metavar="NAME", shell_complete=complete.runner_names,
    help="Tool that writes; else the first of the board's that can.",
)
@click.option("--probe", metavar="ID", help="Debug probe, as the tool names it, where there are several.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="What the tool is told; repeat for each.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(1, 3600), help="Seconds for each command of the tool.")
@click.option("--dry-run", is_flag=True, help="Print what would be started, and start nothing.")
@options.build_options
@options.json_option
def flash(
    target: options.Model, board: str | None, device: str | None, runner: str | None, probe: str | None,
    settings: tuple[str, ...], timeout_s: float | None, dry_run: bool, as_json: bool, **compile_options: Any,
) -> None:  # fmt: skip
    """Write a model's firmware, or an image, to a board, and compare the hash that the board then tells.

    Exit codes: 3 no probe or no board, 4 the probe is in use, 5 not written, protected, another chip, too large, or
    another image runs, 10 no tool.
    """
    from sdk import driver
    from sdk.flash.flashing import Choice

    choice = Choice(runner, probe, settings=options.parse_settings(settings), timeout_s=timeout_s)
    place = options.find_place(board, device)
    if dry_run:
        if place is None:
            raise UsageError("which board is it?", where="--dry-run", hint="give --board NAME")
        external = options.make_options(**compile_options).weights == "external"
        _show_plans(driver.flash_plans(place, choice, external=external), as_json, place.name)
        return
    report = driver.flash(options.existing(target), place, options.make_options(**compile_options), choice, device)
    data = report.to_json()
    if as_json:
        output.print_json(data)
        return
    checked = "yes, the board tells the image's hash" if data["checked"] else "no: the image has no agent to ask"
    rows = [("runner", data["runner"]), ("bytes", f"{data['image_bytes']:,}"), ("hash", data["build_id"])]
    output.print_pairs(f"{data['image']} on {data['board']}", [*rows, ("checked", checked), ("device", data["device"])])


def _show_plans(found: list[Plan], as_json: bool, board: str) -> None:
    """Print what would be started, and why the others would not."""
    if as_json:
        rows = [
            {
                "runner": plan.name,
                "commands": [list(command) for command in plan.commands],
                "drive": str(plan.drive.folder) if plan.drive else None,
                "why_not": plan.unusable.message if plan.unusable else None,
                "hint": plan.unusable.hint if plan.unusable else None,
            }
            for plan in found
        ]
        output.print_json({"board": board, "runners": rows})
        return
    for plan in found:
        output.say(plan.name)
        if plan.unusable:
            output.say(f"  cannot be used: {plan.unusable.message} ({plan.unusable.hint or plan.unusable.advice})")
        for command in plan.commands:
            output.say(f"  $ {shlex.join(command)}")
        if plan.drive:
            output.say(f"  copies the image to {plan.drive.folder}")
