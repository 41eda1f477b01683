"""One session of wire v1 over a transport: greeting, requests sent again until answered, deadlines."""

from __future__ import annotations

import os
import time

from sdk.devices import wire
from sdk.devices.base import Transport
from sdk.devices.messages import HelloAck, fixed_part, pack_hello, parse_crash, parse_hello_ack
from sdk.devices.wire import Code, Frame, Kind, Op
from sdk.errors import DeviceFault, LinkError

HOST_MAX_FRAME = 65536
_HELLO_WAITS_S = (0.05, 0.1, 0.2, 0.4)  # the last one repeats
_FIRST_WAIT_S = 0.5  # for an answer or a sign of work
_BUSY_WAIT_S = 1.0  # after a sign of work: its answer may be lost as well


class RemoteError(Exception):
    """An ERR frame about a request: its code and detail. Never leaves this package."""

    def __init__(self, code: int, detail: int) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail


class Link:
    """Requests and answers with one device; every call returns or raises within its deadlines.

    ``timeout_s`` bounds how long the device may stay silent: before it greets, before it takes up a request,
    and between two signs of work while it runs a model. An unanswered request is sent again after
    ``first_wait_s``, then after twice that, and so on.
    """

    def __init__(
        self, transport: Transport, timeout_s: float, *, first_wait_s: float = _FIRST_WAIT_S
    ) -> None:
        self.transport = transport
        self.timeout_s = timeout_s
        self.first_wait_s = first_wait_s
        self.max_answer = wire.MIN_FRAME  # bytes of the largest frame that can come
        self._decoder = wire.Decoder(HOST_MAX_FRAME)
        self._queue: list[Frame] = []
        self._session = 0
        self._id = 0
        self._closed = False

    def greet(self) -> HelloAck:
        """Open a session. Raises LinkError on silence, garbage or another protocol version."""
        nonce = int.from_bytes(os.urandom(4), "little")
        hello = b"\0\0" + Frame(Kind.HELLO, 0, 0, 0, pack_hello(nonce, HOST_MAX_FRAME)).encode()
        deadline = time.monotonic() + self.timeout_s
        attempt = 0
        while time.monotonic() < deadline:
            self.transport.write(hello, self.timeout_s)
            wait_s = _HELLO_WAITS_S[min(attempt, len(_HELLO_WAITS_S) - 1)]
            attempt += 1
            until = min(deadline, time.monotonic() + wait_s)
            while (frame := self._next_frame(until)) is not None:
                ack = self._greeting(frame, nonce)
                if ack is not None:
                    self._session = ack.session
                    self.max_answer = min(ack.tx_max, HOST_MAX_FRAME)
                    return ack
        raise self._silence(f"no valid greeting within {self.timeout_s:g} s")

    def request(self, op: Op, payload: bytes = b"") -> bytes:
        """Send a request, again until it is answered; return the answer's payload. It is executed once.

        Raises RemoteError for an ERR answer, DeviceFault when the device crashed, LinkError when silent.
        """
        self._id = self._id % 0xFFFF + 1
        data = Frame(Kind.REQ, self._session, self._id, op, payload).encode()
        wait_s = self.first_wait_s + (len(data) + self.max_answer) / self.transport.bytes_per_s
        deadline = time.monotonic() + max(self.timeout_s, wait_s)
        done = -1
        while time.monotonic() < deadline:
            self.transport.write(data, self.timeout_s)
            until = min(deadline, time.monotonic() + wait_s)
            while (frame := self._next_frame(until)) is not None:
                if frame.kind == Kind.RSP and self._is_ours(frame):
                    return frame.payload
                if frame.kind == Kind.ERR:
                    self._error(frame)
                if frame.kind == Kind.EVT and self._is_ours(frame) and _done(frame) > done:
                    done = _done(frame)  # only progress buys time: a device that merely talks does not
                    wait_s = max(wait_s, _BUSY_WAIT_S)
                    deadline = time.monotonic() + self.timeout_s
                    until = min(deadline, time.monotonic() + wait_s)
            wait_s *= 2
        raise self._silence(f"no answer to {op.name} within {self.timeout_s:g} s")

    def close(self) -> None:
        """Say goodbye if the device still listens, and close the transport. May be called twice."""
        if self._closed:
            return
        self._closed = True
        try:
            self.transport.write(Frame(Kind.BYE, self._session, 0, 0).encode(), 0.1)
        except (LinkError, DeviceFault):
            pass  # the session ends either way
        finally:
            self.transport.close()

    def _next_frame(self, until: float) -> Frame | None:
        """Return the next frame, or None when none is complete by ``until``."""
        while not self._queue:
            left = until - time.monotonic()
            data = self.transport.read(left) if left > 0 else b""
            if not data and time.monotonic() >= until:
                return None
            self._queue.extend(self._decoder.feed(data))
        return self._queue.pop(0)

    def _greeting(self, frame: Frame, nonce: int) -> HelloAck | None:
        if frame.kind == Kind.ERR:
            code, detail = _parse_error(frame)
            if code == Code.VERSION:
                raise LinkError(
                    f"{self.transport.address} speaks another version of the wire protocol",
                    why=f"it offers {detail >> 8 & 0xFF} to {detail & 0xFF}, this tool {wire.VERSION}",
                    hint="rebuild and flash the firmware with this version of the tool",
                )
            if code == Code.FAULT:
                raise self._crash(frame)
        if frame.kind != Kind.HELLO_ACK:
            return None  # left over from an earlier session
        ack = parse_hello_ack(frame.payload)
        if min(ack.rx_max, ack.tx_max) < wire.MIN_FRAME:
            raise LinkError(
                f"{self.transport.address} offers impossible frame sizes",
                why=f"{ack.rx_max} bytes in, {ack.tx_max} out; at least {wire.MIN_FRAME} are needed",
            )
        return ack if ack.nonce == nonce else None

    def _is_ours(self, frame: Frame) -> bool:
        return frame.session == self._session and frame.id == self._id

    def _error(self, frame: Frame) -> None:
        """Raise what an ERR frame means for the request in flight; return when it is about an older one."""
        code, detail = _parse_error(frame)
        if code == Code.FAULT:
            raise self._crash(frame)
        if not self._is_ours(frame):
            return
        if code == Code.SESSION:
            crash = self.greet().crash
            if crash is not None:
                raise DeviceFault(f"{self.transport.address} crashed and restarted", why=str(crash))
            raise LinkError(
                f"{self.transport.address} has closed the session",
                why="it restarted, or another program opened a session on it",
                hint="open it again; make sure that one program at a time uses the device",
            )
        raise RemoteError(code, detail)

    def _crash(self, frame: Frame) -> DeviceFault:
        fields, _ = fixed_part(frame.payload, "Hi5I", "crash record")
        during = Op(frame.op).name if frame.op in Op._value2member_map_ else "start-up"
        return DeviceFault(
            f"{self.transport.address} crashed during {during}",
            why=str(parse_crash(fields[2:])),
            hint="look up pc and lr in the image's symbols; an address at the stack's end is an overflow",
        )

    def _silence(self, message: str) -> LinkError:
        decoder = self._decoder
        if decoder.received == 0:
            why = "not one byte was received"
        elif decoder.frames == 0:
            begin = decoder.unframed()[:24]
            why = f"{decoder.received} bytes were received, none a valid frame; they begin {begin!r}"
        else:
            why = (
                f"{decoder.received} bytes were received: {decoder.frames} valid frames, "
                f"{decoder.damaged} damaged, {decoder.overlong} too long"
            )
        return LinkError(
            f"{self.transport.address}: {message}",
            why=why,
            hint="check that the agent's firmware is on the device and nothing else holds its port",
        )


def _parse_error(frame: Frame) -> tuple[int, int]:
    fields, _ = fixed_part(frame.payload, "Hi", "error")
    return fields[0], fields[1]


def _done(frame: Frame) -> int:
    """How many runs an EVT PROGRESS frame reports as done; -1 for any other event."""
    if frame.op != wire.EVT_PROGRESS:
        return -1
    (_, done, _), _ = fixed_part(frame.payload, "HII", "progress report")
    return int(done)
