"""What a segment of a net holds in memory, call by call: rows that wait in rings, and outputs written over inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.memory.problem import aligned
from sdk.compiler.memory.scratch import SCRATCH_ALIGN
from sdk.compiler.memory.stream.flow import Flow, flow_of
from sdk.compiler.memory.stream.net import Net, spared
from sdk.compiler.memory.stream.row_calls import Touched

__all__ = ["Segment", "streamed", "whole"]

Ints = NDArray[np.int64]
Bits = NDArray[np.bool_]
_NEVER: Final = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Segment:
    """Nodes ``first..last`` (inclusive) as whole calls (``flow`` None: one node) or as a stream.

    ``peak``: an estimate of the bytes live at once. ``live``: by value, when its bytes are in use, call by call.
    ``rings``: rows kept of a value. ``taken``: (step, result, argument) in place. ``lags``: for a result and an
    argument, both whole: how many bytes the result must begin below it at least to be written over it.
    """

    first: int
    last: int
    peak: int
    calls: int = 1
    flow: Flow | None = None
    live: dict[str, Bits] = field(default_factory=dict)
    rings: dict[str, int] = field(default_factory=dict)
    taken: frozenset[tuple[int, str, str]] = frozenset()
    lags: dict[tuple[str, str], int] = field(default_factory=dict)


def whole(net: Net, step: int, overlaps: bool = True) -> Segment:
    """The node of a step run as a whole; with ``overlaps`` it may write over arguments that lie elsewhere."""
    through, arena = net.through(step, step), 0
    born = [h for h in net.held if h.arena and h.born == step]
    dying = [h for h in net.held if h.arena and h.born < step == h.last]
    gone: set[str] = set()
    for out, arg in net.replaced(step):
        if out not in gone and arg not in gone:
            gone |= {out, arg}
            arena -= net.held[net.of[out]].bytes if net.held[net.of[out]].arena else 0
    lags = net.lags(step) if overlaps else {}
    for (out, arg), lag in sorted(lags.items(), key=lambda item: item[1]):
        if out not in gone and arg not in gone:
            gone |= {out, arg}
            sizes = net.held[net.of[arg]].bytes, net.held[net.of[out]].bytes
            arena -= spared(*sizes, aligned(lag, net.align))
    arena += through + sum(h.bytes for h in (*born, *dying)) + net.scratch(step)
    return Segment(step, step, arena, lags=lags)


@dataclass
class _Group:
    """Bytes that values of a stream share: when rows (in bytes from and to) are written and read.

    ``inner``: they live in the stream only, and may be a ring.
    """

    values: list[str]
    size: int
    arena: bool
    before: bool
    after: bool
    plain: bool
    row: int = 0
    writes: list[tuple[Ints, Ints, Ints]] = field(default_factory=list)
    reads: list[tuple[Ints, Ints, Ints, int]] = field(default_factory=list)  # with the step that reads
    ring: int | None = None
    live: Bits = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    @property
    def inner(self) -> bool:
        return not self.before and not self.after

    def needed(self, times: Ints, but: int = 0) -> Ints:
        """The lowest byte that a read at each of the times or later needs; reads of step ``but`` do not count."""
        parts = [(t, lo) for t, lo, _, step in self.reads if step != but]
        if not parts:
            return np.full(len(times), _NEVER)
        at = np.concatenate([t for t, _ in parts])
        low = np.concatenate([lo for _, lo in parts])
        order = np.argsort(at)
        at, low = at[order], np.minimum.accumulate(low[order][::-1])[::-1]
        low = np.append(low, _NEVER)
        return np.asarray(low[np.searchsorted(at, times)])

    def written(self) -> tuple[Ints, Ints]:
        """The times of writes, and the end of what is written by then."""
        at = np.concatenate([t for t, _, _ in self.writes])
        high = np.concatenate([hi for _, _, hi in self.writes])
        order = np.argsort(at)
        return at[order], np.maximum.accumulate(high[order])


def streamed(net: Net, first: int, last: int) -> Segment | None:
    """The nodes as a stream; None where they cannot be one."""
    steps = range(first, last + 1)
    if any(s not in net.row_calls for s in steps):
        return None
    flow = flow_of(steps, net.row_calls)
    return None if flow is None else _Weigher(net, flow).run()


class _Weigher:
    def __init__(self, net: Net, flow: Flow) -> None:
        self.net, self.flow = net, flow
        self.first, self.last = flow.steps[0], flow.steps[-1]
        self.count = sum(flow.extents)
        self.groups: dict[int, _Group] = {}
        self.taken: set[tuple[int, str, str]] = set()

    def run(self) -> Segment:
        for step, times in zip(self.flow.steps, self.flow.times(), strict=True):
            row_call = self.net.row_calls[step]
            for touched in row_call.reads:
                lo, hi = _ends(touched)
                self._group(touched).reads.append((times, lo, hi, step))
            for touched in row_call.writes:
                lo, hi = _ends(touched)
                self._group(touched).writes.append((times, lo, hi))
        for step, times in zip(self.flow.steps, self.flow.times(), strict=True):
            self._in_place(step, times)
        groups = list({id(g): g for g in self.groups.values()}.values())
        for group in groups:
            self._keep(group)
        lags = self._lags(groups)
        load = self._load(groups, lags)
        return Segment(
            self.first,
            self.last,
            int(load.max()) + self.net.through(self.first, self.last),
            self.count,
            self.flow,
            {v: g.live for g in groups for v in g.values},
            {v: g.ring for g in groups for v in g.values if g.ring is not None},
            frozenset(self.taken),
            {(b, a): lag for (ka, kb), lag in lags.items() for a in groups[ka].values for b in groups[kb].values},
        )

    def _group(self, touched: Touched) -> _Group:
        index = self.net.of[touched.value.name]
        if index not in self.groups:
            h = self.net.held[index]
            before, after = h.born < self.first, h.last > self.last
            counts = h.arena and not (before and after)  # what lives through is counted apart
            self.groups[index] = _Group(list(h.values), h.bytes, counts, before, after, h.plain, touched.row)
        return self.groups[index]

    def _in_place(self, step: int, times: Ints) -> None:
        """Lets results take the rows of arguments that nothing else still needs."""
        done: set[str] = set()
        for out, arg in self.net.replaced(step):
            new, old = self.groups[self.net.of[out]], self.groups[self.net.of[arg]]
            if new is old or done & {out, arg} or not new.arena or not (new.plain and old.plain):
                continue
            fits = (new.inner and old.inner) or (old.before and not old.after and new.after)
            if not fits or not self.net.in_row(step, out, arg):
                continue
            ends = (np.arange(len(times), dtype=np.int64) + 1) * old.row
            if (old.needed(times, but=step) < ends).any():
                continue
            done |= {out, arg}
            self.taken.add((step, out, arg))
            old.values += new.values
            old.writes += new.writes
            old.reads += new.reads
            old.after = new.after
            for index, group in self.groups.items():
                if group is new:
                    self.groups[index] = old

    def _keep(self, group: _Group) -> None:
        """When the bytes are in use, and as a ring of how many rows."""
        live = np.zeros(self.count, dtype=np.bool_)
        # a call that needs nothing of it any more does not read it
        times = np.concatenate([w[0] for w in group.writes] + [at[lo < hi] for at, lo, hi, _ in group.reads])
        begin, end = (int(times.min()), int(times.max()) + 1) if len(times) else (0, 0)
        begin = 0 if group.before else begin
        end = self.count if group.after else end
        live[begin:end] = True
        group.live = live
        if not (group.inner and group.plain and group.arena and group.row and group.writes):
            return
        at, high = group.written()
        low = np.minimum(group.needed(at), high - group.row)
        rows = int(-(-(high - low).max() // group.row))
        every = int(max(hi.max() for _, _, hi in group.writes)) // group.row
        if rows >= every:
            return
        group.ring, group.size = rows, aligned(rows * group.row, self.net.align)
        moments = np.arange(self.count, dtype=np.int64)
        reached = np.concatenate([[0], high])[np.searchsorted(at, moments, side="right")]
        group.live = reached > group.needed(moments)
        group.live[at] = True

    def _lags(self, groups: Sequence[_Group]) -> dict[tuple[int, int], int]:
        """For what is read for the last time here and what is made here to stay, by positions."""
        out = {}
        for ka, a in enumerate(groups):
            if not (a.before and not a.after and a.arena and not a.writes):
                continue
            for kb, b in enumerate(groups):
                if b.before or not b.after or not b.arena or not (a.live & b.live).any():
                    continue
                at, high = b.written()
                low = a.needed(at)
                held = low < _NEVER
                lag = int((high - low)[held].max())
                if lag < b.size:
                    out[ka, kb] = lag
        return out

    def _load(self, groups: Sequence[_Group], lags: dict[tuple[int, int], int]) -> Ints:
        """Bytes live at each call; of an output over an input what it adds."""
        load = np.zeros(self.count, dtype=np.int64)
        for g in groups:
            if g.arena:
                load += g.size * g.live
        for step, times in zip(self.flow.steps, self.flow.times(), strict=True):
            load[times] += aligned(self.net.row_calls[step].scratch, max(self.net.align, SCRATCH_ALIGN))
        pairs = []
        for (ka, kb), lag in lags.items():
            a, b = groups[ka], groups[kb]
            lag = aligned(lag, self.net.align)
            pairs.append((spared(a.size, b.size, lag), ka, kb))
        used: set[int] = set()
        for saved, ka, kb in sorted(pairs, reverse=True):
            if not used & {ka, kb}:
                used |= {ka, kb}
                load -= max(saved, 0) * (groups[ka].live & groups[kb].live)
        return load


def _ends(touched: Touched) -> tuple[Ints, Ints]:
    found = np.array(touched.bytes, dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]
