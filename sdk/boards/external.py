"""Flash chips beside a microcontroller, which a peripheral of it maps into memory: how they are talked to."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from sdk.boards.base import Table
from sdk.boards.chip import Factor, Setup

__all__ = ["WIDEST", "Command", "External", "Read"]

WIDEST: Final = {"quadspi": 4, "octospi": 8}  # lines of a peripheral, by kind; a narrow one sends one byte at one edge
Lines = Literal[1, 2, 4, 8]
_MAX_DIVIDER: Final = 256


class Command(Table, frozen=True):
    """A command without an address: an ``instruction`` of so many ``bytes`` over so many ``lines``, at both edges of
    the clock where it is ``dtr``."""

    instruction: Annotated[int, Meta(ge=0, le=0xFFFF)]
    lines: Lines = 1
    bytes: Literal[1, 2] = 1
    dtr: bool = False


class Read(Table, frozen=True):
    """How the chip is read: ``lines`` for the instruction, for the address and for the data, ``dummy`` cycles before
    these."""

    instruction: Annotated[int, Meta(ge=0, le=0xFF)]
    lines: tuple[Lines, Lines, Lines]
    address_bytes: Literal[3, 4]
    dummy: Annotated[int, Meta(ge=0, le=31)]


class External(Table, frozen=True):
    """The flash chip in the region ``memory``: ``kind`` and ``base`` of the peripheral that maps it, Hz of its clock,
    ``over`` what divides the core's to give it (none: it has one of its own). The chip takes ``fastest`` Hz, and rests
    ``between`` ns from one command to the next. ``reset`` are pairs of commands, enable and reset, in each way that a
    loader may have left it listening to; after these it listens to one line, and answers ``recovers`` us later. It is
    at work while a bit of ``busy`` is set in what the instruction ``status`` reads. ``setup`` are pins and clocks that
    are set before."""

    memory: str
    kind: str
    base: int
    hz: Annotated[int, Meta(ge=1)]
    fastest: Annotated[int, Meta(ge=1)]
    read: Read
    over: tuple[Factor, ...] | None = None
    between: Annotated[int, Meta(ge=0, le=1000)] = 50
    reset: tuple[Command, ...] = ()
    recovers: Annotated[int, Meta(ge=0, le=1_000_000)] = 100
    status: Annotated[int, Meta(ge=0, le=0xFF)] = 0x05
    busy: Annotated[int, Meta(ge=1, le=0xFF)] = 1
    setup: tuple[Setup, ...] = ()

    @property
    def divider(self) -> int:
        """What the peripheral divides its clock by, to be no faster than the chip."""
        return -(-self.hz // self.fastest)

    @property
    def rest_cycles(self) -> int:
        """Cycles of the chip's clock for which it rests, at least one."""
        return max(1, -(-self.between * self.hz // (self.divider * 1_000_000_000)))

    def problems(self) -> list[str]:
        """What contradicts itself, or what the peripheral cannot send."""
        found = []
        widest = WIDEST.get(self.kind, 8)
        if max((*self.read.lines, *(one.lines for one in self.reset))) > widest:
            found.append(f"runtime.external: {self.kind} has {widest} lines")
        if widest < 8 and any(one.bytes > 1 or one.dtr for one in self.reset):
            found.append(f"runtime.external: {self.kind} sends instructions of one byte, at one edge of the clock")
        if any(one.instruction >= 1 << 8 * one.bytes for one in self.reset):
            found.append("runtime.external.reset has an instruction that its bytes do not hold")
        if len(self.reset) % 2:
            found.append("runtime.external.reset are pairs: enable, reset")
        if self.divider > _MAX_DIVIDER:
            at_most = f"its clock is divided by at most {_MAX_DIVIDER}"
            found.append(f"runtime.external.fastest is {self.fastest} Hz: {at_most}")
        return found
