"""The group of verbs: their order, what was meant by a word that is none, and each verb's examples."""

from __future__ import annotations

import re
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
    "dump": "inspect",
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


class Verbs(click.Group):
    """A group that keeps its verbs in their order, and says what was meant when there is no such verb."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs in the order in which they were added."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each verb with the first sentence of its help, over as many lines as that takes."""
        rows = [(name, _sentence(command.help or "")) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The verb that the arguments begin with; raise UsageError with what was meant when it is none."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            raise UsageError(f"unknown verb {args[0]!r}", hint=_meant(args, self.commands))
        found = super().resolve_command(ctx, args)
        command = found[1]
        if command is not None and {"-h", "--help"} & {*args}:
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
    return "\b\nExamples:\n" + "\n".join(f"  {line}\n      {what}" for line, what in rows)
