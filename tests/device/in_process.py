"""The agent in the test's own process behind a line whose time is made up: thousands of sessions in seconds."""

from __future__ import annotations

import ctypes
import random
from dataclasses import replace
from pathlib import Path

import device_agents as agents

from sdk.boards import load_board
from sdk.devices import Session
from sdk.devices.link import Link
from sdk.toolchains import LinkJob, get_toolchain, target_for

UART_BYTES_PER_S = 11520.0
TIMEOUT_S = 20.0


def build(folder: Path, frame_max: int) -> ctypes.CDLL:
    """The agent with the hand-written models as a shared library."""
    target, toolchain = target_for(load_board("host")), get_toolchain("gcc")
    sources = [*agents.core_sources(), agents.HERE / "agent_shim.c", agents.HERE / "fake_models.c"]
    flags = (f"-DSDK_RT_FRAME_MAX={frame_max}u", "-DFAKE_TAME")
    objects = toolchain.compile_all([replace(job, pic=True) for job in agents.jobs(sources, target, flags)])
    job = LinkJob("shared", tuple(objects), target, libs=("c",))
    library = ctypes.CDLL(str(toolchain.link(job, folder / f"agent{frame_max}.so")))
    library.shim_exchange.restype = ctypes.c_uint32
    library.shim_sent.restype = ctypes.c_void_p
    return library


class Clock:
    """Seconds that pass when somebody waits, and a little each time that somebody looks."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1e-6
        return self.now


class Line:
    """A Transport to the agent of ``library``; in both directions each byte is lost, flipped, doubled or followed by
    others at ``rate``."""

    address = "in-process"
    emulated = False
    bytes_per_s = UART_BYTES_PER_S
    ns_per_instruction = None

    def __init__(self, library: ctypes.CDLL, clock: Clock, rate: float = 0.0, seed: int = 0) -> None:
        self.clock = clock
        self.faults = 0
        self._library = library
        self._rate = rate
        self._random = random.Random(seed)
        self._gap = self._next_gap()
        self._come = b""
        library.shim_start()

    def read(self, timeout_s: float) -> bytes:
        data, self._come = self._come, b""
        if not data:
            self.clock.now += timeout_s
        return data

    def write(self, data: bytes, timeout_s: float) -> None:
        sent = self._damage(data)
        count = self._library.shim_exchange(sent, len(sent))
        self._come += self._damage(ctypes.string_at(self._library.shim_sent(), count))
        self.clock.now += (len(sent) + count) / self.bytes_per_s

    def close(self) -> None:
        pass

    def _next_gap(self) -> int:
        """Bytes up to the next that is damaged."""
        return int(self._random.expovariate(self._rate)) if self._rate else 1 << 62

    def _damage(self, data: bytes) -> bytes:
        out, at = bytearray(), 0
        while self._gap < len(data) - at:
            at += self._gap
            out += data[at - self._gap : at]
            byte = data[at]
            at += 1
            self._gap = self._next_gap()
            self.faults += 1
            out += damaged(byte, self._random)
        self._gap -= len(data) - at
        return bytes(out + data[at:])


def damaged(byte: int, rng: random.Random) -> bytes:
    """What a bad line makes of a byte: nothing, another one, the same twice, or text behind it."""
    match rng.randrange(4):
        case 0:
            return b""
        case 1:
            return bytes([byte ^ 1 << rng.randrange(8)])
        case 2:
            return bytes([byte, byte])
        case _:
            return bytes([byte]) + b"\r\nOK\0"


def open_session(line: Line, **limits: float) -> Session:
    """A session over ``line``, by its clock."""
    return Session(Link(line, limits.pop("timeout_s", TIMEOUT_S), clock=line.clock, **limits))
