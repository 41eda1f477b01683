"""A serial port with a board behind it: a pseudo terminal, and a program's UART at its other end.

The line between them takes the time that its baud rate asks for, and spoils what it carries, by a seed.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import socket
import subprocess
import sys
import termios
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from device_agents import TIMEOUT_S, Agent
from in_process import damaged

from sdk.devices import Session
from sdk.devices.base import EmulatorSpec

ROOT = Path(__file__).resolve().parent.parent.parent
BOOT_TEXT = b"\r\nROM 1.2 boot\xff\xfe\x00\x81 ok\r\n"
AT_TEXT = b"AT\r\nAT+GCAP\r\n~\x00x\xf0~"  # what modem managers send to ports that they find


def emulated(spec: EmulatorSpec, image: Path) -> list[str]:
    """The command of a board under Unicorn whose UART is its standard input and output."""
    told = msgspec.json.encode(spec.machine).decode()
    return [sys.executable, "-P", "-m", "sdk.devices.emulated", told, str(image)]


@dataclass(frozen=True)
class PortAgent(Agent):
    """An agent at a serial port, whose power is cut before each session: one of before may hang."""

    bridge: Bridge

    def open(self, timeout_s: float = TIMEOUT_S) -> Session:
        self.bridge.reboot()
        return super().open(timeout_s)


class Way:
    """One direction of the line: what is on it, and when it arrives."""

    def __init__(self, byte_s: float) -> None:
        self.byte_s = byte_s
        self.waiting: deque[tuple[float, bytes]] = deque()
        self.free_at = 0.0

    def put(self, data: bytes, stall_s: float = 0.0) -> None:
        now = time.monotonic()
        step = 32 if self.byte_s else max(1, len(data))
        self.free_at = max(self.free_at, now) + stall_s
        for at in range(0, len(data), step):
            piece = data[at : at + step]
            self.free_at += len(piece) * self.byte_s
            self.waiting.append((self.free_at, piece))

    def due(self) -> bytes:
        out = b""
        while self.waiting and self.waiting[0][0] <= time.monotonic():
            out += self.waiting.popleft()[1]
        return out

    def wait_s(self) -> float:
        return max(0.0, self.waiting[0][0] - time.monotonic()) if self.waiting else 1.0


class Bridge:
    """A port at ``path`` with the program ``argv`` behind it. In both directions a byte is lost, changed, doubled or
    followed by others at ``rate``; at a tenth of that the line stands still for a moment, or carries text of others.
    ``rated``: the program is an emulated board, which hears and sends at the rate that its UART's registers make of its
    clock, where the port has another at the moment: nonsense."""

    def __init__(
        self, argv: Sequence[str], *, baud: int = 0, rate: float = 0.0, seed: int = 0, rated: bool = False
    ) -> None:
        self.faults = 0
        self.rate = rate
        self.boots = 0
        self._argv = list(argv)
        self._random = random.Random(seed)
        self._byte_s = 10 / baud if baud else 0.0
        self.master, slave = os.openpty()
        self._handed = (self.master,) if rated else ()
        flags = termios.tcgetattr(slave)
        flags[0] = flags[1] = flags[3] = 0
        flags[2] = termios.CS8 | termios.CREAD | termios.CLOCAL
        termios.tcsetattr(slave, termios.TCSANOW, flags)
        self.path = os.ttyname(slave)
        os.close(slave)  # or programs would find that somebody has the port
        self._lock = threading.Lock()
        self._over = False
        self._start()
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    @property
    def uri(self) -> str:
        return f"serial:{self.path}"

    def reboot(self) -> None:
        """Cut the board's power for a moment: what it was about is lost, and it says something at its start."""
        with self._lock:
            self._stop()
            self._start()
            self._to_host.put(BOOT_TEXT)

    def unplug(self) -> None:
        """Take the port away."""
        self._over = True
        self._thread.join(5)
        with contextlib.suppress(OSError):
            os.close(self.master)

    def close(self) -> None:
        if self._handed:
            self._stop()  # it has the port too
        self.unplug()
        self._stop()

    def _start(self) -> None:
        self._to_host, self._to_board = Way(self._byte_s), Way(self._byte_s)
        near, far = socket.socketpair()
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        with far:
            self._board = subprocess.Popen(
                [*self._argv, *map(str, self._handed)],
                stdin=far, stdout=far, stderr=subprocess.DEVNULL, env=env, pass_fds=self._handed,
            )  # fmt: skip
        near.setblocking(False)
        self._uart = near
        self.boots += 1

    def _stop(self) -> None:
        self._board.kill()
        self._board.wait()
        self._uart.close()

    def _carry(self) -> None:
        while not self._over:
            wait_s = min(self._to_host.wait_s(), self._to_board.wait_s(), 0.05)
            with contextlib.suppress(OSError, ValueError):
                select.select([self.master, self._uart], [], [], wait_s)
            with self._lock, contextlib.suppress(OSError):
                if not self._step():
                    time.sleep(0.002)  # nobody has the port open, or the board is off

    def _step(self) -> bool:
        """Carry what has come and what is due; whether all is well."""
        well = True
        with contextlib.suppress(BlockingIOError):
            self._to_host.put(*self._spoiled(self._uart.recv(4096)))
        try:
            if select.select([self.master], [], [], 0)[0]:
                self._to_board.put(*self._spoiled(os.read(self.master, 4096)))
        except OSError:
            well = False
        for data, send in ((self._to_board.due(), self._uart.sendall), (self._to_host.due(), self._write)):
            if data:
                send(data)
        return well

    def _write(self, data: bytes) -> None:
        os.write(self.master, data)

    def _spoiled(self, data: bytes) -> tuple[bytes, float]:
        """What arrives of ``data``, and for how long the line stands still before."""
        if not self.rate:
            return data, 0.0
        out, rng = bytearray(), self._random
        for byte in data:
            hit = rng.random() < self.rate
            self.faults += hit
            out += damaged(byte, rng) if hit else bytes([byte])
        odd = rng.random() < self.rate * len(data) / 10
        if odd and rng.random() < 0.5:
            return bytes(out) + AT_TEXT, 0.0
        return bytes(out), 0.2 if odd else 0.0
