"""One session of wire v1 over a transport: greeting, requests sent again until answered, deadlines, cancelling."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sdk.devices import wire
from sdk.devices.base import Transport
from sdk.devices.messages import HelloAck, fixed_part, pack_hello, parse_crash, parse_hello_ack
from sdk.devices.wire import OVERHEAD, Code, Frame, Kind, Op
from sdk.errors import DeviceFault, LinkError

HOST_MAX_FRAME = 65536
DEADLINE_S = 600.0  # of a request in all
MIN_SHRUNK_FRAME_BYTES = 64  # bytes: frames get no smaller on a bad line
_HELLO_WAITS_S = (0.05, 0.1, 0.2, 0.4)  # the last one repeats
_FIRST_WAIT_S = 0.5  # for an answer or a sign of work
_MAX_WAIT_S = 2.0  # to which that doubles; and what the bytes take
_BUSY_WAIT_S = 1.0  # after a sign of work: its answer may be lost as well
_CANCEL_S = 1.0  # for a device to stop between two runs
_BYE_S = 0.3  # for a device to say goodbye too
_CANCEL_STEP_S = 0.025  # less than the time for which an agent listens once it has heard something
_QUICK_REPEATS = 16  # of a request, each upon a report of damage: noise without end must not become traffic without end
_GROW_AFTER = 16  # requests answered at once before frames grow again
_SHRINK = 4  # by which frames shrink each time that one is lost
_UNHEARD, _UNHEARD_AT_WORK = 3, 6  # repeats without one frame, before and after a sign of work
_SLACK = 4.0  # times what the bytes of a call take at the slowest rate


class RemoteError(Exception):
    """An ERR frame about a request: its code and detail. Never leaves this package."""

    def __init__(self, code: int, detail: int) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail


class SmallerFramesError(Exception):
    """The line is too bad for frames of this size: split the work by ``Link.room``. Never leaves this package."""


class Link:
    """Requests and answers with one device; every call returns or raises within its deadlines.

    ``timeout_s`` bounds how long the device may stay silent: before it greets, before it takes up a request,
    and between two signs of work while it runs a model. ``deadline_s`` bounds a request in all, whatever comes. An
    unanswered request is sent again after ``first_wait_s``, then after twice that, up to some seconds; at once when
    either side has received something damaged. ``room`` is the largest frame that the line's quality advises.
    """

    def __init__(
        self,
        transport: Transport,
        timeout_s: float,
        *,
        deadline_s: float = DEADLINE_S,
        first_wait_s: float = _FIRST_WAIT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.transport = transport
        self.timeout_s = timeout_s
        self.deadline_s = deadline_s
        self.first_wait_s = first_wait_s
        self.room = wire.MIN_FRAME
        self._max_room = wire.MIN_FRAME
        self._can_cancel = False
        self._clock = clock
        self._decoder = wire.Decoder(HOST_MAX_FRAME)
        self._queue: list[Frame] = []
        self._session = 0
        self._id = 0
        self._in_a_row = 0  # requests answered at once
        self._unheard = 0  # repeats since the last frame
        self.when_unheard: Callable[[], None] | None = None  # called once where the device may have left this rate
        self._limit: float | None = None  # of the call under way
        self._closed = False

    @contextmanager
    def call(self, nbytes: int = 0) -> Iterator[None]:
        """Bound all requests of the block, and of those in it, by ``deadline_s`` and what ``nbytes`` take."""
        if self._limit is not None:
            yield
            return
        self._limit = self._clock() + self.deadline_s + _SLACK * nbytes / self.transport.bytes_per_s
        try:
            yield
        finally:
            self._limit = None

    def greet(self) -> HelloAck:
        """Open a session. Raises LinkError on silence, garbage or another protocol version."""
        nonce = int.from_bytes(os.urandom(4), "little")
        hello = b"\0\0" + Frame(Kind.HELLO, 0, 0, 0, pack_hello(nonce, HOST_MAX_FRAME)).encode()
        deadline = self._clock() + self.timeout_s
        attempt = 0
        while (left := deadline - self._clock()) > 0:
            self._repeats(attempt > 0, _UNHEARD)
            self.transport.write(hello, left)
            wait_s = _HELLO_WAITS_S[min(attempt, len(_HELLO_WAITS_S) - 1)]
            attempt += 1
            until = min(deadline, self._clock() + wait_s)
            while (frame := self._next_frame(until)) is not None:
                ack = self._greeting(frame, nonce)
                if ack is not None:
                    self._session = ack.session
                    self._can_cancel = ack.can_cancel
                    self.room = self._max_room = min(ack.rx_max, ack.tx_max, HOST_MAX_FRAME)
                    return ack
        raise self._silence(f"no valid greeting within {self.timeout_s:g} s")

    def request(self, op: Op, payload: bytes = b"", *, answer: int = 0, splits: bool = False) -> bytes:
        """Send a request, again until it is answered; return the answer's payload. It is executed once.

        ``answer`` is the size of the payload to expect, where it may be a large one. Raises RemoteError for an ERR
        answer, DeviceFault when the device crashed, LinkError when it is silent or too slow; for what ``splits``,
        SmallerFramesError when frames get lost that could be smaller. What a device that can be told still works on
        when this returns early, upon an interrupt too, is called off.
        """
        size = OVERHEAD + max(len(payload), answer)
        try:
            return self._exchange(op, self.next_request(op, payload), size, splits)
        except (RemoteError, SmallerFramesError, DeviceFault):
            raise
        except BaseException:
            if op == Op.RUN and self._can_cancel:
                self._cancel()
            raise

    def next_request(self, op: Op, payload: bytes) -> Frame:
        """The frame of a new request, to be sent by whoever listens for its answer."""
        self._id = self._id % 0xFFFF + 1
        return Frame(Kind.REQ, self._session, self._id, op, payload)

    def frames_within(self, seconds: float) -> Iterator[Frame]:
        """The frames that come from now on."""
        until = self._clock() + seconds
        while (frame := self._next_frame(until)) is not None:
            yield frame

    def close(self) -> None:
        """Say goodbye if the device still listens, and close the transport. May be called twice."""
        if self._closed:
            return
        self._closed = True
        try:
            self.transport.write(Frame(Kind.BYE, self._session, 0, 0).encode(), 0.1)
            if self.when_unheard is not None:  # a board at another rate goes back first
                any(frame.kind == Kind.BYE for frame in self.frames_within(_BYE_S))
        except (LinkError, DeviceFault):
            pass  # the session ends either way
        finally:
            self.transport.close()

    def _exchange(self, op: Op, request: Frame, size: int, splits: bool) -> bytes:
        data = request.encode()
        on_the_line = (len(data) + size) / self.transport.bytes_per_s
        wait_s = self.first_wait_s + on_the_line
        now = self._clock()
        limit = now + self.deadline_s + _SLACK * on_the_line if self._limit is None else self._limit
        deadline = now + max(self.timeout_s, wait_s)
        done, quick = -1, _QUICK_REPEATS
        first = True
        while (now := self._clock()) < min(deadline, limit):
            self._repeats(not first, _UNHEARD if done < 0 else _UNHEARD_AT_WORK)
            if not first and done < 0:
                self._lost(size)
                if splits and size > self.room:
                    raise SmallerFramesError
            self.transport.write(data, min(self.timeout_s, limit - now))
            until = min(deadline, limit, self._clock() + wait_s)
            hurt = self._decoder.hurt
            repeat = False
            while not repeat and (frame := self._next_frame(until, hurt if quick else None)) is not None:
                if frame.kind == Kind.RSP and self._is_ours(frame):
                    self._arrived(first)
                    return frame.payload
                if frame.kind == Kind.ERR:
                    self._error(frame)
                if frame.kind == Kind.EVT and frame.session == self._session:
                    repeat = quick > 0 and frame.op == wire.EVT_DAMAGED
                    if self._is_ours(frame) and _done(frame) > done:
                        done = _done(frame)  # only progress buys time: a device that merely talks does not
                        wait_s = max(wait_s, _BUSY_WAIT_S)
                        deadline = self._clock() + self.timeout_s
                        until = min(deadline, limit, self._clock() + wait_s)
            if quick and (repeat or self._decoder.hurt > hurt):
                quick -= 1
            else:
                wait_s = max(wait_s, min(2 * wait_s, _MAX_WAIT_S + on_the_line))
            first = False
        if now >= limit:
            raise LinkError(
                f"{self.transport.address}: {op.name} is not done after {self.deadline_s:g} s in all",
                why=self._received(),
                hint="CROSSLEVEL_DEADLINE=SECONDS grants more where the device is only slow",
            )
        raise self._silence(f"no answer to {op.name} within {self.timeout_s:g} s")

    def _cancel(self) -> None:
        """Ask the device to stop what it runs, until it says that it has or its time is over."""
        frame = Frame(Kind.CANCEL, self._session, self._id, Op.RUN).encode()
        end = self._clock() + _CANCEL_S
        try:
            while self._clock() < end:
                self.transport.write(frame, _CANCEL_STEP_S)
                until = min(end, self._clock() + _CANCEL_STEP_S)
                while (answer := self._next_frame(until)) is not None:
                    if answer.kind in (Kind.RSP, Kind.ERR) and self._is_ours(answer):
                        return
        except (LinkError, DeviceFault):
            pass  # what calls for this is told, not that it ends the device too

    def _lost(self, size: int) -> None:
        self._in_a_row = 0
        if size > MIN_SHRUNK_FRAME_BYTES:
            self.room = max(MIN_SHRUNK_FRAME_BYTES, min(self.room, size // _SHRINK))

    def _arrived(self, at_once: bool) -> None:
        self._in_a_row = self._in_a_row + 1 if at_once else 0
        if self._in_a_row >= _GROW_AFTER:
            self._in_a_row = 0
            self.room = min(2 * self.room, self._max_room)

    def _next_frame(self, until: float, hurt: int | None = None) -> Frame | None:
        """Return the next frame; None when none is complete by ``until``, or more than ``hurt`` pieces are damaged."""
        while not self._queue:
            if hurt is not None and self._decoder.hurt > hurt:
                return None
            left = until - self._clock()
            if left <= 0:
                return None
            self._queue.extend(self._decoder.feed(self.transport.read(left)))
        self._unheard = 0
        return self._queue.pop(0)

    def _repeats(self, again: bool, maximum: int) -> None:
        """Count what is sent ``again`` to a device of which nothing is heard; after ``maximum``, ask for help."""
        self._unheard += again
        if self._unheard >= maximum and self.when_unheard is not None:
            self._unheard = 0
            self.when_unheard()

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
        return LinkError(
            f"{self.transport.address}: {message}",
            why=self._received(),
            hint="check that the agent's firmware is on the device and nothing else holds its port; where it is only "
            "slow, CROSSLEVEL_TIMEOUT=SECONDS grants it more",
        )

    def _received(self) -> str:
        decoder = self._decoder
        if decoder.received == 0:
            return "not one byte was received"
        if decoder.frames == 0:
            begin = decoder.unframed()[:24]
            return f"{decoder.received} bytes were received, none a valid frame; they begin {begin!r}"
        return (
            f"{decoder.received} bytes were received: {decoder.frames} valid frames, "
            f"{decoder.damaged} damaged, {decoder.overlong} too long"
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
