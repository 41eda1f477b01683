"""The command line: one verb per file, one contract for JSON, errors and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from sdk.cli import output
from sdk.cli.bench import bench
from sdk.cli.boards import boards
from sdk.cli.build import build
from sdk.cli.inspect import inspect
from sdk.cli.memory import memory
from sdk.cli.run import run
from sdk.cli.verify import verify
from sdk.errors import SdkError, UsageError
from sdk.version import VERSION

_COMMANDS = (build, run, verify, bench, memory, inspect, boards)
VERBS = tuple(command.name or "" for command in _COMMANDS)


class _Verbs(click.Group):
    """The group of verbs, which suggests the nearest when one is unknown, and keeps them in their order."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            from sdk.boards import suggest

            hint = suggest(args[0], self.commands) or "sdk --help lists the verbs"
            raise UsageError(f"unknown verb {args[0]!r}", hint=hint)
        return super().resolve_command(ctx, args)


@click.group(cls=_Verbs, no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="sdk", message="%(prog)s %(version)s")
def cli() -> None:
    """Compile machine-learning models to plain C, and run, check and measure them on boards.

    With --json, stdout holds exactly one JSON object. Exit codes: 0 ok, 1 build, 2 usage,
    3 no device, 4 busy, 5 flash, 6 link, 7 device fault, 8 mismatch, 9 regression, 10 missing tool.
    """


for _command in _COMMANDS:
    cli.add_command(_command)


def run_command(arguments: Sequence[str]) -> int:
    """Run the command with ``arguments`` and return its exit code; errors are printed, never raised."""
    as_json = "--json" in arguments
    stdout = sys.stdout
    try:
        result = cli.main(args=list(arguments), prog_name="sdk", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except SdkError as error:
        return output.report_error(error, as_json)
    except click.UsageError as error:
        hint = f"{error.ctx.command_path} --help" if error.ctx else None
        return output.report_error(UsageError(error.format_message(), hint=hint), as_json)
    except (click.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return output.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has left: nothing more to say, and nothing for the interpreter to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SystemExit:
        if sys.stdout is not stdout:  # what click does when the reader of a pipe has left
            return 0
        raise
    except Exception as error:
        return output.report_error(output.internal_error(error), as_json)


def main() -> NoReturn:
    """Entry point of the ``sdk`` command."""
    sys.exit(run_command(sys.argv[1:]))
