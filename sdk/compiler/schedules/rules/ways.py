"""The ways in which a nest may be scheduled on a core: as data, so that they can be built, priced and measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from sdk.compiler.ir.pattern import Kind

__all__ = ["FIRST", "WAYS", "Form", "Way", "ways_for"]

Form = Literal["rows", "joined", "columns"]


@dataclass(frozen=True, slots=True)
class Way:
    """What a rule is to do otherwise than by itself; None leaves a choice to the rule.

    ``rows`` by ``cols`` are the pixels and channels of a tile in registers; ``form`` is the structure of the kernel and
    of its weights.
    """

    rows: int | None = None
    cols: int | None = None
    form: Form | None = None

    def __str__(self) -> str:
        """The choices by name, "first" where there are none."""
        made = ((name, getattr(self, name)) for name in ("form", "rows", "cols"))
        return " ".join(f"{name}={value}" for name, value in made if value is not None) or "first"


FIRST: Final = Way()  # what a rule does by itself

# by name of a core and kind of a nest, in the order that ties are decided by, after FIRST: those that were the best of
# some layer that was counted in all of them
WAYS: Final[Mapping[str, Mapping[Kind, tuple[Way, ...]]]] = {
    "dsp": {
        "contraction": (Way(rows=1), Way(form="joined"), Way(form="rows")),
        "window": (Way(rows=5), Way(rows=6), Way(form="columns")),
    },
    "rvm": {"contraction": (Way(rows=2), Way(cols=2), Way(rows=4, cols=2))},
    "thumb2": {"contraction": (Way(rows=1, cols=4), Way(rows=2)), "window": (Way(rows=3),)},
}


def ways_for(core: str, kind: Kind) -> tuple[Way, ...]:
    """The ways of a kind of nest on the core of a name, ``FIRST`` first."""
    return (FIRST, *WAYS.get(core, {}).get(kind, ()))
