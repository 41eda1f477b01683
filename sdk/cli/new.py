"""``sdk new``: a project around a model, one command for each kind of project; and a board's file."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

import click

from sdk.cli import options, output


class _Kinds(click.Group):
    """The group of ``new``: a command for each folder of templates, beside the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The kinds of projects, then the rest."""
        from sdk.projects.kinds import kind_names

        return [*kind_names(), *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a kind; raise UsageError with what was meant where there is none."""
        from sdk.projects.kinds import load_kind

        if cmd_name in self.commands:
            return self.commands[cmd_name]
        kind = load_kind(cmd_name)
        command = copy.copy(_project)
        command.name = cmd_name
        command.help = f"Write a project for {kind.title} around MODEL."
        command.callback = functools.partial(_make, cmd_name)
        return command


@click.group(cls=_Kinds)
def new() -> None:
    """Write a project around a model: firmware, cmake, platformio, zephyr, arduino, esp-idf. In a folder that has one,
    what is generated is written anew, and what is yours is kept."""


@click.command()
@options.model_argument
@options.board_option
@click.option("-o", "--out", type=options.FILE, help="Folder to write (default: NAME-KIND).")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="What the build system calls the board.")
@click.option("--force", is_flag=True, help="Write the files that are yours anew too.")
@options.build_options
@options.json_option
def _project(**_: Any) -> None:
    """Stands for the command of each kind."""


def _make(
    kind: str, model: options.Model, board: str, out: Path | None, settings: tuple[str, ...], force: bool,
    as_json: bool, **compile_options: Any,
) -> None:  # fmt: skip
    from sdk.projects.make import new_project

    file, target = options.existing(model), options.find_board(board)
    stem = (file if isinstance(file, Path) else file.path).stem
    report = new_project(
        kind, file, target, options.make_options(**compile_options), out or Path(f"{stem}-{kind}"),
        options.parse_settings(settings), force=force,
    )  # fmt: skip
    if as_json:
        output.print_json(report.to_json())
        return
    output.say(f"{report.out}: {len(report.generated)} files generated")
    for what, names in (("yours", report.written), ("kept", report.kept)):
        for name in names:
            output.say(f"  {what:5} {name}")
    output.say(report.hint)


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
