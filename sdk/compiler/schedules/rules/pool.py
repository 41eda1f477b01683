"""The rule for pools of integers on cores without vectors: some channels at a time, small windows written out."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sdk.compiler.ir.loops import Alloc, For, Load, Loops, Op
from sdk.compiler.ir.types import I8
from sdk.compiler.ir.walk import statements, walk
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.locate import Loop, ScheduleError, loop_of, loops_in
from sdk.compiler.schedules.rules.nest import BYTES, trip
from sdk.compiler.schedules.rules.reduction import chain
from sdk.compiler.schedules.trace import Schedule

__all__ = ["Pool"]


@dataclass(frozen=True, slots=True)
class Pool:
    """Sums and largest elements of windows: those of ``columns`` channels at a time, in registers, the largest of bytes
    as the four lanes of a word; windows to ``taps`` elements are written out. Where no more elements than ``minimum``
    are read in all, the plain nest stays."""

    columns: int
    taps: int
    minimum: int
    name = "pool"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Windows and reductions of integers that are no products."""
        integers = all(not n.dtype.is_float for n in walk(nest.loops.body) if isinstance(n, Load))
        return nest.kind in ("window", "reduction") and nest.pattern.product is None and integers

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Channels side by side.

        Raises:
            ScheduleError: there is no loop over channels around one over taps, few elements, or a step does not apply.
        """
        around = chain(nest.loops)
        taps = loops_in(around[-1].body) if around else []
        if not taps or len(loops_in(nest.loops.body)) != len(around) + len(taps):
            raise ScheduleError("no channels with one window each")
        if _elements(nest.loops) <= self.minimum:
            raise ScheduleError("few elements")
        s, channel = Schedule(nest.loops), loop_of(around[-1])
        size = 1
        for tap in reversed(taps):
            size *= trip(s.loops, tap)
            if size <= self.taps:
                s.unroll(tap)
        if not _extremes(around[-1]) or not _in_words(s, around, taps, 2 * self.taps):
            channels = trip(s.loops, channel)
            inner = s.overlap(channel, channels if channels <= self.columns + 1 else self.columns).inner
            s.unroll_and_jam(inner, taps).unroll(inner)
        return s.done()


def _in_words(s: Schedule, around: list[For], taps: list[Loop], written: int) -> bool:
    """Takes words of bytes side by side, if there are any: of channels that fill words; of a row, where windows that
    are one pixel apart are read as they lie; of channels of which the last word has some of the word before it; or of
    fewer channels than a word has bytes."""
    *_, row, channel = (None, *map(loop_of, around))
    assert channel is not None  # there is a loop around the taps
    done = None
    if row and trip(s.loops, channel) % BYTES:
        done = s.attempt(_row_words, row, channel, taps, written)
    return (done or s.attempt(_words, channel, taps, written) or s.attempt(_part_words, channel, taps)) is not None


def _row_words(s: Schedule, row: Loop, channel: Loop, taps: list[Loop], written: int) -> Schedule:
    """Words of a row of pixels."""
    return _words(s, s.fuse(row, channel, f"{row}_{channel}"), taps, written)


def _words(s: Schedule, loop: Loop, taps: list[Loop], written: int) -> Schedule:
    """Words of elements; those that read no more than ``written`` words in all are written out."""
    words = s.overlap(loop, BYTES)
    _in_lanes(s, words.inner, taps)
    if trip(s.loops, words.outer) * math.prod(trip(s.loops, tap) for tap in taps) <= written:
        s.unroll(words.outer)
    return s


def _part_words(s: Schedule, channel: Loop, taps: list[Loop]) -> Schedule:
    """Words of which the first bytes are read and written only; of pixels that another of the window follows, all are
    read."""
    last, count = taps[-1], trip(s.loops, taps[-1])
    if count > 1:
        before = s.partition(last, count - 1, count)[0][last]
        taps = [*taps, before]
    return _in_lanes(s.pad_loop(channel, BYTES), channel, taps)


def _in_lanes(s: Schedule, word: Loop, taps: list[Loop]) -> Schedule:
    """The bytes of a word as lanes."""
    made = {n.buffer.name for n in statements(s.loops.body) if isinstance(n, Alloc)}
    s.unroll_and_jam(word, taps).vectorize(word)
    for acc in sorted(made):
        s.vector_registers(acc, BYTES)
    return s


def _extremes(column: For) -> bool:
    """Whether all that is done is to take the larger of two bytes."""
    done = [n for n in walk(column.body) if isinstance(n, Op)]
    return all(n.name == "max" and n.dtype == I8 for n in done)


def _elements(loops: Loops) -> int:
    """Elements that are read, at the largest dims."""
    size = 1
    for n in walk(loops.body):
        if isinstance(n, For):
            size *= n.var.hi + 1
    return size
