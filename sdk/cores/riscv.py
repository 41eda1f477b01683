"""Kinds of RV32IMC instructions (RISC-V ISA manual, volume I, chapters 24 and 34: opcodes of the base and of "C")."""

from __future__ import annotations

from typing import Final

from sdk.cores.kinds import Instruction, Kind

__all__ = ["decode_riscv"]

# by quadrant and funct3, of instructions of two bytes
_COMPRESSED: Final[dict[tuple[int, int], Kind]] = {
    (0, 0): "alu",
    (0, 2): "load",
    (0, 6): "store",
    (1, 0): "alu",
    (1, 1): "call",
    (1, 2): "alu",
    (1, 3): "alu",
    (1, 4): "alu",
    (1, 5): "branch",
    (1, 6): "branch",
    (1, 7): "branch",
    (2, 0): "alu",
    (2, 2): "load",
    (2, 6): "store",
}
# by major opcode, of instructions of four bytes
_BASE: Final[dict[int, Kind]] = {
    0x03: "load",
    0x0F: "nop",
    0x13: "alu",
    0x17: "alu",
    0x23: "store",
    0x33: "alu",
    0x37: "alu",
    0x63: "branch",
    0x73: "nop",
}


def decode_riscv(code: bytes, at: int) -> Instruction:
    """The instruction at offset ``at``; "other" for what RV32IMC has not."""
    word = int.from_bytes(code[at : at + 4], "little")
    if word & 3 != 3:
        return Instruction(_compressed(word & 0xFFFF), 2)
    return Instruction(_base(word), 4)


def _compressed(word: int) -> Kind:
    quadrant, funct = word & 3, word >> 13 & 7
    if (quadrant, funct) != (2, 4):
        return _COMPRESSED.get((quadrant, funct), "other")
    links, first, second = word >> 12 & 1, word >> 7 & 31, word >> 2 & 31
    if second or not first:
        return "alu" if second else "other"  # moves and sums; a breakpoint
    return "call" if links else "jump"


def _base(word: int) -> Kind:
    opcode, target, funct = word & 0x7F, word >> 7 & 31, word >> 12 & 7
    if opcode == 0x6F:
        return "call" if target else "branch"
    if opcode == 0x67:
        return "call" if target else "jump"
    if opcode == 0x33 and word >> 25 == 1:
        return "div" if funct >= 4 else "mul_long" if funct else "mul"
    return _BASE.get(opcode, "other")
