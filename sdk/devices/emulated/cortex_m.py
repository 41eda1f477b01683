"""Exceptions, faults and system registers of Cortex-M, which Unicorn leaves to its host (Armv7-M ARM DDI 0403E,
Armv8-M ARM DDI 0553B, Armv6-M ARM DDI 0419C)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

import unicorn
from unicorn import arm_const as arm
from unicorn.unicorn_py3.unicorn import Uc, UcError

from sdk.devices.emulated.bus import Bus, Clock, Halt, stray
from sdk.devices.emulated.cores import Core
from sdk.devices.emulated.native import Hooks
from sdk.devices.emulated.parts import Registers
from sdk.devices.emulated.spec import Span

__all__ = ["CortexM", "Reset"]

NMI, HARD, MEMORY, BUS, USAGE, SVCALL, SYSTICK = 2, 3, 4, 5, 6, 11, 15
# bits of CFSR: DDI 0403E B3.2.15; STKOF: DDI 0553B D1.2.10
IACCVIOL, DACCVIOL, MSTKERR, MMARVALID = 1 << 0, 1 << 1, 1 << 4, 1 << 7
IBUSERR, PRECISERR, STKERR, BFARVALID = 1 << 8, 1 << 9, 1 << 12, 1 << 15
UNDEFINSTR, INVSTATE, NOCP, STKOF, UNALIGNED = 1 << 16, 1 << 17, 1 << 19, 1 << 20, 1 << 24
# what Unicorn calls an exception (QEMU's EXCP_ numbers)
_OF_CORE: Final = {
    1: (USAGE, UNDEFINSTR), 2: (SVCALL, 0), 3: (MEMORY, IACCVIOL), 4: (USAGE, UNALIGNED), 7: (HARD, 0),
    17: (USAGE, NOCP), 18: (USAGE, INVSTATE), 19: (USAGE, STKOF),
}  # fmt: skip
_EXCEPTION_EXIT = 8
EXC_RETURN: Final = 0xFFFF_FFF0
FRAME: Final = struct.Struct("<8I")  # r0-r3, r12, lr, pc, xpsr
_SAVED: Final = (
    arm.UC_ARM_REG_R0, arm.UC_ARM_REG_R1, arm.UC_ARM_REG_R2, arm.UC_ARM_REG_R3, arm.UC_ARM_REG_R12, arm.UC_ARM_REG_LR,
)  # fmt: skip
_ALL: Final = (*range(arm.UC_ARM_REG_R0, arm.UC_ARM_REG_R0 + 13), arm.UC_ARM_REG_LR)
_IN_HANDLER = 0x1FF  # IPSR
_IT_BITS = 0x0600_FC00
_PADDED = 1 << 9
PERIPHERALS, PERIPHERALS_END = 0x4000_0000, 0x6000_0000  # DDI 0403E, B3.1
RESET_REQUEST = 0x05FA_0004
TOP_OF_SYSTICK = 0xFF_FFFF
CCSIDR = 0xF00F_E019  # 4 ways of 128 sets of 32 bytes
CACHE_ON = 1 << 16  # of CCR
LINES: Final = 4 * 128


class Reset(Exception):
    """The guest asked for a reset. Never leaves this process."""


class DataCache:
    """The worst that a write-back cache does: it holds all that was written to RAM since each of its lines was cleaned,
    and a reset loses that."""

    def __init__(self, uc: Uc, ram: tuple[Span, ...]) -> None:
        self._uc, self._ram = uc, ram
        self._lines: set[int] = set()
        self._written = [b""] * len(ram)

    def clean(self, line: int) -> None:
        """Writes a line back, by set and way; after the last of them memory has all of it."""
        self._lines.add(line)
        if len(self._lines) == LINES:
            self.begin()

    def begin(self) -> None:
        """From here on it holds what is written: it was switched on, or is clean."""
        self._lines.clear()
        self._written = [bytes(self._uc.mem_read(span.base, span.size)) for span in self._ram]

    def lose(self) -> None:
        """A reset: RAM is as when the cache was cleaned last."""
        for span, data in zip(self._ram, self._written, strict=True):
            self._uc.mem_write(span.base, data)


class CortexM:
    """One Cortex-M: ``start`` is where its vectors are when it comes out of reset."""

    def __init__(
        self, uc: Uc, core: Core, hooks: Hooks, clock: Clock, bus: Bus, start: int, ram: tuple[Span, ...] = ()
    ) -> None:
        self._cache = DataCache(uc, ram)
        self._uc, self._core, self._hooks, self._clock, self._start = uc, core, hooks, clock, start
        self._small = core.model == arm.UC_CPU_ARM_CORTEX_M0
        self._v8 = core.model == arm.UC_CPU_ARM_CORTEX_M33
        self._system = self._system_registers()
        bus.add(0xE000_E000, self._system)
        if not self._small:
            bus.add(0xE000_1000, self._cycle_counter())
        self._sys_began = 0

    def reset(self) -> int:
        """Sets registers as a reset does; returns where code starts."""
        values = self._system.values
        if values[0xD14] & CACHE_ON:
            self._cache.lose()
        values.update(dict.fromkeys(values.keys() - {0xD80}, 0))
        values[0xD08] = self._start
        self._note(0xD90, 0 if self._v8 else 8 << 8)
        self._hooks.state.guard_bytes = 0
        self._hooks.state.sp = arm.UC_ARM_REG_SP
        self._clock.alarm(None)
        for register in _ALL:
            self._uc.reg_write(register, 0xFFFF_FFFF if register == arm.UC_ARM_REG_LR else 0)
        self._uc.reg_write(arm.UC_ARM_REG_XPSR, 1 << 24)
        self._uc.reg_write(arm.UC_ARM_REG_SP, self._vector(0))
        return self._vector(1)

    def unmapped(self, kind: int, address: int) -> int:
        """A fault: an access to ``address`` where no memory allows it; returns where the handler is."""
        fetch = kind in (unicorn.UC_MEM_FETCH_UNMAPPED, unicorn.UC_MEM_FETCH_PROT, unicorn.UC_MEM_FETCH)
        if fetch and address >= EXC_RETURN and self._handling:
            return self._return()
        if fetch:
            return self._fault(BUS, IBUSERR, address)
        if PERIPHERALS <= address < PERIPHERALS_END:
            raise stray("accesses", address, int(self._hooks.state.pc))
        self._note(0xD38, address)
        return self._fault(BUS, PRECISERR | BFARVALID, self._hooks.state.pc)

    def undefined(self) -> int:
        """A fault: no instruction of this core, or none in the state that a branch left."""
        pc = self._uc.reg_read(arm.UC_ARM_REG_PC)
        is_thumb = self._uc.reg_read(arm.UC_ARM_REG_CPSR) & 0x20
        return self._fault(USAGE, UNDEFINSTR if is_thumb else INVSTATE, pc)

    def raised(self, number: int) -> int:
        """What Unicorn raises by a number of its own."""
        pc = self._uc.reg_read(arm.UC_ARM_REG_PC)
        if pc >= EXC_RETURN - 1 and self._handling and number in (_EXCEPTION_EXIT, 3):
            return self._return()
        if number not in _OF_CORE:
            raise Halt(f"the core stopped with exception {number}, pc {pc:#010x}: nothing here models that")
        kind, status = _OF_CORE[number]
        return self._enter(kind, pc) if kind == SVCALL else self._fault(kind, status, pc)

    def guarded(self, address: int) -> int:
        """A fault: the stack has reached its guard, with the stack pointer at ``address``."""
        self._note(0xD34, address)
        handler = self._fault(MEMORY, DACCVIOL | MMARVALID, self._hooks.state.pc)
        self._hooks.state.guard_bytes = 0  # the handler of a fault runs without the MPU
        return handler

    def warned(self) -> int:
        """The watchdog's interrupt, which cannot be masked."""
        return self._enter(NMI, self._uc.reg_read(arm.UC_ARM_REG_PC))

    def alarm(self) -> int:
        """SysTick has counted to zero: its interrupt, where it is on."""
        self._next_wrap()
        pc = self._uc.reg_read(arm.UC_ARM_REG_PC)
        is_on = self._system.values[0x010] & 2 and not self._uc.reg_read(arm.UC_ARM_REG_PRIMASK) & 1
        return self._enter(SYSTICK, pc) if is_on and not self._handling else pc | 1

    @property
    def _handling(self) -> int:
        """The number of the exception that is handled, 0 where none is."""
        return int(self._uc.reg_read(arm.UC_ARM_REG_XPSR)) & _IN_HANDLER

    def _vector(self, number: int) -> int:
        table = self._system.values.get(0xD08) or self._start
        try:
            return int.from_bytes(self._uc.mem_read(table + 4 * number, 4), "little")
        except UcError:
            raise Halt(f"there are no vectors at {table:#010x}: the image is for another memory map") from None

    def _note(self, offset: int, value: int) -> None:
        """Sets a register of a fault's status, which Armv6-M does not have."""
        if offset in self._system.values:
            self._system.values[offset] = value

    def _fault(self, kind: int, status: int, pc: int) -> int:
        handling, enabled = self._handling, self._system.values.get(0xD24, 0)
        if handling in (NMI, HARD):
            raise Halt(f"lockup: a fault in the handler of a fault, pc {pc:#010x}, status {status:#x} as in CFSR")
        self._note(0xD28, self._system.values.get(0xD28, 0) | status)
        if kind == HARD or not enabled >> 16 & 1 << (kind - MEMORY) or MEMORY <= handling <= USAGE:
            self._note(0xD2C, 1 << 30)  # forced
            kind = HARD
        return self._enter(kind, pc)

    def _enter(self, number: int, pc: int) -> int:
        """Saves a frame and takes an exception; returns where its handler is."""
        uc, state = self._uc, self._hooks.state
        xpsr = uc.reg_read(arm.UC_ARM_REG_XPSR)
        sp = uc.reg_read(arm.UC_ARM_REG_SP)
        frame = (sp - FRAME.size) & ~7 & 0xFFFF_FFFF
        words = [uc.reg_read(register) for register in _SAVED]
        saved = FRAME.pack(*words, pc & ~1, xpsr & ~_PADDED | (_PADDED if sp & 4 else 0))
        if state.guard_bytes and frame < state.guard + state.guard_bytes and frame + FRAME.size > state.guard:
            self._note(0xD28, self._system.values[0xD28] | MSTKERR)
        else:
            try:
                uc.mem_write(frame, saved)
            except UcError:
                self._note(0xD28, self._system.values.get(0xD28, 0) | STKERR)
        uc.reg_write(arm.UC_ARM_REG_SP, frame)
        uc.reg_write(arm.UC_ARM_REG_LR, 0xFFFF_FFF1 if xpsr & _IN_HANDLER else 0xFFFF_FFF9)
        uc.reg_write(arm.UC_ARM_REG_XPSR, xpsr & ~(_IN_HANDLER | _IT_BITS) | number)
        return self._vector(number)

    def _return(self) -> int:
        uc = self._uc
        frame = uc.reg_read(arm.UC_ARM_REG_SP)
        *words, pc, xpsr = FRAME.unpack(uc.mem_read(frame, FRAME.size))
        for register, value in zip(_SAVED, words, strict=True):
            uc.reg_write(register, value)
        uc.reg_write(arm.UC_ARM_REG_SP, frame + FRAME.size + (4 if xpsr & _PADDED else 0))
        uc.reg_write(arm.UC_ARM_REG_XPSR, xpsr & ~_PADDED)
        return int(pc) | 1

    def _system_registers(self) -> Registers:
        """SysTick, the system control block and the MPU, by offset from 0xE000E000."""
        small = (0x010, 0x014, 0x018, 0x01C, 0xD00, 0xD04, 0xD08, 0xD0C, 0xD10, 0xD14, 0xD1C, 0xD20)
        main = (0xD18, 0xD24, 0xD28, 0xD2C, 0xD34, 0xD38, 0xD88, 0xD90, 0xD94, 0xD98, 0xD9C, 0xDA0, 0xDFC)
        it = Registers(0x1000, dict.fromkeys(small if self._small else (*small, *main), 0))
        if self._core.model == arm.UC_CPU_ARM_CORTEX_M7:
            it.values |= {0xD80: CCSIDR, 0xD84: 0, 0xF50: 0, 0xF60: 0, 0xF6C: 0}
            it.writes |= {0xD14: self._cache_control, 0xF6C: self._cache.clean}

        def mpu(value: int) -> None:
            it.values[0xD94] = value
            size, access = it.values[0xDA0] >> 1 & 0x1F, it.values[0xDA0] >> 24 & 7
            if value & 1 and it.values[0xDA0] & 1 and access == 0:
                self._hooks.state.guard, self._hooks.state.guard_bytes = it.values[0xD9C] & ~0x1F, 2 << size

        def cpacr(value: int) -> None:
            it.values[0xD88] = value
            if value >> 20 & 3 == 3:
                self._core.enable_fpu(self._uc)

        def control(value: int) -> None:
            it.values[0x010] = value & 7
            self._next_wrap() if value & 1 else self._clock.alarm(None)

        def clear(value: int) -> None:
            self._sys_began = self._clock.now
            self._next_wrap()

        def reset(value: int) -> None:
            if value == RESET_REQUEST:
                raise Reset

        it.writes |= {0x010: control, 0x018: clear, 0xD0C: reset}
        def count() -> int:
            if self._clock.rings():
                self._clock.alarm(self._clock.now)  # its interrupt comes before the next instruction
            return int(it.values[0x014] - (self._clock.now - self._sys_began) % (it.values[0x014] + 1))

        it.reads[0x018] = count
        if not self._small:
            it.writes |= {0xD28: lambda bits: it.values.update({0xD28: it.values[0xD28] & ~bits})}
            it.writes |= {0xD94: mpu, 0xD88: cpacr}
        return it

    def _cache_control(self, value: int) -> None:
        if value & CACHE_ON & ~self._system.values[0xD14]:
            self._cache.begin()
        self._system.values[0xD14] = value

    def _next_wrap(self) -> None:
        period = self._system.values[0x014] + 1
        if self._system.values[0x010] & 1:
            self._clock.alarm(self._clock.now + period - (self._clock.now - self._sys_began) % period)

    def _cycle_counter(self) -> Registers:
        """The DWT's cycle counter (DDI 0403E C1.8): on when DEMCR.TRCENA and CTRL.CYCCNTENA are."""
        it = Registers(0x1000, {0x000: 0x4000_0000, 0xFB0: 0})
        began = 0

        def is_on() -> bool:
            return bool(it.values[0x000] & 1 and self._system.values[0xDFC] >> 24 & 1)

        def start(value: int) -> None:
            nonlocal began
            began = self._clock.now - value

        count: Callable[[], int] = lambda: self._clock.now - began if is_on() else 0  # noqa: E731
        it.reads[0x004], it.writes[0x004] = count, start
        return it
