"""Requests of all kinds in any order, valid or not, to the hand-written models; every answer is the right one."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest
from test_conformance import REFUSED

from sdk.devices import Session
from sdk.devices.link import RemoteError
from sdk.devices.wire import Frame, Kind, Op
from sdk.errors import UsageError

__all__ = ["mixed"]

SCALE, BIG = 0, 1
NOISE = (b"\0", b"printf\r\n", b"\xff" * 40 + b"\0", b"AT\r\n", bytes(range(1, 256)))


class _Mix:
    """A session and what it must answer: the calls of "scale" since a reset, what is in "big"."""

    def __init__(self, session: Session, seed: int) -> None:
        self.session = session
        self.rng = random.Random(seed)
        self.calls = 0
        self.big = b""
        session.reset(SCALE)

    def ping(self) -> None:
        data = self.rng.randbytes(self.rng.choice((0, 1, 50, 200)))
        assert self.session.ping(data) == data

    def scale(self) -> None:
        data = self.rng.randbytes(64)
        self.session.write(SCALE, 0, data)
        self.session.run(SCALE)
        count = self.rng.randrange(65)
        assert self.session.read(SCALE, 1, count) == bytes((2 * x + self.calls) & 0xFF for x in data[:count])
        self.calls += 1

    def copy(self) -> None:
        n = self.rng.choice((1, 12, 17, 100, 499, 500))
        self.big = self.rng.randbytes(4 * n)
        repeat = self.rng.choice((1, 2, 30))
        self.session.write(BIG, 0, self.big)
        assert len(self.session.run(BIG, dims=[n], repeat=repeat, warmup=self.rng.randrange(3)).samples) == repeat
        assert self.session.read(BIG, 1, 4 * n) == self.big

    def again(self) -> None:
        assert self.session.read(BIG, 1, len(self.big)) == self.big

    def reset(self) -> None:
        self.session.reset(SCALE)
        self.calls = 0

    def told(self) -> None:
        assert self.session.selftest(SCALE) == 0
        stats = self.session.stats()
        assert stats.frames > 0
        self.session._models = None
        assert [model.hash for model in self.session.models()] == ["00ff00ff", "0badcafe"]

    def refused(self) -> None:
        what, op, payload, code = self.rng.choice(REFUSED)
        with pytest.raises(RemoteError) as caught:
            self.session._link.request(op, payload)
        assert caught.value.code == code, what

    def wrong(self) -> None:
        with pytest.raises(UsageError):
            self.session.run(BIG, dims=[self.rng.choice((0, 501, -1))])

    def noise(self) -> None:
        link = self.session._link
        if self.rng.random() < 0.3:  # of somebody who has lost his session
            link.transport.write(Frame(Kind.REQ, link._session ^ 5, 9, Op.RUN, bytes(16)).encode(), 5)
        link.transport.write(self.rng.choice(NOISE), 5)

    def twice(self) -> None:
        """The request with the number of before is answered, and not done again."""
        link = self.session._link
        self.scale()
        link._id -= 1
        link.request(Op.TENSOR_READ, struct.pack("<HHHHII", 16, SCALE, 1, 0, 0, 1))


def mixed(session: Session, requests: int, seed: int) -> int:
    """At least ``requests`` of them; returns how many there were."""
    mix, sent = _Mix(session, seed), 0
    link = session._link
    plain: Callable[..., bytes] = link.request

    def counted(*args: object, **kwargs: object) -> bytes:
        nonlocal sent
        sent += 1
        return plain(*args, **kwargs)

    link.request = counted  # type: ignore[method-assign]
    steps = [*6 * [mix.ping], *4 * [mix.scale], *3 * [mix.copy], *2 * [mix.again], mix.reset, mix.told]
    steps += [*4 * [mix.refused], mix.wrong, *2 * [mix.noise], mix.twice]
    while sent < requests:
        mix.rng.choice(steps)()
    return sent
