"""Bytes of regions as runs with one origin: which byte of which buffer was last written to each place."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping

import numpy as np

from sdk.compiler.memory.placed import Place

__all__ = ["RowLives", "Tags"]


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


class RowLives:
    """When the rows of buffers hold what is still needed, moment by moment."""

    def __init__(self, places: Mapping[str, Place], arenas: frozenset[str]) -> None:
        """Buffers of other regions than ``arenas`` do not count."""
        self.places = {n: p for n, p in places.items() if p.buffer.region in arenas}
        self.since = {n: np.full(p.rows, -1, dtype=np.int64) for n, p in self.places.items()}
        self.until = {n: np.full(p.rows, -1, dtype=np.int64) for n, p in self.places.items()}
        self.used: dict[str, tuple[int, int]] = {}  # by the first of those that share bytes
        self.lives: list[tuple[int, int, int]] = []  # bytes, the first moment, the last

    def write(self, name: str, lo: int, hi: int, moment: int) -> None:
        """Rows ``lo..hi`` hold something new from ``moment`` on."""
        if name in self.places:
            self._close(name, lo, hi)
            self._use(name, moment)
            self.since[name][lo:hi] = self.until[name][lo:hi] = moment

    def read(self, name: str, lo: int, hi: int, moment: int) -> None:
        """Rows ``lo..hi`` are needed at ``moment``."""
        if name in self.places:
            self._use(name, moment)
            self.until[name][lo:hi] = moment

    def _use(self, name: str, moment: int) -> None:
        while self.places[name].buffer.alias in self.places:
            name = self.places[name].buffer.alias
        first, last = self.used.get(name, (moment, moment))
        self.used[name] = min(first, moment), max(last, moment)

    def _close(self, name: str, lo: int, hi: int) -> None:
        since, until = self.since[name][lo:hi], self.until[name][lo:hi]
        row = self.places[name].row
        if since.size and (since == since[0]).all() and (until == until[0]).all():  # as mostly: sorting is slow
            since, until, row = since[:1], until[:1], row * since.size
        spans, counts = np.unique(np.stack([since, until]), axis=1, return_counts=True)
        self.lives += [
            (int(n) * row, int(a), int(b)) for (a, b), n in zip(spans.T, counts, strict=True) if 0 <= a <= b
        ]

    def most(self, moments: int) -> int:
        """The most bytes held at once in moments 0 to ``moments``; ends the record."""
        for name, place in self.places.items():
            self._close(name, 0, place.rows)
        return _most(self.lives, moments)

    def whole(self, moments: int, align: int) -> int:
        """The most bytes, rounded up to ``align``, of buffers that are in use at one of moments 0 to ``moments``."""
        sizes = {n: -(-self.places[n].size // align) * align for n in self.used}
        return _most([(sizes[n], *span) for n, span in self.used.items()], moments)


def _most(lives: Iterable[tuple[int, int, int]], moments: int) -> int:
    change = np.zeros(moments + 3, dtype=np.int64)
    for size, first, last in lives:
        change[first] += size
        change[last + 1] -= size
    return int(np.cumsum(change).max(initial=0))
