"""What rules for 8-bit windows share: the loop over pixels, and the gather of the window of one to scratch."""

from __future__ import annotations

from typing import Final

from sdk.compiler.ir.loops import For, Loops, Op
from sdk.compiler.ir.pattern import Contraction, has_condition
from sdk.compiler.ir.walk import walk
from sdk.compiler.schedules.locate import find, has
from sdk.compiler.schedules.rules.nest import from_rows, fuse_all, names, trip
from sdk.compiler.schedules.trace import Schedule

__all__ = ["COPY_RUN", "gather_window", "pixel_loop", "windowed"]

COPY_RUN: Final = 16  # words of a gather written out between two branches


def windowed(loops: Loops, part: Contraction) -> bool:
    """Whether one pixel reads more than one run of ``a``, or past its edge."""
    return len([r for r in part.reduce if r.var.hi > 0]) > 1 or has_condition(loops, part.a)


def pixel_loop(s: Schedule, part: Contraction) -> str:
    """The loop over pixels: the innermost spatial one, or all of a row range fused where no window is gathered."""
    spatial = part.spatial[:-1]
    if windowed(s.loops, part) or not spatial:
        return spatial[-1].var.name if spatial else ""
    return fuse_all(s, names(from_rows(s.loops, spatial)), "px")


def gather_window(s: Schedule, part: Contraction, pixel: str, over: list[str], multiple: int | str) -> None:
    """Stages the window of a pixel; on cores without vectors it is copied in words, ``run`` of which are written out
    where the schedule says how many."""
    s.do("cache_read", pixel, part.a, over, multiple)
    copy = f"{over[-1]}_s"
    if "word" not in s.knobs or trip(s.loops, copy) % s.knobs["word"] or _selects(find(s.loops, copy)):
        return
    s.do("split", copy, "word").do("vectorize", f"{copy}_i")
    if has(s.loops, f"{copy}_o") and "run" in s.knobs:
        words = f"{copy}_o"
        if trip(s.loops, words) > s.knobs["run"]:
            s.do("split", words, "run")
            words = f"{words}_i"
        s.do("unroll", words)


def _selects(loop: For) -> bool:
    return any(isinstance(n, Op) and n.name == "select" for n in walk(loop))
