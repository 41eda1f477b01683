"""What a core reaches outside of its memory: registers at addresses, the line to the host, the clock."""

from __future__ import annotations

import fcntl
import os
import select
import struct
from collections.abc import Callable
from typing import Final, Protocol

from unicorn.unicorn_py3.unicorn import Uc

from sdk.devices.emulated.native import Hooks

__all__ = ["BAUD", "Bus", "Clock", "Device", "Halt", "HostGone", "Line", "Memory", "port_baud", "stray"]

PAGE: Final = 4096
BAUD: Final = 115_200  # docs/wire.md
_CHUNK = 65536
_PATIENCE = 256  # looks for a byte in a row after which the machine sleeps until one comes
_WORK = 1000  # instructions between two looks after which the guest was at work, and did not wait
_NAP_S = 0.05
_BYTE_S = 10 / BAUD  # of a line: a look for a byte that has not come takes as long as one
_FLUSH = 64
_TCGETS2, _TERMIOS2 = 0x802C_542A, struct.Struct("=4IB19s2I")


class Halt(Exception):
    """The machine cannot go on; the text says why, for people. Never leaves this process but as its last words."""


class HostGone(Exception):
    """The other end of the line is closed. Never leaves this process."""


class Device(Protocol):
    """Registers from a base address on: accesses by offset; KeyError says that there is no such register."""

    size: int

    def read(self, offset: int) -> int:
        """What a load gets."""

    def write(self, offset: int, value: int) -> None:
        """What a store does."""


class Clock:
    """Guest time: a tick an instruction, more while the guest waits for a byte; the alarm, and the limit of silence."""

    def __init__(self, hooks: Hooks, limit: int, hz: int) -> None:
        self._hooks, self._state = hooks, hooks.state
        self._limit = limit
        self._hz = hz
        self._skipped = 0
        self._alarms: dict[str, int] = {}
        self._until = 0
        self.heard()

    @property
    def now(self) -> int:
        """Ticks since start."""
        return self._hooks.executed + self._skipped

    def worked(self) -> bool:
        """Whether the guest has done more than wait since it last looked at its line."""
        return int(self._state.steps) + self._limit - self._until > _WORK

    def wait(self, seconds: float) -> None:
        """Lets time pass in which the guest waits for a byte."""
        self._skipped += int(seconds * self._hz)
        self.heard()

    def heard(self) -> None:
        """The guest has looked at its line: it is not lost in a loop."""
        self._until = int(self._state.steps) + self._limit
        self._arm()

    def alarm(self, at: int | None, whose: str = "timer") -> None:
        """Stops the machine once ``now`` is ``at``, or at the next instruction where that is past; None: never."""
        self._alarms.pop(whose, None)
        if at is not None:
            self._alarms[whose] = at
        self._arm()

    def rings(self, whose: str = "timer") -> bool:
        """Whether an alarm's time has come."""
        return whose in self._alarms and self.now >= self._alarms[whose]

    @property
    def is_lost(self) -> bool:
        """Whether the limit was reached."""
        return int(self._state.steps) >= self._until

    def _arm(self) -> None:
        until = self._until
        if self._alarms:
            until = min(until, int(self._state.steps) + max(0, min(self._alarms.values()) - self.now))
        self._state.stop_at = until


class Memory(Protocol):
    """RAM as a peripheral that reads and writes it by itself sees it; UcError where there is none."""

    def mem_read(self, address: int, size: int, /) -> bytes | bytearray:
        """Bytes of it."""

    def mem_write(self, address: int, data: bytes, /) -> None:
        """Sets bytes."""


class Line:
    """The serial line to the host: two descriptors. A guest that only looks for a byte sleeps until one comes;
    one that looks between parts of its work, for a request to stop, does not. ``port``: a descriptor of the terminal
    that the host has, whose rate is the line's; None where that has one rate alone."""

    def __init__(self, read_fd: int, write_fd: int, clock: Clock, memory: Memory, port: int | None = None) -> None:
        self._in, self._out = read_fd, write_fd
        self.memory = memory
        self.port = port
        self._clock = clock
        self._came = bytearray()
        self._going = bytearray()
        self._looks = 0
        self._poll = select.poll()
        self._poll.register(read_fd, select.POLLIN)

    def baud(self) -> float:
        """The rate at which the host talks and listens."""
        return BAUD if self.port is None else max(1, port_baud(self.port))

    def received(self) -> bool:
        """Whether a byte has come. Raises HostGone."""
        self.flush()
        if self._came:
            self._looks = 0
            self._clock.heard()
            return True
        at_work = self._clock.worked()
        self._looks = 0 if at_work else self._looks + 1
        naps = self._looks > _PATIENCE
        if not self._poll.poll(_NAP_S * 1000 if naps else 0):
            self._clock.wait(_NAP_S if naps else 0 if at_work else _BYTE_S)
            return False
        self._came += os.read(self._in, _CHUNK)
        if not self._came:
            raise HostGone
        return self.received()

    def take(self) -> int:
        """The next byte, 0 where none has come."""
        return self._came.pop(0) if self._came else 0

    def send(self, byte: int) -> None:
        """Sends a byte: at once where it ends a frame (docs/wire.md), else with others."""
        self._looks = 0
        self._going.append(byte & 0xFF)
        self._clock.heard()
        if byte & 0xFF == 0 or len(self._going) >= _FLUSH:
            self.flush()

    def flush(self) -> None:
        """Sends what waits. Raises HostGone."""
        while self._going:
            try:
                del self._going[: os.write(self._out, self._going)]
            except BrokenPipeError:
                raise HostGone from None


def port_baud(port: int) -> int:
    """The rate of a terminal, of which ``port`` may be either end: what TCGETS2 of Linux tells, also of rates that
    termios has no name for."""
    facts = bytearray(_TERMIOS2.size)
    fcntl.ioctl(port, _TCGETS2, facts)
    return int(_TERMIOS2.unpack(facts)[-1])


class Bus:
    """Devices by address. What no device has ends the machine: it is a mistake of the firmware, or of the model."""

    def __init__(self, uc: Uc, hooks: Hooks) -> None:
        self._uc = uc
        self._state = hooks.state
        self._pages: dict[int, list[tuple[int, Device]]] = {}
        self.raised: Exception | None = None

    def add(self, base: int, device: Device) -> None:
        """Puts a device at an address, beside others of its page."""
        first, last = base // PAGE, (base + device.size - 1) // PAGE
        for page in range(first, last + 1):
            if page not in self._pages:
                self._pages[page] = []
                self._uc.mmio_map(page * PAGE, PAGE, self._read, page * PAGE, self._write, page * PAGE)
            self._pages[page].append((base, device))

    def _read(self, uc: Uc, offset: int, size: int, page: int) -> int:
        return self._access(uc, page + offset, "reads", lambda device, at: device.read(at)) or 0

    def _write(self, uc: Uc, offset: int, size: int, value: int, page: int) -> None:
        self._access(uc, page + offset, "writes", lambda device, at: device.write(at, value))

    def _access(
        self, uc: Uc, address: int, does: str, access: Callable[[Device, int], int | None]
    ) -> int | None:
        """What the device at an address gives; what that raises is kept, as Unicorn's callbacks lose it."""
        try:
            for base, device in self._pages[address // PAGE]:
                if 0 <= address - base < device.size:
                    try:
                        return access(device, address - base)
                    except KeyError:
                        continue
            raise stray(does, address, int(self._state.pc))
        except Exception as error:
            self.raised = error
            uc.emu_stop()
            return None


def stray(does: str, address: int, pc: int) -> Halt:
    """The end of a firmware that touches what the board's file does not have."""
    return Halt(
        f"the firmware {does} {address:#010x}, where the board has no register\n"
        f"at pc {pc:#010x}; it has those of its uart, timer and setup in the board's file, and of its core"
    )
