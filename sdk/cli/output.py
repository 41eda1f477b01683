"""What the command prints: one JSON object on stdout for scripts, tables and messages for people."""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sdk.errors import SdkError

SCHEMA = 1
INTERRUPTED = 130
_DEBUG_VARIABLE = "CROSSLEVEL_DEBUG"


def print_json(data: Mapping[str, Any]) -> None:
    """Print one object on stdout, "schema" first; the only thing that --json puts there."""
    print(json.dumps({"schema": SCHEMA, **data}, indent=2, allow_nan=False))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table on stdout: columns of numbers on the right, no heading where no column has a name."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    body = [list(row) for row in rows]
    table = Table(box=None, pad_edge=False, show_header=any(columns))
    for index, column in enumerate(columns):
        numeric = bool(body) and all(_numeric(row[index]) for row in body)
        table.add_column(column, justify="right" if numeric else "left", no_wrap=index == 0)
    for row in body:
        table.add_row(*[Text(cell) for cell in row])
    # Without a terminal there is no width to fit: whole lines serve scripts and logs best.
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    if title:
        console.print(Text(title, style="italic"))
    console.print(table)


def _numeric(cell: str) -> bool:
    return re.fullmatch(r"[-+]?[\d,.]+(e[-+]\d+)?( KiB|%)?|-|", cell) is not None


def print_pairs(title: str, pairs: Iterable[tuple[str, object]]) -> None:
    """Print names and values on stdout, one pair a line; values that are None read "-"."""
    print_table(title, ("", ""), [(name, show(value)) for name, value in pairs])


def show(value: object) -> str:
    """Return a value as people read it: thousands apart, "-" for None."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def progress() -> Callable[[str], None]:
    """Return a function that shows the step under way on stderr, and only on a terminal."""

    def step(text: str) -> None:
        if sys.stderr.isatty():
            print(f"  {text}", file=sys.stderr, flush=True)

    return step


def report_error(error: SdkError, as_json: bool) -> int:
    """Print an error, in JSON mode as an object on stdout too, and return its exit code."""
    parts = (("where", error.where), ("why", error.why), ("hint", error.hint))
    lines = [f"error: {error.message}"]
    lines += [f"  {name}: " + text.replace("\n", "\n    ") for name, text in parts if text]
    print("\n".join(lines), file=sys.stderr)
    if as_json:
        kind = type(error).__name__
        found = {"kind": kind, "message": error.message, **dict(parts), "exit_code": error.exit_code}
        print_json({"error": found})
    return error.exit_code


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
