"""``sdk new``: a project around a model, one command for each kind of project; and a board's file."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sdk.cli import options, output
from sdk.cli.group import Listed
from sdk.errors import SdkError, UsageError
from sdk.resources import data_dir

if TYPE_CHECKING:
    from sdk.projects.writing import ProjectReport


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
    bindings: tuple[str, ...], force: bool, as_json: bool, context: int | None, quantize: str | None,
    cache: str | None, date: datetime | None, **compile_options: Any,
) -> None:  # fmt: skip
    from sdk.llm.json_files import is_language_model
    from sdk.projects.kinds import load_kind
    from sdk.projects.make import new_project

    of_chats = {"context": context, "quantize": quantize, "cache": cache, "date": date}
    if isinstance(model, Path) and is_language_model(options.existing_path(model)):
        made = _chat(kind, model, board, out, settings, bindings, of_chats, compile_options, force=force)
        _say(made, as_json=as_json)
        return
    for name, value in of_chats.items():
        if value is not None:
            raise UsageError(f"--{name} is for language models", why=f"{model} is none", hint="leave it out")
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
    _say(report, as_json=as_json)


def _chat(
    kind: str, model: Path, board: str | None, out: Path | None, settings: tuple[str, ...], bindings: tuple[str, ...],
    of_chats: dict[str, Any], compile_options: dict[str, Any], *, force: bool,
) -> Any:  # fmt: skip
    """The report of a project around a language model."""
    from sdk.driver import BuildOptions
    from sdk.llm.projects import ChatChoices, new_chat

    given, usual = options.make_options(**compile_options), BuildOptions()
    taken = {"name", "threads"}
    named = [f.name for f in fields(usual) if f.name not in taken and getattr(given, f.name) != getattr(usual, f.name)]
    named += [name for name, value in (("board", board), ("bindings", bindings)) if value]
    if named:
        flag = {"dims": "dim", "regions": "region", "externs": "extern"}.get(named[0], named[0]).replace("_", "-")
        hint = "leave it out; sdk new KIND --help tells what there is for language models"
        raise UsageError(f"--{flag} has no part in a project of a language model", hint=hint)
    threads = None if given.threads == usual.threads else given.threads
    choices = ChatChoices(given.name, threads=threads, **of_chats)
    where = out or Path(f"{model.resolve().stem if model.suffix == '.gguf' else model.resolve().name}-{kind}")
    return new_chat(kind, model, where, choices, options.parse_settings(settings), force=force)


def _say(report: ProjectReport, *, as_json: bool) -> None:
    """Tell what was made."""
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
        click.option(
            "--context", type=click.IntRange(2), metavar="N",
            help="Of a language model: positions to have room for (default: 4096).",
        ),
        click.option("--quantize", metavar="FORMAT", help="Of a language model: q8_0 or q4_0, as in sdk llm build."),
        click.option(
            "--cache", type=click.Choice(["f32", "f16", "int8"]), help="Of a language model: what its caches keep."
        ),
        click.option(
            "--date", type=click.DateTime(["%Y-%m-%d"]), help="Of a language model: day that its chat template writes."
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
