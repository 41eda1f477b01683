"""What rules for 8-bit windows share: the loop over pixels, and the gather of the window of one to scratch."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sdk.compiler.analysis.pattern import Contraction, has_condition
from sdk.compiler.ir.loops import For, Loops, Op
from sdk.compiler.ir.walk import walk
from sdk.compiler.schedules.cache_read import CacheRead
from sdk.compiler.schedules.locate import Loop, find, loop_of, loops_of
from sdk.compiler.schedules.rules.nest import from_rows, fuse_all, trip
from sdk.compiler.schedules.trace import Schedule

__all__ = ["COPY_RUN", "gather_window", "pixel_loop", "windowed"]

COPY_RUN: Final = 16  # words of a gather written out between two branches


def windowed(loops: Loops, part: Contraction) -> bool:
    """Whether one pixel reads more than one run of ``a``, or past its edge."""
    return len([r for r in part.reduce if r.var.hi > 0]) > 1 or has_condition(loops, part.a)


def pixel_loop(s: Schedule, part: Contraction) -> Loop | None:
    """The loop over pixels: the innermost spatial one, or all of a row range fused where no window is gathered; None
    where there is none."""
    spatial = part.spatial[:-1]
    if windowed(s.loops, part) or not spatial:
        return loop_of(spatial[-1]) if spatial else None
    return fuse_all(s, loops_of(from_rows(s.loops, spatial)), "px")


def gather_window(
    s: Schedule,
    part: Contraction,
    pixel: Loop,
    over: list[Loop],
    multiple: int = 1,
    word: int = 0,
    run: int = 0,
    rest: bool = True,
) -> CacheRead:
    """Copies the window of a pixel, in words of so many elements where it can be, of which ``run`` are written out; the
    loops given back are those over words. Without ``rest`` no words are followed by single elements."""
    read = s.cache_read(pixel, part.a, over, multiple)
    copy = read.loops[-1]
    count = trip(s.loops, copy)
    if not word or count < word or (count % word and not rest) or _selects(find(s.loops, copy)):
        return replace(read, loops=())
    words = s.split(copy, word)
    s.vectorize(words.inner)
    if words.tail:
        s.unroll(words.tail)
    loops, steps = words.loops, words.outer
    if words.whole and run:
        if trip(s.loops, steps) > run:
            runs = s.split(steps, run)
            loops, steps = [*loops, *runs.loops, runs.inner], runs.inner
        s.unroll(steps)
    return replace(read, loops=tuple(loops))


def _selects(loop: For) -> bool:
    return any(isinstance(n, Op) and n.name == "select" for n in walk(loop))
