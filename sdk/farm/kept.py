"""Results of a farm in a file, a line each as it comes: what is there is not measured again."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from sdk.errors import BusyError, UsageError
from sdk.report import BenchReport

__all__ = ["Kept", "Result"]

_HEAD: Final = b'{"sdk_farm":1}\n'
_MAX_BYTES: Final = 1 << 30


class Result(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A measurement: ``job`` is the key of what was asked for, ``host`` and ``device`` say where it was made."""

    job: str
    host: str
    device: str
    report: BenchReport


class Planned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The boards that a pattern named: they are asked for again when a command goes on."""

    pattern: str
    boards: list[str]


class Kept:
    """The file; it is this process's alone until it is closed. ``results`` are by the keys of their jobs."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path = file, path
        self.results: dict[str, Result] = {}
        self._planned: dict[str, set[str]] = {}
        data = file.read()
        if not data:
            self._write(_HEAD)
            return
        if not data.startswith(_HEAD):
            raise UsageError(f"{path} holds no results of a farm", where="--resume", hint="name a new file")
        whole = data.rfind(b"\n") + 1  # of a line that was not written whole nothing is left
        file.truncate(whole)
        file.seek(whole)
        for number, line in enumerate(data[len(_HEAD) : whole].splitlines(), 2):
            try:
                self._take(line)
            except msgspec.MsgspecError as error:
                raise UsageError(f"{path} is damaged", where=f"line {number}", why=str(error),
                                 hint="name a new file after --resume, or take the line out") from None  # fmt: skip

    def _take(self, line: bytes) -> None:
        if b'"pattern"' in line[:12]:
            plan = msgspec.json.decode(line, type=Planned)
            self._planned.setdefault(plan.pattern, set()).update(plan.boards)
        else:
            result = msgspec.json.decode(line, type=Result)
            self.results.setdefault(result.job, result)

    def planned(self, pattern: str, boards: set[str]) -> set[str]:
        """``boards``, and those that the pattern has named before."""
        before = self._planned.setdefault(pattern, set())
        if boards - before:
            self._write(msgspec.json.encode(Planned(pattern, sorted(boards))) + b"\n")
            before |= boards
        return set(before)

    def add(self, result: Result) -> None:
        """Keep a result, unless there is one of that job."""
        if result.job not in self.results:
            self.results[result.job] = result
            self._write(msgspec.json.encode(result) + b"\n")

    def _write(self, line: bytes) -> None:
        try:
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise _cannot(self._path, error.strerror) from None


@contextmanager
def opened(path: Path) -> Iterator[Kept]:
    """The file at ``path``, made where there is none.

    Raises:
        UsageError: it cannot be read or written, or holds something else.
        BusyError: another command writes into it.
    """
    try:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666), "r+b")
    except (OSError, ValueError) as error:  # the latter of what cannot seek
        raise _cannot(path, getattr(error, "strerror", None) or "it is no regular file") from None
    with file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _MAX_BYTES:
            big = f"it has more than {_MAX_BYTES} bytes"
            raise _cannot(path, big if stat.S_ISREG(facts.st_mode) else "it is no regular file")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if not isinstance(error, BlockingIOError):
                raise _cannot(path, error.strerror) from None
            raise BusyError(f"another command writes its results into {path}", hint="name another file") from None
        yield Kept(file, path)


def _cannot(path: Path, why: str | None) -> UsageError:
    hint = "name a file in a folder that is yours"
    return UsageError(f"cannot keep results in {path}", where="--resume", why=why, hint=hint)
