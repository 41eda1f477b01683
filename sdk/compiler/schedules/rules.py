"""Default rules: which schedule a loops function gets on a core with given capabilities. No tuning, no search."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sdk.compiler.ir.loops import Alloc, For, Load, Loops, Op
from sdk.compiler.ir.pattern import Contraction, classify, has_condition
from sdk.compiler.ir.walk import walk
from sdk.compiler.schedules.locate import ScheduleError, find, has, loop_names
from sdk.compiler.schedules.trace import Schedule
from sdk.compiler.sym import max_value, product

__all__ = ["CORES", "Core", "core_for", "schedule"]


@dataclass(frozen=True, slots=True)
class Core:
    """What the rules need to know of a core. ``lanes`` = 32-bit lanes of a vector (1 = none); ``dot`` = 8-bit
    products per 32-bit lane of its dot instruction (1 = none); ``unsigned`` = its first operand is unsigned."""

    name: str
    needs: frozenset[str]
    lanes: int
    dot: int
    unsigned: bool
    tile_rows: int
    tile_cols: int


# first match wins: the widest instructions a core has
CORES: Final = (
    Core("avx512vnni", frozenset({"avx512vnni", "avx512bw", "avx512vl"}), 16, 4, True, 4, 2),
    Core("avxvnni", frozenset({"avxvnni", "avx2"}), 8, 4, True, 3, 2),
    Core("avx2", frozenset({"avx2"}), 8, 1, False, 2, 2),
    Core("dsp", frozenset({"dsp"}), 1, 4, False, 2, 2),
    Core("scalar", frozenset(), 1, 1, False, 1, 1),
)
SMALL_WORK: Final = 4096  # multiply-accumulates below which the plain nest is kept: code size counts more
UNROLL_TAPS: Final = 16
COPY_RUN: Final = 16  # words of a gather written out between two branches


def core_for(capabilities: Iterable[str]) -> Core:
    """The row of ``CORES`` for a set of capabilities."""
    have = frozenset(capabilities)
    return next(core for core in CORES if core.needs <= have)


def schedule(loops: Loops, core: Core) -> Loops:
    """``loops`` scheduled for ``core``; as it is where no rule helps, or where an obligation of one does not hold
    (symbolic extents, operands laid out otherwise): the plain nest is always right."""
    try:
        return _schedule(loops, core)
    except ScheduleError:
        return loops


def _schedule(loops: Loops, core: Core) -> Loops:
    pattern = classify(loops)
    part = pattern.product
    if part is not None and _work(part) >= SMALL_WORK and loops.param(part.a).buffer.dtype.bits == 8:
        if pattern.kind == "contraction":
            return _contraction(loops, part, core)
        if pattern.kind == "window":
            return _window(loops, part, core)
    if pattern.kind == "elementwise" and core.lanes > 1:
        return _elementwise(loops, core)
    return loops


def _work(part: Contraction) -> int:
    return max_value(product(tuple(loop.var.hi + 1 for loop in (*part.spatial, *part.reduce)))) or 0


def _extent(chain: tuple[For, ...]) -> int:
    out = 1
    for loop in chain:
        out *= loop.var.hi + 1
    return out


def _names(chain: tuple[For, ...]) -> list[str]:
    return [loop.var.name for loop in chain]


def _trip(loops: Loops, name: str) -> int:
    extent = find(loops, name).hi
    return extent if isinstance(extent, int) else 1 << 30


def _fuse_all(s: Schedule, names: list[str], into: str) -> str:
    """Fuses a chain of loops into one; returns its name."""
    current = names[0]
    for inner in names[1:]:
        s.do("fuse", current, inner, into)
        current = into
    return current


def _reductions(s: Schedule, k: str) -> list[str]:
    """The loops that the reduction ``k`` has become, for jam to enter."""
    return [n for n in (f"{k}_o", f"{k}_t", k) if has(s.loops, n)]


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
    return _fuse_all(s, [loop.var.name for loop in spatial[first:]], "px")


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
    if "word" not in s.knobs or _trip(s.loops, copy) % s.knobs["word"] or _selects(find(s.loops, copy)):
        return
    s.do("split", copy, "word").do("vectorize", f"{copy}_i")
    if has(s.loops, f"{copy}_o"):
        words = f"{copy}_o"
        if _trip(s.loops, words) > s.knobs["run"]:
            s.do("split", words, "run")
            words = f"{words}_i"
        s.do("unroll", words)


def _selects(loop: For) -> bool:
    return any(isinstance(n, Op) and n.name == "select" for n in walk(loop))


def _unrolled(s: Schedule, stems: list[str]) -> Loops:
    """Writes out the tile loops ``<stem>_i`` and their copies in tails."""
    for name in dict.fromkeys(loop_names(s.loops.body)):
        for stem in filter(None, stems):
            tail = name.removeprefix(f"{stem}_i")
            if name.startswith(f"{stem}_i") and not tail.replace("_t", "") and _trip(s.loops, name) <= 64:
                s.do("unroll", name)
                break
    return s.done()


def _contraction(loops: Loops, part: Contraction, core: Core) -> Loops:
    """Gathers the window, fuses the reduction, tiles channels and pixels in registers, dots where there is one."""
    if core.lanes > 1:
        return _contraction_lanes(loops, part, core)
    return _contraction_words(loops, part, core) if core.dot > 1 and _extent(part.reduce) >= core.dot else loops


def _contraction_words(loops: Loops, part: Contraction, core: Core) -> Loops:
    """Two pixels by two channels in registers, four products to a dot on packed words."""
    one_row = _extent(part.spatial[:-1]) == 1
    tm, tn = (1, 4) if one_row else (core.tile_rows, core.tile_cols)
    s = Schedule(loops, tm=tm, tn=tn, dot=core.dot, word=4, run=COPY_RUN)
    channel, pixel = part.spatial[-1].var.name, _pixel_loop(s, part)
    if pixel and _windowed(loops, part):
        _gather(s, part, pixel, _names(part.reduce), 1)
    s.do("pack", part.b, 1, 1)
    k = _fuse_all(s, _names(part.reduce), "k")
    s.do("split", k, "dot").do("use_dot", f"{k}_i").do("split", channel, "tn")
    if has(s.loops, f"{channel}_i"):
        s.do("jam", f"{channel}_i", _reductions(s, k))
    if not one_row:
        _tile_pixels(s, part, pixel)
        if has(s.loops, f"{pixel}_i") and has(s.loops, f"{channel}_i"):
            s.do("reorder", f"{pixel}_i", f"{channel}_i")  # both pixels use a weight before the next is unpacked
    return _unrolled(s, [channel, pixel])


def _contraction_lanes(loops: Loops, part: Contraction, core: Core) -> Loops:
    """Channels in lanes, weights packed so that one load feeds one dot, pixels and vectors tiled in registers."""
    if part.spatial[-1].var.hi + 1 < core.lanes or len(part.spatial) < 2:
        return loops
    one_row = _extent(part.spatial[:-1]) == 1
    s = Schedule(loops, tm=1 if one_row else core.tile_rows, tn=core.tile_cols, lanes=core.lanes, dot=core.dot)
    acc = next(n.buffer.name for n in walk(loops.body) if isinstance(n, Alloc))
    channel, pixel = part.spatial[-1].var.name, _pixel_loop(s, part)
    if core.dot > 1 or _windowed(loops, part):
        s.do("stage", pixel, part.a, _names(part.reduce), "dot")
    s.do("pack", part.b, "lanes", "dot")
    k = _fuse_all(s, _names(part.reduce), "k")
    if core.dot > 1:
        s.do("pad", k, "dot").do("split", k, "dot")
    s.do("split", channel, "lanes").do("jam", f"{channel}_i", _reductions(s, k))
    if core.dot > 1:
        s.do("use_dot", f"{k}_i", f"{channel}_i")
    s.do("vectorize", f"{channel}_i").do("vector_registers", acc, "lanes")
    outer = f"{channel}_o"
    if s.knobs["tn"] > 1 and _trip(s.loops, outer) > 1:
        s.do("split", outer, "tn")
        if has(s.loops, f"{outer}_i"):
            s.do("jam", f"{outer}_i", _reductions(s, k))
    if not one_row:
        _tile_pixels(s, part, pixel)
    return _unrolled(s, [outer, pixel])


def _window(loops: Loops, part: Contraction, core: Core) -> Loops:
    """Depthwise: the padded window gathered per pixel, channels in words or lanes, taps written out."""
    if len(part.spatial) < 2 or (core.lanes == 1 and core.dot == 1):
        return loops
    channel, pixel = part.spatial[-1].var.name, part.spatial[-2].var.name
    width = core.lanes if core.lanes > 1 else 4
    if part.spatial[-1].var.hi + 1 < width or not _same_channel(loops, part):
        return loops
    s = Schedule(loops, lanes=width) if core.lanes > 1 else Schedule(loops, lanes=width, word=4, run=COPY_RUN)
    reduce = _names(part.reduce)
    if has_condition(loops, part.a):
        _gather(s, part, pixel, [*reduce, channel], 1)
    s.do("split", channel, "lanes")
    if core.lanes > 1:
        s.do("vectorize", f"{channel}_i")
    else:
        s.do("jam", f"{channel}_i", reduce).do("use_mac_lanes", f"{channel}_i")
    if _extent(part.reduce) <= UNROLL_TAPS:
        for name in reduce:
            s.do("unroll", name)
    return _unrolled(s, [channel])


def _same_channel(loops: Loops, part: Contraction) -> bool:
    """Whether ``a`` is read at consecutive channels (no channel multiplier)."""
    var = part.spatial[-1].var
    return any(isinstance(n, Load) and n.buffer == part.a and n.index[-1] is var.expr for n in walk(loops.body))


def _elementwise(loops: Loops, core: Core) -> Loops:
    """The innermost loop in lanes where operands are consecutive or constant along it."""
    names = loop_names(loops.body)
    s = Schedule(loops, lanes=core.lanes)
    if not names or find(loops, names[-1]).var.hi + 1 < core.lanes:
        return loops
    return s.do("split", names[-1], "lanes").do("vectorize", f"{names[-1]}_i").done()
