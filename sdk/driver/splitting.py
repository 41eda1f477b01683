"""Which operations of a model stay on the processor beside a GPU: each is timed on both, and where a part of them takes
less there than on the device with one more submission, it stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

__all__ = ["OpTimes", "shares"]


@dataclass(frozen=True)
class OpTimes:
    """What an operation takes on the processor and on the device, in us; ``inf``: it does not run there."""

    index: int
    processor: float
    device: float


def shares(ops: Sequence[OpTimes], turn: float) -> frozenset[int]:
    """The operations, in the order of a run, that are best left to the processor, by their numbers; ``turn`` is what it
    takes in us to go back to the device once more. That is the least sum of all ways to divide them.

    Operations that run nowhere else are no part of the answer.
    """
    # of runs so far: on the processor before any work of the device, on the device, on the processor after such
    first: tuple[float, frozenset[int]] = (0.0, frozenset())
    device: tuple[float, frozenset[int]] = (inf, frozenset())
    after: tuple[float, frozenset[int]] = (inf, frozenset())
    for op in ops:
        own = frozenset({op.index})
        here = min((first, device, (after[0] + turn, after[1])), key=lambda found: found[0])
        there = min((device, after), key=lambda found: found[0])
        first, device, after = (
            (first[0] + op.processor, first[1] | own),
            (here[0] + op.device, here[1]),
            (there[0] + op.processor, there[1] | own),
        )
    best = min((first, device, after), key=lambda found: found[0])
    return best[1] if best[0] < inf else frozenset()

