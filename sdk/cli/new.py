"""``sdk new``: a project around a model, one command for each kind of project; and a board's file."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from sdk.cli import options, output
from sdk.cli.group import Listed
from sdk.errors import SdkError, UsageError
from sdk.resources import data_dir


class _Kinds(Listed):
    """The group of ``new``, which says what was meant by a kind that there is not."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The command of a kind; raise UsageError where there is none."""
        if args[0] not in self.commands and not args[0].startswith("-"):
            from sdk.projects.kinds import load_kind

            load_kind(args[0])
        return super().resolve_command(ctx, args)


@click.group(cls=_Kinds)
def new() -> None:
    """Write a project around a model: firmware, cmake, platformio, zephyr, arduino, esp-idf, web, android, ios. In a
    folder that has one, what is generated is written anew, and what is yours is kept."""


def _make(
    kind: str, model: options.Model, board: str | None, out: Path | None, settings: tuple[str, ...],
    bindings: tuple[str, ...], force: bool, as_json: bool, **compile_options: Any,
) -> None:  # fmt: skip
    from sdk.projects.kinds import load_kind
    from sdk.projects.make import new_project

    place = board or load_kind(kind).board
    if not place:
        raise UsageError("which board is the project for?", hint="give --board NAME; sdk boards lists them")
    file, target = options.existing(model), options.find_board(place)
    stem = (file if isinstance(file, Path) else file.path).stem
    report = new_project(
        kind, file, target, options.make_options(**compile_options), out or Path(f"{stem}-{kind}"),
        options.parse_settings(settings), paths=model if isinstance(model, dict) else None, force=force,
        bindings=bindings,
    )  # fmt: skip
    if as_json:
        output.print_json(report.to_json())
        return
    output.say(f"{report.out}: {len(report.generated)} files generated")
    for what, names in (("yours", report.written), ("kept", report.kept)):
        for name in names:
            output.say(f"  {what:5} {name}")
    output.say(report.hint)


def _add_kinds() -> None:
    """Add a command for each folder of templates."""
    with contextlib.suppress(SdkError):  # an installation without them: what needs them says so
        for path in sorted((data_dir("templates") / "projects").glob("*/project.toml")):
            kind = path.parent.name
            command = click.command(kind, help=f"Write a project of kind {kind} around MODEL.")
            new.add_command(command(_with_options(functools.partial(_make, kind))))


def _with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        options.json_option,
        options.build_options,
        click.option("--force", is_flag=True, help="Write the files that are yours anew too."),
        click.option(
            "--set", "settings", multiple=True, metavar="KEY=VALUE", help="What it is called where it is built."
        ),
        click.option(
            "--bindings", multiple=True, type=click.Choice(["dart", "rn"]),
            help="A file for another language too: Dart, or React Native.",
        ),
        click.option("-o", "--out", type=options.FILE, help="Folder to write (default: NAME-KIND)."),
        options.any_board_option,
        options.model_argument,
    ):
        function = option(function)
    return function


_add_kinds()


@new.command()
@click.argument("name")
@click.option("--from", "source", type=options.FILE, required=True, help="PlatformIO's .json or probe-rs's .yaml.")
@click.option("--chip", metavar="NAME", help="Which chip of a file that has several.")
@click.option("-o", "--out", type=options.FILE, help="File to write (default: NAME.toml).")
@click.option("--force", is_flag=True, help="Overwrite the file.")
@options.json_option
def board(name: str, source: Path, chip: str | None, out: Path | None, force: bool, as_json: bool) -> None:
    """Write the file of board NAME from what another system knows of it, with its source."""
    from sdk.projects.boards import new_board

    report = new_board(name, options.existing_path(source), chip, out or Path(f"{name}.toml"), force=force)
    if as_json:
        output.print_json(report.to_json())
        return
    output.say(f"wrote {report.out}, from {report.source}")
    for line in report.fill_in:
        output.say(f"  fill in: {line}")
    output.say(f"CROSSLEVEL_BOARDS={report.out.parent} sdk boards show {name} checks it")
