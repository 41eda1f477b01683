"""A machine: a core, a board's memory with an image in it, and the loop that runs it until the host hangs up."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from pathlib import Path

import unicorn
from unicorn.unicorn_py3.unicorn import Uc, UcError

from sdk.devices.emulated.blocks import Chip
from sdk.devices.emulated.bus import PAGE, Bus, Clock, Halt, HostGone, Line
from sdk.devices.emulated.cores import CORES, opened
from sdk.devices.emulated.cortex_m import CortexM, Reset
from sdk.devices.emulated.flashes import FLASHES, Flash
from sdk.devices.emulated.native import Hooks
from sdk.devices.emulated.parts import TIMERS, UARTS
from sdk.devices.emulated.riscv import RiscV
from sdk.devices.emulated.spec import MachineSpec, Span
from sdk.devices.emulated.watchdogs import WATCHDOGS, Dog

__all__ = ["Machine"]


class Bitten(Reset):
    """The watchdog resets the machine. Never leaves this process."""


JUNK = b"\xa5"  # what memory holds at power-on: nothing may rely on zeros
_NOWHERE = 0xFFFF_FFFE
_HEADER, _SEGMENT, _LOADED = struct.Struct("<16xHHIIIIIHHH"), struct.Struct("<6I"), 1


class Machine:
    """A board under Unicorn with its UART at two descriptors; ``port`` as in Line."""

    def __init__(self, spec: MachineSpec, image: Path, read_fd: int, write_fd: int, port: int | None = None) -> None:
        core = CORES[spec.core]
        self._thumb = core.thumb
        self._uc = uc = opened(core)
        self._pc = core.registers.pc
        self._limit, self._hz = spec.limit, spec.timer.hz
        self._kept = _map(uc, spec.memory)
        flash = self._flash = None if spec.external is None else Flash(uc, spec.external, self._seconds)
        parts = [(a, data) for a, data in _segments(image) if flash is None or not flash.holds(a, data)]
        code = [_placed(uc, address, data) for address, data in parts]
        riscv = core.arch == unicorn.UC_ARCH_RISCV
        self._hooks = Hooks(uc, Path(spec.library), riscv=riscv, count=spec.count)
        self._clock = Clock(self._hooks, spec.limit, spec.timer.hz)
        line = Line(read_fd, write_fd, self._clock, uc, port)
        bus = self._bus = Bus(uc, self._hooks)
        chip = self._chip = Chip(spec.blocks, spec.reason)
        bus.add(spec.uart.base, UARTS[spec.uart.kind].on(chip.at(spec.uart.base), spec.uart, line))
        if spec.timer.kind in TIMERS:
            bus.add(spec.timer.base, TIMERS[spec.timer.kind].on(chip.at(spec.timer.base), spec.timer, self._clock))
        bases = {spec.uart.base, spec.timer.base}
        self._dog = Dog(self._clock, spec.timer.hz)
        if spec.watchdog is not None:
            dog, base = spec.watchdog, spec.watchdog.base
            bus.add(base, WATCHDOGS[dog.kind].on(chip.at(base), dog, self._dog))
            bases.add(base)
        if flash is not None:
            part = flash.spec.part
            bus.add(part.base, FLASHES[part.kind].on(chip.at(part.base), part, flash))
            bases.add(part.base)
        chip.put_on(bus, bases)
        self._core: CortexM | RiscV
        if riscv:
            self._core = RiscV(uc, self._hooks, self._clock, spec.start)
            self._core.find_counters(code)
        else:
            self._core = CortexM(uc, core, self._hooks, self._clock, bus, spec.start, _ram(spec))
        self._raised: int | None = None
        self._access: tuple[int, int] | None = None
        uc.hook_add(unicorn.UC_HOOK_INTR, self._on_raised)
        uc.hook_add(unicorn.UC_HOOK_MEM_INVALID, self._on_access)

    def run(self) -> None:
        """Runs until the host closes the line. Raises Halt when the guest cannot go on."""
        at = self._core.reset()
        while True:
            try:
                at = self._go(at)
            except Reset as reset:
                self._dog.off()
                if self._flash is not None:
                    self._flash.unmap()
                self._chip.reset(by_watchdog=isinstance(reset, Bitten))
                at = self._core.reset()
            except HostGone:
                return
            finally:
                self._hooks.write_counts()

    def _seconds(self) -> float:
        """Guest time since start."""
        return self._clock.now / self._hz

    def _go(self, at: int) -> int:
        """Runs from an address until something is to be done; returns where it goes on."""
        self._raised, self._access = None, None
        error = 0
        try:
            self._uc.emu_start(at, _NOWHERE)
        except UcError as err:
            error = err.errno
        finally:
            self._hooks.settle()
        raised, self._bus.raised = self._bus.raised, None
        if raised is not None:
            raise raised
        state = self._hooks.state
        if state.guard_hit:
            state.guard_hit = 0
            return self._core.guarded(state.guarded)
        if self._access is not None:
            return self._core.unmapped(*self._access)
        if self._raised is not None:
            return self._core.raised(self._raised)
        if error == unicorn.UC_ERR_INSN_INVALID:
            return self._core.undefined()
        if error:
            raise Halt(f"the emulator stopped at pc {state.pc:#010x}: {UcError(error)}")
        if self._clock.rings("watchdog"):
            if self._dog.expired():
                raise Bitten
            return self._core.warned()
        if self._clock.rings():
            return self._core.alarm()
        if self._clock.is_lost:
            raise Halt(
                f"the firmware hangs: {self._limit:,} instructions without a look at its UART, pc {state.pc:#010x}\n"
                "CROSSLEVEL_INSTRUCTIONS=NUMBER grants a long run more"
            )
        return int(self._uc.reg_read(self._pc)) | self._thumb

    def _on_raised(self, uc: Uc, number: int, _: object) -> None:
        self._raised = number
        uc.emu_stop()

    def _on_access(self, uc: Uc, kind: int, address: int, size: int, value: int, _: object) -> bool:
        self._access = kind, address
        return False


def _ram(spec: MachineSpec) -> tuple[Span, ...]:
    return tuple(span for span in spec.memory if span.writable)


def _map(uc: Uc, memory: tuple[Span, ...]) -> list[object]:
    """Maps all regions, in whole pages, which two may share; returns what must live as long as the machine."""
    pages: dict[int, bool] = {}
    for span in memory:
        if span.data_base is None:
            for page in range(span.base // PAGE, -(-(span.base + span.size) // PAGE)):
                pages[page] = pages.get(page, False) or span.writable
    starts = [page for page, writable in pages.items() if pages.get(page - 1) != writable]
    for start in starts:
        end = start
        while pages.get(end) == pages[start]:
            end += 1
        writes = unicorn.UC_PROT_WRITE if pages[start] else 0
        uc.mem_map(start * PAGE, (end - start) * PAGE, unicorn.UC_PROT_READ | unicorn.UC_PROT_EXEC | writes)
    kept = [_map_twice(uc, span, span.data_base) for span in memory if span.data_base is not None]
    for span in memory:
        uc.mem_write(span.base, (JUNK if span.writable else b"\xff") * span.size)
    return kept


def _map_twice(uc: Uc, span: Span, data_base: int) -> object:
    """Maps a region for instructions, and for data at another address."""
    memory = ctypes.create_string_buffer(span.size)
    writes = unicorn.UC_PROT_WRITE if span.writable else 0
    uc.mem_map_ptr(span.base, span.size, unicorn.UC_PROT_EXEC, ctypes.addressof(memory))
    uc.mem_map_ptr(data_base, span.size, unicorn.UC_PROT_READ | writes, ctypes.addressof(memory))
    return memory


def _placed(uc: Uc, address: int, data: bytes) -> Span:
    try:
        uc.mem_write(address, data)
    except UcError:
        raise Halt(
            f"the image does not fit the board's memory: {len(data):,} bytes at {address:#010x}\n"
            "it was built for another board, or for this board's target under another emulator"
        ) from None
    return Span(address, len(data), False)


def _segments(image: Path) -> Iterator[tuple[int, bytes]]:
    """What a loader writes, by physical address, of a 32-bit ELF file."""
    raw = image.read_bytes()
    if raw[:6] != b"\x7fELF\x01\x01" or len(raw) < _HEADER.size:
        raise Halt(f"{image} is no firmware image: not a little-endian ELF file of 32 bits")
    _, _, _, _, first, _, _, _, entry, count = _HEADER.unpack_from(raw)
    for k in range(count):
        if first + k * entry + _SEGMENT.size > len(raw):
            raise Halt(f"{image} is cut off: its table of segments ends behind the file")
        kind, offset, _, address, size, _ = _SEGMENT.unpack_from(raw, first + k * entry)
        if kind == _LOADED and size:
            if offset + size > len(raw):
                raise Halt(f"{image} is cut off: a segment ends behind the file")
            yield address, raw[offset : offset + size]
