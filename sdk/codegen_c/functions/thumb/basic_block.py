"""A basic block before it has registers: values, and the order in which they are computed and written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sdk.compiler.ir.loops import ValueExpr

__all__ = ["Access", "BasicBlock", "Item", "LiveIn", "Node", "Read", "Step", "Width", "Write"]

Width = Literal["", "b", "sb", "h", "sh"]  # what LDR and STR call bytes and halves, signed where they have no sign


@dataclass(frozen=True, slots=True)
class Access:
    """``offset`` bytes behind an induction pointer, after ``place`` of its strides; ``whole``: an address that is a
    multiple of 4."""

    pointer: int
    offset: int
    width: Width
    whole: bool
    place: int = 0


@dataclass(frozen=True, slots=True)
class LiveIn:
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


Node = LiveIn | Read | Step


@dataclass(frozen=True, slots=True)
class Write:
    """Stores a value."""

    access: Access
    value: Node


Item = Step | Write


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """``items`` in order; ``results``: what variables hold at the end."""

    items: tuple[Item, ...]
    results: dict[str, Step] = field(default_factory=dict)

    @property
    def live_ins(self) -> tuple[LiveIn, ...]:
        """The values from before, each once."""
        found: dict[LiveIn, None] = {}
        for item in self.items:
            args = item.args if isinstance(item, Step) else (item.value,)
            found.update(dict.fromkeys(a for a in args if isinstance(a, LiveIn)))
        return tuple(found)
