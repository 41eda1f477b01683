"""When bytes are in use over a whole plan with streams, call by call, and which blocks may then share them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.memory.problem import Block, Separation, aligned
from sdk.compiler.memory.stream.weigh import Segment

__all__ = ["Timeline"]

Bits = NDArray[np.bool_]
Lags = Mapping[tuple[str, str], int]


class Timeline:
    """Moments of a run: the inputs arrive, each call of each segment in order, the results are handed out."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        """``segments`` cover all nodes, in order."""
        self.segments = segments
        self.starts = 1 + np.concatenate([[0], np.cumsum([s.calls for s in segments], dtype=np.int64)])
        self.count = int(self.starts[-1]) + 1

    def used(self, values: Iterable[str], born: int, last: int) -> Bits:
        """When bytes are in use that ``values`` see in turn, needed from step ``born`` to step ``last``."""
        out = np.zeros(self.count, dtype=np.bool_)
        out[0], out[-1] = born == 0, last > self.segments[-1].last if self.segments else True
        names = list(values)
        for start, segment in zip(self.starts, self.segments, strict=False):
            if born <= segment.last and last >= segment.first:
                seen = [segment.live[v] for v in names if v in segment.live]
                out[start : start + segment.calls] = np.logical_or.reduce(seen) if seen else True
        return out

    def during(self, step: int) -> Bits:
        """When the node of a step, or what follows the last one, runs."""
        out = np.zeros(self.count, dtype=np.bool_)
        out[-1] = not self.segments or step > self.segments[-1].last
        for start, segment in zip(self.starts, self.segments, strict=False):
            if segment.first <= step <= segment.last:
                flow = segment.flow
                out[start + (0 if flow is None else flow.times()[step - segment.first])] = True
        return out

    def problem(self, blocks: Sequence[Block], used: Mapping[str, Bits], lags: Lags) -> tuple[list[Separation], int]:
        """What is asked of pairs of blocks, and bytes that no placement goes below.

        Args:
            blocks: what is to be placed.
            used: when each is in use.
            lags: for an output and an input, by blocks, how far below it the output begins at least to be written
                over it, in the segments where both are in use.
        """
        held = [b for b in blocks if b.size > 0]
        together = np.array([used[b.name] for b in held], dtype=np.float32).reshape(len(held), self.count)
        pairs = np.argwhere(np.triu(together @ together.T > 0, 1))
        out: list[Separation] = []
        saved: dict[str, list[tuple[str, int]]] = {}  # by argument, what each result over its bytes spares
        for i, j in pairs:
            a, b = held[i], held[j]
            if (a.name, b.name) in lags:
                a, b = b, a
            lag = min(lags.get((b.name, a.name), b.size), b.size)  # aligned, it may be more
            out.append(Separation(a.name, b.name, -lag, a.size))
            span = max(a.size + max(lag, 0), b.size)
            saved.setdefault(a.name, []).append((b.name, a.size + b.size - span))
        load = np.array([b.size for b in held], dtype=np.int64) @ together.astype(np.int64)
        for name, over in saved.items():
            spared = [maximum * (used[name] & used[other]) for other, maximum in over]
            # results that begin below an argument all take its first bytes: one of them does, where they lie apart
            below = all(lags.get((b, name), 1) >= 0 for b, _ in over)
            disjoint = all((b, c) not in lags for b, _ in over for c, _ in over)
            load = load - (np.maximum.reduce(spared) if below and disjoint else np.add.reduce(spared))
        return out, int(load.max(initial=0))

    def fullest(self, blocks: Sequence[Block], used: Mapping[str, Bits]) -> tuple[Block, ...]:
        """The blocks in use when most bytes are."""
        load = sum((b.size * used[b.name] for b in blocks), np.zeros(self.count, dtype=np.int64))
        at = int(load.argmax())
        return tuple(b for b in blocks if used[b.name][at])

    def lags(self, block_of: Mapping[str, str], used: Mapping[str, Bits], align: int) -> dict[tuple[str, str], int]:
        """By blocks, the lags of those outputs that share no time with the input in any other segment."""
        out = {}
        for start, segment in zip(self.starts, self.segments, strict=False):
            for (result, arg), lag in segment.lags.items():
                a, b = block_of.get(arg), block_of.get(result)
                if not a or not b or a == b:
                    continue
                both = used[a] & used[b]
                both[start : start + segment.calls] = False
                if not both.any():
                    out[b, a] = aligned(lag, align)
        return out
