"""Flash chips beside a microcontroller, and the peripherals that map them, by the kind of the driver in c_runtime/port:
what is in such a chip is there for the core only once a driver has set all of it up."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Final

import unicorn
from unicorn.unicorn_py3.unicorn import Uc

from sdk.devices.emulated.bus import PAGE, Halt
from sdk.devices.emulated.parts import Kind, Registers
from sdk.devices.emulated.spec import Command, External, Part, Read

__all__ = ["FLASHES", "Flash"]

_BUSY_LOOKS: Final = 3  # at the chip's status after a reset, until it is done
_NOBODY: Final = 0x00  # what may be read where no chip drives the lines
_COMPLETE, _DATA, _BUSY = 1 << 1, 1 << 2, 1 << 5
_WRITES, _READS, _MAPPED = 0, 1, 3
_LINES: Final = {0: 0, 1: 1, 2: 2, 3: 4, 4: 8}


class Flash:
    """A chip: what it holds, how it listens, what it is mapped as. It keeps both when the core is reset. ``now`` tells
    the guest's time in seconds."""

    def __init__(self, uc: Uc, spec: External, now: Callable[[], float]) -> None:
        self._uc, self.spec, self._span, self._now = uc, spec, spec.memory, now
        self._recovered = 0.0
        self._held = bytearray()
        self._shown: ctypes.Array[ctypes.c_char] | None = None
        first = spec.reset[0] if spec.reset else Command(0, 1, 1, False)
        self.listens = first.lines, first.dtr  # as a loader has left it, which the driver cannot know
        self._enabled, self._busy, self._was_reset = False, 0, False

    def holds(self, address: int, data: bytes) -> bool:
        """Puts a part of an image into the chip, if that is where it goes."""
        span = self._span
        if not span.base <= address <= address + len(data) <= span.base + span.size:
            return False
        end = address - span.base + len(data)
        self._held += b"\xff" * (end - len(self._held))
        self._held[address - span.base : end] = data
        return True

    def command(self, sent: Command) -> None:
        """Takes a command without an address. Raises Halt where the chip has none such."""
        if (sent.lines, sent.dtr) != self.listens or self._now() < self._recovered:
            self._enabled = False  # nothing that it understands
            return
        known = [one for one in self.spec.reset if (one.lines, one.dtr) == self.listens]
        enable, reset = known[0::2], known[1::2]
        if sent in reset and self._enabled:
            self.listens, self._busy, self._was_reset = (1, False), _BUSY_LOOKS, True
            self._recovered = self._now() + self.spec.recovers / 1e6
        elif sent not in enable:
            raise Halt(f"the flash chip has no command {sent.instruction:#x} without an address, or not now")
        self._enabled = sent in enable

    def status(self, sent: Command) -> int:
        """What it answers to a command that reads a byte."""
        hears = (sent.lines, sent.dtr) == self.listens and self._now() >= self._recovered
        if not hears or sent.instruction != self.spec.status:
            return _NOBODY
        self._busy = max(0, self._busy - 1)
        return self.spec.busy if self._busy else 0

    def map(self, read: Read, divider: int, size_log2: int) -> None:
        """Makes it memory. Raises Halt where it would not be read, or not right, on the chip."""
        spec, span = self.spec, self._span
        if read != spec.read:
            raise Halt(f"the flash chip is mapped with {read}, and is read with {spec.read}")
        if spec.part.hz / divider > spec.fastest:
            raise Halt(f"the flash chip gets {spec.part.hz / divider:.0f} Hz, and takes {spec.fastest}")
        if 1 << size_log2 != span.size:
            raise Halt(f"the flash chip has {span.size} bytes, and is mapped as {1 << size_log2}")
        early = self._busy or self._now() < self._recovered
        if self.listens != (1, False) or early or (spec.reset and not self._was_reset):
            raise Halt("the flash chip is mapped before it was reset and has said that it is ready")
        if self._shown is None and self._held:
            size = -(-len(self._held) // PAGE) * PAGE
            self._shown = ctypes.create_string_buffer(bytes(self._held).ljust(size, b"\xff"), size)
            access = unicorn.UC_PROT_READ | unicorn.UC_PROT_EXEC
            self._uc.mem_map_ptr(span.base, size, access, ctypes.addressof(self._shown))

    def unmap(self) -> None:
        """It is memory no longer."""
        if self._shown is not None:
            self._uc.mem_unmap(self._span.base, len(self._shown))
            self._shown = None


def _lines(mode: int) -> int:
    if mode not in _LINES:
        raise Halt(f"the firmware sends over lines of mode {mode}, which is none")
    return _LINES[mode]


def _quadspi(it: Registers, part: Part, flash: Flash) -> None:
    """STM32's QUADSPI (RM0385, 14.5): control, size, status, flags, length, command, data."""

    def is_on() -> None:
        if not it.values[0x00] & 1:
            raise Halt("the firmware sends commands by a QUADSPI that is not enabled")

    def command(value: int) -> None:
        is_on()
        if it.values[0x08] & _BUSY:
            raise Halt("the firmware writes QUADSPI's CCR while the flash is mapped, which is ignored")
        it.values[0x14] = value
        mode, sent = value >> 26 & 3, Command(value & 0xFF, _lines(value >> 8 & 3), 1, False)
        address, data = _lines(value >> 10 & 3), _lines(value >> 24 & 3)
        if mode == _MAPPED:
            read = Read(sent.instruction, (sent.lines, address, data), (value >> 12 & 3) + 1, value >> 18 & 31)
            flash.map(read, (it.values[0x00] >> 24) + 1, (it.values[0x04] >> 16 & 31) + 1)
            it.values[0x08] |= _BUSY
        else:
            _indirect(flash, sent, mode, address or value >> 14 & 3, data if mode == _READS or data else 0)
            _answer(it, 0x08, 0x20, flash.status(sent) if mode == _READS else None, it.values[0x10])

    it.writes |= {0x14: command, 0x0C: lambda value: it.values.update({0x08: it.values[0x08] & ~value})}
    it.writes[0x00] = lambda value: _control(it, 0x00, 0x08, value, flash)
    it.reads |= {0x08: lambda: it.values[0x08], 0x20: lambda: _taken(it, 0x08, 0x20)}


def _octospi(it: Registers, part: Part, flash: Flash) -> None:
    """STM32's OCTOSPI (RM0456, OCTOSPI registers): as the QUADSPI, with timing and instruction in registers of their
    own; what the instruction begins depends on whether an address follows."""

    def sent() -> Command:
        ccr = it.values[0x100]
        return Command(it.values[0x110], _lines(ccr & 7), (ccr >> 4 & 3) + 1, bool(ccr >> 3 & 1))

    def instruction(value: int) -> None:
        it.values[0x110] = value
        control, ccr = it.values[0x00], it.values[0x100]
        mode, address, data = control >> 28 & 3, _lines(ccr >> 8 & 7), _lines(ccr >> 24 & 7)
        if not control & 1:
            raise Halt("the firmware sends commands by an OCTOSPI that is not enabled")
        if mode == _MAPPED or address:
            return  # waits for an address
        _indirect(flash, sent(), mode, address, data)
        _answer(it, 0x20, 0x50, flash.status(sent()) if mode == _READS else None, it.values[0x40])

    def control(value: int) -> None:
        _control(it, 0x00, 0x20, value, flash)
        if value & 1 and value >> 28 & 3 == _MAPPED:
            ccr, one = it.values[0x100], sent()
            if one.bytes != 1 or one.dtr or ccr & 0x0808_0800:
                raise Halt("the model of this OCTOSPI maps what is read at one edge of the clock")
            lines = one.lines, _lines(ccr >> 8 & 7), _lines(ccr >> 24 & 7)
            read = Read(one.instruction, lines, (ccr >> 12 & 3) + 1, it.values[0x108] & 31)
            flash.map(read, (it.values[0x0C] & 0xFF) + 1, (it.values[0x08] >> 16 & 31) + 1)
            it.values[0x20] |= _BUSY

    def locked(offset: int, value: int) -> None:
        if it.values[0x20] & _BUSY:
            raise Halt(f"the firmware writes OCTOSPI's register {offset:#x} while the flash is mapped")
        it.values[offset] = value

    it.writes |= {0x00: control, 0x110: instruction}
    it.writes |= {0x100: lambda value: locked(0x100, value), 0x108: lambda value: locked(0x108, value)}
    it.writes[0x24] = lambda value: it.values.update({0x20: it.values[0x20] & ~value})
    it.reads |= {0x20: lambda: it.values[0x20], 0x50: lambda: _taken(it, 0x20, 0x50)}


def _control(it: Registers, control: int, status: int, value: int, flash: Flash) -> None:
    """A peripheral that is switched off, or told to abort, maps nothing."""
    it.values[control] = value & ~2
    if not value & 1 or value & 2:
        it.values[status] &= ~_BUSY
        flash.unmap()


def _indirect(flash: Flash, sent: Command, mode: int, address: int, data: int) -> None:
    """A command at once. Raises Halt for one that the model does not know."""
    if address or mode not in (_WRITES, _READS) or (mode == _WRITES) == bool(data):
        raise Halt("the model of this flash chip takes no commands but those that reset it and read its status")
    if mode == _WRITES:
        flash.command(sent)


def _answer(it: Registers, status: int, data: int, byte: int | None, length: int) -> None:
    """A command is done; ``byte`` waits to be taken, where it reads one."""
    if byte is not None and length != 0:
        raise Halt("the model of this flash chip's status has one byte")
    it.values[status] |= _COMPLETE | (0 if byte is None else _DATA)
    if byte is not None:
        it.values[data] = byte


def _taken(it: Registers, status: int, data: int) -> int:
    it.values[status] &= ~_DATA
    return it.values[data]


FLASHES: Final[Mapping[str, Kind[Flash]]] = {
    "quadspi": Kind(_quadspi, tuple(range(0x00, 0x34, 4))),
    "octospi": Kind(
        _octospi, (0x00, 0x08, 0x0C, 0x10, 0x14, 0x20, 0x24, 0x40, 0x48, 0x50, 0x80, 0x88, 0x90, 0x100, 0x108, 0x110)
    ),
}
