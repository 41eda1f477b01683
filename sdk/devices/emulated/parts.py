"""UARTs and timers by the kind of their driver in c_runtime/port: which registers there are, and what they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sdk.devices.emulated.bus import Clock, Device, Line
from sdk.devices.emulated.spec import Part, Setup

__all__ = ["TIMERS", "UARTS", "Plain", "Registers"]

WORD: Final = 0xFFFF_FFFF


class Registers:
    """Registers that keep what is written to them, and functions for those that do more."""

    def __init__(self, size: int, kept: Mapping[int, int]) -> None:
        self.size = size
        self.values = dict(kept)
        self.reads: dict[int, Callable[[], int]] = {}
        self.writes: dict[int, Callable[[int], None]] = {}

    def read(self, offset: int) -> int:
        """What a load gets; KeyError where there is no register."""
        if offset in self.reads:
            return self.reads[offset]() & WORD
        return self.values[offset]

    def write(self, offset: int, value: int) -> None:
        """What a store does; KeyError where there is no register."""
        if offset in self.writes:
            self.writes[offset](value & WORD)
        else:
            self.values[offset]  # a register that is there
            self.values[offset] = value & WORD


class Plain(Registers):
    """A register of the set-up: it keeps its value, and its ready bits are always set."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(4, {0: 0})
        self.reads[0] = lambda: self.values[0] | setup.ready


def _uart_cmsdk(_: Part, line: Line) -> Device:
    """Arm CMSDK (DDI 0479D, 4.3.3): data, state, control, interrupts, divisor."""
    it = Registers(0x1000, dict.fromkeys((0x00, 0x04, 0x08, 0x0C, 0x10), 0))
    it.reads |= {0x00: line.take, 0x04: lambda: 2 * line.received()}
    it.writes |= {0x00: line.send}
    return it


def _uart_nrf51(_: Part, line: Line) -> Device:
    """nRF51 and nRF52 (nRF51 Series Reference Manual 3.0, 29.10): tasks, events, pins."""
    tasks, events = (0x000, 0x004, 0x008, 0x00C, 0x01C), (0x100, 0x104, 0x124, 0x144)
    others = (0x200, 0x304, 0x308, 0x480, 0x500, 0x508, 0x50C, 0x510, 0x514, 0x51C, 0x524, 0x56C, 0x11C)
    it = Registers(0x1000, dict.fromkeys((*tasks, *events, *others), 0))

    def send(byte: int) -> None:
        line.send(byte)
        it.values[0x11C] = 1

    it.reads |= {0x108: line.received, 0x518: line.take}
    it.writes |= {0x108: lambda _: None, 0x51C: send}
    return it


def _uart_ns16550(_: Part, line: Line) -> Device:
    """The 16550 (TI PC16550D, 8.0): its divisor stands behind a bit of LCR."""
    it = Registers(8, dict.fromkeys(range(1, 8), 0))
    it.reads |= {0: line.take, 5: lambda: 0x60 | line.received()}
    it.writes |= {0: lambda byte: None if it.values[3] & 0x80 else line.send(byte)}
    return it


def _uart_stm32(_: Part, line: Line) -> Device:
    """STM32's USART and LPUART (RM0432, USART registers); BRR is the board's to set."""
    it = Registers(0x30, dict.fromkeys((0x00, 0x04, 0x08, 0x0C, 0x1C, 0x20, 0x24, 0x28, 0x2C), 0))
    on = {0x24: line.take, 0x1C: lambda: 0xC0 | line.received() << 5 if it.values[0] & 1 else 0}
    it.reads |= on
    it.writes |= {0x28: lambda byte: line.send(byte) if it.values[0] & 9 == 9 else None}
    return it


def _timer_cmsdk(_: Part, clock: Clock) -> Device:
    """Arm CMSDK (DDI 0479D, 4.2.3): a down counter from 2**32 - 1, as its driver sets it."""
    it = Registers(0x1000, dict.fromkeys((0x0, 0x4, 0x8, 0xC), 0))
    began = clock.now

    def begin(_: int) -> None:
        nonlocal began
        began = clock.now

    it.reads[0x4] = lambda: ~(clock.now - began)
    it.writes[0x4] = begin
    return it


def _timer_nrf51(_: Part, clock: Clock) -> Device:
    """nRF51 (Reference Manual 3.0, 19.2): captured by a task."""
    it = Registers(0x1000, dict.fromkeys((0x000, 0x004, 0x00C, 0x504, 0x508, 0x510), 0))

    def capture(_: int) -> None:
        it.values[0x540] = clock.now & WORD

    it.values[0x540] = 0
    it.writes[0x040] = capture
    return it


UARTS: Final[Mapping[str, Callable[[Part, Line], Device]]] = {
    "cmsdk": _uart_cmsdk,
    "nrf51": _uart_nrf51,
    "ns16550": _uart_ns16550,
    "stm32": _uart_stm32,
}
# those that are part of a core (systick, dwt, mcycle) are in cortex_m.py and riscv.py
TIMERS: Final[Mapping[str, Callable[[Part, Clock], Device]]] = {
    "cmsdk": _timer_cmsdk,
    "nrf51": _timer_nrf51,
}
