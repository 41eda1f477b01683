"""A program that runs for a tool: its supervisor, its pipes, and how it ended."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from sdk.agent import supervise
from sdk.agent.store import Store
from sdk.devices.channel import Ended, Failure, RefusedError

__all__ = ["Outcome", "Run"]

_TAIL = 2000  # bytes of its standard error
_PIECE = 65536
_END_S = 5.0  # for a supervisor to end all
_MAX_CORE = 63


@dataclass(frozen=True)
class Outcome:
    """How a program ended, as in ENDED."""

    how: Ended
    value: int
    peak_bytes: int
    cpu_ns: int

    def body(self, words: bytes) -> bytes:
        """The body of ENDED; ``words`` are the last of its standard error."""
        return struct.pack("<BiQQ", self.how, self.value, self.peak_bytes, self.cpu_ns) + words[-_TAIL:]


class Run:
    """A program under its supervisor. ``client`` is whose it is."""

    def __init__(
        self, store: Store, digest: bytes, client: bytes, *, memory_bytes: int, disk_bytes: int, cores: int
    ) -> None:
        self.id = secrets.token_bytes(16)
        self.client = client
        self.pending = bytearray()  # what it has not taken yet
        self.words = b""
        self.outcome: Outcome | None = None
        self.lost_at: float | None = None  # when its connection was lost
        self._hold = contextlib.ExitStack()
        try:
            program = self._hold.enter_context(store.used(digest))
            folder = store.new_folder()
            # its supervisor removes it, unless somebody has killed that
            self._hold.callback(shutil.rmtree, folder, ignore_errors=True)
            self._start(program, folder, memory_bytes, disk_bytes, cores)
        except OSError as error:
            self._hold.close()
            raise RefusedError(Failure.ROOM, f"the agent cannot start it: {error.strerror}") from None
        except BaseException:
            self._hold.close()
            raise

    def _start(self, program: Path, folder: Path, memory: int, disk: int, cores: int) -> None:
        self._report, report = os.pipe()
        alive, self._lifeline = os.pipe()
        numbers = (str(number) for number in (memory, disk, cores, report, alive))
        argv = [sys.executable, "-I", "-S", supervise.__file__, str(program), str(folder), *numbers]
        try:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, pass_fds=(report, alive), cwd="/"
            )
        except BaseException:
            for fd in (self._report, self._lifeline):
                os.close(fd)
            raise
        finally:
            os.close(report)
            os.close(alive)
        for fd in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(fd, False)

    @property
    def stdin(self) -> int:
        """Where it reads; -1 once it reads no more."""
        stream = self._process.stdin
        return -1 if stream is None or stream.closed else stream.fileno()

    @property
    def stdout(self) -> int:
        """Where it writes; -1 once that is over."""
        stream = self._process.stdout
        return -1 if stream is None or stream.closed else stream.fileno()

    @property
    def stderr(self) -> int:
        """Where it complains; -1 once that is over."""
        stream = self._process.stderr
        return -1 if stream is None or stream.closed else stream.fileno()

    @property
    def report(self) -> int:
        """Where its supervisor says how it ended; -1 once it has."""
        return self._report

    def give(self, data: bytes) -> None:
        """Hand it what the tool sends, or keep what it does not take yet."""
        if self.stdin < 0:
            return
        if not self.pending:
            data = data[self._write(data) :]
        self.pending += data

    def feed(self) -> None:
        """Hand it more of what is kept."""
        del self.pending[: self._write(self.pending)]

    def take(self) -> bytes:
        """What it has written."""
        stream = self._process.stdout
        if stream is None or stream.closed:
            return b""
        try:
            data = os.read(stream.fileno(), _PIECE)
        except BlockingIOError:
            return b""
        if not data:
            stream.close()
        return data

    def listen(self) -> None:
        """Keep the end of what it says to people."""
        stream = self._process.stderr
        if stream is None or stream.closed:
            return
        with contextlib.suppress(BlockingIOError):
            data = os.read(stream.fileno(), _PIECE)
            if not data:
                stream.close()
            self.words = (self.words + data)[-_TAIL:]

    def conclude(self) -> None:
        """Read how it ended."""
        with contextlib.suppress(OSError):
            data = os.read(self._report, supervise.REPORT.size)
            if len(data) == supervise.REPORT.size:
                how, value, peak, cpu = supervise.REPORT.unpack(data)
                self.outcome = Outcome(Ended(how), value, peak, cpu)
        if self.outcome is None:  # somebody has killed the supervisor
            self.outcome = Outcome(Ended.STOPPED, 0, 0, 0)
        os.close(self._report)
        self._report = -1
        self.stop()

    def stop(self) -> None:
        """Have it ended; does not wait."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def close(self) -> None:
        """End it and let go of all that it had."""
        self.stop()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._report >= 0:
            os.close(self._report)
            self._report = -1
        self._hold.close()

    @property
    def forgotten_s(self) -> float:
        """For how long nobody has been connected to it."""
        return 0.0 if self.lost_at is None else time.monotonic() - self.lost_at

    def _write(self, data: bytes | bytearray) -> int:
        stream = self._process.stdin
        if stream is None or stream.closed:
            return len(data)
        try:
            return os.write(stream.fileno(), data)
        except BlockingIOError:
            return 0
        except OSError:
            stream.close()  # it reads no more
            return len(data)
