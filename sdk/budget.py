"""What a model may ask of the compiler: one table of limits with their units, and the count of what one build spent.

A file of a few hundred bytes can ask for 2**60 nodes, steps or bytes. The limits lie far above every model known to be
of use, so that they refuse only what would never end, and low enough that a refusal takes seconds and stays well
under 4 GB.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sdk.errors import BuildError

__all__ = [
    "AXIS_TABLE", "ENDINGS", "FOLDED", "GEOMETRY", "NESTING", "NODES", "RANK", "TENSOR", "TEXT_NESTING",
    "TRIPS", "WINDOW", "Budget", "Limit", "amount_text", "check_limit",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limit:
    """At most ``maximum`` ``unit``; ``why`` says what the number follows from, ``hint`` what to do about more."""

    unit: str
    maximum: int
    why: str
    hint: str


NODES: Final = Limit(
    "nodes once functions are inlined and loops unrolled", 100_000,
    "exported language models have under 40,000", "export the model without nested functions, or in parts",
)  # fmt: skip
TRIPS: Final = Limit(
    "passes of unrolled loops, all loops together", 16_384,
    "each pass becomes code of its own", "run one pass as a model and loop around it, or use an operator such as LSTM",
)  # fmt: skip
ENDINGS: Final = Limit(
    "passes of loops that data may end, all loops together", 1024,
    "all of them are computed, whenever the loop ends",
    "let it end after fewer, or loop around one pass in your program",
)  # fmt: skip
NESTING: Final = Limit(
    "levels of functions and sub-graphs inside one another", 32,
    "exporters nest fewer than 10", "export the model with its functions inlined; one that calls itself never ends",
)  # fmt: skip
TEXT_NESTING: Final = Limit(
    "brackets or operations inside one another", 100,
    "programs as they are printed nest fewer than 30", "give parts of it names of their own",
)  # fmt: skip
FOLDED: Final = Limit(
    "bytes of constants computed while the model is built", 1 << 30,
    "what is computed from constants is kept in memory until the build ends",
    "make it an input of the model, or store the result in the file",
)  # fmt: skip
AXIS_TABLE: Final = Limit(
    "places in a table of positions along an axis", 1 << 24,
    "images and signals have under 100,000 along an axis", "resize or gather to fewer elements",
)  # fmt: skip
TENSOR: Final = Limit(
    "elements of a tensor", 1 << 40,
    "generated code indexes 2**31 bytes of memory", "use smaller sizes, or give smaller bounds with --dim",
)  # fmt: skip
WINDOW: Final = Limit(
    "of a kernel, stride, dilation or border", 1 << 24,
    "positions are computed in 32 bits", "pool or pad in several steps",
)  # fmt: skip
GEOMETRY: Final = Limit(
    "of a size, place or axis", (1 << 31) - 1,
    "generated code indexes with 32 bits", "use smaller sizes",
)  # fmt: skip
RANK: Final = Limit(
    "axes of a tensor", 32,
    "models have under 9", "merge axes with a Reshape",
)  # fmt: skip


def check_limit(limit: Limit, amount: int, what: str) -> None:
    """Refuses ``what`` where its ``amount`` is above the limit.

    Raises:
        BuildError: names what, the amount, the limit and what to do.
    """
    if amount > limit.maximum:
        raise BuildError(
            f"{what} asks for {amount_text(amount)} {limit.unit}, at most {amount_text(limit.maximum)} are allowed",
            why=limit.why,
            hint=limit.hint,
        )


def amount_text(amount: int) -> str:
    """A number for people; one of many digits as a power of two."""
    return str(amount) if abs(amount) < 1 << 64 else f"about 2**{amount.bit_length() - 1}"


@dataclass
class Budget:
    """What one build has used up of the limits that count in total."""

    spent: dict[Limit, int] = field(default_factory=dict)

    def spend(self, limit: Limit, amount: int, what: str) -> None:
        """Takes ``amount`` of what is left, before it is used.

        Raises:
            BuildError: there is not so much left; ``what`` is named.
        """
        total = self.spent.get(limit, 0) + max(amount, 0)
        check_limit(limit, total, what)
        self.spent[limit] = total

    def foresee(self, before: Mapping[Limit, int], times: int, what: str) -> None:
        """Refuses ``what`` when the first of ``times`` passes shows that all of them are too much; ``before`` is what
        was spent ahead of it.

        Raises:
            BuildError: the passes to come will exceed a limit.
        """
        for limit, total in self.spent.items():
            held = before.get(limit, 0)
            check_limit(limit, held + (total - held) * times, what)

    def affords(self, limit: Limit, amount: int) -> bool:
        """Takes ``amount`` of what is left where there is so much; whether there was."""
        total = self.spent.get(limit, 0) + max(amount, 0)
        if total <= limit.maximum:
            self.spent[limit] = total
        return total <= limit.maximum
