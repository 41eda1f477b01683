"""What the command prints: one JSON object on stdout for scripts, tables and messages for people."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sys
import textwrap
import traceback
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TextIO

import click

from sdk.errors import SdkError, UsageError
from sdk.files import replacing
from sdk.notebook import show
from sdk.text import printable

INTERRUPTED = 130
_READ = ("model", "models", "target", "data", "inputs", "externs", "custom", "safetensors")  # arguments that name files
_NO_PLACE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)
_WORD = 12  # characters that a column of words keeps in a narrow terminal, where it goes on in the next line
_DEBUG_VARIABLE = "CROSSLEVEL_DEBUG"


@contextmanager
def warnings_shown() -> Iterator[None]:
    """Shows warnings on stderr as a line for people, until the block ends."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        yield


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None,
    line: str | None = None,
) -> None:  # fmt: skip
    print(f"warning: {message}", file=sys.stderr)


def print_json(data: Mapping[str, Any], schema: int = 1) -> None:
    """Print one object on stdout, "schema", the version of its fields, first; all that --json puts there."""
    # JSON leaves one control character as it is
    print(json.dumps({"schema": schema, **data}, indent=2, allow_nan=False).replace("\x7f", "\\u007f"))


def say(line: str, *, err: bool = False) -> None:
    """Print a line, whatever names are in it."""
    print(printable(line), file=sys.stderr if err else sys.stdout)


def say_text(text: str) -> None:
    """Print a text of several lines."""
    print(printable(text, "\n\t"))


def say_part(text: str) -> None:
    """Print a part of a text at once, to go on behind it."""
    print(printable(text, "\n\t"), end="", flush=True)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], bold: int | None = None) -> None:
    """Print a table on stdout: columns of numbers on the right, no heading where no column has a name; the row with the
    number ``bold`` stands out. In a terminal too narrow for it, a row is a paragraph of its cells by name."""
    from rich.table import Table
    from rich.text import Text

    from sdk.cli.console import Console

    body = [list(row) for row in rows]
    table = Table(box=None, pad_edge=False, show_header=any(columns))
    minimum = 0  # columns that a terminal must have: numbers and names are never cut, or they would be other ones
    for index, column in enumerate(columns):
        numeric = bool(body) and all(_numeric(row[index]) for row in body)
        widest = max([len(column), *(len(printable(row[index])) for row in body)])
        kept = widest if numeric or index == 0 else min(widest, _WORD)
        minimum += kept + 1
        justify: Literal["left", "right"] = "right" if numeric else "left"
        table.add_column(column, justify=justify, no_wrap=numeric or index == 0, min_width=kept, overflow="fold")
    for number, row in enumerate(body):
        table.add_row(*[Text(printable(cell)) for cell in row], style="bold" if number == bold else None)
    # Without a terminal there is no width to fit: whole lines serve scripts and logs best.
    columns_here = shutil.get_terminal_size().columns if sys.stdout.isatty() else 200
    console = Console(width=max(columns_here, minimum + 1), highlight=False)
    if title:
        console.print(Text(printable(title), style="italic"))
    if any(columns[1:]) and minimum > columns_here:
        for line in _paragraphs(columns, body, columns_here):
            say(line)
    else:
        console.print(table)


def _paragraphs(columns: Sequence[str], body: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """The rows of a table, each as what its first cell names and, below it, the others by their columns."""
    for row in body:
        yield row[0]
        cells = ", ".join(f"{name} {cell}".strip() for name, cell in zip(columns[1:], row[1:], strict=True) if cell)
        yield from wrapped(cells, width, "  ")


def _numeric(cell: str) -> bool:
    return re.fullmatch(r"[-+]?[\d,.]+(e[-+]\d+)?( KiB|%)?|-|", cell) is not None


def print_pairs(title: str, pairs: Iterable[tuple[str, object]]) -> None:
    """Print names and values on stdout, one pair a line; values that are None read "-"."""
    print_table(title, ("", ""), [(name, show(value)) for name, value in pairs])


def width() -> int:
    """Columns to keep to. Without a terminal there is no width to fit: whole lines serve scripts and logs best."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() or "COLUMNS" in os.environ else 1000


def wrapped(line: str, columns: int, indent: str = "") -> list[str]:
    """The line as several where it is too long; only a word longer than a line is broken."""
    return textwrap.wrap(line, max(columns, 20), initial_indent=indent, subsequent_indent=indent or "  ") or [""]


def cut(line: str, columns: int) -> str:
    """The line without a part in the middle where it is too long: names of layers begin alike and differ at the end."""
    over = len(line) - columns
    if over <= 0:
        return line
    keep = max(len(line) - (columns // 3 if columns >= 60 else columns // 4), 0)
    return f"{line[: keep - over - 3]}...{line[keep:]}"


def check_no_input(path: Path, option: str) -> None:
    """Raise UsageError where ``option`` names a file that this command reads: its contents would be lost."""
    context = click.get_current_context(silent=True)
    given = () if context is None else [value for name, value in context.params.items() if name in _READ]
    for one in _paths(given):
        if one.exists() and path.exists() and one.samefile(path):
            why = "it is an input of this command, and would be overwritten"
            raise UsageError(f"cannot write {path}", where=option, why=why, hint=f"name another file after {option}")


def _paths(given: object) -> Iterator[Path]:
    """The files in the values of arguments: paths, and texts such as ``x=x.npy``."""
    if isinstance(given, (Path, str)):
        yield given if isinstance(given, Path) else Path(given.partition("=")[2] or given)
    elif isinstance(given, Mapping):
        yield from _paths(list(given.values()))
    elif isinstance(given, (list, tuple)):
        for one in given:
            yield from _paths(one)


def write_file(path: Path, text: str, option: str) -> None:
    """Write what ``option`` asked for into a file, whole or not at all; raise UsageError where that is impossible."""
    check_no_input(path, option)
    try:
        with replacing(path) as file:
            file.write(text.encode())
    except OSError as error:
        hint = "name a file in a folder that exists and is yours"
        raise UsageError(f"cannot write {path}", where=option, why=error.strerror, hint=hint) from error


def has_colors(stream: TextIO) -> bool:
    """Return whether to colour what goes to ``stream``: NO_COLOR and FORCE_COLOR decide, else a terminal does."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


def report_error(error: SdkError, as_json: bool) -> int:
    """Print an error, in JSON mode as an object on stdout too, and return its exit code."""
    red, bold, plain = ("\x1b[1;31m", "\x1b[1m", "\x1b[0m") if has_colors(sys.stderr) else ("", "", "")
    message, *lines = error.lines(error.hint or error.advice)
    print("\n".join([f"{red}error:{plain} {bold}{message}{plain}", *lines]), file=sys.stderr)
    if as_json:
        try:
            print_json({"error": error_json(error)})
            sys.stdout.flush()
        except OSError:  # stdout itself is what failed
            drop()
    return error.exit_code


def drop() -> None:
    """Turn stdout away from a place that takes no more, so that the interpreter's last flush does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def error_json(error: SdkError) -> dict[str, Any]:
    """Return an error as the object that JSON mode has of it."""
    parts = {"where": error.where, "why": error.why, "hint": error.hint or error.advice}
    return {"kind": type(error).__name__, "message": error.message, **parts, "exit_code": error.exit_code}


def system_error(error: OSError) -> SdkError:
    """Return the error to show when the system refuses what no code of ours expected to fail."""
    if error.errno not in _NO_PLACE:
        return internal_error(error)
    what = error.filename or "the output"
    return SdkError(f"cannot write {what}", why=error.strerror, hint="make room there, or write to another place")


def internal_error(error: Exception) -> SdkError:
    """Return the error to show for a bug of ours; its traceback is printed when CROSSLEVEL_DEBUG is set."""
    if os.environ.get(_DEBUG_VARIABLE):
        traceback.print_exception(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else None
    return SdkError(
        f"internal error: {type(error).__name__}: {error}",
        where=place,
        hint=f"run it again with {_DEBUG_VARIABLE}=1 and report what it prints",
    )
