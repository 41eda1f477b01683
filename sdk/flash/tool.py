"""Programs that flash boards, run with a time limit: what they print is kept, and nothing of them is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

__all__ = ["Outcome", "run_tool"]

KEPT: Final = 64 * 1024  # bytes of a tool's output: the end, where it says how it went
_CHUNK: Final = 4096
_GRACE_S: Final = 2.0  # between asking a process to end and ending it


@dataclass(frozen=True)
class Outcome:
    """How a command went: its exit status, None where it ran out of time; what it printed, on both streams."""

    command: tuple[str, ...]
    status: int | None
    output: str


def run_tool(command: Sequence[str], folder: Path, timeout_s: float) -> Outcome:
    """Run a command in ``folder`` for at most ``timeout_s`` seconds, without a shell and without input; it and all that
    it has started end then.

    Raises:
        OSError: it cannot be started.
    """
    process = subprocess.Popen(
        list(command), cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    tail = bytearray()
    reader = threading.Thread(target=_read, args=(process.stdout, tail), daemon=True)
    reader.start()
    deadline = time.monotonic() + timeout_s
    status: int | None = None
    try:
        status = process.wait(timeout_s)
        # a child that it left behind may hold the pipe open: what that prints is not waited for
        reader.join(min(max(deadline - time.monotonic(), 0.0), _GRACE_S))
    except subprocess.TimeoutExpired:
        pass
    finally:
        _end(process)
        reader.join(_GRACE_S)
        if not reader.is_alive():  # else what left the group has the other end, and closes it when it ends
            process.stdout.close()
    return Outcome(tuple(command), status, bytes(tail).decode("utf-8", "replace"))


def _read(stream: IO[bytes], tail: bytearray) -> None:
    """Keep the end of what comes."""
    with contextlib.suppress(OSError, ValueError):
        while chunk := os.read(stream.fileno(), _CHUNK):
            tail += chunk
            del tail[:-KEPT]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process with all of its group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
            if number == signal.SIGKILL:
                break
