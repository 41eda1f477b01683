"""A million frames there and back over a line that damages one byte in a hundred thousand, and worse."""

from __future__ import annotations

import ctypes
import random
from pathlib import Path

import in_process
import pytest
from in_process import Clock, Line

RATE = 1e-5  # of bytes
FRAME_RATE = 2e-4  # of frames that are lost whole, come twice, late, or in company
NOISE = (b"\r\nlog: 12 ok\r\n", b"AT+GCAP\r", b"\0\0\0", bytes(range(256)))


class Trouble(Line):
    """Also loses, doubles and delays whole frames, and lets others write between them."""

    odd = 0
    frames = 0

    def write(self, data: bytes, timeout_s: float) -> None:
        self.frames += 1
        if self._random.random() >= FRAME_RATE:
            return super().write(data, timeout_s)
        self.odd += 1
        match self._random.randrange(4):
            case 0:
                self.clock.now += len(data) / self.bytes_per_s
            case 1:
                super().write(data, timeout_s)
                super().write(data, timeout_s)
            case 2:
                self.clock.now += 3.0
                super().write(data, timeout_s)
            case _:
                super().write(self._random.choice(NOISE) + data + self._random.choice(NOISE), timeout_s)
        return None


@pytest.mark.parametrize("count", [10_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_echo(tmp_path: Path, count: int) -> None:
    library: ctypes.CDLL = in_process.build(tmp_path, 512)
    line, rng = Trouble(library, Clock(), RATE, 7), random.Random(8)
    data = [rng.randbytes(n) for n in (0, 1, 3, 8, 8, 16, 24, 64)] + [b"\0" * 20, b"\xff" * 20]
    with in_process.open_session(line) as session:
        for number in range(count):
            sent = data[number % len(data)]
            assert session.ping(sent) == sent
        stats = session.stats()
    assert line.odd > count * FRAME_RATE / 2
    assert line.faults >= count * RATE  # some 60 bytes a frame, both ways
    assert count <= stats.frames < count * 1.01
    print(f"{count} echoes, {line.faults} bytes and {line.odd} frames went wrong, {line.frames - count} sent again")
