"""Watchdogs by the kind of their driver in c_runtime/port: when they reset the machine, and what they take for food."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sdk.devices.emulated.bus import Clock, Halt
from sdk.devices.emulated.parts import Kind, Registers
from sdk.devices.emulated.spec import Part

__all__ = ["WATCHDOGS", "Dog"]

_IWDG_START, _IWDG_UNLOCK, _IWDG_FEED = 0xCCCC, 0x5555, 0xAAAA
_NRF_FEED: Final = 0x6E52_4635
_SAM_FEED: Final = 0xA5
_ESP_KEY: Final = 0x50D8_3AA1
_CMSDK_KEY: Final = 0x1ACC_E551
_SIFIVE_KEY, _SIFIVE_FEED = 0x51_F15E, 0xD09_F00D


class Dog:
    """What a watchdog does to the machine: after so many seconds without food it resets it, or first interrupts it."""

    def __init__(self, clock: Clock, hz: int) -> None:
        self._clock, self._hz = clock, hz
        self._ticks, self._warns, self._warned = 0, False, False

    def run(self, seconds: float, *, warns: bool = False) -> None:
        """Starts it, or sets it to another time; ``warns``: it interrupts first, and resets as long after that."""
        self._ticks, self._warns = max(1, int(seconds * self._hz)), warns
        self.feed()

    def feed(self) -> None:
        """Begins its time anew, where it runs."""
        self._warned = False
        if self._ticks:
            self._clock.alarm(self._clock.now + self._ticks, "watchdog")

    def off(self) -> None:
        """Stops it."""
        self._ticks = 0
        self._clock.alarm(None, "watchdog")

    def expired(self) -> bool:
        """Its time is over: whether the machine is reset, and not interrupted only."""
        if self._warns and not self._warned:
            self.feed()
            self._warned = True
            return False
        return True


def _iwdg(it: Registers, part: Part, dog: Dog) -> None:
    """STM32's (RM0008, 19): key, prescaler, reload value, status."""
    open_ = runs = False

    def key(value: int) -> None:
        nonlocal open_, runs
        open_ = value == _IWDG_UNLOCK
        runs = runs or value == _IWDG_START
        if runs and value in (_IWDG_START, _IWDG_FEED):
            dog.run((it.values[0x8] + 1) * (4 << it.values[0x4]) / part.hz)

    def kept(offset: int, value: int) -> None:
        if not open_:
            raise Halt(f"the firmware sets the watchdog's register {offset:#x}, which is locked")
        it.values[offset] = value

    it.writes |= {0x0: key, 0x4: lambda value: kept(0x4, value), 0x8: lambda value: kept(0x8, value)}
    it.reads[0xC] = lambda: 0


def _nrf(it: Registers, part: Part, dog: Dog) -> None:
    """nRF51's, nRF52's and nRF53's (nRF52832 PS v1.4, WDT)."""
    it.writes[0x000] = lambda _: dog.run((it.values[0x504] + 1) / part.hz)
    it.writes[0x600] = lambda value: dog.feed() if value == _NRF_FEED and it.values[0x508] & 1 else None


def _rp(it: Registers, part: Part, dog: Dog) -> None:
    """RP2040's and RP2350's (RP2040 Datasheet, 4.7): control, load, reason; on the RP2040 the tick that it counts."""

    def run(_: int) -> None:
        ticks = it.values[0x2C] >> 9 & 1 if 0x2C in it.values else 1
        is_on = it.values[0x00] >> 30 & 1 and ticks
        dog.run(it.values[0x04] / part.hz) if is_on else dog.off()

    def put(offset: int, value: int) -> None:
        it.values[offset] = value
        run(value)

    it.writes |= {0x00: lambda value: put(0x00, value), 0x04: lambda value: put(0x04, value)}


def _sam(it: Registers, part: Part, dog: Dog) -> None:
    """Microchip's (DS60001507, 20): control, period, clear."""

    def control(value: int) -> None:
        it.values[0x0] = value
        dog.run((8 << min(11, it.values[0x1] & 15)) / part.hz) if value & 2 else dog.off()

    def clear(value: int) -> None:
        dog.feed() if value == _SAM_FEED else dog.run(0)  # anything else resets at once

    it.writes |= {0x0: control, 0xC: clear}


def _imx(it: Registers, _: Part, dog: Dog) -> None:
    """NXP's WDOG (i.MX RT1060 RM): control, service, reset status; 16 bits each."""
    last = 0

    def control(value: int) -> None:
        is_on = (it.values[0x0] | value) & 4  # once on, it stays on
        it.values[0x0] = value | is_on
        if is_on:
            dog.run(((value >> 8) + 1) / 2)

    def service(value: int) -> None:
        nonlocal last
        if last == 0x5555 and value == 0xAAAA:
            dog.feed()
        last = value

    it.writes |= {0x0: control, 0x2: service}


def _esp(it: Registers, part: Part, dog: Dog) -> None:
    """That of Espressif's timer groups (ESP32-C3 TRM 1.1, 12)."""

    def locked(value: int) -> bool:
        if it.values[0x64] != _ESP_KEY:
            raise Halt("the firmware sets the watchdog of timer group 0, which is locked")
        return bool(value)

    def config(value: int) -> None:
        locked(value)
        it.values[0x48] = value
        resets = value >> 31 and value >> 29 & 3 >= 2
        dog.run(it.values[0x50] * (it.values[0x4C] >> 16) / part.hz) if resets else dog.off()

    it.writes |= {0x48: config, 0x60: lambda value: dog.feed() if locked(value) else None}


def _cmsdk(it: Registers, part: Part, dog: Dog) -> None:
    """Arm CMSDK (DDI 0479D, 4.5): load, value, control, clear, lock. It interrupts first."""

    def control(value: int) -> None:
        it.values[0x8] = value
        dog.run(it.values[0x0] / part.hz, warns=True) if value & 3 == 3 else dog.off()

    def unlocked(value: int) -> int:
        if it.values[0xC00] != _CMSDK_KEY:
            raise Halt("the firmware sets the watchdog, which is locked")
        return value

    it.writes[0x8] = lambda value: control(unlocked(value))
    it.writes[0xC] = lambda value: dog.feed() if unlocked(value) else None


def _sifive(it: Registers, part: Part, dog: Dog) -> None:
    """That of SiFive's always-on domain (FE310-G002 manual v1.5, 14): each write needs the key, which it takes back."""
    open_ = False

    def key(value: int) -> None:
        nonlocal open_
        open_ = value == _SIFIVE_KEY

    def unlocked(value: int) -> int:
        nonlocal open_
        if not open_:
            raise Halt("the firmware sets the watchdog, which is locked")
        open_ = False
        return value

    def put(offset: int, value: int) -> None:
        it.values[offset] = unlocked(value)
        config = it.values[0x00]
        on = config >> 8 & 1 and config >> 12 & 3
        dog.run((it.values[0x20] << (config & 15)) / part.hz) if on else dog.off()

    def feed(value: int) -> None:
        if unlocked(value) == _SIFIVE_FEED:
            dog.feed()

    it.writes |= {0x00: lambda value: put(0x00, value), 0x20: lambda value: put(0x20, value)}
    it.writes |= {0x1C: key, 0x18: feed}


WATCHDOGS: Final[Mapping[str, Kind[Dog]]] = {
    "cmsdk": Kind(_cmsdk, (0x0, 0x4, 0x8, 0xC, 0x10, 0x14, 0xC00)),
    "esp": Kind(_esp, (0x48, 0x4C, 0x50, 0x54, 0x58, 0x5C, 0x60, 0x64)),
    "imx": Kind(_imx, (0x0, 0x2, 0x4, 0x6, 0x8)),
    "iwdg": Kind(_iwdg, (0x0, 0x4, 0x8, 0xC, 0x10)),
    "nrf": Kind(_nrf, (0x000, 0x100, 0x504, 0x508, 0x50C, 0x600)),
    "rp": Kind(_rp, (0x00, 0x04, 0x08)),
    "sam": Kind(_sam, (0x0, 0x1, 0x2, 0x8, 0xC)),
    "sifive": Kind(_sifive, (0x00, 0x08, 0x10, 0x18, 0x1C, 0x20)),
}
