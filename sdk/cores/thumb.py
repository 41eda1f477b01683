"""Kinds of Thumb instructions, DSP, floating point and vectors of Armv8.1-M included (Arm v8-M ARM, DDI 0553, C2)."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Final

from sdk.cores.kinds import Instruction, Kind

__all__ = ["decode_thumb"]

PC, LR_BIT = 15, 1 << 14

# (mask, value, kind): the first row that fits names the kind of a half word
_NARROW: Final[tuple[tuple[int, int, Kind], ...]] = (
    (0xFFC0, 0x4340, "mul"),
    (0xFF80, 0x4700, "jump"),  # BX
    (0xFF80, 0x4780, "call"),  # BLX
    (0xFF87, 0x4487, "jump"),  # ADD pc
    (0xFF87, 0x4687, "jump"),  # MOV pc
    (0xF800, 0x4800, "load"),  # literal
    (0xFE00, 0x5600, "load"),  # LDRSB
    (0xF800, 0x5800, "load"),
    (0xF800, 0x5000, "store"),
    (0xFE00, 0x5400, "store"),
    (0xFE00, 0x5C00, "load"),
    (0xFE00, 0x5E00, "load"),
    (0xE800, 0x6000, "store"),
    (0xE800, 0x6800, "load"),
    (0xF800, 0x8000, "store"),
    (0xF800, 0x8800, "load"),
    (0xF800, 0x9000, "store"),
    (0xF800, 0x9800, "load"),
    (0xF500, 0xB100, "branch"),  # CBZ, CBNZ
    (0xFE00, 0xB400, "store_many"),
    (0xFE00, 0xBC00, "load_many"),
    (0xFF0F, 0xBF00, "nop"),
    (0xFF00, 0xBF00, "it"),
    (0xF800, 0xC000, "store_many"),
    (0xF800, 0xC800, "load_many"),
    (0xFE00, 0xDE00, "other"),  # UDF, SVC
    (0xF000, 0xD000, "branch"),
    (0xF800, 0xE000, "branch"),
    (0x0000, 0x0000, "alu"),
)

# (mask, value, mask, value, kind) of the two half words
_WIDE: Final[tuple[tuple[int, int, int, int, Kind], ...]] = (
    (0xFFF0, 0xE8D0, 0xFFE0, 0xF000, "table"),  # TBB, TBH
    (0xFE40, 0xE840, 0x0000, 0x0000, "store"),  # doubles and exclusives: see _double
    (0xFE50, 0xE810, 0x0000, 0x0000, "load_many"),
    (0xFE50, 0xE800, 0x0000, 0x0000, "store_many"),
    (0xFE00, 0xEA00, 0x0000, 0x0000, "alu"),
    (0xFFE0, 0xEC40, 0x0E00, 0x0A00, "fp_move"),  # two registers at once
    (0xFE10, 0xEC10, 0x0E00, 0x0A00, "fp_load"),
    (0xFE10, 0xEC00, 0x0E00, 0x0A00, "fp_store"),
    (0xFE10, 0xEC10, 0x0000, 0x0000, "vector_load"),
    (0xFE10, 0xEC00, 0x0000, 0x0000, "vector_store"),
    (0xFF90, 0xEE80, 0x0F10, 0x0B10, "vector"),  # VDUP
    (0xFF00, 0xEE00, 0x0E10, 0x0A10, "fp_move"),
    (0xFFB0, 0xEE80, 0x0E50, 0x0A00, "fp_div"),
    (0xFFBF, 0xEEB1, 0x0ED0, 0x0AC0, "fp_div"),  # square root
    (0xFFA0, 0xEEA0, 0x0E10, 0x0A00, "fp"),  # split below: 0xB is no product
    (0xFFB0, 0xEE00, 0x0E10, 0x0A00, "fp_mla"),
    (0xFFB0, 0xEE10, 0x0E10, 0x0A00, "fp_mla"),
    (0xFFB0, 0xEE90, 0x0E10, 0x0A00, "fp_mla"),
    (0xFF00, 0xEE00, 0x0E00, 0x0A00, "fp"),
    (0xFF00, 0xFE00, 0x0E00, 0x0A00, "fp"),
    (0xFE10, 0xFC10, 0x0000, 0x0000, "vector_load"),  # gathers, interleaved
    (0xFE10, 0xFC00, 0x0000, 0x0000, "vector_store"),
    (0xEC00, 0xEC00, 0x0000, 0x0000, "vector"),
    (0xF800, 0xF000, 0xD000, 0xD000, "call"),
    (0xF800, 0xF000, 0xD000, 0x9000, "branch"),
    (0xFF80, 0xF000, 0xF001, 0xE001, "alu"),  # DLS
    (0xFF80, 0xF000, 0xD001, 0xC001, "loop"),  # LE, WLS
    (0xFB80, 0xF380, 0x8000, 0x8000, "nop"),  # hints, barriers, system registers
    (0xF800, 0xF000, 0xD000, 0x8000, "branch"),
    (0xF800, 0xF000, 0x8000, 0x0000, "alu"),
    (0xFE10, 0xF800, 0x0000, 0x0000, "store"),
    (0xFE10, 0xF810, 0x0000, 0x0000, "load"),
    (0xFF00, 0xFA00, 0x0000, 0x0000, "alu"),
    (0xFFF0, 0xFB00, 0xF0F0, 0xF000, "mul"),
    (0xFFF0, 0xFB00, 0x0000, 0x0000, "mla"),
    (0xFF80, 0xFB00, 0x0000, 0x0000, "dsp"),
    (0xFFD0, 0xFB90, 0x00F0, 0x00F0, "div"),
    (0xFF80, 0xFB80, 0x0000, 0x0000, "mul_long"),
)


def decode_thumb(code: bytes, at: int) -> Instruction:
    """The instruction at offset ``at``; "other" for what compilers do not use."""
    first = int.from_bytes(code[at : at + 2], "little")
    if first >> 11 < 0b11101:
        return _narrow(first)
    return _wide(first, int.from_bytes(code[at + 2 : at + 4], "little"))


@cache  # programs have few different ones
def _narrow(word: int) -> Instruction:
    kind = next(kind for mask, value, kind in _NARROW if word & mask == value)
    if kind in ("load_many", "store_many"):
        pushed = word & 0xF600 == 0xB400  # PUSH and POP: the ninth register is LR or PC
        return Instruction(kind, 2, (word & (0x1FF if pushed else 0xFF)).bit_count())
    return Instruction(kind, 2)


@lru_cache(1 << 16)
def _wide(first: int, second: int) -> Instruction:
    rows = (kind for m1, v1, m2, v2, kind in _WIDE if first & m1 == v1 and second & m2 == v2)
    kind: Kind = next(rows, "other")
    if first & 0xFE40 == 0xE840 and kind == "store":
        return _double(first)
    if kind in ("load_many", "store_many"):
        return Instruction(kind, 4, second.bit_count())
    if kind in ("fp_load", "fp_store"):
        single = first & 0xFF20 == 0xED00
        words = second >> 8 & 1 if single else (second & 0xFF) - 1
        return Instruction(kind, 4, words + 1)
    if kind == "fp" and first & 0xFFB0 == 0xEEA0:
        return Instruction("fp_mla", 4)
    if kind == "load" and second >> 12 == PC:
        return Instruction("jump" if first & 0x0060 == 0x0040 else "nop", 4)  # LDR pc, or a preload
    return Instruction(kind, 4)


def _double(first: int) -> Instruction:
    """LDRD and STRD have an index or write back; the others are exclusive accesses."""
    loads = bool(first & 0x0010)
    if first & 0x0120:
        return Instruction("load_many" if loads else "store_many", 4, 2)
    return Instruction("load" if loads else "store", 4)
