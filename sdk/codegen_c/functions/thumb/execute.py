"""Executes instructions of Thumb-2 with named operands, as the Armv7-M Architecture Reference Manual describes them.

It knows nothing of how code is selected, ordered or addressed: it is what those are checked by. What a mnemonic does
is said here again, and not read from the declarations in ``instructions/thumb.py``: code is selected by those, and a
wrong one would be found right if it were compared with itself.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

__all__ = ["Fault", "Memory", "execute", "signed"]

STEPS: Final = 1 << 20  # instructions of a run that ends
_LOADS: Final = {"ldr": "<i", "ldrb": "<B", "ldrsb": "<b", "ldrh": "<H", "ldrsh": "<h", "ldrd": "<i"}
_STORES: Final = {"str": 4, "strb": 1, "strh": 2, "strd": 4}
_FARTHEST: Final = 4095  # bytes forward that one register is read or written at, and the largest number added
_BACK: Final = 255  # bytes backward, and bytes that an access moves its pointer by
_PAIR: Final = 1020  # bytes either way that two registers are read or written at
_ADDRESS: Final = re.compile(
    r"(%\[\w+\])(?:, (%\[\w+\]))?, \[(%\[\w+\])(?:, #(-?\d+)|, (%\[\w+\])(?:, lsl #([1-3]))?)?\](?:, #(-?\d+))?"
)


class Fault(Exception):
    """What the processor does not do: an access outside of memory, an address that is not aligned, a number that has no
    encoding, a write to a register that the statement only reads."""


def signed(value: int) -> int:
    """The 32 bits of ``value`` as a signed number."""
    return (value & 0xFFFFFFFF) - ((value & 0x80000000) << 1)


@dataclass(slots=True)
class Memory:
    """``data`` from address 0 on; ``spans`` are the addresses (from, to) that belong to something."""

    data: bytearray
    spans: Sequence[tuple[int, int]]

    def check(self, at: int, size: int) -> None:
        """Raises a ``Fault`` where not all of ``size`` bytes at ``at`` belong to one thing."""
        if not any(lo <= at and at + size <= hi for lo, hi in self.spans):
            raise Fault(f"{size} bytes at address {at} belong to nothing")


@dataclass(slots=True)
class _State:
    registers: dict[str, int]
    memory: Memory
    changing: Set[str]
    zero: bool = False

    def set(self, register: str, value: int) -> None:
        if register not in self.changing:
            raise Fault(f"{register} is only read")
        self.registers[register] = signed(value)

    def value(self, text: str) -> int:
        return int(text[1:]) if text.startswith("#") else self.registers[text]


def execute(lines: Sequence[str], registers: Mapping[str, int], memory: Memory, changing: Set[str]) -> dict[str, int]:
    """The registers (signed) after a run of ``lines``; ``memory`` is changed.

    ``registers`` holds every operand by its name in the lines; those ``changing`` may be written.

    Raises:
        Fault: an instruction that this processor does not have, or would not do.
    """
    state = _State({name: signed(value) for name, value in registers.items()}, memory, changing)
    labels = {line[:-1]: k for k, line in enumerate(lines) if line.endswith(":")}
    at = 0
    for _ in range(STEPS):
        if at == len(lines):
            return state.registers
        line = lines[at]
        name, _, rest = line.partition(" ")
        if name == "bne":
            at = at + 1 if state.zero else labels[rest.removesuffix("b")]
            continue
        if not line.endswith(":"):
            _step(state, name, rest)
        at += 1
    raise Fault("the code does not end")


def _step(state: _State, name: str, rest: str) -> None:
    if name == "ldmia":
        _load_several(state, rest)
    elif name in _LOADS or name in _STORES:
        _access(state, name, rest)
    elif name == "subs":
        made, left, right = _operands(rest)
        state.set(made, state.value(left) - state.value(right))
        state.zero = state.registers[made] == 0
    else:
        made, *given = _operands(rest)
        state.set(made, _computed(state, name, given))


@lru_cache(maxsize=1 << 12)
def _operands(rest: str) -> tuple[str, ...]:
    return tuple(rest.split(", "))


# --- values ---------------------------------------------------------------------------------------------------


def _halves(word: int) -> tuple[int, int]:
    low, high = struct.unpack("<hh", struct.pack("<i", word))
    return int(low), int(high)


def _extended(word: int, kind: str) -> int:
    """Bytes 0 and 2 of a word as halves."""
    first, _, third, _ = struct.unpack(f"<4{kind}", struct.pack("<i", word))
    return (int(first) & 0xFFFF) | (int(third) & 0xFFFF) << 16


def _rotated(word: int, by: int) -> int:
    word &= 0xFFFFFFFF
    return signed(word >> by | word << (32 - by)) if by else signed(word)


def _right(value: int, by: int) -> int:
    """Arithmetic shift by a register, of which eight bits count."""
    return value >> min(by & 0xFF, 31)


def _left(value: int, by: int) -> int:
    by &= 0xFF
    return signed(value << by) if by < 32 else 0


def _saturated(name: str, bits: int, value: int) -> int:
    lo, hi = (-1 << bits - 1, (1 << bits - 1) - 1) if name == "ssat" else (0, (1 << bits) - 1)
    return max(lo, min(hi, value))


_SHIFTS: Final[dict[str, Callable[[int, int], int]]] = {"asr": _right, "lsl": _left, "ror": _rotated}
_SIMPLE: Final[dict[str, Callable[..., int]]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "asr": _right,
    "lsl": _left,
    "mvn": lambda a: ~a,
    "mla": lambda a, b, c: a * b + c,
    "smlad": lambda a, b, c: sum(x * y for x, y in zip(_halves(a), _halves(b), strict=True)) + c,
    "smmla": lambda a, b, c: ((c << 32) + a * b) >> 32,
    "smmlar": lambda a, b, c: ((c << 32) + a * b + (1 << 31)) >> 32,
    "smmulr": lambda a, b: (a * b + (1 << 31)) >> 32,
}


def _computed(state: _State, name: str, given: Sequence[str]) -> int:
    """What an instruction makes of its arguments, the last of which may be shifted or rotated."""
    given, shift = (given[:-1], given[-1]) if given[-1].startswith(("asr #", "lsl #", "ror #")) else (given, "")
    values = [state.value(text) for text in given]
    if shift:
        kind, by = shift.split(" #")
        if not 0 < int(by) < 32:
            raise Fault(f"{name} shifts by {by}")
        values[-1] = _SHIFTS[kind](values[-1], int(by))
    if name in ("sxtb16", "uxtb16"):
        if shift not in ("", "ror #8", "ror #16", "ror #24"):
            raise Fault(f"{name} rotates by {shift}")
        return _extended(values[0], "b" if name == "sxtb16" else "B")
    if name in ("ssat", "usat"):
        return _saturated(name, values[0], values[1])
    _check_number(name, given[-1])
    if match := re.fullmatch("smla([bt])([bt])", name):
        x, y = (_halves(v)[half == "t"] for v, half in zip(values, match.groups(), strict=False))
        return x * y + values[2]
    if name not in _SIMPLE:
        raise Fault(f"no instruction {name}")
    return _SIMPLE[name](*values)


def _check_number(name: str, last: str) -> None:
    """A number has a place in the instruction."""
    if last.startswith("#"):
        maximum, minimum = (31, 1) if name in ("asr", "lsl") else (_FARTHEST, 0)
        if name not in ("add", "sub", "asr", "lsl") or not minimum <= int(last[1:]) <= maximum:
            raise Fault(f"{name} takes no {last}")


# --- memory ---------------------------------------------------------------------------------------------------


def _load_several(state: _State, rest: str) -> None:
    """LDM with its pointer moved: registers are filled in the order of their numbers, so the temporaries must be named
    in that order."""
    pointer, listed = rest.removesuffix("}").split("!, {")
    names = listed.split(", ")
    numbers = [int(name.removeprefix("%[t")[:-1]) for name in names]
    at = state.registers[pointer]
    if numbers != sorted(set(numbers)) or at % 4:
        raise Fault(f"ldmia {rest} at address {at}")
    state.memory.check(at, 4 * len(names))
    for k, name in enumerate(names):
        state.set(name, struct.unpack_from("<i", state.memory.data, at + 4 * k)[0])
    state.set(pointer, at + 4 * len(names))


def _access(state: _State, name: str, rest: str) -> None:
    match = _ADDRESS.fullmatch(rest)
    if match is None:
        raise Fault(f"no address in {rest}")
    first, second, pointer, offset, index, shift, move = match.groups()
    ahead, by, pair = int(offset or 0), int(move or 0), name.endswith("rd")
    _check_reach(name, ahead, by, pair)
    if index is not None and (pair or by):
        raise Fault(f"{name} adds no register to an address, or does not move its pointer then")
    added = ahead if index is None else state.registers[index] << int(shift or 0)
    at, size = state.registers[pointer] + added, _STORES["str" + name[3:].removeprefix("s")]
    if pair != (second is not None) or (pair and (at % 4 or (name == "ldrd" and first == second))):
        raise Fault(f"{name} {rest} at address {at}")
    for k, register in enumerate(r for r in (first, second) if r):
        place = at + size * k
        state.memory.check(place, size)
        if name in _LOADS:
            state.set(register, struct.unpack_from(_LOADS[name], state.memory.data, place)[0])
        else:
            value = state.registers[register] & ((1 << 8 * size) - 1)
            state.memory.data[place : place + size] = value.to_bytes(size, "little")
    if by:
        state.set(pointer, state.registers[pointer] + by)


def _check_reach(name: str, ahead: int, by: int, pair: bool) -> None:
    far = abs(ahead) <= _PAIR and ahead % 4 == 0 if pair else -_BACK <= ahead <= _FARTHEST
    moved = abs(by) <= _PAIR and by % 4 == 0 if pair else abs(by) <= _BACK
    if not far or not moved or (ahead and by):
        raise Fault(f"{name} does not reach {ahead}, or moves its pointer by {by}")
