"""Estimated cycles of machine code by the public table of a core, which is a file of ``boards/cpu``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from sdk.cores.kinds import Instruction, Kind
from sdk.errors import BuildError
from sdk.resources import data_dir

__all__ = ["Timing", "timing_for"]

# What each kind keeps busy: of two instructions that a core issues at once, the units differ, or are "any".
_UNITS: Final[Mapping[str, str]] = {
    "alu": "any", "nop": "any", "it": "any", "loop": "branch",
    "mul": "mac", "mla": "mac", "dsp": "mac", "mul_long": "mac", "div": "mac",
    "load": "memory", "store": "memory", "load_many": "memory", "store_many": "memory",
    "fp_load": "memory", "fp_store": "memory", "vector_load": "vector memory", "vector_store": "vector memory",
    "branch": "branch", "call": "branch", "jump": "branch", "table": "branch",
    "fp": "fp", "fp_mla": "fp", "fp_div": "fp", "fp_move": "fp", "vector": "vector", "other": "branch",
}  # fmt: skip
_BY_WORDS: Final = ("load_many", "store_many", "fp_load", "fp_store")


class Timing(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Cycles of one core. ``cycles`` by kind, 1 of the others; of the kinds that may move several words each takes
    ``word`` more.

    ``after_memory``: of a load or store right behind another. ``taken``: what a branch that is taken takes more.
    ``issue``: instructions at once at most, where their units differ. ``overlap``: cycles that a vector instruction
    saves behind one of another unit. ``peak_macs`` of 8 bits and ``peak_bytes`` between registers and memory are the
    most in a cycle. ``scale``: by what all of it is multiplied, where published results say that the table alone is too
    quick. ``error``: how much less and more such results take, as fractions (None: nothing to compare with).
    ``source`` says where the numbers are from, ``leaves_out`` what no table tells.
    """

    cycles: dict[Kind, float]
    word: float
    after_memory: float
    taken: float
    issue: int = 1
    overlap: float = 0.0
    peak_macs: float
    peak_bytes: float
    source: str
    leaves_out: str
    scale: float = 1.0
    error: tuple[float, float] | None = None

    def block(self, code: Sequence[Instruction]) -> float:
        """Cycles of instructions that run one after the other, the last one not jumping."""
        total, previous, paired = 0.0, "", True
        for one in code:
            unit = _UNITS[one.kind]
            cost = self._one(one, unit == previous == "memory")
            if not paired and self._together(previous, unit):
                cost, paired = max(0.0, cost - 1.0), True  # it shares the cycle of the one before
            else:
                paired = self.issue < 2
            vectors = {unit, previous} == {"vector", "vector memory"}
            total += cost - (self.overlap if vectors else 0.0)
            previous = unit
        return total * self.scale

    def _one(self, one: Instruction, behind: bool) -> float:
        many = self.word * one.words if one.kind in _BY_WORDS else 0.0
        cost = self.cycles.get(one.kind, 1.0) + many
        return min(cost, self.after_memory) if behind and one.words == 1 else cost

    @staticmethod
    def _together(first: str, second: str) -> bool:
        return first != second or first == "any"


@lru_cache(maxsize=64)
def timing_for(cpu: str) -> Timing | None:
    """The table of a core by the compiler's name for it; None where there is none.

    Raises:
        BuildError: the file is not such a table.
    """
    path = data_dir("boards") / "cpu" / f"{cpu}.toml"
    if not path.is_file():
        return None
    try:
        found = msgspec.toml.decode(path.read_bytes(), type=Timing)
    except (msgspec.DecodeError, ValueError) as error:
        raise BuildError("not a table of cycles", where=str(path), why=str(error)) from None
    return msgspec.structs.replace(found, taken=found.taken * found.scale)
