"""``sdk completion``: the script by which a shell completes verbs, options and their values."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

VARIABLE = "_SDK_COMPLETE"  # what the script sets when it asks


@click.command()
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete this command."""
    kind = get_completion_class(shell)
    assert kind is not None  # these three are click's own
    click.echo(kind(context.find_root().command, {}, "sdk", VARIABLE).source())
