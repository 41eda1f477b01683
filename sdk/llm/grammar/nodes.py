"""What grammars are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sdk.errors import UsageError

__all__ = ["ANY", "Call", "Chars", "Either", "Node", "Ranges", "Repeat", "Rules", "Run", "refuse", "text", "without"]

Ranges = tuple[tuple[int, int], ...]  # code points, first and last, in rising order


@dataclass(frozen=True)
class Chars:
    """One character of a set."""

    ranges: Ranges


@dataclass(frozen=True)
class Run:
    """Parts one after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Either:
    """One of several parts; of none, there is no such text."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    """A part ``minimum`` to ``maximum`` times, or any number of times from there on."""

    part: Node
    minimum: int = 0
    maximum: int | None = None


@dataclass(frozen=True)
class Call:
    """What a rule stands for."""

    name: str


Node = Chars | Run | Either | Repeat | Call


@dataclass(frozen=True)
class Rules:
    """A grammar: rules by name, and the one that a text is."""

    rules: Mapping[str, Node]
    root: str = "root"


ANY: Final = Chars(((0, 0xD7FF), (0xE000, 0x10FFFF)))  # surrogates are no characters


def text(value: str) -> Node:
    """A text that stands for itself."""
    return Run(tuple(Chars(((ord(char), ord(char)),)) for char in value))


def without(excluded: Iterable[tuple[int, int]]) -> Chars:
    """All characters but some ranges of them."""
    kept: list[tuple[int, int]] = []
    for low, high in ANY.ranges:
        at = low
        for first, last in sorted(excluded):
            if last < at or first > high:
                continue
            if first > at:
                kept.append((at, first - 1))
            at = last + 1
        if at <= high:
            kept.append((at, high))
    return Chars(tuple(kept))


def refuse(what: str, *, where: str, why: str | None = None, hint: str | None = None) -> UsageError:
    """The error for a grammar or schema that cannot be followed."""
    return UsageError(f"{what}", where=where, why=why, hint=hint or "sdk help llm tells what grammars can say")
