"""The rate of a line that a session has agreed on: asked for, tried by echoes, given up where nothing is heard.

Every session begins at the rate of the firmware, and a board that hears nothing valid goes back to it by itself
(docs/wire.md, "Another rate"): so host and board meet there again whatever was lost in between, restarts too.
"""

from __future__ import annotations

import os
import time
import warnings
from typing import Final

from sdk.devices.base import RatedTransport
from sdk.devices.link import Link, RemoteError
from sdk.devices.messages import HelloAck, fixed_part, pack
from sdk.devices.wire import OVERHEAD, Code, Frame, Kind, Op
from sdk.errors import LinkError, SdkError, UsageError

__all__ = ["change_rate"]

_SETTLE_S: Final = 0.02  # for a board to empty its transmitter and set its divisor
_ECHO_S: Final = 1.0  # for one echo, beside what its bytes take
_MISSED: Final = 1  # echoes of five that may get lost: the line may have other faults
_KNOCKS: Final = 6  # pieces that a board at another rate cannot read, one more than send it back


def change_rate(link: Link, transport: RatedTransport, ack: HelloAck, baud: int) -> None:
    """Agree with the device on ``baud`` bits a second, and go on at that rate where echoes come back at it; else at the
    one from before, with a warning.

    Raises:
        UsageError: this firmware cannot change its rate, the board's UART has none near enough, or this port cannot.
        LinkError, DeviceFault: the device answers no more at the rate from before.
    """
    base = transport.baud
    if baud == base:
        return
    if not ack.can_change_baud:
        raise UsageError(
            f"{transport.address}: the board's rate cannot be changed",
            why="its firmware has one rate: it is older, its UART's driver sets no other, or it has little memory",
            hint=f"leave out baud={baud}",
        )
    link.when_unheard = lambda: _fall_back(link, transport, base)  # it may have changed, and its answer got lost
    try:
        answer = link.request(Op.BAUD, pack("HI", 0, baud))
    except RemoteError as error:
        link.when_unheard = None
        if error.code != Code.RANGE:
            why = f"error {error.code}, detail {error.detail}, to a request that it offers"
            raise LinkError(f"{transport.address}: the board refuses to change its rate", why=why) from None
        raise UsageError(
            f"{transport.address}: the board's UART cannot have {baud:,} baud",
            why=f"of the rates that it can have, {error.detail:,} comes nearest",
            hint=f"baud={error.detail}, where the port at this end can have that too",
        ) from None
    fixed_part(answer, "HI", "answer to a rate")
    tries = [bytes([0x55]) * 16, *(os.urandom(min(ack.rx_max, ack.tx_max) - OVERHEAD) for _ in range(4))]
    try:
        transport.set_baud(baud)
        time.sleep(_SETTLE_S)
        heard = sum(_echoes(link, transport, data) for data in tries)
    except BaseException:
        _fall_back(link, transport, base)
        raise
    if heard < len(tries) - _MISSED:
        _fall_back(link, transport, base)
        link.request(Op.PING)
        warnings.warn(
            f"{transport.address}: {len(tries) - heard} of {len(tries)} echoes at {baud:,} baud did not come back: the "
            f"line stays at {base:,}",
            stacklevel=2,
        )
        return
    link.when_unheard = lambda: _fall_back(link, transport, base)


def _echoes(link: Link, transport: RatedTransport, data: bytes) -> bool:
    """Whether the device, asked once, sends ``data`` back."""
    frame = link.next_request(Op.PING, data)
    limit_s = _ECHO_S + 2 * len(data) / transport.bytes_per_s
    transport.write(frame.encode(), limit_s)
    for answer in link.frames_within(limit_s):
        if answer.kind == Kind.RSP and (answer.session, answer.id) == (frame.session, frame.id):
            return answer.payload == data
        if answer.kind == Kind.EVT:  # it has received something damaged
            return False
    return False


def _fall_back(link: Link, transport: RatedTransport, base: int) -> None:
    """Back to the rate at which the session began; a board at another one hears nothing but damage, and follows."""
    link.when_unheard = None
    try:
        transport.set_baud(base)
        transport.write(_KNOCKS * Frame(Kind.CANCEL, 0, 0, 0).encode(), _ECHO_S)
    except SdkError:
        return  # the port is gone: whoever reads next says so
    time.sleep(_SETTLE_S)
