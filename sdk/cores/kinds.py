"""Kinds of instructions that differ in what they take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Instruction", "Kind"]

Kind = Literal[
    "alu", "mul", "mla", "dsp", "mul_long", "div",
    "load", "load_many", "store", "store_many",
    "branch", "call", "jump", "loop", "table", "it", "nop",
    "fp", "fp_mla", "fp_div", "fp_move", "fp_load", "fp_store",
    "vector", "vector_load", "vector_store",
    "other",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of ``size`` bytes; ``words`` are the registers that a load or store moves."""

    kind: Kind
    size: int
    words: int = 1
