"""A chip's registers as its file has them: what is reserved, what is to be switched on first, which bits follow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sdk.devices.emulated.bus import Bus, Halt
from sdk.devices.emulated.parts import Registers
from sdk.devices.emulated.spec import Block, Reason, Register

__all__ = ["Chip"]

_PATIENCE: Final = 10_000  # looks at one register in a row after which what is waited for will never come


class Chip:
    """The blocks of a chip, whose registers know of each other."""

    def __init__(self, blocks: Iterable[Block], reason: Reason | None = None) -> None:
        self._reason, self._told = reason, False
        self._blocks = {block.base: _Registers(block, self) for block in blocks}
        self._looks, self._seen = 0, -1

    def at(self, base: int) -> Registers | None:
        """The registers of the block at an address, None where the chip's file has none there."""
        return self._blocks.get(base)

    def put_on(self, bus: Bus, but: Iterable[int]) -> None:
        """Puts the blocks on a bus, but those that are there already."""
        for base in self._blocks.keys() - set(but):
            bus.add(base, self._blocks[base])

    def reset(self, *, by_watchdog: bool = False) -> None:
        """All registers as they are after a reset, with what tells of one by the watchdog."""
        for block in self._blocks.values():
            block.reset()
        reason = self._reason
        if reason is not None:
            self._told = by_watchdog or (self._told and reason.forget_mask != 0)
            if self._told:
                self._put(reason.address, reason.mask, reason.value)

    def wrote(self, address: int, value: int) -> None:
        """The firmware wrote to a register: it may be how the chip is made to forget why it was reset."""
        reason = self._reason
        if reason is not None and address == reason.forget and value & reason.forget_mask:
            self._told = False
            self._put(reason.address, reason.mask, 0)

    def _put(self, address: int, mask: int, value: int) -> None:
        for base, block in self._blocks.items():
            if address - base in block.values:
                block.values[address - base] = block.values[address - base] & ~mask | value

    def value(self, address: int) -> int:
        """What a register at an address holds."""
        for base, block in self._blocks.items():
            if address - base in block.values:
                return block.values[address - base]
        raise Halt(f"the chip's file has no register at {address:#010x}, which another follows")

    def looked(self, address: int, value: int, name: str) -> None:
        """Ends a firmware that waits for bits that never come."""
        self._looks = self._looks + 1 if self._seen == address else 0
        self._seen = address
        if self._looks > _PATIENCE:
            raise Halt(f"the firmware waits for bits of {name} that do not come: it is {value:#x}")


class _Registers(Registers):
    """The registers of a block."""

    def __init__(self, block: Block, chip: Chip) -> None:
        super().__init__(max(r.at for r in block.registers) + 4, {r.at: r.reset for r in block.registers})
        self._block, self._chip = block, chip
        self._known = {r.at: r for r in block.registers}

    def reset(self) -> None:
        """As after a reset."""
        self.values.update((r.at, r.reset) for r in self._block.registers)

    def read(self, offset: int) -> int:
        """What a load gets; KeyError where there is no register. Raises Halt where it may not be read."""
        register = self._found(offset)
        value = super().read(offset)
        for one in register.ready:
            bits = one.source if one.address < 0 else self._chip.value(one.address) >> one.source
            value = value & ~one.mask | (bits << one.low ^ one.flip) & one.mask
        if offset not in self.reads:
            self._chip.looked(self._block.base + offset, value, f"{self._block.name}.{register.name}")
        return value

    def write(self, offset: int, value: int) -> None:
        """What a store does; KeyError where there is no register. Raises Halt where it may not be."""
        register = self._found(offset)
        reserved = (value ^ register.reset) & ~register.bits
        if reserved:
            raise Halt(f"the firmware changes reserved bits of {self._block.name}.{register.name}: {reserved:#x}")
        super().write(offset, value)
        self._chip.wrote(self._block.base + offset, value)

    def _found(self, offset: int) -> Register:
        block = self._block
        if block.gate_mask and self._chip.value(block.gate) & block.gate_mask != block.gate_value:
            on = int(block.gate_value != 0)
            raise Halt(f"the firmware uses {block.name}, which is off: {block.gate_name} is not {on}")
        return self._known[offset]
