"""What is wrong with offsets, found by comparing all pairs of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sdk.compiler.memory.problem import Block, Separation


def overlaps(blocks: Sequence[Block], offsets: Mapping[str, int]) -> list[tuple[str, str]]:
    """Pairs of blocks that share bytes while both are live; a block with itself where it is misplaced."""
    found = _misplaced(blocks, offsets)
    for k, a in enumerate(blocks):
        at = offsets[a.name]
        for b in blocks[:k]:
            other = offsets[b.name]
            live = a.first <= b.last and b.first <= a.last
            if live and at < other + b.size and other < at + a.size:
                found.append((b.name, a.name))
    return found


def violated(
    blocks: Sequence[Block], separations: Sequence[Separation], offsets: Mapping[str, int]
) -> list[tuple[str, str]]:
    """Pairs of blocks whose offsets break a relation; a block with itself where it is misplaced."""
    found = _misplaced(blocks, offsets)
    return found + [(r.a, r.b) for r in separations if r.low < offsets[r.b] - offsets[r.a] < r.high]


def _misplaced(blocks: Sequence[Block], offsets: Mapping[str, int]) -> list[tuple[str, str]]:
    """Each block below the arena, off its alignment or away from where it is fixed, with itself."""
    out = []
    for b in blocks:
        at = offsets[b.name]
        if at < 0 or at % b.align or (b.fixed is not None and at != b.fixed):
            out.append((b.name, b.name))
    return out
