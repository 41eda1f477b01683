"""Sessions over lines that damage one byte in a thousand: all of them succeed, in a bearable time."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable

import in_process
import pytest
from in_process import Clock, Line
from one_call import one_call

from sdk.devices.link import MIN_SHRUNK_FRAME_BYTES, Link
from sdk.devices.wire import Decoder, Op
from sdk.errors import LinkError


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], ctypes.CDLL]:
    """A function from the size of the largest frame to the agent; each is built once."""
    built: dict[int, ctypes.CDLL] = {}

    def get(frame_max: int) -> ctypes.CDLL:
        if frame_max not in built:
            built[frame_max] = in_process.build(tmp_path_factory.mktemp("agent"), frame_max)
        return built[frame_max]

    return get


def work(line: Line, seed: int) -> float:
    """A session with writes, runs and reads of all sizes, each of which comes out right; the seconds that it took."""
    rng, began = random.Random(seed), line.clock.now
    with in_process.open_session(line) as session:
        session.reset(0)
        for call in range(2):
            one_call(session, rng, call)
    return line.clock.now - began


@pytest.mark.parametrize(
    ("frame_max", "rate", "sessions", "seconds"),
    [(512, 0.001, 200, 30), (65536, 0.001, 20, 30), (256, 0.001, 20, 30), (512, 0.003, 30, 60), (65536, 0.003, 20, 60)],
)
def test_every_session_over_a_bad_line_succeeds(
    library: Callable[[int], ctypes.CDLL], frame_max: int, rate: float, sessions: int, seconds: float
) -> None:
    agent, clock, faults = library(frame_max), Clock(), 0
    for seed in range(sessions):
        line = Line(agent, clock, rate, seed)
        assert work(line, seed) < seconds, f"seed {seed}"
        faults += line.faults
    assert faults > 5 * sessions


def test_a_line_that_gets_better_gets_large_frames_again(library: Callable[[int], ctypes.CDLL]) -> None:
    line = Line(library(512), Clock(), 0.01, 1)
    with in_process.open_session(line) as session:
        session.write(1, 0, bytes(2000))
        assert session._link.room < 256
        line._rate, line._gap = 0.0, 1 << 62
        for _ in range(20):
            session.write(1, 0, bytes(2000))
        assert session._link.room == 512


class Deaf(Line):
    """Swallows what is sent, and counts it."""

    sent = 0

    def write(self, data: bytes, timeout_s: float) -> None:
        self.sent += len(Decoder(65536).feed(data))


def test_waits_grow_to_two_seconds_and_frames_get_no_smaller_than_they_may(
    library: Callable[[int], ctypes.CDLL],
) -> None:
    line = Deaf(library(512), Clock())
    link = Link(line, 20.0, clock=line.clock)
    link.room = link._max_room = 65536
    with pytest.raises(LinkError, match="no answer to TENSOR_READ within 20 s"):
        link.request(Op.TENSOR_READ, bytes(16), answer=60000)
    assert link.room >= MIN_SHRUNK_FRAME_BYTES
    line.sent, began = 0, line.clock.now
    with pytest.raises(LinkError, match="no answer to INFO within 20 s"):
        link.request(Op.INFO)
    assert 20 <= line.clock.now - began < 20.1
    assert 11 <= line.sent <= 13  # after 0.5, 1, 2, 2, ... seconds


class Noisy(Line):
    """Answers with noise only, as much as it can."""

    sent = 0

    def write(self, data: bytes, timeout_s: float) -> None:
        self.sent += len(Decoder(65536).feed(data))

    def read(self, timeout_s: float) -> bytes:
        self.clock.now += 0.01
        return b"printf\n\0" * 3


def test_noise_without_end_is_no_traffic_without_end(library: Callable[[int], ctypes.CDLL]) -> None:
    line = Noisy(library(512), Clock())
    with pytest.raises(LinkError, match="no answer to INFO"):
        Link(line, 20.0, clock=line.clock).request(Op.INFO)
    assert line.sent < 40
