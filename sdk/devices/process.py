"""A child process at the other end of two file descriptors: bounded waits, its last words, a clean end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sdk.devices.descriptors import FdTransport
from sdk.errors import DeviceFault, LinkError, NoDeviceError, SdkError

_STDERR_TAIL = 2000
_STDERR_HEAD = 64 << 10
_GRACE_S = 0.5  # for a child to end by itself, then after SIGTERM
_PIPE_BYTES_PER_S = 1e6  # a pipe on a busy machine, sanitizers in the agent
_PIPE_GRACE_S = 1.0  # an agent ends by itself when its input does
_GUARD = 'read -r pid; read -r _; [ -z "$pid" ] || kill -9 "$pid"; [ -z "$1" ] || rm -rf "$1"'
STOPPED = 77  # the status with which an emulator of ours says that its guest cannot go on, and why
_MODEL = "--board host tells a fault of the model from one of the image; --device qemu:// is a second opinion"
_AGAIN = "run it again; when it repeats, report it with the lines above"
_OTHER_CPU = "it may be built for another processor: choose the board that the machine is with --board"
_STACK = "often a stack overflow: raise runtime.stack in the board's file"
NO_WORDS = "it wrote nothing to standard error"


def end_error(name: str, status: int, words: str) -> LinkError | DeviceFault:
    """The error that says how a process ended: its status, or -N where signal N killed it."""
    if status == 0:
        return LinkError(f"{name} ended before it answered", why=words, hint=_AGAIN)
    if status == STOPPED:
        what, _, more = words.partition("\n")
        return DeviceFault(f"{name}: {what}", why=more or None, hint=_STACK if "lockup" in what else _MODEL)
    how = f"ended with status {status}"
    if status < 0:
        known = -status in signal.Signals._value2member_map_
        how = f"was killed by {signal.Signals(-status).name if known else f'signal {-status}'}"
    hint = _STACK if "lockup" in words.lower() else _OTHER_CPU if status == -signal.SIGILL else _AGAIN
    return DeviceFault(f"{name} {how}", why=words, hint=hint)


class Guard:
    """A shell that outlives us: a program that computes, or an emulator, does not notice that a tool was killed. Once
    we are no more it ends the process that it was told, and removes a folder."""

    def __init__(self, folder: str = "") -> None:
        quiet, pipe = subprocess.DEVNULL, subprocess.PIPE
        argv = ["/bin/sh", "-c", _GUARD, "sh", folder]
        self._shell: subprocess.Popen[bytes] | None = None
        with contextlib.suppress(OSError):  # a system without a shell has no guard
            self._shell = subprocess.Popen(
                argv, stdin=pipe, stdout=quiet, stderr=quiet, bufsize=0, start_new_session=True
            )

    def watch(self, process: subprocess.Popen[bytes]) -> None:
        """The process that is to end with us."""
        if self._shell is not None and self._shell.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # somebody has ended it
                self._shell.stdin.write(f"{process.pid}\n".encode())

    def end(self) -> None:
        """The process has ended, and its number may be another's. May be called twice."""
        if self._shell is not None:
            self._shell.kill()
            self._shell.wait()
            if self._shell.stdin is not None:
                self._shell.stdin.close()


@dataclass
class Child:
    """A started process and the nameless file that collects its standard error."""

    process: subprocess.Popen[bytes]
    stderr_fd: int
    name: str  # for messages
    guard: Guard | None = None

    def said(self) -> str:
        """Return what it wrote to standard error first."""
        return os.pread(self.stderr_fd, _STDERR_HEAD, 0).decode("utf-8", "replace")

    def last_words(self) -> str:
        """Return the end of what it wrote to standard error."""
        size = os.fstat(self.stderr_fd).st_size
        text = os.pread(self.stderr_fd, _STDERR_TAIL, max(0, size - _STDERR_TAIL)).decode("utf-8", "replace")
        return text.strip() or NO_WORDS

    def ended(self) -> LinkError | DeviceFault:
        """Return the error that says how the process ended; it has closed its end of the pipe."""
        try:
            status = self.process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            return LinkError(f"{self.name} closed the link but still runs", hint="end the process and run it again")
        if self.guard is not None:
            self.guard.end()
        return end_error(self.name, status, self.last_words())


def spawn(
    argv: Sequence[str],
    name: str,
    *,
    piped: bool,
    env: Mapping[str, str] | None = None,
    over: int | None = None,
    guard: Guard | None = None,
) -> Child:
    """Start ``argv`` with its standard input and output piped to us, closed, or both the descriptor ``over``; ``env``
    are its variables where they are not ours; a ``guard`` ends it where we cannot. Raises NoDeviceError."""
    with tempfile.TemporaryFile(buffering=0) as file:  # without a name: nothing is left of a tool that is killed here
        stderr_fd = os.dup(file.fileno())
    pipe = over if over is not None else subprocess.PIPE if piped else subprocess.DEVNULL
    try:
        process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=stderr_fd, bufsize=0, env=env)
    except OSError as error:
        os.close(stderr_fd)
        if guard is not None:
            guard.end()
        hint = "check the path after local: (a board's firmware runs with qemu://)"
        raise NoDeviceError(f"cannot start {name}", where=argv[0], why=error.strerror, hint=hint) from error
    if guard is not None:
        guard.watch(process)
    return Child(process, stderr_fd, name, guard)


def stop(child: Child, release: Callable[[], None], grace_s: float) -> None:
    """Close the pipe, then end the process: wait, then SIGTERM, then SIGKILL; close its files. An interrupt in the
    meantime ends it at once."""
    process = child.process
    try:
        release()
        for step, wait_s in ((None, grace_s), (process.terminate, _GRACE_S), (process.kill, None)):
            if step is not None:
                step()
            try:
                process.wait(wait_s)
                break
            except subprocess.TimeoutExpired:
                continue
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if child.guard is not None:
            child.guard.end()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        os.close(child.stderr_fd)


class ProcessTransport(FdTransport):
    """A Transport to ``child`` over two descriptors, which may be the same; ``release`` closes them.

    Needs a system where poll() takes pipes and sockets alike: any but Windows.
    """

    stuck = "restart the device; a busy machine may need a longer timeout"

    def __init__(
        self,
        child: Child,
        read_fd: int,
        write_fd: int,
        release: Callable[[], None],
        *,
        address: str,
        bytes_per_s: float,
        grace_s: float = 0.0,
        emulated: bool = False,
        ns_per_instruction: float | None = None,
    ) -> None:
        super().__init__(read_fd, write_fd, address, bytes_per_s)
        self.emulated = emulated or ns_per_instruction is not None
        self.ns_per_instruction = ns_per_instruction
        self._child = child
        self._put_back = b""
        self._end = weakref.finalize(self, stop, child, release, grace_s)  # also when the interpreter ends

    def read(self, timeout_s: float) -> bytes:
        """Return bytes that have come; see Transport. Raises DeviceFault when the process has died."""
        if self._put_back:
            data, self._put_back = self._put_back, b""
            return data
        return super().read(timeout_s)

    def said(self) -> str:
        """What the process wrote to standard error."""
        return self._child.said()

    def put_back(self, data: bytes) -> None:
        """Have ``data``, which was read, read again."""
        self._put_back = data + self._put_back

    def over(self, error: OSError | None) -> SdkError:
        """How the process ended."""
        return self._child.ended()

    def close(self) -> None:
        """Close the pipe and end the process."""
        self._end()


def open_piped(
    argv: Sequence[str],
    name: str,
    address: str,
    *,
    emulated: bool = False,
    ns_per_instruction: float | None = None,
    env: Mapping[str, str] | None = None,
) -> ProcessTransport:
    """Start ``argv``, an agent that talks on its standard input and output. Raises NoDeviceError."""
    child = spawn(argv, name, piped=True, env=env, guard=Guard())
    return pipe_to(child, address, emulated=emulated, ns_per_instruction=ns_per_instruction)


def pipe_to(
    child: Child, address: str, *, emulated: bool = False, ns_per_instruction: float | None = None
) -> ProcessTransport:
    """A Transport to a child over its standard input and output. Raises NoDeviceError."""
    name = child.name
    stdin, stdout = child.process.stdin, child.process.stdout
    if stdin is None or stdout is None:
        raise NoDeviceError(f"cannot reach {name}", why="it was started without pipes")
    try:
        return ProcessTransport(
            child,
            stdout.fileno(),
            stdin.fileno(),
            stdin.close,
            address=address,
            bytes_per_s=_PIPE_BYTES_PER_S,
            grace_s=_PIPE_GRACE_S,
            emulated=emulated,
            ns_per_instruction=ns_per_instruction,
        )
    except BaseException:
        stop(child, stdin.close, 0.0)
        raise
