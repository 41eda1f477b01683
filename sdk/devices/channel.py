"""The channel between the tool and `sdk agent`: counted, tagged records over a socket, and the handshake (SPEC.md)."""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import struct
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from sdk.devices.keys import Key

__all__ = [
    "CHUNK_BYTES",
    "MAX_BODY",
    "PORT",
    "Channel",
    "ChannelError",
    "Ended",
    "Failure",
    "Hello",
    "Kind",
    "Record",
    "RefusedError",
    "answer_greeting",
    "greet",
]  # fmt: skip

PORT = 7747
VERSION = 1
MAGIC = b"XLAG"
MAX_BODY = 1 << 20  # bytes of a record
CHUNK_BYTES = 1 << 18  # of an upload in a record
MAX_BODY_UNPROVEN = 256  # of a record before the other side has greeted, and proven its key where there is one
MAX_LABEL = 64
_HEADER = struct.Struct("<IB3x")  # bytes of the body, kind, zeros
_COUNTER = struct.Struct("<Q")
_HELLO = struct.Struct("<4sBBH16s16sB")
_CHALLENGE = struct.Struct("<4sBBH16s8s")
_TAG_BYTES = 16
_CRC_BYTES = 4
_PIECE = 1 << 18
_ROOM_UNPROVEN = 1024
_ROOM = 1 << 17
_GATHERS = hasattr(socket.socket, "sendmsg")  # not on Windows
_TOOL, _AGENT = b"tool", b"agent"


class Kind(IntEnum):
    """Kinds of records."""

    HELLO = 1
    CHALLENGE = 2
    PROOF = 3
    WELCOME = 4
    FACTS = 8
    PUT = 9
    HAVE = 10
    CHUNK = 11
    STORED = 12
    START = 13
    STARTED = 14
    ATTACH = 15
    DATA = 16
    STOP = 17
    ENDED = 18
    REFUSED = 19


class Failure(IntEnum):
    """Why an agent refuses."""

    VERSION = 1
    KEY = 2
    REQUEST = 3
    BUSY = 4
    ROOM = 5
    DAMAGED = 6
    UNKNOWN = 7
    FOREIGN = 8
    PLACE = 9


class Ended(IntEnum):
    """How a program ended."""

    EXITED = 0
    SIGNAL = 1
    MEMORY = 2
    DISK = 3
    NOT_STARTED = 4
    STOPPED = 5
    PROCESSES = 6


class ChannelError(Exception):
    """The connection is over or carries something else than records: ``text`` says which."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class RefusedError(Exception):
    """The other side said no, and why."""

    def __init__(self, failure: int, text: str) -> None:
        super().__init__(failure, text)
        self.failure = failure
        self.text = text


@dataclass(frozen=True)
class Record:
    """One record."""

    kind: int
    body: bytes


@dataclass(frozen=True)
class Hello:
    """Who greets: ``client`` is the same in all connections of one process, ``label`` says it to people."""

    client: bytes
    label: str


Tag = Callable[[bytes, bytes], bytes]


def _crc(head: bytes, body: bytes) -> bytes:
    return zlib.crc32(body, zlib.crc32(head)).to_bytes(_CRC_BYTES, "little")


def _hmac(key: bytes) -> Tag:
    base = hmac.new(key, digestmod=hashlib.sha256)

    def tag(head: bytes, body: bytes) -> bytes:
        mac = base.copy()
        mac.update(head)
        mac.update(body)
        return mac.digest()[:_TAG_BYTES]

    return tag


class Channel:
    """Records over ``sock``. Nothing is allocated for what has not come; a record that is too long, out of order,
    repeated or changed ends the connection with ChannelError."""

    def __init__(
        self,
        sock: socket.socket,
        release: Callable[[], None] | None = None,
        ended: Callable[[], Exception | None] | None = None,
    ) -> None:
        self.sock = sock
        self.ended = ended  # says how what carries the connection ended, where that is a process
        self._release = release
        self.max_body = MAX_BODY_UNPROVEN
        self._buffer = bytearray(_ROOM_UNPROVEN)
        self._at = self._end = 0  # of what has come and was not looked at yet
        self._sent = self._received = 0
        self._tags: tuple[Tag, Tag] = (_crc, _crc)  # of what is sent, of what is received
        self._tag_bytes = _CRC_BYTES

    def switch(self, send_key: bytes, receive_key: bytes) -> None:
        """Tag what follows with keys."""
        self._tags = (_hmac(send_key), _hmac(receive_key))
        self._tag_bytes = _TAG_BYTES

    def encode(self, kind: int, body: bytes = b"") -> Sequence[bytes]:
        """Return the pieces of the next record; they must be sent, in this order."""
        head = _HEADER.pack(len(body), kind)
        tag = self._tags[0](_COUNTER.pack(self._sent) + head, body)
        self._sent += 1
        return (head, body, tag) if len(body) > _PIECE >> 4 else (head + body + tag,)

    def send(self, kind: int, body: bytes = b"", timeout_s: float = 5.0) -> None:
        """Send a record; raise ChannelError when the other side has not taken it by then."""
        deadline = time.monotonic() + timeout_s
        pieces = self.encode(kind, body)
        done = self._send_together(pieces, timeout_s) if len(pieces) > 1 and _GATHERS else 0
        for piece in pieces:
            view = memoryview(piece)[done:]
            done = max(0, done - len(piece))
            while view:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise ChannelError(f"the other side took no data for {timeout_s:g} s")
                view = view[self.send_some(view, left) :]

    def _send_together(self, pieces: Sequence[bytes], timeout_s: float) -> int:
        """Send what the connection takes of several pieces at once; return how many bytes that were."""
        self.sock.settimeout(timeout_s)
        try:
            return self.sock.sendmsg(pieces)
        except (BlockingIOError, TimeoutError):
            return 0
        except OSError as error:
            raise ChannelError(f"the connection broke: {error.strerror or error}") from None

    def send_some(self, data: bytes | bytearray | memoryview, timeout_s: float) -> int:
        """Send what the connection takes within a time; return how many bytes that were."""
        self.sock.settimeout(timeout_s)
        try:
            return self.sock.send(data)
        except (BlockingIOError, TimeoutError):
            return 0
        except OSError as error:
            raise ChannelError(f"the connection broke: {error.strerror or error}") from None

    def receive(self, timeout_s: float) -> Record | None:
        """Return the next record, None when none is complete after a time."""
        record = self.buffered()
        deadline = time.monotonic() + timeout_s
        while record is None:
            left = deadline - time.monotonic()
            if not self.fill(max(0.0, left)) and left <= 0:
                return None
            record = self.buffered()
        return record

    def expect(self, kind: int, timeout_s: float) -> bytes:
        """Return the body of the next record, which must be of ``kind``. Raises RefusedError, ChannelError."""
        record = self.receive(timeout_s)
        if record is None:
            raise ChannelError(f"no answer within {timeout_s:g} s")
        if record.kind == Kind.REFUSED and kind != Kind.REFUSED:
            raise refusal(record.body)
        if record.kind != kind:
            raise ChannelError(f"record {record.kind} came in the place of {kind}")
        return record.body

    def fill(self, timeout_s: float) -> bool:
        """Take what comes within a time; return whether something came."""
        self._make_room()
        self.sock.settimeout(timeout_s)
        try:
            with memoryview(self._buffer) as view:
                count = self.sock.recv_into(view[self._end :])
        except (BlockingIOError, TimeoutError):
            return False
        except OSError as error:
            raise ChannelError(f"the connection broke: {error.strerror or error}") from None
        if not count:
            raise ChannelError("the other side closed the connection")
        self._end += count
        return True

    def _make_room(self) -> None:
        """Have room for more, as much as may come before the other side has proven itself, or a piece of an upload."""
        if self._at == self._end:
            self._at = self._end = 0
        room = _ROOM_UNPROVEN if self.max_body < MAX_BODY else _ROOM
        if len(self._buffer) - self._end >= room:
            return
        held = self._end - self._at
        self._buffer[:held] = self._buffer[self._at : self._end]
        self._at, self._end = 0, held
        if len(self._buffer) - held < room:
            self._buffer += bytes(2 * room)

    def buffered(self) -> Record | None:
        """Return the next record of what has come."""
        begin = self._at + _HEADER.size
        if self._end < begin:
            return None
        size, kind = _HEADER.unpack_from(self._buffer, self._at)
        if size > self.max_body:
            raise ChannelError(f"a record claims {size} bytes, more than {self.max_body}")
        end = begin + size
        if self._end < end + self._tag_bytes:
            return None
        with memoryview(self._buffer) as view:
            head, body, tag = bytes(view[self._at : begin]), bytes(view[begin:end]), view[end : end + self._tag_bytes]
            same = hmac.compare_digest(self._tags[1](_COUNTER.pack(self._received) + head, body), tag)
        if not same:
            raise ChannelError("a record was damaged, repeated or made by somebody else")
        self._received += 1
        self._at = end + self._tag_bytes
        return Record(kind, body)

    def close(self) -> None:
        """Close the connection, and end what carries it."""
        self.sock.close()
        if self._release is not None:
            release, self._release = self._release, None
            release()


def refused_body(failure: Failure, text: str) -> bytes:
    """The body of REFUSED."""
    return bytes([failure]) + text.encode("utf-8", "replace")[:200]


def refusal(body: bytes) -> RefusedError:
    """The error that a body of REFUSED stands for."""
    return RefusedError(body[0] if body else 0, body[1:].decode("utf-8", "replace"))


def greet(channel: Channel, hello: Hello, keys: Sequence[Key], *, may_be_open: bool, timeout_s: float) -> None:
    """Open a channel from the tool's side; an agent without a key is taken where it ``may_be_open``.

    Raises:
        RefusedError: KEY where no key fits or the agent cannot prove that it has it; else what the agent says.
        ChannelError: what answers is no agent, or the connection broke.
    """
    label = hello.label.encode("ascii", "replace")[:MAX_LABEL]
    mine = _HELLO.pack(MAGIC, VERSION, VERSION, 0, os.urandom(16), hello.client, len(label)) + label
    channel.send(Kind.HELLO, mine, timeout_s)
    theirs = channel.expect(Kind.CHALLENGE, timeout_s)
    if len(theirs) != _CHALLENGE.size:
        raise ChannelError("what answers is no agent")
    magic, version, keyed, _, _, key_id = _CHALLENGE.unpack(theirs)
    if magic != MAGIC or version != VERSION:
        raise ChannelError("what answers is no agent of this version")
    if not keyed:
        if not may_be_open:
            raise RefusedError(Failure.KEY, "the agent uses no key, and it is not on this machine")
    else:
        key = next((key for key in keys if hmac.compare_digest(key.id, key_id)), None)
        if key is None:
            raise RefusedError(Failure.KEY, "no key of that agent is known here")
        transcript = _transcript(mine, theirs)
        channel.send(Kind.PROOF, key.derive(_TOOL, transcript), timeout_s)
        proof = channel.expect(Kind.WELCOME, timeout_s)
        if not hmac.compare_digest(proof, key.derive(_AGENT, transcript)):
            raise RefusedError(Failure.KEY, "the agent does not have the key that it names")
        _switch(channel, key, transcript, _TOOL, _AGENT)
    channel.max_body = MAX_BODY


def answer_greeting(channel: Channel, key: Key | None, timeout_s: float) -> Hello:
    """Open a channel from the agent's side.

    Raises:
        RefusedError: the tool does not have the key or speaks another version; it has been told.
        ChannelError: what greets is no tool, is too slow, or is gone.
    """
    deadline = time.monotonic() + timeout_s
    mine = channel.expect(Kind.HELLO, timeout_s)
    if len(mine) < _HELLO.size:
        raise ChannelError("what greets is no tool")
    magic, minimum, maximum, _, _, client, size = _HELLO.unpack_from(mine)
    label = mine[_HELLO.size :]
    if magic != MAGIC or len(label) != size or size > MAX_LABEL:
        raise ChannelError("what greets is no tool")
    if not minimum <= VERSION <= maximum:
        _refuse(channel, Failure.VERSION, f"this agent speaks version {VERSION}")
    key_id = bytes(8) if key is None else key.id
    theirs = _CHALLENGE.pack(MAGIC, VERSION, key is not None, 0, os.urandom(16), key_id)
    channel.send(Kind.CHALLENGE, theirs, max(0.0, deadline - time.monotonic()))
    if key is not None:
        transcript = _transcript(mine, theirs)
        proof = channel.expect(Kind.PROOF, max(0.0, deadline - time.monotonic()))
        if not hmac.compare_digest(proof, key.derive(_TOOL, transcript)):
            _refuse(channel, Failure.KEY, "the key is another one")
        channel.send(Kind.WELCOME, key.derive(_AGENT, transcript), max(0.0, deadline - time.monotonic()))
        _switch(channel, key, transcript, _AGENT, _TOOL)
    channel.max_body = MAX_BODY
    return Hello(client, label.decode("ascii", "replace"))


def _transcript(hello: bytes, challenge: bytes) -> bytes:
    """What binds a proof to both nonces and all else that was said."""
    return hashlib.sha256(hello + challenge).digest()


def _switch(channel: Channel, key: Key, transcript: bytes, sender: bytes, receiver: bytes) -> None:
    channel.switch(key.derive(b"from " + sender, transcript), key.derive(b"from " + receiver, transcript))


def _refuse(channel: Channel, failure: Failure, text: str) -> None:
    channel.send(Kind.REFUSED, refused_body(failure, text), 1.0)
    raise RefusedError(failure, text)
