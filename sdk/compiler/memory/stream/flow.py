"""How calls alternate row by row: how many rows each runs in a step of the stream, and how many it is ahead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.memory.stream.row_calls import RowCall, Touched

__all__ = ["Flow", "flow_of"]

Times = NDArray[np.int64]


@dataclass(frozen=True)
class Flow:
    """A stream of the nodes ``steps``, producers first. In iteration g a node runs row ``g + ahead`` where it has such
    a row; it has ``rate`` iterations in each of the steps ``lo..hi`` of the stream. Nodes of one rate iterate one after
    the other, after the iterations of those of the next higher rate that belong to theirs.
    """

    steps: tuple[int, ...]
    extents: tuple[int, ...]
    rates: tuple[int, ...]
    ahead: tuple[int, ...]
    lo: int
    hi: int

    @property
    def levels(self) -> list[int]:
        """The rates, ascending."""
        return sorted(set(self.rates))

    def times(self) -> list[Times]:
        """When each node runs each of its rows, counted in calls of the stream from 0."""
        fastest = max(self.rates)
        end, node = [], []
        for k, (extent, rate, ahead) in enumerate(zip(self.extents, self.rates, self.ahead, strict=True)):
            iteration = np.arange(extent, dtype=np.int64) - ahead
            end.append((iteration + 1) * (fastest // rate))
            node.append(np.full(extent, k, dtype=np.int64))
        rate_of = np.array(self.rates, dtype=np.int64)
        ends, nodes = np.concatenate(end), np.concatenate(node)
        order = np.lexsort((nodes, -rate_of[nodes], ends))
        at = np.empty(len(order), dtype=np.int64)
        at[order] = np.arange(len(order))
        splits = np.cumsum(self.extents)[:-1]
        return list(np.split(at, splits))


@dataclass(frozen=True, slots=True)
class _Edge:
    """Row r of node ``reader`` needs rows below ``step * r + first`` of node ``writer`` (positions in the stream)."""

    writer: int
    reader: int
    step: int
    first: int


def flow_of(steps: Sequence[int], row_calls: Mapping[int, RowCall]) -> Flow | None:
    """The stream of the nodes ``steps``; None where one of them needs another's rows all at once, or where their rows
    do not keep pace.

    ``row_calls`` holds the call for one row of each node by its step.
    """
    edges = _edges(steps, row_calls)
    if edges is None:
        return None
    rates = _rates(len(steps), edges)
    if rates is None:
        return None
    asked: dict[int, int] = {}  # nobody waits for the rows of the others
    for e in sorted(edges, key=lambda e: -e.reader):
        need = e.step * asked.get(e.reader, 0) + e.first - e.step
        asked[e.writer] = max(asked.get(e.writer, need), need)
    ahead = [asked.get(k, 0) for k in range(len(steps))]
    extents = [row_calls[s].extent for s in steps]
    lo = min(-a // r for a, r in zip(ahead, rates, strict=True))
    hi = max(-((a - n) // r) for a, n, r in zip(ahead, extents, rates, strict=True))
    return Flow(tuple(steps), tuple(extents), tuple(rates), tuple(ahead), lo, hi)


def _edges(steps: Sequence[int], row_calls: Mapping[int, RowCall]) -> list[_Edge] | None:
    made: dict[str, tuple[int, Touched]] = {}
    out = []
    for k, step in enumerate(steps):
        for read in row_calls[step].reads:
            if read.value.name not in made:
                continue
            writer, written = made[read.value.name]
            edge = _edge(writer, k, read, written)
            if edge is None:
                return None
            out.append(edge)
        made |= {w.value.name: (k, w) for w in row_calls[step].writes}
    return out


def _edge(writer: int, reader: int, read: Touched, written: Touched) -> _Edge | None:
    if not written.exact or written.row != read.row:
        return None
    ends = [hi for _, hi in read.rows]
    if len(ends) == 1:
        return _Edge(writer, reader, 1, 1) if len(written.rows) == 1 else None
    step = max(b - a for a, b in pairwise(ends))
    if step < 1:
        return None
    return _Edge(writer, reader, step, max(hi - step * r for r, hi in enumerate(ends)))


def _rates(count: int, edges: Sequence[_Edge]) -> list[int] | None:
    """Iterations of each node in a step; None where no numbers fit, or one of them is no multiple of the next lower."""
    rate: list[Fraction | None] = [None] * count
    rate[-1] = Fraction(1)
    open_edges = list(edges)
    while open_edges:
        known = [e for e in open_edges if rate[e.writer] is not None or rate[e.reader] is not None]
        if not known:
            return None
        for e in known:
            writer, reader = rate[e.writer], rate[e.reader]
            if writer is None and reader is not None:
                rate[e.writer] = reader * e.step
            elif reader is None and writer is not None:
                rate[e.reader] = writer / e.step
            elif writer is not None and reader is not None and writer != reader * e.step:
                return None
        done = set(map(id, known))
        open_edges = [e for e in open_edges if id(e) not in done]
    found = [r for r in rate if r is not None]
    if len(found) < count:
        return None
    minimum = min(found)
    scaled = [r / minimum for r in found]
    levels = sorted(set(scaled))
    whole = all(r.denominator == 1 for r in levels)
    if not whole or any(b % a != 0 for a, b in pairwise(levels)):
        return None
    return [int(r) for r in scaled]
