"""The table of cores: what the rules know of an instruction set, chosen by capabilities alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

__all__ = ["CORES", "FLOAT_CORES", "SCALAR_FLOATS", "Core", "FloatCore", "core_for"]


@dataclass(frozen=True, slots=True)
class FloatCore:
    """Vectors of floats: ``lanes`` of 32 bits in a register, ``registers`` of them, and whether a product is added
    in one instruction (``fma``)."""

    name: str
    needs: frozenset[str]
    lanes: int
    registers: int
    fma: bool


# first match wins: the widest vectors a core has
FLOAT_CORES: Final = (
    FloatCore("avx512f", frozenset({"avx512f"}), 16, 32, True),
    FloatCore("avx2fma", frozenset({"avx2", "fma"}), 8, 16, True),
    FloatCore("neon", frozenset({"neon"}), 4, 32, True),
    FloatCore("sse2", frozenset({"sse2"}), 4, 16, False),
)
SCALAR_FLOATS: Final = FloatCore("scalar", frozenset(), 1, 16, False)


@dataclass(frozen=True, slots=True)
class Core:
    """What the rules need to know of a core. ``lanes`` = 32-bit lanes of a vector (1 = none); ``dot`` = 8-bit
    products per 32-bit lane of its dot instruction (1 = none); ``unsigned`` = its first operand is unsigned.
    ``floats`` is what it does with floats."""

    name: str
    needs: frozenset[str]
    lanes: int
    dot: int
    unsigned: bool
    tile_rows: int
    tile_cols: int
    floats: FloatCore = SCALAR_FLOATS


# first match wins: the widest instructions a core has
CORES: Final = (
    Core("avx512vnni", frozenset({"avx512vnni", "avx512bw", "avx512vl"}), 16, 4, True, 4, 2),
    Core("avxvnni", frozenset({"avxvnni", "avx2"}), 8, 4, True, 3, 2),
    Core("avx2", frozenset({"avx2"}), 8, 1, False, 2, 2),
    Core("dsp", frozenset({"dsp"}), 1, 4, False, 2, 2),
    Core("scalar", frozenset(), 1, 1, False, 1, 1),
)


def core_for(capabilities: Iterable[str]) -> Core:
    """The row of ``CORES`` for a set of capabilities, with that of ``FLOAT_CORES``."""
    have = frozenset(capabilities)
    core = next(core for core in CORES if core.needs <= have)
    floats = next((row for row in FLOAT_CORES if row.needs <= have), SCALAR_FLOATS)
    return replace(core, floats=floats)
