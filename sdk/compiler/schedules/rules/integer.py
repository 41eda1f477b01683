"""Rules for 8-bit products: contractions and depthwise windows in dot instructions, lanes or packed words."""

from __future__ import annotations

from typing import Final

from sdk.compiler.ir.loops import Alloc, For, Load, Loops, Op
from sdk.compiler.ir.pattern import Contraction, has_condition
from sdk.compiler.ir.walk import walk
from sdk.compiler.schedules.locate import find, has, loop_names
from sdk.compiler.schedules.rules.cores import Core
from sdk.compiler.schedules.rules.nest import extent, fuse_all, names, reductions, trip, unrolled
from sdk.compiler.schedules.trace import Schedule

__all__ = ["integer_contraction", "integer_window"]

UNROLL_TAPS: Final = 16
COPY_RUN: Final = 16  # words of a gather written out between two branches


def _windowed(loops: Loops, part: Contraction) -> bool:
    """Whether one pixel reads more than one run of ``a``, or past its edge."""
    return len([r for r in part.reduce if r.var.hi > 0]) > 1 or has_condition(loops, part.a)


def _pixel_loop(s: Schedule, part: Contraction) -> str:
    """The loop over pixels: the innermost spatial one, or all of a row range fused where no window is gathered."""
    spatial = part.spatial[:-1]
    if _windowed(s.loops, part) or not spatial:
        return spatial[-1].var.name if spatial else ""
    rows = s.loops.rows
    first = next((k for k, loop in enumerate(spatial) if rows and loop.lo is rows.lo.expr), 0)
    return fuse_all(s, [loop.var.name for loop in spatial[first:]], "px")


def _tile_pixels(s: Schedule, part: Contraction, pixel: str) -> None:
    """Several pixels at a time: each weight read serves all of them."""
    s.do("split", pixel, "tm")
    if has(s.loops, f"{pixel}_i"):
        inside = dict.fromkeys(loop_names(find(s.loops, f"{pixel}_i").body))
        small = (f"{part.spatial[-1].var.name}_i", f"{part.spatial[-1].var.name}_o_i")
        into = [n for n in inside if not n.endswith("_s") and "_window" not in n and not n.startswith(small)]
        s.do("jam", f"{pixel}_i", into)


def _gather(s: Schedule, part: Contraction, pixel: str, over: list[str], multiple: int | str) -> None:
    """Stages the window of a pixel; on cores without vectors it is copied in words, written out where few."""
    s.do("stage", pixel, part.a, over, multiple)
    copy = f"{over[-1]}_s"
    if "word" not in s.knobs or trip(s.loops, copy) % s.knobs["word"] or _selects(find(s.loops, copy)):
        return
    s.do("split", copy, "word").do("vectorize", f"{copy}_i")
    if has(s.loops, f"{copy}_o"):
        words = f"{copy}_o"
        if trip(s.loops, words) > s.knobs["run"]:
            s.do("split", words, "run")
            words = f"{words}_i"
        s.do("unroll", words)


def _selects(loop: For) -> bool:
    return any(isinstance(n, Op) and n.name == "select" for n in walk(loop))


def integer_contraction(loops: Loops, part: Contraction, core: Core) -> Loops:
    """Gathers the window, fuses the reduction, tiles channels and pixels in registers, dots where there is one."""
    if core.lanes > 1:
        return _contraction_lanes(loops, part, core)
    return _contraction_words(loops, part, core) if core.dot > 1 and extent(part.reduce) >= core.dot else loops


def _contraction_words(loops: Loops, part: Contraction, core: Core) -> Loops:
    """Two pixels by two channels in registers, four products to a dot on packed words."""
    one_row = extent(part.spatial[:-1]) == 1
    tm, tn = (1, 4) if one_row else (core.tile_rows, core.tile_cols)
    s = Schedule(loops, tm=tm, tn=tn, dot=core.dot, word=4, run=COPY_RUN)
    channel, pixel = part.spatial[-1].var.name, _pixel_loop(s, part)
    if pixel and _windowed(loops, part):
        _gather(s, part, pixel, names(part.reduce), 1)
    s.do("pack", part.b, 1, 1)
    k = fuse_all(s, names(part.reduce), "k")
    s.do("split", k, "dot").do("use_dot", f"{k}_i").do("split", channel, "tn")
    if has(s.loops, f"{channel}_i"):
        s.do("jam", f"{channel}_i", reductions(s, k))
    if not one_row:
        _tile_pixels(s, part, pixel)
        if has(s.loops, f"{pixel}_i") and has(s.loops, f"{channel}_i"):
            s.do("reorder", f"{pixel}_i", f"{channel}_i")  # both pixels use a weight before the next is unpacked
    return unrolled(s, [channel, pixel])


def _contraction_lanes(loops: Loops, part: Contraction, core: Core) -> Loops:
    """Channels in lanes, weights packed so that one load feeds one dot, pixels and vectors tiled in registers."""
    if part.spatial[-1].var.hi + 1 < core.lanes or len(part.spatial) < 2:
        return loops
    one_row = extent(part.spatial[:-1]) == 1
    s = Schedule(loops, tm=1 if one_row else core.tile_rows, tn=core.tile_cols, lanes=core.lanes, dot=core.dot)
    acc = next(n.buffer.name for n in walk(loops.body) if isinstance(n, Alloc))
    channel, pixel = part.spatial[-1].var.name, _pixel_loop(s, part)
    if core.dot > 1 or _windowed(loops, part):
        s.do("stage", pixel, part.a, names(part.reduce), "dot")
    s.do("pack", part.b, "lanes", "dot")
    k = fuse_all(s, names(part.reduce), "k")
    if core.dot > 1:
        s.do("pad", k, "dot").do("split", k, "dot")
    s.do("split", channel, "lanes").do("jam", f"{channel}_i", reductions(s, k))
    if core.dot > 1:
        s.do("use_dot", f"{k}_i", f"{channel}_i")
    s.do("vectorize", f"{channel}_i").do("vector_registers", acc, "lanes")
    outer = f"{channel}_o"
    if s.knobs["tn"] > 1 and trip(s.loops, outer) > 1:
        s.do("split", outer, "tn")
        if has(s.loops, f"{outer}_i"):
            s.do("jam", f"{outer}_i", reductions(s, k))
    if not one_row:
        _tile_pixels(s, part, pixel)
    return unrolled(s, [outer, pixel])


def integer_window(loops: Loops, part: Contraction, core: Core) -> Loops:
    """Depthwise: the padded window gathered per pixel, channels in words or lanes, taps written out."""
    if len(part.spatial) < 2 or (core.lanes == 1 and core.dot == 1):
        return loops
    channel, pixel = part.spatial[-1].var.name, part.spatial[-2].var.name
    width = core.lanes if core.lanes > 1 else 4
    if part.spatial[-1].var.hi + 1 < width or not _same_channel(loops, part):
        return loops
    s = Schedule(loops, lanes=width) if core.lanes > 1 else Schedule(loops, lanes=width, word=4, run=COPY_RUN)
    reduce = names(part.reduce)
    if has_condition(loops, part.a):
        _gather(s, part, pixel, [*reduce, channel], 1)
    s.do("split", channel, "lanes")
    if core.lanes > 1:
        s.do("vectorize", f"{channel}_i")
    else:
        s.do("jam", f"{channel}_i", reduce).do("use_mac_lanes", f"{channel}_i")
    if extent(part.reduce) <= UNROLL_TAPS:
        for name in reduce:
            s.do("unroll", name)
    return unrolled(s, [channel])


def _same_channel(loops: Loops, part: Contraction) -> bool:
    """Whether ``a`` is read at consecutive channels (no channel multiplier)."""
    var = part.spatial[-1].var
    return any(isinstance(n, Load) and n.buffer == part.a and n.index[-1] is var.expr for n in walk(loops.body))
