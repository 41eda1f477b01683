"""Rules for 8-bit products: contractions and depthwise windows in dot instructions, lanes or packed words."""

from __future__ import annotations

from typing import Final

from sdk.compiler.ir.dependence import linear
from sdk.compiler.ir.loops import Alloc, For, Load, Loops, Op
from sdk.compiler.ir.pattern import Contraction, has_condition
from sdk.compiler.ir.walk import walk
from sdk.compiler.schedules.locate import find, has, loop_names
from sdk.compiler.schedules.rules.cores import Core
from sdk.compiler.schedules.rules.nest import extent, from_rows, fuse_all, names, reductions, trip, unrolled, work
from sdk.compiler.schedules.trace import Schedule

__all__ = ["integer_contraction", "integer_window"]

UNROLL_TAPS: Final = 16
COPY_RUN: Final = 16  # words of a gather written out between two branches
DOTS: Final = 8  # steps of a reduction written out, of four products for each sum of a tile
LONG_WORK: Final = 1 << 17  # multiply-accumulates that are worth code for it
TILES: Final = (3, 4, 5)  # pixels computed at once: as many as leave registers for what they read
STORE, TILE = 9, 12  # instructions that bring a sum to 8 bits, and those around a tile


def _windowed(loops: Loops, part: Contraction) -> bool:
    """Whether one pixel reads more than one run of ``a``, or past its edge."""
    return len([r for r in part.reduce if r.var.hi > 0]) > 1 or has_condition(loops, part.a)


def _pixel_loop(s: Schedule, part: Contraction) -> str:
    """The loop over pixels: the innermost spatial one, or all of a row range fused where no window is gathered."""
    spatial = part.spatial[:-1]
    if _windowed(s.loops, part) or not spatial:
        return spatial[-1].var.name if spatial else ""
    return fuse_all(s, names(from_rows(s.loops, spatial)), "px")


def _jam_pixels(s: Schedule, part: Contraction, pixel: str) -> None:
    """Several pixels at a time: each weight read serves all of them."""
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
    """Two pixels by two channels in registers, four products to a dot on packed words; one pixel by four channels
    where it stands alone."""
    one_row = extent(part.spatial[:-1]) == 1
    s = Schedule(loops, tm=core.tile_rows, tn=core.tile_cols, alone=4, dot=core.dot, word=4, run=COPY_RUN)
    channel, pixel = part.spatial[-1].var.name, _pixel_loop(s, part)
    if pixel and _windowed(loops, part):
        _gather(s, part, pixel, names(part.reduce), 1)
    s.do("pack", part.b, 1, 1)
    k = fuse_all(s, names(part.reduce), "k")
    s.do("split", k, "dot").do("use_dot", f"{k}_i")
    if not one_row:
        s.do("split", pixel, "tm")
    tiled = has(s.loops, f"{pixel}_i")
    if tiled:
        _tile_channels(s, f"{channel}_t", [f"{k}_o_t", f"{k}_t_t"], "alone")
    _tile_channels(s, channel, [f"{k}_o", f"{k}_t"], "tn" if tiled else "alone")
    if tiled:
        _jam_pixels(s, part, pixel)
        if has(s.loops, f"{channel}_i"):
            s.do("reorder", f"{pixel}_i", f"{channel}_i")  # both pixels use a weight before the next is unpacked
    if work(part) >= LONG_WORK:
        _write_out(s, f"{k}_o", DOTS)
        _write_out(s, f"{k}_o_t", DOTS // 2)
    return unrolled(s, [channel, f"{channel}_t", pixel])


def _write_out(s: Schedule, words: str, most: int) -> None:
    """Writes out as many steps of a reduction as divide it, at most so many: compilers keep addresses in registers."""
    if has(s.loops, words):
        count = trip(s.loops, words)
        size = max(n for n in range(1, most + 1) if count % n == 0)
        if size == count:
            s.do("unroll", words)
        elif size > 1:
            s.do("split", words, size).do("unroll", f"{words}_i")


def _tile_channels(s: Schedule, channel: str, reduce: list[str], size: str) -> None:
    """Several channels at a time: what is read of a pixel serves all of them."""
    if has(s.loops, channel):
        s.do("split", channel, size)
        if has(s.loops, f"{channel}_i"):
            s.do("jam", f"{channel}_i", [name for name in reduce if has(s.loops, name)])


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
        s.do("split", pixel, "tm")
        if has(s.loops, f"{pixel}_i"):
            _jam_pixels(s, part, pixel)
    return unrolled(s, [outer, pixel])


def integer_window(loops: Loops, part: Contraction, core: Core) -> Loops:
    """Depthwise: a few channels of the rows staged at a time on cores without vectors; else the padded window
    gathered per pixel, channels in lanes, taps written out."""
    if len(part.spatial) < 2 or part.spatial[-1].var.hi + 1 < core.lanes or not _same_channel(loops, part):
        return loops
    if core.lanes > 1:
        return _window_lanes(loops, part, core)
    channels, pixels = part.spatial[-1].hi, part.spatial[-2].hi
    if isinstance(channels, int) and isinstance(pixels, int) and pixels >= min(TILES):
        return _window_columns(loops, part, channels, pixels)
    return _window_words(loops, part) if core.dot > 1 and part.spatial[-1].var.hi >= 3 else loops


def _window_lanes(loops: Loops, part: Contraction, core: Core) -> Loops:
    channel, pixel = part.spatial[-1].var.name, part.spatial[-2].var.name
    s = Schedule(loops, lanes=core.lanes)
    reduce = names(part.reduce)
    if has_condition(loops, part.a):
        _gather(s, part, pixel, [*reduce, channel], 1)
    s.do("split", channel, "lanes").do("vectorize", f"{channel}_i")
    return _taps_written_out(s, part, [channel])


def _window_words(loops: Loops, part: Contraction) -> Loops:
    """One column of pixels: channels in packed words."""
    channel, pixel = part.spatial[-1].var.name, part.spatial[-2].var.name
    s = Schedule(loops, lanes=4, word=4, run=COPY_RUN)
    reduce = names(part.reduce)
    if has_condition(loops, part.a):
        _gather(s, part, pixel, [*reduce, channel], 1)
    s.do("split", channel, "lanes").do("jam", f"{channel}_i", reduce).do("use_mac_lanes", f"{channel}_i")
    return _taps_written_out(s, part, [channel])


def _window_columns(loops: Loops, part: Contraction, channels: int, pixels: int) -> Loops:
    """The rows that a row of the result reads are staged, a word of channels at a time and padded; of each channel
    neighbouring pixels are computed at once, so that an element read serves all of their windows."""
    channel, pixel = part.spatial[-1].var.name, part.spatial[-2].var.name
    s = Schedule(loops, group=min(4, channels), tm=_pixels_at_once(loops, part, pixels))
    reduce = names(part.reduce)
    s.do("reorder", pixel, channel).do("overlap", channel, "group")
    s.do("stage_region", f"{channel}_o", part.a).do("reorder", f"{channel}_i", pixel)
    if channels >= 4:
        region = next(n.buffer for n in walk(s.loops.body) if isinstance(n, Alloc) and n.buffer.space == "scratch")
        copies = (f"{region.name}_{len(region.shape) - 1}{part}" for part in ("l", "", "r"))
        for copy in (name for name in copies if has(s.loops, name)):
            s.do("vectorize", copy)
    s.do("overlap", pixel, "tm").do("jam", f"{pixel}_i", [f"{channel}_i", *reduce])
    return _taps_written_out(s, part, [pixel])


def _pixels_at_once(loops: Loops, part: Contraction, pixels: int) -> int:
    """How many pixels to compute at once: that which takes the fewest instructions for a row."""
    pixel, columns, taps = part.spatial[-2].var, part.reduce[-1].var.hi + 1, extent(part.reduce)
    reads = (n for n in walk(loops.body) if isinstance(n, Load) and n.buffer == part.a)
    steps = [step[0] for n in reads for d in n.index if (step := linear(d, pixel)) is not None]

    def cost(size: int) -> tuple[int, int]:
        loads = taps // columns * (max(steps, default=1) * (size - 1) + columns)
        return -(-pixels // size) * (loads + taps * (size + 1) + STORE * size + TILE), size

    return min((size for size in TILES if size <= pixels), key=cost)


def _taps_written_out(s: Schedule, part: Contraction, stems: list[str]) -> Loops:
    if extent(part.reduce) <= UNROLL_TAPS:
        for name in names(part.reduce):
            s.do("unroll", name)
    return unrolled(s, stems)


def _same_channel(loops: Loops, part: Contraction) -> bool:
    """Whether ``a`` is read at consecutive channels (no channel multiplier)."""
    var = part.spatial[-1].var
    return any(isinstance(n, Load) and n.buffer == part.a and n.index[-1] is var.expr for n in walk(loops.body))
