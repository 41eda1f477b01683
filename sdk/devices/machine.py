"""Facts of a machine that a device is: what an agent sends, checked as what anybody sends."""

from __future__ import annotations

import math

import msgspec

from sdk.devices.channel import ChannelError

__all__ = ["Core", "MachineFacts", "pack_facts", "parse_facts"]


class Core(msgspec.Struct, frozen=True):
    """A core that programs may use; None is what the system does not tell."""

    number: int
    mhz: float | None = None
    max_mhz: float | None = None
    governor: str | None = None


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
    numbers = [*facts.temperatures_c.values(), *(core.mhz or 0.0 for core in facts.cores), facts.load or 0.0]
    if not all(math.isfinite(number) for number in numbers):
        raise ChannelError("the agent describes its machine with numbers that are none")
    return facts
