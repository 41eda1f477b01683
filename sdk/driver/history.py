"""Measurements kept in a SQLite file, to see how a cost went over time."""

from __future__ import annotations

import datetime
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sdk.driver.measuring import cpu_of
from sdk.errors import UsageError
from sdk.version import VERSION

__all__ = ["Past", "remember"]

SCHEMA: Final = 1  # of the file: its user_version
_WAIT_S: Final = 20.0  # for others who write into it
_SHOWN: Final = 500  # of the past
_UNITS: Final = ("median_ms", "cycles", "instructions")  # of a report, the first that it has
_TABLE: Final = """
create table if not exists runs (
  time text not null, version text not null, model text not null, board text not null, device text not null,
  dims text not null, threads integer not null, unit text not null, cost real not null, report text not null
)
"""


@dataclass(frozen=True)
class Past:
    """A measurement of before: when (UTC), by which version, in ``unit`` of the report's fields."""

    time: str
    version: str
    unit: str
    cost: float


def remember(file: Path, report: dict[str, Any], address: str | None = None) -> list[Past]:
    """Write an object of ``sdk bench --json`` into ``file``, which is made where there is none; what is there of the
    same model, board, device (by its ``address``, and the processor where that is told), sizes, threads and unit, the
    oldest first, this one last.

    Raises:
        UsageError: it is another file, of a later version, or cannot be written.
    """
    unit = next((name for name in _UNITS if report.get(name) is not None), None)
    if unit is None:
        raise UsageError("there is nothing to remember", why="the device tells neither time nor counts")
    dims = json.dumps(report["at"], sort_keys=True)
    device = ", ".join(filter(None, (report["device"], address, cpu_of(report))))
    key = (report["model"], report["board"], device, dims, report["threads"], unit)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    with _opened(file) as base:
        row = (now, VERSION, *key, report[unit], json.dumps(report))
        base.execute("insert into runs values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        found = base.execute(
            "select time, version, unit, cost from runs where model = ? and board = ? and device = ? and dims = ? and "
            "threads = ? and unit = ? order by rowid desc limit ?",
            (*key, _SHOWN),
        ).fetchall()
    return [Past(str(time), str(version), str(unit), float(cost)) for time, version, unit, cost in reversed(found)]


@contextmanager
def _opened(file: Path) -> Iterator[sqlite3.Connection]:
    """The file, in a transaction: what is written in it is written whole, or not at all."""
    try:
        with closing(sqlite3.connect(file, timeout=_WAIT_S, isolation_level=None)) as base:
            base.execute("begin immediate")
            [version] = base.execute("pragma user_version").fetchone()
            tables = base.execute("select count(*) from sqlite_master").fetchone()[0]
            if version > SCHEMA or (version == 0 and tables):
                why = "it is of a later version" if version > SCHEMA else "it is a file of something else"
                raise UsageError(f"{file} is no history of measurements", why=why, hint="name a new file")
            base.execute(_TABLE)
            base.execute(f"pragma user_version = {SCHEMA}")
            yield base
            base.execute("commit")
    except sqlite3.Error as error:
        hint = "name another file in a folder that is yours"
        raise UsageError(f"cannot write the history {file}", why=str(error), hint=hint) from None
