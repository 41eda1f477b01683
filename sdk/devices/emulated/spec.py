"""What a machine is told: a board's core, memory, UART and timer, and what to count."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

__all__ = ["CAN_EMULATE", "KINDS", "Count", "Flag", "MachineSpec", "Part", "Setup", "Span", "core_name"]

# What the models beside this know, for those who must not load Unicorn to ask. Unicorn has no Armv8.1-M.
CAN_EMULATE: Final = frozenset({"armv6-m", "armv7-m", "armv7e-m", "armv7e-m+fpv5", "armv8-m.main", "rv32"})
KINDS: Final = frozenset(
    {"uart cmsdk", "uart nrf51", "uart ns16550", "uart stm32"}
    | {"timer cmsdk", "timer nrf51", "timer systick", "timer dwt", "timer mcycle"}
)


def core_name(arch: str, fpu: str | None) -> str:
    """What tells cores of an architecture apart that execute other instructions: the later floating-point unit."""
    return f"{arch}+fpv5" if arch == "armv7e-m" and (fpu or "").startswith("fpv5") else arch


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
    """A machine: ``core`` is a ``core_name``, ``start`` where its vectors are (Cortex-M) or its code begins, and
    ``library`` that of c_runtime/plugin/machine.c; after ``limit`` instructions without a look at its UART it hangs."""

    core: str
    memory: tuple[Span, ...]
    start: int
    uart: Part
    timer: Part
    library: str
    limit: int
    setup: tuple[Setup, ...] = ()
    count: Count | None = None
