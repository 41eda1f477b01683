"""The offset allocation problem: blocks with lifetimes that must not share bytes while both are live."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Block", "Placement", "aligned", "live_profile", "lower_bound", "overlaps"]


@dataclass(frozen=True, slots=True)
class Block:
    """``size`` bytes live from step ``first`` to step ``last`` (both inclusive), at a multiple of ``align``;
    ``fixed`` is its offset where that is given."""

    name: str
    size: int
    first: int
    last: int
    align: int = 1
    fixed: int | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """Offsets in bytes by block name, the bytes they span, and the bytes no placement can go below."""

    offsets: Mapping[str, int]
    peak: int
    lower_bound: int

    @property
    def optimal(self) -> bool:
        """Whether the placement is proved to be the smallest."""
        return self.peak == self.lower_bound


def aligned(offset: int, align: int) -> int:
    """``offset`` rounded up to a multiple of ``align``."""
    return -(-offset // align) * align


def live_profile(blocks: Iterable[Block]) -> list[tuple[int, list[Block]]]:
    """The blocks live at each step where one is born: ``(step, blocks)`` in order of steps.

    The largest live set is among these, since a set only grows at a birth.
    """
    held = [b for b in blocks if b.size > 0]
    births = sorted({b.first for b in held})
    return [(step, [b for b in held if b.first <= step <= b.last]) for step in births]


def lower_bound(blocks: Sequence[Block]) -> int:
    """The largest live set in bytes, counting the padding that no stacking of that set can avoid.

    Of the blocks of a live set stacked in any order, every one but the topmost reaches up to a multiple of
    the smallest alignment among them.
    """
    best = max((b.fixed + b.size for b in blocks if b.fixed is not None), default=0)
    for _, live in live_profile(blocks):
        step = min(b.align for b in live)
        padded = [aligned(b.size, step) for b in live]
        slack = max(p - b.size for p, b in zip(padded, live, strict=True))
        best = max(best, sum(padded) - slack)
    return best


def overlaps(blocks: Sequence[Block], offsets: Mapping[str, int]) -> list[tuple[str, str]]:
    """Pairs of blocks that share bytes while both are live; a block with itself where it is misplaced."""
    found = []
    for k, a in enumerate(blocks):
        at = offsets[a.name]
        if at < 0 or at % a.align or (a.fixed is not None and at != a.fixed):
            found.append((a.name, a.name))
        for b in blocks[:k]:
            other = offsets[b.name]
            live = a.first <= b.last and b.first <= a.last
            if live and at < other + b.size and other < at + a.size:
                found.append((b.name, a.name))
    return found
