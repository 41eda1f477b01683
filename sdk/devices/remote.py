"""The tool's side of `sdk agent`: connecting, sending programs, and a pipe to one that survives lost connections."""

from __future__ import annotations

import contextlib
import errno
import getpass
import hashlib
import ipaddress
import os
import platform
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sdk.devices.channel import (
    CHUNK_BYTES,
    Channel,
    ChannelError,
    Ended,
    Failure,
    Hello,
    Kind,
    Record,
    RefusedError,
    greet,
    refusal,
)
from sdk.devices.keys import Key
from sdk.devices.machine import MachineFacts, parse_facts
from sdk.devices.process import NO_WORDS, end_error
from sdk.errors import BusyError, DeviceFault, LinkError, NoDeviceError, SdkError, UsageError

__all__ = ["Address", "RemoteProgram", "Where", "ask_facts", "open_program"]

_BYTES_PER_S = 1e6  # the slowest network to expect
_STEP_S = 5.0  # for an answer of the agent
_GREETING_S = 1.0  # the same, where trying again costs little
_LOST_S = 5.0  # for which an agent keeps a program whose connection was lost
_TRIES = 8  # without any progress
_MIN_CHUNK = 1024
_PAUSE_S = 0.05
_ATTEMPT_S = 0.25  # that an attempt to connect again may take, whatever its caller grants
_CUT = b"\0\1\0"  # a piece of nothing: the link counts it as damage, and repeats its request at once
_ENDED = struct.Struct("<BiQQ")
_CLIENT = os.urandom(16)  # of this process, in all its connections


class Where(Protocol):
    """Where an agent is, and how a connection to it is made."""

    @property
    def uri(self) -> str:
        """For messages."""

    @property
    def keys(self) -> Sequence[Key]:
        """Those that may be the agent's own."""

    @property
    def cores(self) -> int:
        """A mask of the cores that programs are to use (0: any)."""

    @property
    def is_trusted(self) -> bool:
        """Whether nobody else can be at the other end, so that an agent without a key is taken."""

    @property
    def lasting(self) -> bool:
        """Whether an agent and its programs outlive a connection."""

    @property
    def greeting_s(self) -> float:
        """The least time for a greeting."""

    def dial(self, timeout_s: float) -> Channel:
        """A new connection. Raises OSError, SdkError."""


@dataclass(frozen=True)
class Address:
    """Where an agent is; ``uri`` is for messages, ``keys`` those that may be its own, ``cores`` a mask of the cores
    that programs are to use (0: any), ``lasting`` whether a lost connection is made anew."""

    uri: str
    host: str
    port: int
    keys: Sequence[Key] = ()
    cores: int = 0
    lasting: bool = True

    greeting_s = 0.0

    @property
    def is_trusted(self) -> bool:
        """Whether nothing but this machine can be at it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def dial(self, timeout_s: float) -> Channel:
        """A new connection. Raises OSError."""
        sock = socket.create_connection((self.host, self.port), timeout_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Channel(sock)


def ask_facts(address: Where, timeout_s: float) -> MachineFacts:
    """What an agent's machine is and does now. Raises NoDeviceError, LinkError, UsageError."""
    with _told(address), contextlib.closing(_connect(address, timeout_s)) as channel:
        channel.send(Kind.FACTS)
        return parse_facts(channel.expect(Kind.FACTS, _STEP_S))


def open_program(
    address: Where, program: Path, timeout_s: float, beside: Sequence[Path] = ()
) -> RemoteProgram:  # fmt: skip
    """Send a program to an agent where it is not there yet, and start it; before it the files ``beside`` it.

    Raises:
        NoDeviceError: there is no agent, or no program.
        BusyError: somebody else uses the machine.
        UsageError: the agent's key is not known here, or the program is for another machine.
        LinkError: the network is too bad.
    """
    with _told(address):
        for path in beside:
            _send_program(address, path, timeout_s)[0].close()
        for attempt in range(_TRIES):
            channel, digest = _send_program(address, program, timeout_s)
            try:
                channel.send(Kind.START, struct.pack("<32sQQ", digest, 0, address.cores))
                return RemoteProgram(address, channel, channel.expect(Kind.STARTED, _STEP_S))
            except ChannelError:  # what may have been started ends when nobody asks for it
                channel.close()
                if attempt + 1 == _TRIES:
                    raise
            except BaseException:
                channel.close()
                raise
        raise AssertionError("unreachable")


class RemoteProgram:
    """A Transport to a program under an agent. A lost connection is made anew; what was under way is lost then, and
    the link repeats it."""

    emulated = False
    ns_per_instruction: float | None = None
    bytes_per_s = _BYTES_PER_S

    def __init__(self, address: Where, channel: Channel, number: bytes) -> None:
        self.address = address.uri
        self._to = address
        self._channel: Channel | None = channel
        self._number = number
        self._lost_at = 0.0
        self._why = ""
        self._cut = False
        self._held = b""  # came while something else was waited for
        self._gone: LinkError | None = None  # with its connection, which cannot be made anew
        self._over = self._closed = False

    def read(self, timeout_s: float) -> bytes:
        """Return bytes that have come; see Transport. Raises DeviceFault when the program has died."""
        if self._held:
            data, self._held = self._held, b""
            return data
        if self._channel is None:
            self._again(timeout_s)
        if self._cut and self._channel is not None:
            self._cut = False
            return _CUT
        if self._channel is None:
            return b""
        try:
            record = self._channel.receive(timeout_s)
        except ChannelError as error:
            self._lose(error)
            return b""
        return b"" if record is None else self._taken(record)

    def facts(self, timeout_s: float) -> MachineFacts | None:
        """What the machine is and does now, while the program is there; None where it does not tell within a time.
        Raises what ``read`` raises."""
        if self._channel is None:
            return None
        deadline = time.monotonic() + timeout_s
        try:
            self._channel.send(Kind.FACTS, timeout_s=timeout_s)
            while record := self._channel.receive(max(0.0, deadline - time.monotonic())):
                if record.kind == Kind.FACTS:
                    return parse_facts(record.body)
                self._held += self._taken(record)
        except ChannelError as error:
            self._lose(error)
        return None

    def _taken(self, record: Record) -> bytes:
        """What a record of the agent's brings from the program. Raises the error that says how it ended."""
        if record.kind == Kind.ENDED:
            self._over = True
            raise _end(self.address, record.body)
        if record.kind == Kind.REFUSED:
            raise _error(self._to, refusal(record.body))
        return record.body if record.kind == Kind.DATA else b""

    def write(self, data: bytes, timeout_s: float) -> None:
        """Write all of ``data``; see Transport."""
        deadline = time.monotonic() + timeout_s
        if self._channel is None:
            self._again(timeout_s)
        for at in range(0, len(data), CHUNK_BYTES):
            self._write(data[at : at + CHUNK_BYTES], deadline, timeout_s)

    def close(self) -> None:
        """End the program and the connection."""
        if self._closed:
            return
        self._closed = True
        if self._channel is None and self._to.lasting:
            with contextlib.suppress(SdkError):
                self._again(_ATTEMPT_S)  # the agent would keep the machine for us
        if self._channel is None:
            return
        try:
            if not self._over:
                self._channel.send(Kind.STOP, timeout_s=1.0)
            deadline = time.monotonic() + 2.0
            while not self._over and (left := deadline - time.monotonic()) > 0:
                record = self._channel.receive(left)
                if record is None or record.kind in (Kind.ENDED, Kind.REFUSED):
                    break
        except ChannelError:
            pass  # the agent ends it by itself
        finally:
            self._channel.close()
            self._channel = None

    def _write(self, data: bytes, deadline: float, timeout_s: float) -> None:
        channel = self._channel
        if channel is None:
            return  # lost, as on any bad line
        try:
            for piece in channel.encode(Kind.DATA, data):
                view = memoryview(piece)
                while view:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        raise LinkError(
                            f"{self.address} takes no data",
                            why=f"{len(view)} bytes were still unsent after {timeout_s:g} s",
                            hint="the network is slow or the machine busy: CROSSLEVEL_TIMEOUT=SECONDS grants more",
                        )
                    done = channel.send_some(view, min(left, 0.01))
                    view = view[done:]
                    if not done:
                        channel.fill(0.0)  # both sides may be full: somebody has to take something
        except ChannelError as error:
            self._lose(error)

    def _lose(self, error: ChannelError) -> None:
        channel, self._channel = self._channel, None
        if channel is not None and not self._to.lasting:
            self._gone = _lost(self.address, channel, error)
            raise self._gone
        if channel is not None:
            channel.close()
        self._lost_at = time.monotonic()
        self._why = error.text
        self._cut = True

    def _again(self, timeout_s: float) -> None:
        """Connect anew within a time; raise LinkError once the agent has given the program up, or ended itself."""
        if self._gone is not None:
            raise self._gone
        until = time.monotonic() + max(timeout_s, _ATTEMPT_S)
        with _told(self._to):
            while (left := until - time.monotonic()) > 0:
                channel = None
                try:
                    channel = _attempt(self._to, min(left, _GREETING_S))
                    channel.send(Kind.ATTACH, self._number, left)
                    channel.expect(Kind.STARTED, min(max(left, _ATTEMPT_S), _STEP_S))
                    self._channel = channel
                    return
                except (ChannelError, OSError) as error:
                    if channel is not None:
                        channel.close()
                    if time.monotonic() - self._lost_at > _LOST_S:
                        why = f"{self._why}; then: {error.text if isinstance(error, ChannelError) else error}"
                        raise LinkError(f"{self.address}: the connection is lost", why=why) from None
                    time.sleep(min(_PAUSE_S, max(0.0, until - time.monotonic())))
                except BaseException:
                    if channel is not None:
                        channel.close()
                    raise


def _send_program(address: Where, program: Path, timeout_s: float) -> tuple[Channel, bytes]:
    """Have a program at the agent; go on where an upload broke off, as long as it gets further."""
    try:
        with program.open("rb") as file:
            digest, size = hashlib.file_digest(file, "sha256").digest(), file.tell()
    except OSError as error:
        raise NoDeviceError("there is no program to send", where=str(program), why=error.strerror) from None
    reached, tries, piece = -1, 0, CHUNK_BYTES
    while True:
        channel = _connect(address, timeout_s)
        offset = reached
        try:
            channel.send(Kind.PUT, struct.pack("<32sQ", digest, size))
            offset = int.from_bytes(channel.expect(Kind.HAVE, _STEP_S), "little")
            if offset < size:
                _send_rest(channel, program, offset, piece)
                channel.expect(Kind.STORED, _STEP_S)
            return channel, digest
        except ChannelError as error:
            channel.close()
            tries = 0 if offset > reached else tries + 1
            reached = max(reached, offset)
            piece = max(_MIN_CHUNK, piece // 4)  # smaller ones get through on a bad line
            if tries >= _TRIES:
                raise error
            time.sleep(_PAUSE_S)
        except BaseException:
            channel.close()
            raise


def _send_rest(channel: Channel, program: Path, offset: int, piece: int) -> None:
    with program.open("rb") as file:
        file.seek(offset)
        while data := file.read(piece):
            channel.send(Kind.CHUNK, data, _STEP_S)
            said = channel.receive(0.0)
            if said is not None:
                raise refusal(said.body) if said.kind == Kind.REFUSED else ChannelError("the agent interrupts")


def _connect(address: Where, timeout_s: float) -> Channel:
    """A channel to an agent: tried again where the line is bad, not where nobody listens."""
    deadline = time.monotonic() + timeout_s
    while True:
        left = deadline - time.monotonic()
        try:
            return _attempt(address, max(0.1, min(left, _GREETING_S if left < timeout_s else _STEP_S)))
        except ChannelError:
            if time.monotonic() + _PAUSE_S > deadline:
                raise
            time.sleep(_PAUSE_S)
        except OSError as error:
            raise NoDeviceError(
                f"no agent answers at {address.uri}",
                why=str(error.strerror or error),
                hint="start it there: sdk agent (and --listen ADDRESS:PORT to be reached from other machines)",
            ) from None


def _attempt(address: Where, timeout_s: float) -> Channel:
    channel = address.dial(timeout_s)
    try:
        left = max(timeout_s, address.greeting_s)
        greet(channel, Hello(_CLIENT, _label()), address.keys, may_be_open=address.is_trusted, timeout_s=left)
    except ChannelError as error:
        if not address.lasting:  # what carries it has ended, and may have said why
            raise _lost(address.uri, channel, error) from None
        channel.close()
        raise
    except BaseException:
        channel.close()
        raise
    return channel


def _lost(address: str, channel: Channel, error: ChannelError) -> LinkError:
    """The error of a connection that ended with what carried it."""
    end = channel.ended() if channel.ended is not None else None
    channel.close()
    why = f"{error.text}; {end.message}: {end.why}" if isinstance(end, SdkError) else error.text
    return LinkError(f"{address}: the connection is lost", why=why, hint="mend what is said above, or run it again")


def _label() -> str:
    """Who we are, for others who find the machine in use."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "somebody"
    return f"{user}@{platform.node()} (process {os.getpid()})"


@contextlib.contextmanager
def _told(address: Where) -> Iterator[None]:
    """Say to the user what went wrong."""
    try:
        yield
    except RefusedError as error:
        raise _error(address, error) from None
    except ChannelError as error:
        hint = "check that an sdk agent of this version listens there, and the network between"
        raise LinkError(f"the connection to {address.uri} failed", why=error.text, hint=hint) from None


def _error(address: Where, error: RefusedError) -> SdkError:
    match error.failure:
        case Failure.BUSY:
            return BusyError(f"{address.uri} is in use", why=error.text)
        case Failure.KEY:
            hint = "sdk agent --pair there prints a code; sdk agent --trust CODE here makes it known"
            return UsageError(f"{address.uri}: {error.text}", hint=hint)
        case Failure.FOREIGN:
            return UsageError(
                f"the agent at {address.uri} cannot run this board's programs",
                why=error.text,
                hint="choose the board that the machine is with --board; sdk boards lists them",
            )
        case Failure.ROOM:
            hint = "sdk agent --quota SIZE there gives more, or make room on its disk"
            return NoDeviceError(f"the agent at {address.uri} has no room", why=error.text, hint=hint)
        case _:
            hint = "use the same version of the tool on both machines"
            return LinkError(f"the agent at {address.uri} refuses", why=error.text, hint=hint)


def _end(where: str, body: bytes) -> SdkError:
    """The error that says how a program ended."""
    if len(body) < _ENDED.size:
        return LinkError(f"{where}: the agent says wrongly how the program ended")
    how, value, peak, _ = _ENDED.unpack_from(body)
    words = body[_ENDED.size :].decode("utf-8", "replace").strip() or NO_WORDS
    name = f"the program at {where}"
    match how:
        case Ended.EXITED:
            return end_error(name, value, words)
        case Ended.SIGNAL:
            return end_error(name, -value, words)
        case Ended.MEMORY:
            why, hint = f"it held {peak} bytes", "sdk agent --memory SIZE there allows more"
            return DeviceFault(f"{name} took more memory than the agent allows", why=why, hint=hint)
        case Ended.DISK:
            hint = "sdk agent --disk SIZE there allows more"
            return DeviceFault(f"{name} wrote more to the disk than the agent allows", why=words, hint=hint)
        case Ended.PROCESSES:
            return DeviceFault(f"{name} started too many processes", why=words, hint="a model needs one")
        case Ended.NOT_STARTED:
            why = os.strerror(value) if 0 < value < 1000 else words
            cores = "name cores that are there: ?cores=0"
            hint = cores if value == errno.EINVAL else "choose the machine's own --board"
            return NoDeviceError(f"{name} cannot be started", why=why, hint=hint)
        case _:
            return LinkError(f"{name} was ended by the agent", why=words, hint="is the agent being shut down?")
