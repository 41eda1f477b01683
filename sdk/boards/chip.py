"""Registers of a chip as data: blocks of them in ``boards/registers``, the set-up that a board makes of them by name,
and the clock that follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Literal

from msgspec import field, structs

from sdk.boards.base import Table

WORD = 0xFFFF_FFFF
Bits = int | tuple[int, int]  # a field's bit, or its lowest and highest


class Register(Table, frozen=True):
    """A register at an offset of its block: what it holds after a reset, the bits that are not reserved, the fields
    that set-ups name. ``ready`` are fields that follow others: a field of this register, ``REGISTER.FIELD`` of the
    block, the opposite of one with ``!`` before it, or what they always are."""

    at: int
    reset: int = 0
    bits: int = WORD
    fields: dict[str, Bits] = field(default_factory=dict)
    ready: dict[str, str | int] = field(default_factory=dict)
    width: Literal[8, 16, 32] = 32


class Block(Table, frozen=True):
    """The registers of a peripheral from ``base`` on. ``like`` takes them over from another block. Nobody may touch it
    before ``gate``, a field ``BLOCK.REGISTER.FIELD``, is 1, or 0 where that is what ``gate_at`` says."""

    base: int
    source: str = ""
    like: str = ""
    gate: str = ""
    gate_at: Literal[0, 1] = 1
    registers: dict[str, Register] = field(default_factory=dict)


class RegisterFile(Table, frozen=True):
    """A file of ``boards/registers``."""

    schema: Literal[1]
    source: str
    blocks: dict[str, Block]


class Setup(Table, frozen=True):
    """A register ``BLOCK.REGISTER`` that start-up code sets before the drivers run: fields of it, or all of it at once
    to ``value``; then it waits until the fields of ``wait`` are what they say. ``source``: the manual's section, where
    the block's does not say it."""

    register: str
    set: dict[str, int] = field(default_factory=dict)
    value: int | None = None
    wait: dict[str, int] = field(default_factory=dict)
    source: str = ""


class Factor(Table, frozen=True):
    """A number by which a clock is multiplied or divided: a field, ``plus`` what the chip adds to it, or what
    ``values`` has for it."""

    field: str
    plus: int = 0
    values: tuple[int, ...] = ()


class Clock(Table, frozen=True):
    """The core's clock: an oscillator's Hz, times and over what the registers hold after the set-up."""

    oscillator: int
    times: tuple[Factor, ...] = ()
    over: tuple[Factor, ...] = ()


@dataclass(frozen=True)
class Step:
    """A set-up with its address and bits: ``(old & ~clear) | set``, then until ``register & mask == wait``."""

    register: str
    at: int
    source: str
    clear: int
    set: int
    mask: int
    wait: int
    width: int


def resolved(blocks: Mapping[str, Block]) -> dict[str, Block]:
    """Blocks with the registers that they take over. Raises KeyError naming a block that is not there."""
    taken = {}
    for name, block in blocks.items():
        like = blocks[block.like] if block.like else block
        fields = {"registers": like.registers, "source": block.source or like.source}
        taken[name] = structs.replace(block, **fields)
    return taken


def span(bits: Bits) -> tuple[int, int]:
    """A field's lowest bit and its mask, shifted to where it is."""
    low, high = (bits, bits) if isinstance(bits, int) else bits
    return low, (1 << high + 1) - (1 << low)


def find_register(blocks: Mapping[str, Block], path: str) -> tuple[Block, Register]:
    """What ``BLOCK.REGISTER`` names. Raises KeyError with a sentence."""
    name, _, register = path.partition(".")
    if name not in blocks:
        raise KeyError(f"{path}: no block {name}; there are {', '.join(sorted(blocks))}")
    if register not in blocks[name].registers:
        raise KeyError(f"{path}: {name} has no register {register}")
    return blocks[name], blocks[name].registers[register]


def find_field(blocks: Mapping[str, Block], path: str) -> tuple[int, int, int]:
    """The address, lowest bit and mask of ``BLOCK.REGISTER.FIELD``. Raises KeyError with a sentence."""
    where, _, name = path.rpartition(".")
    block, register = find_register(blocks, where)
    if name not in register.fields:
        known = ", ".join(register.fields) or "none"
        raise KeyError(f"{path}: {where} has no field {name}; its file names {known}, value sets all of it")
    return block.base + register.at, *span(register.fields[name])


def steps_of(blocks: Mapping[str, Block], setup: tuple[Setup, ...]) -> tuple[Step, ...]:
    """The steps of a set-up. Raises KeyError with a sentence where it names what is not there, or a value that is too
    large for its field."""
    steps = []
    for one in setup:
        block, register = find_register(blocks, one.register)
        clear, bits = _combined(blocks, one.register, one.set)
        mask, wait = _combined(blocks, one.register, one.wait)
        if one.value is not None:
            clear, bits = WORD, one.value
        at, source = block.base + register.at, one.source or block.source
        steps.append(Step(one.register, at, source, clear, bits, mask, wait, register.width))
    return tuple(steps)


def _combined(blocks: Mapping[str, Block], register: str, fields: Mapping[str, int]) -> tuple[int, int]:
    mask = bits = 0
    for name, value in fields.items():
        _, low, of = find_field(blocks, f"{register}.{name}")
        if value < 0 or value << low & ~of:
            raise KeyError(f"{register}.{name} has no room for {value}")
        mask, bits = mask | of, bits | value << low
    return mask, bits


def clock_hz(blocks: Mapping[str, Block], steps: tuple[Step, ...], clock: Clock) -> float:
    """The core's clock in Hz once the steps were taken. Raises KeyError with a sentence."""
    hz = reduce(lambda hz, one: hz * factor(blocks, steps, one), clock.times, float(clock.oscillator))
    return reduce(lambda hz, one: hz / factor(blocks, steps, one), clock.over, hz)


def factor(blocks: Mapping[str, Block], steps: tuple[Step, ...], one: Factor) -> int:
    """The number that a factor is once the steps were taken. Raises KeyError with a sentence."""
    at, low, mask = find_field(blocks, one.field)
    value = find_register(blocks, one.field.rpartition(".")[0])[1].reset
    for step in steps:
        if step.at == at:
            value = value & ~step.clear | step.set
    value = (value & mask) >> low
    if one.values and value >= len(one.values):
        raise KeyError(f"{one.field} is {value}, for which no value is given")
    found = one.values[value] if one.values else value + one.plus
    if found <= 0:
        raise KeyError(f"{one.field} is {value}, which divides nothing")
    return found
