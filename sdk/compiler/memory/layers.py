"""Layers that repeat in a problem, found and cut out: what is decided for a few of them holds for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sdk.compiler.memory.problem import Block

__all__ = ["Folded", "fold", "unfolded"]

KEPT: Final = 2  # of the layers: the first and the last
PERIODS: Final = 4  # that are tried


@dataclass(frozen=True)
class Folded:
    """A problem without the layers that repeat.

    ``blocks``: those that stay, with their steps moved together. ``groups``: indices of blocks that play the same part
    in their layers; every block is in one. ``names``: of all blocks of the whole problem, by group.
    """

    blocks: tuple[Block, ...]
    groups: tuple[tuple[int, ...], ...]
    names: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class _Run:
    """Steps ``start..start + count * period``, of which each ``period`` is like the next."""

    start: int
    period: int
    count: int

    @property
    def removed(self) -> int:
        """Steps that the folded problem lacks."""
        return max(self.count - KEPT, 0) * self.period


def fold(blocks: Sequence[Block], kinds: Sequence[Hashable], together: int = 1) -> Folded:
    """Folds the longest run of layers, taking so many ``together`` as one; blocks of one kind have the same bytes and
    alignment at all dims. The problem itself where nothing repeats."""
    runs = [run for period in _periods(blocks, kinds) if (run := _run(blocks, kinds, period)) is not None]
    run = max(runs, key=lambda r: (r.removed, -r.period), default=None)
    if run is not None and together > 1:
        run = _run(blocks, kinds, run.period * together)
    return _folded(blocks, kinds, run) if run is not None and run.removed else unfolded(blocks)


def unfolded(blocks: Sequence[Block]) -> Folded:
    """The problem itself, each block a group."""
    return Folded(tuple(blocks), tuple((k,) for k in range(len(blocks))), tuple((b.name,) for b in blocks))


def _periods(blocks: Sequence[Block], kinds: Sequence[Hashable]) -> list[int]:
    """The most common distances between births of blocks of one kind that live as long."""
    births: dict[Hashable, list[int]] = {}
    for block, kind in zip(blocks, kinds, strict=True):
        births.setdefault((kind, block.last - block.first), []).append(block.first)
    steps = Counter(b - a for found in births.values() for a, b in zip(sorted(found), sorted(found)[1:], strict=False))
    steps += Counter(c - a for found in births.values() for a, c in zip(sorted(found), sorted(found)[2:], strict=False))
    return [p for p, _ in steps.most_common(PERIODS + 1) if p > 0][:PERIODS]


def _run(blocks: Sequence[Block], kinds: Sequence[Hashable], period: int) -> _Run | None:
    """The longest run of this period: at each step the blocks that live for less than a period are as old, and live on
    as long, as those a period later, and the others are the same."""
    end = max(b.last for b in blocks) + 1
    short: list[Counter[Hashable]] = [Counter() for _ in range(end)]
    long: list[set[int]] = [set() for _ in range(end)]
    for k, (block, kind) in enumerate(zip(blocks, kinds, strict=True)):
        for step in range(block.first, block.last + 1):
            if block.last - block.first < period:
                short[step][kind, step - block.first, block.last - step] += 1
            else:
                long[step].add(k)
    best: _Run | None = None
    start = 0
    for step in range(end - period + 1):
        alike = step < end - period and short[step] == short[step + period] and long[step] == long[step + period]
        if not alike:
            run = _Run(start, period, (step - start) // period + 1)
            if best is None or run.count > best.count:
                best = run
            start = step + 1
    return best


def _folded(blocks: Sequence[Block], kinds: Sequence[Hashable], run: _Run) -> Folded:
    stop = run.start + run.count * run.period
    resume = stop - run.period  # where the last layer begins
    cut = resume - run.removed
    kept: list[Block] = []
    members: dict[Hashable, list[int]] = {}
    names: dict[Hashable, list[tuple[int, str]]] = {}
    seen: Counter[Hashable] = Counter()
    for block, kind in sorted(zip(blocks, kinds, strict=True), key=lambda item: (item[0].first, item[0].name)):
        group: Hashable = block.name
        length = block.last - block.first
        if run.start <= block.first < stop and length < run.period:
            seen[kind, length, block.first] += 1
            group = (kind, length, (block.first - run.start) % run.period, seen[kind, length, block.first])
        names.setdefault(group, []).append((block.first, block.name))
        if not cut <= block.first < resume:
            members.setdefault(group, []).append(len(kept))
            kept.append(_moved(block, resume, run.removed))
    order = list(members)
    return Folded(
        tuple(kept),
        tuple(tuple(members[g]) for g in order),
        tuple(tuple(name for _, name in sorted(names[g])) for g in order),
    )


def _moved(block: Block, resume: int, by: int) -> Block:
    """The block when there are fewer steps before ``resume``: what ends in those that go ends as late in the layer that
    takes their place."""
    first = block.first - by if block.first >= resume else block.first
    last = block.last - by if block.last >= resume else block.last
    return replace(block, first=first, last=last)
