"""Rules for 8-bit products of few channels on cores with vectors of four words: those that channels in lanes leave."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sdk.compiler.analysis.pattern import Contraction, has_condition
from sdk.compiler.ir.loops import Alloc, For, Load, Loops
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.line_buffer import LineBuffer
from sdk.compiler.schedules.locate import Loop, ScheduleError, find, loop_of, loops_of
from sdk.compiler.schedules.rules.contraction import column_axis
from sdk.compiler.schedules.rules.integer_window import (
    dilation,
    multiplier,
    pixels_of,
    span,
    taps_along,
)
from sdk.compiler.schedules.rules.nest import extent, write_out
from sdk.compiler.schedules.rules.reduction import chain
from sdk.compiler.schedules.tensorize import factors_of, no_var
from sdk.compiler.schedules.trace import Schedule
from sdk.compiler.sym import Var, free_vars, prove_ge

__all__ = [
    "ChannelProducts",
    "MultiplierWindow",
    "NarrowWindow",
    "reads_channels",
    "runs_of",
    "staged_rows",
    "varies",
]


@dataclass(frozen=True, slots=True)
class NarrowWindow:
    """Depthwise, fewer channels than a vector has ``lanes``: those of a pixel in the first lanes. Some rows are staged
    together, in ``region`` bytes; the windows of ``at_once`` neighbouring pixels share what is read. Up to ``taps``
    taps of a window are written out. It takes ``minimum`` multiply-accumulates."""

    minimum: int
    region: int
    lanes: int
    at_once: int
    taps: int
    name = "narrow-window"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Windows of bytes of few channels."""
        return nest.is_product("window", "bytes", self.minimum) and nest.part.spatial[-1].var.hi + 1 < self.lanes

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Channels in the first lanes of a vector.

        Raises:
            ScheduleError: there are no rows of pixels, the channels are no channels of the image, or a step does not
                apply.
        """
        loops, part = nest.loops, nest.part
        if len(part.spatial) < 3 or not pixels_of(part) or multiplier(loops, part) != 1:
            raise ScheduleError("no rows of pixels, or channels of another kind")
        channel, pixel, row = loops_of(part.spatial[:-4:-1])
        s = Schedule(loops)
        s.pack(part.b, self.lanes, 1, column_axis(loops, part))
        rows = s.block(row, _rows_at_once(self.region, loops, part, part.spatial[-3:-1], extent(part.spatial[-1:])))
        if has_condition(loops, part.a):
            copy_lines(s, s.line_buffer(rows.outer, part.a), extent(part.spatial[-1:]), self.lanes)
        s.pad_loop(channel, self.lanes).vectorize(channel)
        return _pixels(s, part, pixel, self.at_once, self.taps)


@dataclass(frozen=True, slots=True)
class MultiplierWindow:
    """Depthwise with several channels of the result to one of the image: those are the lanes, and an element of the
    image is multiplied by a vector. Some rows of a channel are staged together, in ``region`` bytes; the windows of
    ``at_once`` neighbouring pixels share weights. Up to ``taps`` taps of a window are written out. It takes ``minimum``
    multiply-accumulates."""

    minimum: int
    region: int
    lanes: int
    at_once: int
    taps: int
    name = "multiplier-window"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Windows of bytes with a multiplier."""
        return nest.is_product("window", "bytes", self.minimum) and multiplier(nest.loops, nest.part) > 1

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """The channels that an element is multiplied for in lanes.

        Raises:
            ScheduleError: there are no rows of pixels, or a step does not apply.
        """
        loops, part = nest.loops, nest.part
        if len(part.spatial) < 3 or not pixels_of(part):
            raise ScheduleError("no rows of pixels")
        several = multiplier(loops, part)
        channel, pixel, row = loops_of(part.spatial[:-4:-1])
        s = Schedule(loops)
        s.pack(part.b, several, 1, column_axis(loops, part))
        split = s.split(channel, several)
        rows = s.block(row, _rows_at_once(self.region, loops, part, part.spatial[-3:-1], 1))
        s.reorder(pixel, split.outer).reorder(rows.inner, split.outer)
        if has_condition(loops, part.a):
            s.line_buffer(split.outer, part.a)
        lanes = split.inner
        s.pad_loop(lanes, self.lanes)
        if several > self.lanes:
            vectors = s.split(lanes, self.lanes)
            s.reorder(pixel, vectors.outer)
            lanes = vectors.inner
        s.vectorize(lanes)
        return _pixels(s, part, pixel, self.at_once, self.taps)


def _pixels(s: Schedule, part: Contraction, pixel: Loop, at_once: int, taps: int) -> Loops:
    """Neighbouring pixels side by side."""
    reduce = loops_of(part.reduce)
    tile = s.overlap(pixel, min(at_once, pixels_of(part))).inner
    s.unroll_and_jam(tile, reduce)
    return write_out(s, [tile, *(reduce if extent(part.reduce) <= taps else [])])


def _rows_at_once(region: int, loops: Loops, part: Contraction, around: tuple[For, ...], channels: int) -> int:
    """Rows of the result whose windows are staged together: as many as ``region`` bytes hold, of so many channels."""
    row, pixel = around
    width = channels * span(loops, part, pixel.var, pixel.var.hi + 1)
    rows = range(1, row.var.hi + 2)
    return max((n for n in rows if span(loops, part, row.var, n) * width <= region), default=1)


def copy_lines(s: Schedule, lines: LineBuffer, channels: int, room: int = 0) -> None:
    """Copies staged rows in vectors, the last of which goes back over elements before it. Those of several ``channels``
    become one run of pixels and channels, with ``room`` for so many elements after it."""
    run = lines.copy
    if channels > 1:
        s.flatten(lines.buffer.name, room)
        run = s.fuse(lines.copies[-2], run, f"{lines.buffer.name}_p")
    count = find(s.loops, run).hi - find(s.loops, run).lo
    size = next((n for n in (16, 8, 4) if prove_ge(count, n) is True), 0)
    if size:
        s.attempt(_copy_lanes, run, size)


def _copy_lanes(s: Schedule, run: Loop, size: int) -> Schedule:
    return s.vectorize(s.overlap(run, size).inner)


def varies(nest: Nest, param: str) -> bool:
    """Whether neighbours along the last loop over the result read other elements of a parameter."""
    var = nest.part.spatial[-1].var
    reads = (n for n in walk(nest.loops.body) if isinstance(n, Load) and n.buffer == param)
    return any(var in free_vars(at) for n in reads for at in n.index)


def runs_of(loops: Loops, part: Contraction, pixel: For) -> tuple[list[Loop], list[Loop]]:
    """The loops over a window in two parts: what the second ones go over are neighbours in a row of the image.

    Raises:
        ScheduleError: there are no neighbours.
    """
    along, reduce = taps_along(loops, part, pixel.var), part.reduce
    first = next((k for k, loop in enumerate(reduce) if loop.var in along), len(reduce))
    apart = first < len(reduce) and dilation(loops, part, pixel.var) > 1
    run = reduce[first + apart :] or (() if apart or not reads_channels(loops, part) else reduce[-1:])
    if not run or len(run) > 2:
        raise ScheduleError("no neighbours in a row")
    return loops_of(reduce[: len(reduce) - len(run)]), loops_of(run)


def reads_channels(loops: Loops, part: Contraction) -> bool:
    """Whether the innermost sum goes over channels."""
    reads = (n for n in walk(loops.body) if isinstance(n, Load) and n.buffer == part.a)
    return any(part.reduce[-1].var in free_vars(n.index[-1]) for n in reads)


def staged_rows(s: Schedule, part: Contraction, row: For, pixel: For, region: int) -> None:
    """Stages the rows of the image that some rows of the result read, in ``region`` bytes; those of one row of the
    result also where they take more, but an eighth of the image at most.

    Raises:
        ScheduleError: there are too many channels, or pixels of a number known at run time, or a step does not apply.
    """
    image = s.loops.param(part.a).buffer
    channels = image.shape[-1]
    if pixel.lo != 0 or not isinstance(pixel.hi, int) or not isinstance(channels, int):
        raise ScheduleError("no number of pixels or channels")
    count = _rows_at_once(region, s.loops, part, (row, pixel), channels)
    lines = s.line_buffer(s.block(loop_of(row), count).outer, part.a)
    limit = max(region, (image.type.max_bytes or 0) // 8)
    if (lines.buffer.type.max_bytes or limit + 1) > limit:
        raise ScheduleError("rows are longer than the region")
    copy_lines(s, lines, channels)


@dataclass(frozen=True, slots=True)
class ChannelProducts:
    """Images of one channel: an element of the result is one product, and channels of the result are the ``lanes``.
    ``at_once`` neighbouring pixels share what is read of these."""

    lanes: int
    at_once: int
    name = "channel-products"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """One product of bytes for each element."""
        around = chain(nest.loops)
        return bool(around) and nest.kind == "reduction" and _one_product(around[-1])

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Channels in lanes.

        Raises:
            ScheduleError: a weight is no constant, or a step does not apply.
        """
        *around, column = chain(nest.loops)
        s, name = Schedule(nest.loops), loop_of(column)
        for param, axis in _across(nest, column.var):
            s.pack(param, self.lanes if column.var.hi + 1 < self.lanes else 1, 1, axis)
        if column.var.hi + 1 < self.lanes:
            s.pad_loop(name, self.lanes).vectorize(name)
            return s.done()
        tiles = s.overlap(name, self.lanes)
        s.vectorize(tiles.inner)
        if around and isinstance(around[-1].hi, int):
            pixel = s.overlap(loop_of(around[-1]), min(self.at_once, around[-1].hi)).inner
            s.unroll_and_jam(pixel, [tiles.outer]).unroll(pixel)
        return s.done()


def _one_product(column: For) -> bool:
    """Whether what a loop does is to bring a product of bytes, one of which is the same for all, to an element."""
    steps = [n for n in column.body.body if not isinstance(n, Alloc)]
    if len(steps) != 3 or any(isinstance(n, For) for n in column.body.body):
        return False
    try:
        _, a, b = factors_of(steps[1])
    except ScheduleError:
        return False
    if not all(isinstance(factor, Load) and factor.dtype.bits == 8 for factor in (a, b)):
        return False
    return any(no_var(factor, column.var) for factor in (a, b))


def _across(nest: Nest, var: Var) -> Iterator[tuple[str, int]]:
    """The constants that are read along another axis than their last one, with that axis."""
    for load in dict.fromkeys(n for n in walk(nest.loops.body) if isinstance(n, Load)):
        axes = [k for k, at in enumerate(load.index) if var in free_vars(at)]
        if len(axes) == 1 and axes[0] < len(load.index) - 1 and nest.constant(load.buffer):
            yield load.buffer, axes[0]
