"""Offsets by order: each block goes to the first or the tightest gap that the blocks before it leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sdk.compiler.memory.planner.task import Found, Task, peak_of
from sdk.compiler.memory.problem import Block, aligned

__all__ = ["FITS", "ORDERS", "first_gap", "greedy", "largest_area", "longest", "ordered", "place_all"]

_UNPLACED: Final = -1


def greedy(task: Task) -> Found:
    """The best of every order and fit; stops at the bound."""
    best: Found | None = None
    for key in ORDERS:
        for fit in FITS:
            offsets = place_all(task, ordered(task, key), fit)
            found = Found(peak_of(task, offsets), offsets)
            if best is None or found.peak < best.peak:
                best = found
            if found.peak <= task.bound:
                return found
    assert best is not None  # there are orders
    return best


def ordered(task: Task, key: Key) -> list[int]:
    """Block indices by ``key``."""
    return sorted(range(len(task.blocks)), key=lambda k: (key(task.blocks[k]), k))


Key = Callable[[Block], tuple[int, ...]]


def longest(b: Block) -> tuple[int, ...]:
    """What lives longest first."""
    return (b.first - b.last, -b.size)


def largest_area(b: Block) -> tuple[int, ...]:
    """The most bytes for the longest time first."""
    return (-b.size * (b.last - b.first + 1), b.first)


def _largest(b: Block) -> tuple[int, ...]:
    return (-b.size, b.first)


def _earliest(b: Block) -> tuple[int, ...]:
    return (b.first, -b.last, -b.size)


def _latest(b: Block) -> tuple[int, ...]:
    return (-b.last, b.first, -b.size)


ORDERS: Final[tuple[Key, ...]] = (_largest, longest, largest_area, _earliest, _latest)

Gap = Callable[[list[tuple[int, int]], int], int]


def first_gap(taken: list[tuple[int, int]], align: int) -> int:
    """The lowest offset strictly inside none of the ``(low, high)`` ranges, sorted by low."""
    at = 0
    for low, high in taken:
        if low >= at:
            return at
        if high > at:
            at = aligned(high, align)
    return at


def best_gap(taken: list[tuple[int, int]], align: int) -> int:
    """The offset in the tightest gap that fits, the lowest of equals; above everything where none does."""
    at, best, best_slack = 0, -1, 0
    for low, high in taken:
        slack = low - at
        if slack >= 0 and (best < 0 or slack < best_slack):
            best, best_slack = at, slack
        if high > at:
            at = aligned(high, align)
    return at if best < 0 else best


def place_all(
    task: Task, order: Sequence[int], fit: Gap, offsets: list[int] | None = None, skip: int = 0
) -> list[int]:
    """Offsets by block, placing in order; the first ``skip`` of the order keep theirs from ``offsets``."""
    blocks, rivals = task.blocks, task.rivals
    out = [_UNPLACED if b.fixed is None else b.fixed for b in blocks]
    if offsets is not None:
        for k in order[:skip]:
            out[k] = offsets[k]
    for k in order[skip:]:
        block = blocks[k]
        if block.fixed is not None:
            continue
        taken = [(out[j] + low, out[j] + high) for j, low, high in rivals[k] if out[j] >= 0]
        taken.sort()
        out[k] = fit(taken, block.align)
    return out


FITS: Final[tuple[Gap, ...]] = (best_gap, first_gap)
