"""Work in a child process, which may crash or hang without harm: what it yielded until then is kept."""

from __future__ import annotations

import faulthandler
import os
import pickle
import select
import signal
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

__all__ = ["Died", "apart"]


@dataclass(frozen=True)
class Died:
    """How a child ended before its work was done."""

    why: str

    def __str__(self) -> str:
        return self.why


def apart(work: Callable[[], Iterable[Any]], timeout_s: float) -> tuple[list[Any], Died | None]:
    """What ``work`` yields, from a child process that is killed after ``timeout_s``; and how it died, if it did."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _serve(work, writer)
    os.close(writer)
    try:
        raw, late = _read(reader, time.monotonic() + timeout_s)
    finally:
        os.close(reader)
    if late:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    items = _items(raw)
    if items and isinstance(items[-1], _Done):
        return items[:-1], None
    if items and isinstance(items[-1], Died):
        return items[:-1], items[-1]
    code = os.waitstatus_to_exitcode(status)
    why = f"no end within {timeout_s:g} s" if late else signal.Signals(-code).name if code < 0 else f"exit {code}"
    return items, Died(why)


@dataclass(frozen=True)
class _Done:
    pass


def _serve(work: Callable[[], Iterable[Any]], writer: int) -> None:
    faulthandler.disable()  # what ends the process is told by its end
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what engines print as they die
        with os.fdopen(writer, "wb") as stream:
            try:
                for item in work():
                    _send(stream, item)
                _send(stream, _Done())
            except Exception as err:
                _send(stream, Died(f"{type(err).__name__}: {err}"))
    finally:
        os._exit(0)


def _send(stream: Any, item: Any) -> None:
    data = pickle.dumps(item)
    stream.write(struct.pack("<Q", len(data)) + data)
    stream.flush()


def _read(reader: int, end: float) -> tuple[bytes, bool]:
    parts = []
    while True:
        ready, _, _ = select.select([reader], [], [], max(end - time.monotonic(), 0.0))
        if not ready:
            return b"".join(parts), True
        part = os.read(reader, 1 << 20)
        if not part:
            return b"".join(parts), False
        parts.append(part)


def _items(raw: bytes) -> list[Any]:
    """The whole items; of one cut short nothing is left."""
    at, out = 0, []
    while at + 8 <= len(raw):
        (size,) = struct.unpack_from("<Q", raw, at)
        if at + 8 + size > len(raw):
            break
        out.append(pickle.loads(raw[at + 8 : at + 8 + size]))
        at += 8 + size
    return out
