"""The table of cores: what the rules know of an instruction set, chosen by capabilities alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from sdk.compiler.schedules.rules.candidates import DEFAULT, Choice

__all__ = ["CORES", "FLOAT_CORES", "FLOAT_UNITS", "SCALAR_FLOATS", "Core", "FloatCore", "core_for"]


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
    FloatCore("mve", frozenset({"mve-fp"}), 4, 8, True),
    FloatCore("sse2", frozenset({"sse2"}), 4, 16, False),
)
# units for one float at a time; those without doubles add a product in one instruction no faster than in two
FLOAT_UNITS: Final = (
    FloatCore("fpu-dp", frozenset({"fpu-dp"}), 1, 32, True),
    FloatCore("fpu-sp", frozenset({"fpu-sp"}), 1, 32, False),
)
SCALAR_FLOATS: Final = FloatCore("scalar", frozenset(), 1, 16, False)


@dataclass(frozen=True, slots=True)
class Core:
    """What the rules need to know of a core. ``lanes`` = 32-bit lanes of a vector (1 = none); ``dot`` = 8-bit
    products per 32-bit lane of its dot instruction (1 = none); ``unsigned`` = its first operand is unsigned;
    ``across`` = it adds all ``dot`` products of a vector to one sum; ``steps`` = how many products of a sum are written
    out where ``dot`` is 1; ``paired`` = few registers: it multiplies by two channels' weights in one word.
    ``compact``: layers are to have the same code where they can, not what is fastest for each of them.
    ``floats`` is what it does with floats; ``choice`` is what rules are to do otherwise than
    by themselves."""

    name: str
    needs: frozenset[str]
    lanes: int
    dot: int
    unsigned: bool
    tile_rows: int
    tile_cols: int
    across: bool = False
    steps: int = 1
    paired: bool = False
    compact: bool = False
    floats: FloatCore = SCALAR_FLOATS
    choice: Choice = DEFAULT

    def choosing(self, choice: Choice) -> Core:
        """The core for rules that are to make this choice."""
        rows, cols = choice.rows or self.tile_rows, choice.cols or self.tile_cols
        return replace(self, tile_rows=rows, tile_cols=cols, choice=choice)


# first match wins: the widest instructions a core has
CORES: Final = (
    Core("avx512vnni", frozenset({"avx512vnni", "avx512bw", "avx512vl"}), 16, 4, True, 4, 2),
    Core("avxvnni", frozenset({"avxvnni", "avx2"}), 8, 4, True, 3, 2),
    Core("avx2", frozenset({"avx2"}), 8, 1, False, 2, 2),
    Core("mve", frozenset({"mve"}), 4, 16, False, 2, 2, across=True),
    Core("dsp", frozenset({"dsp"}), 1, 4, False, 2, 2),
    Core("rvm", frozenset({"rvm"}), 1, 1, False, 3, 4),
    Core("thumb2", frozenset({"thumb2"}), 1, 1, False, 3, 2, steps=2),
    Core("thumb", frozenset({"thumb"}), 1, 1, False, 1, 2, steps=8, paired=True),
    Core("scalar", frozenset(), 1, 1, False, 1, 1),
)


def core_for(capabilities: Iterable[str]) -> Core:
    """The row of ``CORES`` for a set of capabilities, with that of ``FLOAT_CORES``."""
    have = frozenset(capabilities)
    core = next(core for core in CORES if core.needs <= have)
    floats = next((row for row in (*FLOAT_CORES, *FLOAT_UNITS) if row.needs <= have), SCALAR_FLOATS)
    return replace(core, floats=floats)
