"""Estimated cycles of machine code by the public table of a core, which is a file of ``boards/cpu``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, get_args

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


@dataclass(frozen=True)
class Timing:
    """Cycles of one core. ``cycles`` by kind; of the kinds that may move several words each takes ``word`` more.

    ``after_memory``: of a load or store right behind another. ``taken``: what a branch that is taken takes more.
    ``issue``: instructions at once at most, where their units differ. ``overlap``: cycles that a vector instruction
    saves behind one of another unit. ``peak_macs`` of 8 bits and ``peak_bytes`` between registers and memory are the
    most in a cycle. ``scale``: by what all of it is multiplied, where published results say that the table alone is too
    quick. ``error``: how much less and more such results take, as fractions (None: nothing to compare with).
    ``source`` says where the numbers are from, ``leaves_out`` what no table tells.
    """

    cpu: str
    cycles: Mapping[Kind, float]
    word: float
    after_memory: float
    taken: float
    issue: int
    overlap: float
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
        cost = self.cycles[one.kind] + many
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
    kinds: tuple[Kind, ...] = get_args(Kind)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        scale, between = float(data.get("scale", 1.0)), data.get("error")
        given = {str(k): float(v) for k, v in data["cycles"].items()}
        unknown = set(given) - set(kinds)
        if unknown:
            raise ValueError(f"there is no kind {', '.join(sorted(unknown))}")
        return Timing(
            cpu=cpu,
            cycles={kind: given.get(kind, 1.0) for kind in kinds},
            word=float(data["word"]),
            after_memory=float(data["after_memory"]),
            taken=float(data["taken"]) * scale,
            issue=int(data.get("issue", 1)),
            overlap=float(data.get("overlap", 0.0)),
            peak_macs=float(data["peak_macs"]),
            peak_bytes=float(data["peak_bytes"]),
            source=str(data["source"]),
            leaves_out=str(data["leaves_out"]),
            scale=scale,
            error=None if between is None else (float(between[0]), float(between[1])),
        )
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise BuildError("not a table of cycles", where=str(path), why=str(error)) from None
