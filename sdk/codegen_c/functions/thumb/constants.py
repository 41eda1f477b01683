"""Constants that every iteration of a loop multiplies or adds, read by its assembly before the first one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sdk.codegen_c.functions.thumb.basic_block import LiveIn
from sdk.codegen_c.functions.thumb.instruction_selection import Memory
from sdk.compiler.ir.loops import Load
from sdk.compiler.sym import Dim

__all__ = ["ConstantReads", "constant_reads"]

_PAIR: Final = 1020  # bytes that LDRD reaches
_WORD: Final = 4


@dataclass(frozen=True, slots=True)
class ConstantReads:
    """``lines`` fill the operands ``filled``, and those of ``pointers``, which hold addresses before: so many bytes
    behind the start of a buffer."""

    lines: tuple[str, ...]
    filled: tuple[str, ...]
    pointers: Mapping[str, tuple[str, Dim]]


def constant_reads(live_ins: Mapping[LiveIn, str], place: Callable[[Load], Memory | None]) -> ConstantReads:
    """The reads of those of ``live_ins`` (by their operands) that are constant words near each other. The register of
    the one that is read last holds the address until then, so that no other is needed."""
    lines: list[str] = []
    filled: list[str] = []
    pointers: dict[str, tuple[str, Dim]] = {}
    for buffer, start, near in _groups(live_ins, place):
        *others, last = [operand for _, operand, _ in near]
        pointers[last] = buffer, start
        filled += others
        lines += _lines(near, last)
    return ConstantReads(tuple(lines), tuple(filled), pointers)


_Word = tuple[int, str, bool]  # bytes behind the first of its group, operand, whether the address is a multiple of 4


def _groups(
    live_ins: Mapping[LiveIn, str], place: Callable[[Load], Memory | None]
) -> Iterable[tuple[str, Dim, list[_Word]]]:
    """Words of a buffer that are known distances apart, two or more, the first first."""
    found: dict[str, list[tuple[Dim, str, bool]]] = {}
    for live_in, operand in live_ins.items():
        load = live_in.value
        if live_in.variable or not isinstance(load, Load) or load.dtype.nbytes != _WORD:
            continue
        memory = place(load)
        if memory is not None and memory.constant:
            found.setdefault(memory.buffer, []).append((memory.offset, operand, memory.whole))
    for buffer, words in found.items():
        apart = [(offset - words[0][0], operand, whole) for offset, operand, whole in words]
        near = sorted((at, operand, whole) for at, operand, whole in apart if isinstance(at, int))
        if len(near) == len(words) > 1 and near[-1][0] - near[0][0] <= _PAIR:
            first = near[0][0]
            yield buffer, words[0][0] + first, [(at - first, operand, whole) for at, operand, whole in near]


def _lines(near: list[_Word], pointer: str) -> Iterable[str]:
    """The words in order, two at a time where they are neighbours."""
    left = list(near)
    while left:
        (at, operand, whole), *rest = left
        if whole and rest and rest[0][0] == at + _WORD:
            yield f"ldrd %[{operand}], %[{rest[0][1]}], {_address(pointer, at)}"
            left = rest[1:]
        else:
            yield f"ldr %[{operand}], {_address(pointer, at)}"
            left = rest


def _address(pointer: str, at: int) -> str:
    return f"[%[{pointer}]{f', #{at}' if at else ''}]"
