"""The agent where there is none: sent through a shell at the other side, and served over that shell's input and output.

A short script at the other side says which machine it is, is told the agent's hash and size, says how much of it is
there, takes the rest, checks the hash, and becomes the agent. Nothing is left running when the connection ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import select
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from sdk.devices.base import OpenRequest
from sdk.devices.channel import Channel
from sdk.devices.keys import Key
from sdk.devices.machine import HEAD_BYTES, core_mask, foreign_machine
from sdk.devices.remote import RemoteProgram, open_program
from sdk.errors import LinkError, NoDeviceError, SdkError, UsageError

__all__ = ["Line", "Options", "Shell", "agent_chooser", "open_pushed", "parse_options", "script"]

_VIA = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./-]*")
_GREETING_S = 60.0  # somebody may have to type a password
_STEP_S = 60.0  # for a piece of the agent on a slow line, and for its hash on a slow machine
_MAX_TALK = 1 << 16  # bytes that a login may print
_CHUNK = 1 << 18
_KEPT = 2  # agents, of this version and the one before
_MARK = b"\ncrosslevel-2 "  # before each line of the script, which a login cannot but print by intent
# What runs at the other side, by whatever shell it has: so there are no single quotes and no exclamation marks in it.
_SCRIPT = (
    'umask 077; ulimit -c 0; d={folder}; say() {{ echo; echo "{mark} $*"; }}; '
    'mkdir -p "$d/agents" && cd "$d/agents" || {{ say failed cannot make "$d"; exit 1; }}; '
    "command -v sha256sum >/dev/null || {{ say failed there is no sha256sum; exit 1; }}; "
    "say machine $(uname -s) $(uname -m); read -r name size || exit 1; f=$d/agents/$name; "
    'if [ -x "$f" ] && [ -f "$f" ]; then touch "$f"; else '
    'have=0; [ -f "$f.part" ] && have=$(($(wc -c <"$f.part"))); '
    'if [ $have -gt $size ]; then rm -f "$f.part"; have=0; fi; say send $have; '
    'head -c $((size - have)) >>"$f.part" || {{ say failed cannot write "$f.part"; exit 1; }}; '
    'sum=$(sha256sum <"$f.part"); if [ "${{sum%% *}}" = $name ]; then chmod 500 "$f.part"; mv "$f.part" "$f"; else '
    'rm -f "$f.part"; say failed the agent was damaged on the way; exit 1; fi; fi; '
    'ls -t | tail -n +{over} | while read -r old; do rm -f "$old"; done; '
    'say ready; exec {via} "$f" --folder "$d/store" --quota {quota} --stdio {option}'
)


class Line:
    """A byte pipe to a shell: a socket, what is to be done when it closes, and how to say why it did."""

    def __init__(
        self,
        sock: socket.socket,
        release: Callable[[], None] = lambda: None,
        ended: Callable[[], SdkError | None] = lambda: None,
    ) -> None:
        self.sock = sock
        self.release = release
        self.ended = ended

    def read(self, timeout_s: float) -> bytes:
        """Bytes that have come within a time; b"" where the pipe has ended or the time."""
        if not select.select([self.sock], [], [], max(0.0, timeout_s))[0]:
            return b""
        with contextlib.suppress(ConnectionError):
            return self.sock.recv(_CHUNK)
        return b""

    def close(self) -> None:
        """Close it and end what was started for it."""
        self.sock.close()
        self.release()


@dataclass(frozen=True)
class Options:
    """What stands behind the question mark of an address: cores as a mask, and a program that runs others."""

    cores: int = 0
    via: str = ""


def parse_options(uri: str, form: str) -> tuple[str, Options]:
    """The address without its options, and these. Raises UsageError."""
    try:
        parts = urlsplit(uri)
        found = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query), keep_blank_values=True))
        cores = core_mask(found.pop("cores")) if "cores" in found else 0
    except ValueError as error:
        raise UsageError(f"{uri!r} is not a device address", why=str(error), hint=form) from None
    via = found.pop("via", "")
    wrong = ", ".join(found) or ("" if not via or _VIA.fullmatch(via) else via)  # a shell at the other side reads it
    if wrong or parts.fragment:
        raise UsageError(f"{uri!r} is not a device address", why=f"what is {wrong or parts.fragment!r}?", hint=form)
    return uri.partition("?")[0], Options(cores, via)


def script(folder: str, quota: str, options: Options) -> str:
    """What the shell at the other side runs; ``folder`` is a word in its language."""
    option = f"--via {options.via}" if options.via else ""
    mark = _MARK.decode().strip()
    return _SCRIPT.format(folder=folder, mark=mark, over=_KEPT + 1, quota=quota, via=options.via, option=option)


@dataclass(frozen=True)
class Shell:
    """Where an agent is pushed to: ``connect`` opens a pipe to a shell that runs the script. ``hint`` says what must
    work without us."""

    uri: str
    cores: int
    connect: Callable[[float], Line]
    agent_for: Callable[[str], Path]
    hint: str
    keys: Sequence[Key] = ()
    is_trusted: bool = True
    lasting: bool = False
    greeting_s: float = 20.0

    def dial(self, timeout_s: float) -> Channel:
        """A connection to a new agent there.

        Raises:
            NoDeviceError: there is no way to the machine, or it cannot take the agent.
            UsageError: there is no agent for that machine.
            LinkError: what answers is something else.
        """
        line = self.connect(timeout_s)
        try:
            _Push(self, line).run()
        except BaseException:
            line.close()
            raise
        return Channel(line.sock, line.release, line.ended)


def open_pushed(request: OpenRequest, shell: Shell, *, emulated: bool) -> RemoteProgram:
    """Start ``request.artifact`` under an agent that is pushed. Raises what ``open_program`` raises."""
    program = open_program(shell, request.artifact, request.timeout_s, request.beside)
    program.emulated = emulated
    return program


class _Push:
    """The talk with the script."""

    def __init__(self, shell: Shell, line: Line) -> None:
        self._shell = shell
        self._line = line
        self._talk = b""
        self._deadline = time.monotonic() + _GREETING_S

    def run(self) -> None:
        """Have the agent there, and started."""
        system, _, machine = self._expect("machine").partition(" ")
        if system != "Linux":
            why = f"that machine has {system}"
            raise UsageError(f"{self._shell.uri} cannot run agents", why=why, hint="agents are for Linux and Android")
        data = self._shell.agent_for(machine).read_bytes()
        self._deadline = time.monotonic() + _STEP_S
        self._send(f"{hashlib.sha256(data).hexdigest()} {len(data)}\n".encode())
        word, rest = self._next()
        if word == "send":
            if not rest.isdigit() or int(rest) > len(data):
                raise self._strange(word, rest)
            self._send(data[int(rest) :])
            self._deadline = time.monotonic() + _STEP_S
            word, rest = self._next()
        if word != "ready" or self._talk:
            raise self._strange(word, rest)

    def _expect(self, wanted: str) -> str:
        word, rest = self._next()
        if word != wanted:
            raise self._strange(word, rest)
        return rest

    def _strange(self, word: str, rest: str) -> LinkError:
        return LinkError(f"{self._shell.uri} answers something else than was asked", why=f"{word} {rest}"[:200])

    def _send(self, data: bytes) -> None:
        self._line.sock.settimeout(_STEP_S)
        try:
            self._line.sock.sendall(data)
        except TimeoutError:
            why = f"nothing was taken for {_STEP_S:g} s"
            raise LinkError(f"{self._shell.uri} takes no data", why=why, hint=self._shell.hint) from None
        except OSError:
            raise self._gone() from None

    def _gone(self) -> NoDeviceError:
        error = self._line.ended()
        return NoDeviceError(f"cannot use {self._shell.uri}", why=error.why if error else None, hint=self._shell.hint)

    def _next(self) -> tuple[str, str]:
        """The next line that the script says, in its first word and the rest; what a login prints before is skipped."""
        while True:
            begin = self._talk.find(_MARK)
            if begin >= 0 and (end := self._talk.find(b"\n", begin + 1)) >= 0:
                text = self._talk[begin + len(_MARK) : end].decode("utf-8", "replace")
                self._talk = self._talk[end + 1 :]
                word, _, rest = text.rstrip("\r").partition(" ")
                if word == "failed":
                    message = f"{self._shell.uri} cannot take the agent"
                    raise NoDeviceError(message, why=rest, hint="make room or mend it there")
                return word, rest
            left = self._deadline - time.monotonic()
            if left <= 0 or len(self._talk) > _MAX_TALK:
                why = f"it printed {self._talk[-200:]!r}"
                raise LinkError(f"{self._shell.uri} did not get ready", why=why, hint=self._shell.hint)
            data = self._line.read(left)
            if not data and time.monotonic() < self._deadline:
                raise self._gone()
            self._talk += data


def agent_chooser(request: OpenRequest, options: Options) -> Callable[[str], Path]:
    """Which agent a machine wants: its own, or one that runs under the emulator which is to run the program.

    Raises:
        NoDeviceError: there is no program.
    """
    if request.agent_for is None:
        hint = "open_device(..., agent_for=...); the commands bring one"
        raise UsageError(f"{request.uri} needs an agent", why="the caller has none", hint=hint)
    chosen = request.agent_for
    try:
        with request.artifact.open("rb") as file:
            emulated = foreign_machine(file.read(HEAD_BYTES), "-") or "-"
    except OSError as error:
        message = "there is no program to send"
        raise NoDeviceError(message, where=str(request.artifact), why=error.strerror) from None
    return lambda machine: chosen(emulated if options.via else machine)
