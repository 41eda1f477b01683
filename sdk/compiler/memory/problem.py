"""The offset allocation problem: blocks, what pairs of them may share bytes, and the bytes no placement goes below."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd

__all__ = [
    "Block",
    "Placement",
    "Separation",
    "aligned",
    "fixed_first",
    "live_profile",
    "lower_bound",
    "overlapping",
    "separations_by_lifetimes",
]


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
class Separation:
    """The offset of block ``b`` minus that of block ``a`` is never strictly between ``low`` and ``high``.

    Blocks that share no byte have ``-size(b)`` and ``size(a)``; an output written over the bytes of an input that
    are read already has ``low`` nearer to 0. With ``low < 0 < high`` one of the two is below the other.
    """

    a: str
    b: str
    low: int
    high: int


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


def fixed_first(blocks: Sequence[Block], placement: Placement) -> Placement:
    """The placement with each block as low as it can be on those that it puts below, blocks fixed at 0 first."""
    order = sorted(blocks, key=lambda b: (b.fixed is None, placement.offsets[b.name], b.first, b.name))
    offsets: dict[str, int] = {}
    for k, b in enumerate(order):
        below = (a for a in order[:k] if a.size and b.size and a.first <= b.last and b.first <= a.last)
        offsets[b.name] = max((aligned(offsets[a.name] + a.size, b.align) for a in below), default=0)
    return Placement(offsets, max((offsets[b.name] + b.size for b in blocks), default=0), placement.lower_bound)


def live_profile(blocks: Iterable[Block]) -> list[tuple[int, list[Block]]]:
    """The blocks live at each step where one is born: ``(step, blocks)`` in order of steps.

    The largest live set is among these, since a set only grows at a birth.
    """
    held = [b for b in blocks if b.size > 0]
    born: dict[int, list[Block]] = {}
    for b in held:
        born.setdefault(b.first, []).append(b)
    out = []
    live: list[Block] = []
    for step in sorted(born):
        live = [*(b for b in live if b.last >= step), *born[step]]
        out.append((step, live))
    return out


def overlapping(blocks: Sequence[Block], offsets: Mapping[str, int], align: int) -> int | None:
    """The most bytes that blocks live at a common step take, each rounded up to ``align``, where they share some; None
    where none ever do."""
    shared, maximum = False, 0
    for _, live in live_profile(blocks):
        ends = sorted((offsets[b.name], offsets[b.name] + b.size) for b in live)
        twice = sum(max(min(end, last) - start, 0) for (_, end), (start, last) in pairwise(ends))
        shared = shared or twice > 0
        maximum = max(maximum, sum(aligned(b.size, align) for b in live) - twice)
    return maximum if shared else None


def separations_by_lifetimes(blocks: Sequence[Block]) -> list[Separation]:
    """The relations that lifetimes ask for: blocks that are live at a common step share no byte."""
    held = [b for b in blocks if b.size > 0]
    out = []
    for k, b in enumerate(held):
        for a in held[:k]:
            if a.first <= b.last and b.first <= a.last:
                out.append(Separation(a.name, b.name, -b.size, a.size))
    return out


def lower_bound(blocks: Sequence[Block], separations: Sequence[Separation] | None = None) -> int:
    """Bytes that no placement goes below.

    By lifetimes: the largest live set, counting the padding that no stacking of that set can avoid (of the blocks
    of a live set stacked in any order, every one but the topmost reaches up to a multiple of what all their
    alignments are multiples of). With relations: the same of sets of blocks that are all apart from each other,
    grown greedily, where a block counts no more than the least that another of the set may be above it.
    """
    best = max((b.fixed + b.size for b in blocks if b.fixed is not None), default=0)
    if separations is None:
        return max([best, *(_stacked([(b.size, b) for b in live]) for _, live in live_profile(blocks))])
    held = {b.name: b for b in blocks if b.size > 0}
    above = _min_above(held, separations)
    best = max([best, *(b.size for b in held.values())])
    for name in held:
        widths: dict[str, int] = {}  # of the members that have another in the set
        members = [name]
        for other in sorted(above[name], key=lambda n: (-held[n].size, n)):
            if not all(other in above[m] for m in members):
                continue
            widths = {m: min(widths.get(m, above[m][other]), above[m][other]) for m in members}
            widths[other] = min(above[other][m] for m in members)
            members.append(other)
            best = max(best, _stacked([(w, held[m]) for m, w in widths.items()]))
    return best


def _stacked(live: Sequence[tuple[int, Block]]) -> int:
    """The least span of blocks in a stack where each asks for its width but the topmost, which asks for its size."""
    step = gcd(*(b.align for _, b in live))
    padded = [aligned(width, step) for width, _ in live]
    return sum(padded) - max(p - b.size for p, (_, b) in zip(padded, live, strict=True))


def _min_above(held: Mapping[str, Block], separations: Sequence[Separation]) -> dict[str, dict[str, int]]:
    """For each block, how far others are above it when they are not below it, for pairs that must be either."""
    out: dict[str, dict[str, int]] = {name: {} for name in held}
    for r in separations:
        if r.low < 0 < r.high and r.a in held and r.b in held:
            out[r.a][r.b] = max(r.high, out[r.a].get(r.b, 0))
            out[r.b][r.a] = max(-r.low, out[r.b].get(r.a, 0))
    return out
