"""A nest as rules see it: its pattern, what is known of its constants, and what is to be made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from numpy.typing import NDArray

from sdk.compiler.analysis.pattern import Contraction, Kind, Pattern, classify
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.types import F32, I8, I16
from sdk.compiler.sym import max_value, product

__all__ = ["DEFAULT", "Choice", "Factors", "Known", "Nest", "Variant"]

Variant = Literal["rows", "joined", "columns"]
# what is multiplied: bytes (by what is as wide), halves of words by bytes, floats
Factors = Literal["bytes", "halves", "floats"]
Known = Mapping[str, Sequence[NDArray[Any]]]


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


@dataclass(frozen=True)
class Nest:
    """The loops and what is known where they are called: ``packable`` are the parameters that are constants at every
    call (None: all), ``even`` those of them that are int8 and never -128, ``known`` what they hold. ``quantised``: it
    is a product with weights in groups by what ``quantize_groups`` makes for these at every call. ``threads`` may share
    a call; with ``compact`` layers are to have the same code where they can, not what is fastest for each. ``similar``:
    another function of the module differs from it in numbers alone, so that the two may share a kernel."""

    loops: Loops
    packable: frozenset[str] | None = None
    threads: int = 1
    even: frozenset[str] = frozenset()
    known: Known | None = None
    quantised: bool = False
    compact: bool = False
    similar: bool = False
    choice: Choice = DEFAULT

    @cached_property
    def pattern(self) -> Pattern:
        """What its index maps say that it is."""
        return classify(self.loops)

    @property
    def kind(self) -> Kind:
        """The kind of its pattern."""
        return self.pattern.kind

    @property
    def part(self) -> Contraction:
        """The product that it is; only where ``factors`` is not None."""
        assert self.pattern.product is not None
        return self.pattern.product

    @cached_property
    def factors(self) -> Factors | None:
        """What its product multiplies; None where it is no product, or one of other types."""
        part = self.pattern.product
        if part is None:
            return None
        a, b = (self.loops.param(name).buffer.dtype for name in (part.a, part.b))
        if b == F32:
            return "floats"
        if a.bits == 8:
            return "bytes"
        return "halves" if (a, b) == (I16, I8) else None

    @cached_property
    def work(self) -> int:
        """Multiply-accumulates at the largest dims."""
        return max_value(product(tuple(loop.var.hi + 1 for loop in (*self.part.spatial, *self.part.reduce)))) or 0

    def is_product(self, kind: Kind, factors: Factors, minimum: int) -> bool:
        """Whether it is a product of a kind with so many multiply-accumulates at least."""
        return self.kind == kind and self.factors == factors and self.work >= minimum

    def constant(self, param: str) -> bool:
        """Whether a parameter is a constant at every call."""
        return self.packable is None or param in self.packable
