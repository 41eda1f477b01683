"""What a machine is told: a board's core, memory, UART and timer, and what to count."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

__all__ = ["CAN_EMULATE", "KINDS", "Count", "Flag", "MachineSpec", "Part", "Setup", "Span"]

# What the models below know, for those who must not load Unicorn to ask.
CAN_EMULATE: Final = frozenset(
    {"cortex-m0", "cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "generic-rv32"}
)
KINDS: Final = frozenset(
    {"uart cmsdk", "uart nrf51", "uart ns16550"}
    | {"timer cmsdk", "timer nrf51", "timer systick", "timer dwt", "timer mcycle"}
)


class Span(Struct, frozen=True):
    """``size`` bytes of memory at ``base``."""

    base: int
    size: int
    writable: bool


class Flag(Struct, frozen=True):
    """A condition: the bits of ``mask`` in a register are ``value``."""

    register: str
    mask: int
    value: int


class Part(Struct, frozen=True):
    """A UART or timer: the driver's kind, where it is, ticks per second of a timer; a polled UART's registers."""

    kind: str
    base: int
    hz: int
    registers: dict[str, int] = {}
    receive: str = ""
    send: str = ""
    received: Flag | None = None
    can_send: Flag | None = None


class Count(Struct, frozen=True):
    """What is counted by phase: the marks' address and number, the code that stores them, the file for the counts."""

    marks: int
    phases: int
    marking: tuple[tuple[int, int], ...]
    out: str


class Setup(Struct, frozen=True):
    """A register that start-up code sets before its drivers run: ``ready`` are bits that it then waits for."""

    at: int
    ready: int = 0


class MachineSpec(Struct, frozen=True):
    """A machine: ``start`` is where its vectors are (Cortex-M) or its code begins; ``library`` is that of
    c_runtime/plugin/machine.c; after ``limit`` instructions without a look at its UART it is said to hang."""

    cpu: str
    memory: tuple[Span, ...]
    start: int
    uart: Part
    timer: Part
    library: str
    limit: int
    setup: tuple[Setup, ...] = ()
    count: Count | None = None
