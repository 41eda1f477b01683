"""Candidate schedules of a nest beside the one that its rule makes: data, the space that a tuner searches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from sdk.compiler.ir.pattern import Kind

__all__ = ["CANDIDATES", "DEFAULT", "Choice", "Variant", "candidates_for"]

Variant = Literal["rows", "joined", "columns"]


@dataclass(frozen=True, slots=True)
class Choice:
    """What a rule is to do otherwise than by itself; None leaves a choice to the rule.

    ``rows`` by ``cols`` are the pixels and channels of a tile in registers; ``variant`` is the structure of the kernel
    and of its weights.
    """

    rows: int | None = None
    cols: int | None = None
    variant: Variant | None = None

    def __str__(self) -> str:
        """The choices by name, "default" where there are none."""
        made = ((name, getattr(self, name)) for name in ("variant", "rows", "cols"))
        return " ".join(f"{name}={value}" for name, value in made if value is not None) or "default"


DEFAULT: Final = Choice()  # what a rule does by itself

# by name of a core and kind of a nest, after DEFAULT: those that were the best of some layer that was counted in all
CANDIDATES: Final[Mapping[str, Mapping[Kind, tuple[Choice, ...]]]] = {
    "dsp": {
        "contraction": (Choice(rows=1), Choice(variant="joined"), Choice(variant="rows")),
        "window": (Choice(rows=5), Choice(rows=6), Choice(variant="columns")),
    },
    "rvm": {"contraction": (Choice(rows=2), Choice(cols=2), Choice(rows=4, cols=2))},
    "thumb2": {"contraction": (Choice(rows=1, cols=4), Choice(rows=2)), "window": (Choice(rows=3),)},
}


def candidates_for(core: str, kind: Kind) -> tuple[Choice, ...]:
    """The candidates for a kind of nest on the core of a name, ``DEFAULT`` first."""
    return (DEFAULT, *CANDIDATES.get(core, {}).get(kind, ()))
