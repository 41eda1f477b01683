"""UARTs and timers by the kind of their driver in c_runtime/port: which registers there are, and what they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from sdk.devices.emulated.bus import Clock, Halt, Line
from sdk.devices.emulated.spec import Part

__all__ = ["TIMERS", "UARTS", "Kind", "Registers"]

WORD: Final = 0xFFFF_FFFF
OFF: Final = 0.03  # by how much of it a line may differ
T = TypeVar("T")


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


@dataclass(frozen=True)
class Kind(Generic[T]):
    """A UART or timer: how its registers get to do something, and which there are where no file has them."""

    attach: Callable[[Registers, Part, T], None]
    offsets: tuple[int, ...]

    def on(self, it: Registers | None, part: Part, outside: T) -> Registers:
        """Registers that do it: those of the chip's file, or of the kind. Raises Halt where the file lacks one."""
        own = it is None
        it = it or Registers(max(self.offsets) + 4, dict.fromkeys(self.offsets, 0))
        had = set(it.values)
        self.attach(it, part, outside)
        lacking = {*it.reads, *it.writes} - had
        if lacking and not own:
            offsets = ", ".join(f"{one:#x}" for one in sorted(lacking))
            raise Halt(f"the board's file has a peripheral of kind {part.kind}, its registers have no offset {offsets}")
        return it


class Rated:
    """A line as a UART has it whose divisor makes ``baud`` at the moment: what it hears and sends at another rate than
    the other end is something else there."""

    def __init__(self, line: Line, baud: Callable[[], float]) -> None:
        self._line = line
        self._baud = baud

    def send(self, byte: int) -> None:
        """Sends a byte. Raises Halt where the line has one rate alone, and this is another."""
        rate = self._baud()
        fits = self._fits(rate)
        if not fits and self._line.port is None:
            raise Halt(f"the firmware sends at {rate:.0f} baud, where the line has {self._line.baud():.0f}")
        self._line.send(byte if fits else garbled(byte))

    def take(self) -> int:
        """The next byte, 0 where none has come."""
        byte = self._line.take()
        return byte if self._line.port is None or self._fits(self._baud()) else garbled(byte)

    def _fits(self, rate: float) -> bool:
        return abs(rate / self._line.baud() - 1) <= OFF


def garbled(byte: int) -> int:
    """What a byte is to who reads its bits twice, or leaves some out; a line that is low all the time stays that."""
    return (byte & 0x0F) * 0x11 ^ 0x80 if byte else 0


def _uart_cmsdk(it: Registers, part: Part, line: Line) -> None:
    """Arm CMSDK (DDI 0479D, 4.3.3): data, state, control, interrupts, divisor."""
    at = Rated(line, lambda: part.hz / max(1, it.values[0x10]))
    it.reads |= {0x00: at.take, 0x04: lambda: 2 * line.received()}
    it.writes |= {0x00: at.send}


def _uart_nrf51(it: Registers, _: Part, line: Line) -> None:
    """nRF51 and nRF52 (nRF51 Series Reference Manual 3.0, 29.10): tasks, events, pins."""

    def send(byte: int) -> None:
        at.send(byte)
        it.values[0x11C] = 1

    at = Rated(line, lambda: it.values[0x524] * 16e6 / 2**32)  # 2**32 * baud / 16 MHz, in steps of 2**12
    it.reads |= {0x108: line.received, 0x518: at.take}
    it.writes |= {0x108: lambda _: None, 0x51C: send}


def _uart_nrf_uarte(it: Registers, _: Part, line: Line) -> None:
    """nRF53's, which reads and writes RAM (nRF5340 PS v1.3, UARTE), as far as transfers of one byte go."""
    wants = False

    def start(_: int) -> None:
        nonlocal wants
        if it.values[0x538] != 1 or it.values[0x500] != 8:
            raise Halt("the model of this UARTE receives one byte at a time, when it is on")
        wants = True

    def received() -> int:
        nonlocal wants
        if wants and line.received():
            line.memory.mem_write(it.values[0x534], bytes([at.take()]))
            wants, it.values[0x110] = False, 1
        return it.values[0x110]

    def send(_: int) -> None:
        for byte in line.memory.mem_read(it.values[0x544], it.values[0x548]):
            at.send(byte)
        it.values[0x120] = 1

    at = Rated(line, lambda: it.values[0x524] * 16e6 / 2**32)
    it.reads |= {0x110: received}
    it.writes |= {0x000: start, 0x008: send}


def _uart_ns16550(it: Registers, part: Part, line: Line) -> None:
    """The 16550 (TI PC16550D, 8.0): its divisor stands behind a bit of LCR."""
    divisor = [0, 0]

    def write(offset: int, value: int) -> None:
        if it.values[3] & 0x80:
            divisor[offset] = value & 0xFF
        elif offset == 0:
            at.send(value)

    at = Rated(line, lambda: part.hz / 16 / max(1, divisor[1] << 8 | divisor[0]))
    it.reads |= {0: at.take, 5: lambda: 0x60 | line.received()}
    it.writes |= {0: lambda value: write(0, value), 1: lambda value: write(1, value)}


def _uart_stm32(it: Registers, part: Part, line: Line) -> None:
    """STM32's USART and LPUART since the F0 (RM0432, USART registers)."""
    at = Rated(line, lambda: part.scale * part.hz / max(1, it.values[0x0C]))
    it.reads |= {0x24: at.take, 0x1C: lambda: 0xC0 | line.received() << 5 if it.values[0] & 1 else 0}
    it.writes |= {0x28: lambda byte: at.send(byte) if it.values[0] & 9 == 9 else None}


def _uart_stm32v1(it: Registers, part: Part, line: Line) -> None:
    """STM32's USART before that (RM0008, 27.6): status, data, divisor, control."""
    at = Rated(line, lambda: part.hz / max(1, it.values[0x08]))
    on = 0x200C
    it.reads |= {0x04: at.take, 0x00: lambda: 0xC0 | line.received() << 5 if it.values[0x0C] & on == on else 0}
    it.writes |= {0x04: lambda byte: at.send(byte) if it.values[0x0C] & on == on else None}


def _uart_pl011(it: Registers, part: Part, line: Line) -> None:
    """Arm's PL011 (DDI 0183G, 3.3)."""
    at = Rated(line, lambda: 4 * part.hz / max(1, it.values[0x24] << 6 | it.values[0x28]))
    it.reads |= {0x00: at.take, 0x18: lambda: 0x80 | (0 if line.received() else 0x10)}
    it.writes |= {0x00: lambda byte: at.send(byte) if it.values[0x30] & 0x101 == 0x101 else None}


def _uart_sercom(it: Registers, part: Part, line: Line) -> None:
    """Microchip's SERCOM as a USART (DS60001507, 34), sampled 16 times a bit."""
    at = Rated(line, lambda: part.hz * (1 - it.values[0x0C] / 65536) / 16)
    it.reads |= {0x28: at.take, 0x18: lambda: 1 | line.received() << 2 if it.values[0x00] & 2 else 0}
    on = 3 << 16
    it.writes |= {0x28: lambda byte: at.send(byte) if it.values[0x00] & 2 and it.values[0x04] & on == on else None}


def _uart_lpuart(it: Registers, part: Part, line: Line) -> None:
    """NXP's LPUART (i.MX RT1060 RM, LPUART)."""
    at = Rated(line, lambda: part.hz / (((it.values[0x10] >> 24 & 31) + 1) * max(1, it.values[0x10] & 0x1FFF)))
    it.reads |= {0x1C: at.take, 0x14: lambda: 1 << 23 | line.received() << 21}
    it.writes |= {0x14: lambda _: None, 0x1C: lambda byte: at.send(byte) if it.values[0x18] >> 19 & 1 else None}


def _uart_esp(it: Registers, part: Part, line: Line) -> None:
    """Espressif's (ESP32-C3 TRM 1.1, 26)."""
    at = Rated(line, lambda: part.hz / max(1, (it.values[0x14] & 0xFFF) + (it.values[0x14] >> 20 & 15) / 16))
    it.reads |= {0x00: at.take, 0x1C: lambda: int(line.received())}
    it.writes |= {0x00: at.send}


def _uart_sifive(it: Registers, part: Part, line: Line) -> None:
    """SiFive's (FE310-G002 manual v1.5, 18): reading takes a byte where there is one."""
    at = Rated(line, lambda: part.hz / ((it.values[0x18] & 0xFFFF) + 1))
    it.reads |= {0x00: lambda: 0, 0x04: lambda: at.take() if line.received() else 1 << 31}
    it.writes |= {0x00: lambda byte: at.send(byte) if it.values[0x08] & 1 else None}


def _timer_cmsdk(it: Registers, _: Part, clock: Clock) -> None:
    """Arm CMSDK (DDI 0479D, 4.2.3): a down counter from 2**32 - 1, as its driver sets it."""
    began = clock.now

    def begin(_: int) -> None:
        nonlocal began
        began = clock.now

    it.reads[0x4] = lambda: ~(clock.now - began)
    it.writes[0x4] = begin


def _timer_nrf51(it: Registers, _: Part, clock: Clock) -> None:
    """nRF51 (Reference Manual 3.0, 19.2): captured by a task."""

    def capture(_: int) -> None:
        it.values[0x540] = clock.now & WORD

    it.writes[0x040] = capture


_NRF_UART: Final = (
    0x000, 0x004, 0x008, 0x00C, 0x01C, 0x100, 0x104, 0x108, 0x11C, 0x124, 0x144, 0x200,
    0x304, 0x308, 0x480, 0x500, 0x508, 0x50C, 0x510, 0x514, 0x518, 0x51C, 0x524, 0x56C,
)  # fmt: skip
UARTS: Final[Mapping[str, Kind[Line]]] = {
    "cmsdk": Kind(_uart_cmsdk, (0x00, 0x04, 0x08, 0x0C, 0x10)),
    "nrf51": Kind(_uart_nrf51, _NRF_UART),
    "nrf_uarte": Kind(
        _uart_nrf_uarte, (0x000, 0x008, 0x110, 0x120, 0x500, 0x524, 0x534, 0x538, 0x53C, 0x544, 0x548, 0x54C)
    ),
    "esp": Kind(_uart_esp, (0x00, 0x14, 0x1C, 0x20)),
    "lpuart": Kind(_uart_lpuart, tuple(range(0, 0x30, 4))),
    "ns16550": Kind(_uart_ns16550, tuple(range(8))),
    "pl011": Kind(_uart_pl011, (0x00, 0x18, 0x24, 0x28, 0x2C, 0x30)),
    "sercom": Kind(_uart_sercom, (0x00, 0x04, 0x0C, 0x18, 0x1C, 0x28)),
    "sifive": Kind(_uart_sifive, (0x00, 0x04, 0x08, 0x0C, 0x10, 0x14, 0x18)),
    "stm32": Kind(_uart_stm32, (0x00, 0x04, 0x08, 0x0C, 0x1C, 0x20, 0x24, 0x28, 0x2C)),
    "stm32v1": Kind(_uart_stm32v1, (0x00, 0x04, 0x08, 0x0C, 0x10, 0x14, 0x18)),
}
# those that are part of a core (systick, dwt, mcycle) are in cortex_m.py and riscv.py
TIMERS: Final[Mapping[str, Kind[Clock]]] = {
    "cmsdk": Kind(_timer_cmsdk, (0x0, 0x4, 0x8, 0xC)),
    "nrf51": Kind(_timer_nrf51, (0x000, 0x004, 0x00C, 0x040, 0x504, 0x508, 0x510, 0x540)),
}
