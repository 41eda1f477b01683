"""Facts of a machine that a device is: what an agent sends, checked as what anybody sends."""

from __future__ import annotations

import math

import msgspec

from sdk.devices.channel import ChannelError

__all__ = [
    "HEAD_BYTES",
    "Core",
    "MachineFacts",
    "core_mask",
    "foreign_machine",
    "machine_name",
    "pack_facts",
    "parse_facts",
]  # fmt: skip

_MAX_CORE = 63
HEAD_BYTES = 20  # of a program, that say for which machine it is
# What the header of a program says, and what systems call such machines.
_ELF_MACHINES = {3: "i686", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_ALIKE = {"amd64": "x86_64", "arm64": "aarch64", "i386": "i686"}
_NARROW = {"x86_64": "i686", "aarch64": "arm"}  # whose programs of 32 bits run too


class Core(msgspec.Struct, frozen=True):
    """A core that programs may use; None is what the system does not tell. ``cap_mhz`` is the fastest clock that the
    system allows it now, which heat or a setting may keep below ``max_mhz``."""

    number: int
    mhz: float | None = None
    max_mhz: float | None = None
    governor: str | None = None
    cap_mhz: float | None = None


class MachineFacts(msgspec.Struct, frozen=True):
    """A machine as it is now: frequencies in MHz, temperatures in degrees Celsius by sensor, sizes in bytes."""

    name: str
    system: str
    machine: str
    cpu: str | None = None
    cores: tuple[Core, ...] = ()
    temperatures_c: dict[str, float] = {}
    memory_bytes: int | None = None
    free_bytes: int | None = None
    load: float | None = None
    used_by: str | None = None


def pack_facts(facts: MachineFacts) -> bytes:
    """The body of an answer to FACTS: JSON."""
    return msgspec.json.encode(facts)


def parse_facts(body: bytes) -> MachineFacts:
    """The facts in an answer; raise ChannelError when they are none."""
    try:
        facts = msgspec.json.decode(body, type=MachineFacts)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ChannelError(f"the agent describes its machine wrongly: {error}") from None
    clocks = [clock or 0.0 for core in facts.cores for clock in (core.mhz, core.max_mhz, core.cap_mhz)]
    numbers = [*facts.temperatures_c.values(), *clocks, facts.load or 0.0]
    if not all(math.isfinite(number) for number in numbers):
        raise ChannelError("the agent describes its machine with numbers that are none")
    return facts


def machine_name(name: str) -> str:
    """One name for a machine, of those that systems give it."""
    name = name.lower()
    return "arm" if name.startswith("armv") else _ALIKE.get(name, name)


def foreign_machine(head: bytes, this: str) -> str | None:
    """For which machine a program is, by its first bytes, where that is another one than ``this``; else None."""
    if head[:2] == b"#!":
        return None
    if head[:4] != b"\x7fELF" or len(head) < HEAD_BYTES or head[5] not in (1, 2):
        return None if this == "" else "no machine that is known"
    number = int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")
    name = _ELF_MACHINES.get(number, f"machine {number}")
    return None if name in (this, _NARROW.get(this)) else name


def core_mask(text: str) -> int:
    """The mask of cores that "0,2-3" names. Raises ValueError."""
    mask = 0
    for part in text.split(","):
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if not 0 <= low <= high <= _MAX_CORE:
            raise ValueError(f"cores are 0 to {_MAX_CORE}")
        for core in range(low, high + 1):
            mask |= 1 << core
    return mask
