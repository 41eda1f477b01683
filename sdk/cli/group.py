"""The group of verbs: their order, what was meant by a word that is none, and each verb's examples."""

from __future__ import annotations

import re
import shutil
import textwrap
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from sdk.errors import UsageError

# Words that other tools use for what a verb does here.
_MEANT = {
    "benchmark": "bench",
    "check": "verify",
    "compare": "diff",
    "compile": "build",
    "convert": "build",
    "create": "new",
    "dump": "inspect",
    "init": "new",
    "infer": "run",
    "load": "flash",
    "upload": "flash",
    "list": "boards",
    "ports": "devices",
    "predict": "run",
    "show": "inspect",
    "size": "memory",
    "targets": "boards",
    "test": "verify",
    "version": "--version",
}


class _Formatter(click.HelpFormatter):
    """Help with names in half of a narrow terminal at most."""

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write names and what they mean in two columns."""
        super().write_dl(rows, min(col_max, self.width // 2), col_spacing)


class Context(click.Context):
    """A context whose help is as wide as the terminal, where click has no less than 50 columns."""

    def make_formatter(self) -> click.HelpFormatter:
        """What writes help."""
        return _Formatter(width=_width())


class Listed(click.Group):
    """A group whose help has each command with the first sentence of its help, over as many lines as that takes."""

    context_class = Context

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands."""
        rows = [(name, _sentence(command.help or "")) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class Verbs(Listed):
    """A group that keeps its verbs in their order, and says what was meant when there is no such verb."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs in the order in which they were added."""
        return list(self.commands)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The verb that the arguments begin with; raise UsageError with what was meant when it is none."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            raise UsageError(f"unknown verb {args[0]!r}", hint=_meant(args, self.commands))
        found = super().resolve_command(ctx, args)
        command = found[1]
        if command is not None and {"-h", "--help"} & {*args}:
            command.context_class = Context
            command.epilog = examples_text(examples(found[0] or ""))
        return found


def _sentence(text: str) -> str:
    """The first sentence of a text, in one line."""
    return re.split(r"(?<=[.?]) ", " ".join(text.split("\n\n")[0].split()))[0].replace("``", "")


def _meant(args: Sequence[str], verbs: Iterable[str]) -> str:
    word, known = args[0], list(verbs)
    later = [arg for arg in args[1:] if arg in known]
    if later:
        return f"the verb comes first: sdk {later[0]} {word}"
    from sdk.frontends import suffixes

    if word.lower().endswith(suffixes()):
        return f"the verb comes first: sdk build {word} --board host"
    if word in _MEANT and (_MEANT[word] in known or _MEANT[word].startswith("-")):
        return f"did you mean sdk {_MEANT[word]}?"
    from sdk.boards import suggest

    return suggest(word, known) or "sdk --help lists the verbs"


def examples(verb: str) -> list[tuple[str, str]]:
    """Command lines of a verb, each with what it does. They are text and no code: they name boards."""
    from sdk.resources import data_dir

    path: Path = data_dir("templates") / "help" / "examples.toml"
    found = tomllib.loads(path.read_text(encoding="utf-8")).get(verb, {})
    return [(line, what) for what, line in found.items()]


def examples_text(rows: Sequence[tuple[str, str]]) -> str | None:
    """The end of a verb's help; None without examples."""
    if not rows:
        return None
    # "\b" keeps click from filling the lines
    width = max(_width(), 30)
    lines = []
    for line, what in rows:
        lines += [f"  {line}", *textwrap.wrap(what, width, initial_indent=" " * 6, subsequent_indent=" " * 6)]
    return "\b\nExamples:\n" + "\n".join(lines)


def _width() -> int:
    """Columns of what help prints: no more than are read well."""
    return min(shutil.get_terminal_size().columns, 80) - 2
