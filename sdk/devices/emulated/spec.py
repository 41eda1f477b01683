"""What a machine is told: a board's core, memory, UART and timer, and what to count."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

__all__ = [
    "CAN_EMULATE", "KINDS", "Block", "Command", "Count", "External", "Flag", "MachineSpec", "Part", "Read", "Ready",
    "Reason", "Register", "Span", "core_name",
]  # fmt: skip

# What the models beside this know, for those who must not load Unicorn to ask. Unicorn has no Armv8.1-M.
CAN_EMULATE: Final = frozenset({"armv6-m", "armv7-m", "armv7e-m", "armv7e-m+fpv5", "armv8-m.main", "rv32"})
KINDS: Final = frozenset(
    {"uart cmsdk", "uart esp", "uart lpuart", "uart nrf51", "uart nrf_uarte", "uart ns16550", "uart pl011"}
    | {"uart sercom", "uart sifive", "uart stm32", "uart stm32v1"}
    | {"watchdog cmsdk", "watchdog esp", "watchdog imx", "watchdog iwdg", "watchdog nrf", "watchdog rp", "watchdog sam"}
    | {"watchdog sifive"}
    | {"external octospi", "external quadspi"}
    | {"timer cmsdk", "timer nrf51", "timer systick", "timer dwt", "timer mcycle", "timer esp"}
)


def core_name(arch: str, fpu: str | None) -> str:
    """What tells cores of an architecture apart that execute other instructions: the later floating-point unit."""
    return f"{arch}+fpv5" if arch == "armv7e-m" and (fpu or "").startswith("fpv5") else arch


class Span(Struct, frozen=True):
    """``size`` bytes of memory at ``base``; those for instructions alone are loaded from ``data_base`` on."""

    base: int
    size: int
    writable: bool
    data_base: int | None = None


class Flag(Struct, frozen=True):
    """A condition: the bits of ``mask`` in a register are ``value``."""

    register: str
    mask: int
    value: int


class Part(Struct, frozen=True):
    """A UART, timer or watchdog: the driver's kind, where it is, Hz of its clock, of which a UART's divisor counts
    ``scale`` parts; a polled UART's registers."""

    kind: str
    base: int
    hz: int
    scale: int = 1
    registers: dict[str, int] = {}
    receive: str = ""
    send: str = ""
    received: Flag | None = None
    can_send: Flag | None = None


class Command(Struct, frozen=True):
    """A command to a flash chip: an instruction of so many bytes over so many lines, at both edges of the clock."""

    instruction: int
    lines: int
    bytes: int
    dtr: bool


class Read(Struct, frozen=True):
    """How a flash chip is read: lines of the instruction, the address and the data, cycles before these."""

    instruction: int
    lines: tuple[int, int, int]
    address_bytes: int
    dummy: int


class External(Struct, frozen=True):
    """A flash chip and the peripheral that maps it; its status is read with an instruction, ``busy`` are the bits of it
    while it is at work. ``reset`` are pairs of commands, in each way that it may listen; ``recovers`` us later it
    answers."""

    part: Part
    memory: Span
    fastest: int
    read: Read
    reset: tuple[Command, ...]
    recovers: int
    status: int
    busy: int


class Reason(Struct, frozen=True):
    """What tells of a reset by the watchdog: bits ``mask`` of the register at an address are ``value`` then, until the
    bits ``forget_mask`` of another are set (0: until the next reset)."""

    address: int
    mask: int
    value: int
    forget: int = 0
    forget_mask: int = 0


class Count(Struct, frozen=True):
    """What is counted by phase: the marks' address and number, the code that stores them, the file for the counts."""

    marks: int
    phases: int
    marking: tuple[tuple[int, int], ...]
    out: str


class Ready(Struct, frozen=True, array_like=True):
    """The bits of ``mask``, from bit ``low`` on, are those of the register at an address from its bit ``source`` on,
    ``flip`` of them inverted; where the address is below 0 they are ``source``."""

    mask: int
    low: int
    address: int
    source: int
    flip: int = 0


class Register(Struct, frozen=True, array_like=True):
    """A register at an offset: what it holds after a reset, the bits that are not reserved, those that follow."""

    name: str
    at: int
    reset: int
    bits: int
    ready: tuple[Ready, ...] = ()


class Block(Struct, frozen=True):
    """A peripheral's registers; it may be touched while the bits of ``gate_mask`` at ``gate`` are ``gate_value``."""

    name: str
    base: int
    registers: tuple[Register, ...]
    gate_name: str = ""
    gate: int = 0
    gate_mask: int = 0
    gate_value: int = 0


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
    blocks: tuple[Block, ...] = ()
    count: Count | None = None
    watchdog: Part | None = None
    reason: Reason | None = None
    external: External | None = None
