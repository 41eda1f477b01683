"""An offset problem by index: blocks in the order of their names, and for each what keeps it from where others are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sdk.compiler.memory.problem import Block, Separation, lower_bound
from sdk.errors import BuildError

__all__ = ["Found", "Task", "check_fixed", "make_task", "peak_of"]


@dataclass(frozen=True)
class Task:
    """The blocks with, for each, its rivals: ``(j, low, high)`` where its offset minus that of ``j`` is never strictly
    between the two."""

    blocks: Sequence[Block]
    rivals: list[list[tuple[int, int, int]]]
    bound: int


@dataclass(frozen=True)
class Found:
    """Offsets by block index, and their peak."""

    peak: int
    offsets: list[int]


def peak_of(task: Task, offsets: Sequence[int]) -> int:
    """The highest end of a block."""
    return max((at + b.size for at, b in zip(offsets, task.blocks, strict=True)), default=0)


def make_task(
    blocks: Sequence[Block], separations: Sequence[Separation] | None = None, bound: int | None = None
) -> Task:
    """Blocks in the order of their names, so that the order they come in changes nothing."""
    held = sorted((b for b in blocks if b.size > 0), key=lambda b: b.name)
    rivals = _by_lifetimes(held) if separations is None else _by_relations(held, separations)
    return Task(held, rivals, max(bound or 0, lower_bound(held, separations)))


def _by_lifetimes(blocks: Sequence[Block]) -> list[list[tuple[int, int, int]]]:
    first = np.array([b.first for b in blocks], dtype=np.int64)
    last = np.array([b.last for b in blocks], dtype=np.int64)
    out = []
    for k, block in enumerate(blocks):
        live = (first <= last[k]) & (last >= first[k])
        live[k] = False
        out.append([(j, -block.size, blocks[j].size) for j in np.flatnonzero(live).tolist()])
    return out


def _by_relations(blocks: Sequence[Block], separations: Sequence[Separation]) -> list[list[tuple[int, int, int]]]:
    index = {b.name: k for k, b in enumerate(blocks)}
    out: list[list[tuple[int, int, int]]] = [[] for _ in blocks]
    for r in separations:
        a, b = index.get(r.a), index.get(r.b)
        if a is not None and b is not None and r.high - r.low > 1:  # a block without bytes overlaps none
            out[b].append((a, r.low, r.high))
            out[a].append((b, -r.high, -r.low))
    return [sorted(r) for r in out]


def check_fixed(task: Task) -> None:
    """Raises BuildError where two blocks at fixed offsets overlap."""
    for k, a in enumerate(task.blocks):
        for j, low, high in task.rivals[k]:
            b = task.blocks[j]
            if a.fixed is None or b.fixed is None or j > k:
                continue
            if low < a.fixed - b.fixed < high:
                raise BuildError(f"{a.name} and {b.name} are fixed at overlapping bytes while both are live")


