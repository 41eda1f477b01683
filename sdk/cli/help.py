"""``sdk help``: the pages of the documentation, which are installed with the command, and the help of each verb."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sdk.cli import output
from sdk.errors import UsageError


def pages() -> dict[str, Path]:
    """The pages by what ``sdk help`` calls them: their file's name."""
    from sdk.resources import data_dir

    return {path.stem: path for path in sorted(data_dir("docs").glob("*.md"))}


def _complete(_: click.Context, __: click.Parameter, begin: str) -> list[str]:
    return [name for name in pages() if name.startswith(begin)]


@click.command("help")
@click.argument("topic", required=False, shell_complete=_complete)
@click.pass_context
def help_(context: click.Context, topic: str | None) -> None:
    """Print a page of the documentation, or the help of a verb; without TOPIC, list the pages."""
    found = pages()
    verbs: dict[str, Any] = getattr(context.find_root().command, "commands", {})
    if topic is None:
        width = max(map(len, found))
        output.say("sdk help TOPIC prints one of these pages; sdk VERB --help has the options of a verb")
        for name, path in found.items():
            output.say(f"  {name:{width}}  {title(path)}")
    elif topic in found:
        output.say_text(found[topic].read_text(encoding="utf-8").rstrip("\n"))
    elif topic in verbs:
        from sdk.cli.group import examples, examples_text

        verbs[topic].epilog = examples_text(examples(topic))
        output.say_text(verbs[topic].get_help(click.Context(verbs[topic], context.parent, topic)))
    else:
        from sdk.boards import suggest

        hint = suggest(topic, [*found, *verbs]) or "a list of the pages: sdk help"
        raise UsageError(f"there is no page {topic!r}", hint=hint)


def title(path: Path) -> str:
    """The first heading of a page."""
    return path.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ")
