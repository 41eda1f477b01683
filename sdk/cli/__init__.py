"""The command line: one verb per file, one contract for JSON, errors and exit codes."""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Final, NoReturn

import click

from sdk.cli import output, progress
from sdk.cli.agent import agent
from sdk.cli.bench import bench
from sdk.cli.boards import boards
from sdk.cli.build import build
from sdk.cli.completion import completion
from sdk.cli.devices import devices
from sdk.cli.diff import diff
from sdk.cli.doctor import doctor
from sdk.cli.farm import farm
from sdk.cli.fit import fit
from sdk.cli.flash import flash
from sdk.cli.group import Verbs
from sdk.cli.help import help_
from sdk.cli.inspect import inspect
from sdk.cli.llm import llm
from sdk.cli.memory import memory
from sdk.cli.new import new
from sdk.cli.profile import profile
from sdk.cli.quantize import quantize
from sdk.cli.run import run
from sdk.cli.verify import verify
from sdk.errors import SdkError, UsageError
from sdk.version import VERSION

# In the order in which --help shows them; each has examples in templates/help/examples.toml.
_COMMANDS = (
    *(build, run, verify, bench, profile, memory, inspect, diff, fit, quantize, boards, devices, new, flash),
    *(llm, agent, farm, doctor, help_, completion),
)
VERBS = tuple(command.name or "" for command in _COMMANDS)
# Objects made between two collections of garbage. A compilation makes millions, most of them for good: with Python's
# default of 700, a tenth of its time goes into looking through them.
_COLLECTED_AFTER: Final = 100_000


@click.group(cls=Verbs, no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]})
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
    arguments = arguments or ["--help"]
    as_json = "--json" in arguments
    stdout = sys.stdout
    try:
        with progress.shown(as_json), output.warnings_shown():
            result = cli.main(args=list(arguments), prog_name="sdk", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except SdkError as error:
        return output.report_error(error, as_json)
    except click.exceptions.NoArgsIsHelpError as error:  # a verb of several commands alone, as sdk alone
        output.say_text(error.ctx.get_help())
        return 0
    except click.UsageError as error:
        return output.report_error(UsageError(_refused(error), hint=_usage_hint(error, arguments)), as_json)
    except (click.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return output.INTERRUPTED
    except BrokenPipeError:  # whoever read our output has left: nothing more to say
        output.drop()
        return 0
    except OSError as error:
        return output.report_error(output.system_error(error), as_json)
    except SystemExit as end:  # what click does when the reader of a pipe has left, or a shell has its completions
        return 0 if sys.stdout is not stdout else int(end.code or 0)
    except Exception as error:
        return output.report_error(output.internal_error(error), as_json)


def _refused(error: click.UsageError) -> str:
    """Click's message in one line, and in words for people."""
    text = " ".join(error.format_message().split())
    return text.replace("is not a valid integer range", "is no whole number")


def _usage_hint(error: click.UsageError, arguments: Sequence[str]) -> str:
    """What to do about a command line that click refused."""
    verb = f"sdk {arguments[0]}" if arguments and arguments[0] in VERBS else "sdk"
    usage = f"{error.ctx.command_path if error.ctx else verb} --help"
    if isinstance(error, click.MissingParameter) and error.param is not None and error.param.name == "board":
        return f"--board host is this machine, sdk boards lists the others; {usage}"
    return usage


def main() -> NoReturn:
    """Entry point of the ``sdk`` command."""
    gc.set_threshold(_COLLECTED_AFTER, *gc.get_threshold()[1:])
    # a process can be started without them, and then they are None
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # characters that its encoding lacks
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        # nohup ignores one of them, and so do we then; only a main thread can catch any
        if signal.getsignal(number) == signal.SIG_DFL and threading.current_thread() is threading.main_thread():
            signal.signal(number, _leave)
    sys.exit(run_command(sys.argv[1:]))


def _leave(number: int, _frame: object) -> NoReturn:
    """End as the signal would, but by way of what closes sessions: no agent or emulator outlives the command."""
    raise SystemExit(128 + number)
