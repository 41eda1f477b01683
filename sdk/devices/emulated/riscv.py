"""Traps of a RISC-V hart in machine mode, and counters that Unicorn takes from the host's clock (RISC-V Privileged
Architecture 20211203, 3.1)."""

from __future__ import annotations

from typing import Final

import unicorn
from unicorn import riscv_const as riscv
from unicorn.unicorn_py3.unicorn import Uc

from sdk.devices.emulated.bus import Clock, Halt
from sdk.devices.emulated.native import Hooks
from sdk.devices.emulated.spec import Span

__all__ = ["RiscV"]

FETCH_FAULT, ILLEGAL, BREAKPOINT, LOAD_FAULT, STORE_FAULT = 1, 2, 3, 5, 7
MPIE, MIE, MPP = 1 << 7, 1 << 3, 3 << 11
_X0: Final = riscv.UC_RISCV_REG_X0
# counters: user's, the machine's (3.1.10), and the ESP32-C3's own (Technical Reference Manual 1.1, 1.4)
_LOW, _HIGH = frozenset({0xB00, 0xB02, 0xC00, 0xC02}), frozenset({0xB80, 0xB82, 0xC80, 0xC82})
_CLEARED = frozenset({0x7E2})
_SET = frozenset({0x7E0, 0x7E1})


class RiscV:
    """One hart that starts at ``start``."""

    def __init__(self, uc: Uc, hooks: Hooks, clock: Clock, start: int) -> None:
        self._uc, self._hooks, self._clock, self._start = uc, hooks, clock, start
        self._kept = dict.fromkeys(_CLEARED | _SET, 0)

    def find_counters(self, code: list[Span]) -> None:
        """Takes over every instruction of the image that reads or writes a counter."""
        for span in code:
            data = bytes(self._uc.mem_read(span.base, span.size))
            for at in range(0, len(data) - 3, 2):
                word = int.from_bytes(data[at : at + 4], "little")
                if word & 0x7F == 0x73 and word >> 12 & 3 and word >> 20 in (_LOW | _HIGH | _CLEARED | _SET):
                    place = span.base + at
                    self._uc.hook_add(unicorn.UC_HOOK_CODE, self._counter, word, place, place)

    def reset(self) -> int:
        """Where code starts."""
        return self._start

    def unmapped(self, kind: int, address: int) -> int:
        """A trap: an access to ``address`` where no memory allows it; returns where the handler is."""
        fetches = (unicorn.UC_MEM_FETCH_UNMAPPED, unicorn.UC_MEM_FETCH_PROT)
        stores = (unicorn.UC_MEM_WRITE_UNMAPPED, unicorn.UC_MEM_WRITE_PROT)
        if kind in fetches:
            return self._trap(FETCH_FAULT, address, address)
        return self._trap(STORE_FAULT if kind in stores else LOAD_FAULT, self._hooks.state.pc, address)

    def undefined(self) -> int:
        """A trap: ebreak, which Unicorn does not tell from what is no instruction."""
        return self._trap(BREAKPOINT, self._uc.reg_read(riscv.UC_RISCV_REG_PC), 0)

    def raised(self, number: int) -> int:
        """What Unicorn raises: it is 4 bytes ahead then."""
        pc = self._uc.reg_read(riscv.UC_RISCV_REG_PC) - 4
        return self._trap(number, pc, self._accessed(pc) if number in (LOAD_FAULT, STORE_FAULT) else 0)

    def guarded(self, address: int) -> int:
        """Never: the PMP is Unicorn's."""
        raise Halt(f"an access to {address:#010x}")

    def warned(self) -> int:
        """Never: no watchdog here interrupts."""
        return self.alarm()

    def alarm(self) -> int:
        """Never: no timer here interrupts."""
        return int(self._uc.reg_read(riscv.UC_RISCV_REG_PC))

    def _trap(self, cause: int, pc: int, value: int) -> int:
        uc = self._uc
        vector = uc.reg_read(riscv.UC_RISCV_REG_MTVEC) & ~3
        if not vector or (cause == FETCH_FAULT and pc & ~1 == vector):
            raise Halt(f"lockup: trap {cause} at pc {pc:#010x}, and its handler cannot be reached")
        status = uc.reg_read(riscv.UC_RISCV_REG_MSTATUS)
        uc.reg_write(riscv.UC_RISCV_REG_MSTATUS, status & ~(MIE | MPIE) | (MPIE if status & MIE else 0) | MPP)
        uc.reg_write(riscv.UC_RISCV_REG_MEPC, pc & ~1)
        uc.reg_write(riscv.UC_RISCV_REG_MCAUSE, cause)
        uc.reg_write(riscv.UC_RISCV_REG_MTVAL, value)
        return int(vector)

    def _counter(self, uc: Uc, address: int, size: int, word: int) -> None:
        number, source, target, how = word >> 20, word >> 15 & 31, word >> 7 & 31, word >> 12 & 7
        now = self._clock.now
        old = now & 0xFFFF_FFFF if number in _LOW else now >> 32 if number in _HIGH else self._counted(number)
        if how & 3 == 1:  # csrrw; sets and clears of counters are reads here
            self._kept[number] = now - (uc.reg_read(_X0 + source) if how < 4 else source)
        if target:
            uc.reg_write(_X0 + target, old)
        uc.reg_write(riscv.UC_RISCV_REG_PC, address + 4)

    def _counted(self, number: int) -> int:
        return (self._clock.now - self._kept[number]) & 0xFFFF_FFFF if number in _CLEARED else 0

    def _accessed(self, pc: int) -> int:
        """The address that the load or store at ``pc`` is about."""
        word = int.from_bytes(self._uc.mem_read(pc, 4), "little")
        if word & 3 == 3:
            store = int(word & 0x7F == 0x23)
            offset = word >> 25 << 5 | word >> 7 & 31 if store else word >> 20
            base, offset = word >> 15 & 31, offset - (offset >> 11 << 12)
        elif word & 3 == 2:  # c.lwsp, c.swsp
            store, base = word >> 15 & 1, 2
            loaded = (word >> 12 & 1) << 5 | (word >> 4 & 7) << 2 | (word >> 2 & 3) << 6
            offset = (word >> 9 & 15) << 2 | (word >> 7 & 3) << 6 if store else loaded
        else:  # c.lw, c.sw
            base = 8 + (word >> 7 & 7)
            offset = (word >> 10 & 7) << 3 | (word >> 6 & 1) << 2 | (word >> 5 & 1) << 6
        return (int(self._uc.reg_read(_X0 + base)) + offset) & 0xFFFF_FFFF
