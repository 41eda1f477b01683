"""Bytes of regions as runs with one origin: which byte of which buffer was last written to each place."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping

import numpy as np

from sdk.compiler.memory.placed import Place

__all__ = ["InUse", "Tags"]


class Tags:
    """A region as runs of bytes with one origin: ``(buffer, shift)``, the byte at ``a`` is its byte ``a + shift``.

    The buffer "" stands for contents that nothing may read.
    """

    def __init__(self, size: int) -> None:
        """``size``: the bytes of the region."""
        self.size = size
        self._starts = [0]
        self._held = [("", 0)]

    def write(self, lo: int, hi: int, buffer: str, shift: int) -> None:
        """Bytes ``lo..hi`` now come from ``buffer``."""
        if lo >= hi:
            return
        first, end = bisect_left(self._starts, lo), bisect_right(self._starts, hi)
        after = self._held[end - 1]  # what lies at hi
        self._starts[first:end] = [lo, hi]
        self._held[first:end] = [(buffer, shift), after]

    def foreign(self, lo: int, hi: int, buffer: str, shift: int) -> tuple[int, str, int] | None:
        """The first byte of ``lo..hi`` that does not come from there: where, and the buffer and byte it holds."""
        if hi > self.size:
            return lo, "", 0
        for k in range(bisect_right(self._starts, lo) - 1, len(self._starts)):
            if self._starts[k] >= hi:
                break
            if self._held[k] != (buffer, shift):
                at = max(self._starts[k], lo)
                return at, self._held[k][0], at + self._held[k][1]
        return None


class InUse:
    """When buffers hold what is still needed, moment by moment."""

    def __init__(self, places: Mapping[str, Place], arenas: frozenset[str]) -> None:
        """Buffers of other regions than ``arenas`` do not count."""
        self.places = {n: p for n, p in places.items() if p.buffer.region in arenas}
        self.spans: dict[str, tuple[int, int]] = {}  # by the first of those that share bytes
        self.shared: dict[int, set[tuple[int, int]]] = {}  # by moment, bytes (from, to) in use by two buffers

    def note(self, name: str, moment: int) -> None:
        """Rows of a buffer are written or read at ``moment``."""
        if name not in self.places:
            return
        while self.places[name].buffer.alias in self.places:
            name = self.places[name].buffer.alias
        first, last = self.spans.get(name, (moment, moment))
        self.spans[name] = min(first, moment), max(last, moment)

    def share(self, lo: int, hi: int, moment: int) -> None:
        """A call writes these bytes of one buffer over another that it reads, maybe as several arguments."""
        self.shared.setdefault(moment, set()).add((lo, hi))

    def maximum(self, moments: int, align: int) -> int:
        """The most bytes, rounded up to ``align``, of buffers that are in use at one of moments 0 to ``moments``."""
        change = np.zeros(moments + 3, dtype=np.int64)
        for name, (first, last) in self.spans.items():
            size = -(-self.places[name].size // align) * align
            change[first] += size
            change[last + 1] -= size
        held = np.cumsum(change)
        for moment, spans in self.shared.items():
            held[moment] -= sum(hi - lo for lo, hi in spans)
        return int(held.max(initial=0))
