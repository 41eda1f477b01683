"""Which nodes run as streams: cut points of the order of nodes, chosen so that little memory, then little time, is
needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sdk.compiler.memory.stream.net import Net
from sdk.compiler.memory.stream.weigh import Segment, streamed, whole

__all__ = ["Segmenter"]

_NEVER: Final = (1 << 62, 0)


@dataclass(frozen=True)
class _Best:
    """The best way to run the nodes up to some step: its cost (calls for rows) and streams, and its last segment."""

    value: tuple[int, int]
    last: Segment | None


class Segmenter:
    """Weighs segments of a net and finds paths of them from the first node to the last."""

    def __init__(self, net: Net, overlaps: bool = True) -> None:
        """``net`` is what is cut; ``overlaps``: whole nodes may write results over arguments that lie elsewhere."""
        self.net = net
        self._streams: dict[tuple[int, int], Segment | None] = {}
        self._wholes = {step: whole(net, step, overlaps) for step in range(1, net.count + 1)}

    def apart(self) -> Segmenter:
        """The same net where whole nodes write results over arguments in place only."""
        other = Segmenter(self.net, overlaps=False)
        other._streams = self._streams
        return other

    def min_peak(self) -> int:
        """The smallest estimate of the peak that any segmentation has."""
        best = [self._ends()]
        for last in range(1, self.net.count + 1):
            here = max(best[last - 1], self._wholes[last].peak)
            for first in range(last, 0, -1):
                if not self._may_stream(first):
                    break
                floor = max(best[first - 1], self._floor(first, last))
                found = self._stream(first, last) if floor < here else None
                if found is not None:
                    here = min(here, max(floor, found.peak))
            best.append(here)
        return best[-1]

    def cheapest(self, limit: int) -> list[Segment] | None:
        """The segments that cost least of those that need at most ``limit`` bytes by estimate; None where none do.

        Of equal costs fewer streams are better: where one ends, all rows of a tensor lie side by side.
        """
        if self._ends() > limit:
            return None
        best = [_Best((0, 0), None)]
        for last in range(1, self.net.count + 1):
            fits = self._wholes[last].peak <= limit
            here = _Best(best[last - 1].value, self._wholes[last]) if fits else _Best(_NEVER, None)
            calls = 0
            for first in range(last, 0, -1):
                if not self._may_stream(first):
                    break
                calls += self.net.row_calls[first].extent
                cost, streams = best[first - 1].value
                value = cost + calls, streams + 1
                if value >= here.value or self._floor(first, last) > limit:
                    continue
                found = self._stream(first, last)
                if found is not None and found.peak <= limit:
                    here = _Best(value, found)
            best.append(here)
        return None if best[-1].value >= _NEVER else _path(best)

    def _ends(self) -> int:
        """Bytes that inputs, and results, take alone."""
        inputs = sum(h.bytes for h in self.net.held if h.arena and h.born == 0)
        results = sum(h.bytes for h in self.net.held if h.arena and h.last > self.net.count)
        return max(inputs, results)

    def _may_stream(self, step: int) -> bool:
        return step in self.net.row_calls

    def _floor(self, first: int, last: int) -> int:
        """What a segment needs at least: what is live before it, or after it."""
        return max(self.net.across[first - 1], self.net.across[last])

    def _stream(self, first: int, last: int) -> Segment | None:
        key = first, last
        if key not in self._streams:
            self._streams[key] = streamed(self.net, first, last)
        return self._streams[key]


def _path(best: list[_Best]) -> list[Segment]:
    out: list[Segment] = []
    at = len(best) - 1
    while at > 0:
        last = best[at].last
        assert last is not None  # some segmentation reaches this step
        out.append(last)
        at = last.first - 1
    return out[::-1]
