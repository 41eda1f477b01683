"""Straight code before it has registers: values, and the order in which they are computed and written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sdk.compiler.ir.loops import ValueExpr

__all__ = ["Access", "Code", "Item", "Leaf", "Node", "Read", "Step", "Width", "Write"]

Width = Literal["", "b", "sb", "h", "sh"]  # how ldr and str spell bytes and halves, signed where they have no sign


@dataclass(frozen=True, slots=True)
class Access:
    """``offset`` bytes behind the pointer of a stream, after ``place`` of its strides; ``whole``: an address that is a
    multiple of 4."""

    stream: int
    offset: int
    width: Width
    whole: bool
    place: int = 0


@dataclass(frozen=True, slots=True)
class Leaf:
    """What is there before: a variable of the C around that code changes, or else an expression of it; and what that
    means."""

    text: str
    variable: bool
    value: ValueExpr = field(compare=False)


@dataclass(frozen=True, slots=True)
class Read:
    """A value in memory."""

    access: Access


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One instruction, that is only equal to itself: ``{d}`` in its text is what it makes, ``{0}``, ``{1}`` … its
    arguments. The one called ``sum`` (-1: none) is best replaced by the result."""

    text: str
    args: tuple[Node, ...]
    sum: int = -1


Node = Leaf | Read | Step


@dataclass(frozen=True, slots=True)
class Write:
    """Stores a value."""

    access: Access
    value: Node


Item = Step | Write


@dataclass(frozen=True, slots=True)
class Code:
    """``items`` in order; ``results``: what variables hold at the end."""

    items: tuple[Item, ...]
    results: dict[str, Step] = field(default_factory=dict)

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The values from before, each once."""
        found: dict[Leaf, None] = {}
        for item in self.items:
            args = item.args if isinstance(item, Step) else (item.value,)
            found.update(dict.fromkeys(a for a in args if isinstance(a, Leaf)))
        return tuple(found)
