"""Rules for 8-bit products on cores whose dot instruction adds a whole vector of products to one sum; for depthwise
windows, neighbouring pixels of staged rows with channels in lanes, as AArch64 takes them too."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from sdk.compiler.analysis.pattern import Contraction, has_condition
from sdk.compiler.ir.loops import Buffer, For, Loops
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.locate import Loop, ScheduleError, loop_of, loops_of
from sdk.compiler.schedules.rules.few_channels import reads_channels, runs_of, staged_rows, varies
from sdk.compiler.schedules.rules.gather import COPY_RUN, gather_window, pixel_loop, windowed
from sdk.compiler.schedules.rules.integer_window import window_stride
from sdk.compiler.schedules.rules.nest import extent, fuse_all, products_of, trip, write_out
from sdk.compiler.schedules.trace import Schedule
from sdk.compiler.sym import prove_ge

__all__ = ["AcrossTiles", "OneChannel", "QuadWindow", "Staging"]


@dataclass(frozen=True, slots=True)
class Staging:
    """How the windows of a convolution are brought together: gathered, each in ``gather`` instructions an element, or a
    hundredth of ``gather_words`` where channels fill vectors; or taken of staged rows, which take ``region`` bytes at
    most and may need more dots, of ``dot`` instructions each."""

    region: int
    gather: int
    gather_words: int
    dot: int


@dataclass(frozen=True, slots=True)
class AcrossTiles:
    """Sums of two pixels by two channels in registers, of one pixel by four where it stands alone; what becomes of
    the sums of four channels is computed in lanes. Up to ``steps`` steps of a sum are written out. It takes ``minimum``
    multiply-accumulates."""

    minimum: int
    steps: int
    staging: Staging
    name = "across-tiles"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Products of bytes."""
        return nest.is_product("contraction", "bytes", self.minimum)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Tiles of sums, each of a dot along the reduction.

        Raises:
            ScheduleError: there are no rows, or a step does not apply.
        """
        return _across(self, nest.loops, nest.part, machine)


def _across(rule: AcrossTiles, loops: Loops, part: Contraction, machine: Machine) -> Loops:
    if len(part.spatial) < 2:
        raise ScheduleError("no rows")
    alone = extent(part.spatial[:-1]) == 1
    tn = 4 if alone else machine.tile_cols
    s = Schedule(loops)
    channel, pixel = loop_of(part.spatial[-1]), pixel_loop(s, part)
    assert pixel is not None  # there are rows
    sums = _sums(rule, s, part, pixel, products_of(machine))
    quads, tile = s.split(channel, 4), []
    inside = [quads.outer]
    if quads.whole:
        (after,) = s.fission(quads.inner, "local")
        pairs = s.vectorize(after).split(quads.inner, tn)
        s.unroll_and_jam(pairs.inner, sums)
        tile = [pairs.inner, pairs.outer]
        inside = [quads.outer, pairs.outer]
    if (left := (part.spatial[-1].var.hi + 1) % 4) == 3:  # masks take as long as two channels without lanes
        assert quads.tail is not None
        rest = s.overlap(quads.tail, left).inner
        (after,) = s.fission(rest, "local")
        s.pad_loop(after, 4).vectorize(after).unroll_and_jam(rest, quads.in_tail(sums))
        tile.append(rest)
    words = quads.everywhere(sums)
    if not alone:
        tiles = s.split(pixel, machine.tile_rows)
        words, tile = list(dict.fromkeys([*words, *tiles.in_tail(sums)])), tiles.everywhere(tile)
        if tiles.whole:
            s.unroll_and_jam(tiles.inner, [*inside, *sums])
            tile.append(tiles.inner)
    return write_out(s, (*(n for n in words if trip(s.loops, n) <= rule.steps), *tile))


def _sums(rule: AcrossTiles, s: Schedule, part: Contraction, pixel: Loop, dot: int) -> list[Loop]:
    """Makes dots of the products of a sum; the loops around them."""
    rows = windowed(s.loops, part) and len(part.spatial) > 2
    down, run = (s.attempt(_staged, rule.staging, part, dot) if rows else None) or _gathered(s, part, pixel, dot)
    s.pack(part.b, 1, 1)
    return [*down, *dots(s, run, dot)]


def _gathered(s: Schedule, part: Contraction, pixel: Loop, dot: int) -> tuple[list[Loop], list[Loop]]:
    """As where rows are staged, the loops over a sum in two parts, of which the first is empty: where it is a window,
    that is gathered."""
    reduce = loops_of(part.reduce)
    if windowed(s.loops, part):
        gather_window(s, part, pixel, reduce, word=dot, run=COPY_RUN)
    return [], reduce


def dots(s: Schedule, reduce: list[Loop], dot: int) -> list[Loop]:
    """Makes dots of loops over neighbouring products, the last one of what is left; the loops over the others."""
    steps = s.split(fuse_all(s, reduce, "k"), dot)
    if steps.whole:
        s.use_dot(steps.inner)
    if steps.tail:
        s.use_dot_first(steps.tail, dot)
    return [steps.outer] if steps.whole else []


def _staged(s: Schedule, rule: Staging, part: Contraction, dot: int) -> tuple[list[Loop], list[Loop]]:
    """Stages rows where that takes less than to gather each window."""
    row, pixel, channel = part.spatial[-3:]
    down, run = runs_of(s.loops, part, pixel)
    products, sums = extent(part.reduce), channel.var.hi + 1
    words = extent(part.reduce[-1:]) % dot == 0
    gather = products * rule.gather_words // 100 if words else products * rule.gather
    more = _trips(s, down) * -(-_trips(s, run) // dot) - -(-products // dot)
    if more * rule.dot * sums > gather:
        raise ScheduleError("rows take more dots than gathering saves")
    staged_rows(s, part, row, pixel, rule.region)
    return down, run


def _trips(s: Schedule, loops: list[Loop]) -> int:
    return prod(trip(s.loops, loop) for loop in loops)


@dataclass(frozen=True, slots=True)
class OneChannel:
    """One channel of the result: sums of four neighbouring pixels in registers, what becomes of them in lanes. Rows are
    staged together, in ``region`` bytes; where they are longer, windows are gathered, one pixel at a time. Up to
    ``steps`` steps of a sum are written out, and up to ``taps`` taps where pixels are lanes, as in images of one
    channel. It takes ``minimum`` multiply-accumulates."""

    minimum: int
    steps: int
    region: int
    taps: int
    name = "one-channel"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Products of bytes along a row of pixels, by the same weights for each."""
        return nest.is_product("window", "bytes", self.minimum) and not varies(nest, nest.part.b)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Sums of four pixels, or of one, each of a dot along the reduction.

        Raises:
            ScheduleError: there are no rows, or a step does not apply.
        """
        loops, part, dot = nest.loops, nest.part, products_of(machine)
        if len(part.spatial) < 2:
            raise ScheduleError("no rows")
        s, pixel = Schedule(loops), part.spatial[-1]
        if not reads_channels(loops, part) and window_stride(loops, part, pixel.var) == 1:
            return _pixel_lanes(self, s, part, pixel)
        rows, tile = windowed(loops, part), list[Loop]()
        staged = s.attempt(_runs_of_rows, part, self.region) if rows else None
        down, run = staged or _gathered(s, part, loop_of(pixel), dot)
        s.pack(part.b, 1, 1)
        sums = [*down, *dots(s, run, dot)]
        if (staged or not rows) and prove_ge(pixel.hi, 4) is True:
            tile = [s.overlap(loop_of(pixel), 4).inner]
            (after,) = s.fission(tile[0], "local")
            s.vectorize(after).unroll_and_jam(tile[0], sums)
        return write_out(s, (*(n for n in sums if trip(s.loops, n) <= self.steps), *tile))


def _runs_of_rows(s: Schedule, part: Contraction, region: int) -> tuple[list[Loop], list[Loop]]:
    """Stages rows; the loops over a window in two parts, of which the second ones go along a row."""
    *_, row, pixel = part.spatial
    runs = runs_of(s.loops, part, pixel)
    staged_rows(s, part, row, pixel, region)
    return runs


def _pixel_lanes(rule: OneChannel, s: Schedule, part: Contraction, pixel: For) -> Loops:
    """An image of one channel too: neighbouring pixels are lanes."""
    if has_condition(s.loops, part.a):
        staged_rows(s, part, part.spatial[-2], pixel, rule.region)
    count = 8 if prove_ge(pixel.hi, 8) is True else 4
    lanes = s.split(s.overlap(loop_of(pixel), count).inner, 4)
    s.vectorize(lanes.inner).unroll_and_jam(lanes.outer, loops_of(part.reduce))
    return write_out(s, [lanes.outer, *(loops_of(part.reduce) if extent(part.reduce) <= rule.taps else [])])


@dataclass(frozen=True, slots=True)
class QuadWindow:
    """Depthwise: channels in lanes. The rows that a row of the result reads are staged, padded, some channels at a
    time: of ``groups``, (channels staged, channels in a vector of sums), the first is taken that the layer has and that
    takes ``region`` bytes at most, or the last; the last one too where with full groups more than ``spare`` hundredths
    more channels are computed, as some are computed twice. The windows of ``at_once`` neighbouring pixels share what is
    read. Up to ``taps`` taps of a window are written out."""

    region: int
    at_once: int
    taps: int
    groups: tuple[tuple[int, int], ...]
    spare: int = 100
    name = "quad-window"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Windows of bytes."""
        return nest.is_product("window", "bytes", 0)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Pixels of staged rows, channels in lanes.

        Raises:
            ScheduleError: there are no pixels, fewer channels than lanes, or a step does not apply.
        """
        return _window(self, nest.loops, nest.part)

    def worth(self, channels: int, group: int) -> bool:
        """Whether groups of so many channels compute few of these twice."""
        smallest = self.groups[-1][0]
        return -(-channels // group) * group * 100 <= -(-channels // smallest) * smallest * (100 + self.spare)


def _window(rule: QuadWindow, loops: Loops, part: Contraction) -> Loops:
    if len(part.spatial) < 2 or not isinstance(part.spatial[-2].hi, int) or not isinstance(part.spatial[-1].hi, int):
        raise ScheduleError("no pixels, or no number of channels")
    staged = has_condition(loops, part.a)
    for group, lanes in rule.groups[:-1]:
        if part.spatial[-1].hi >= group and (staged or group == lanes) and rule.worth(part.spatial[-1].hi, group):
            done, lines = _grouped(rule, loops, part, group, lanes)
            if lines is None or lines.type.max_bytes <= rule.region:
                return done
    return _grouped(rule, loops, part, *rule.groups[-1])[0]


def _grouped(rule: QuadWindow, loops: Loops, part: Contraction, group: int, lanes: int) -> tuple[Loops, Buffer | None]:
    """As ``_window``, so many channels staged at a time, so many in a vector, and the buffer for them where there is
    one."""
    channel, pixel, reduce = loop_of(part.spatial[-1]), loop_of(part.spatial[-2]), loops_of(part.reduce)
    pixels, s, lines = part.spatial[-2].var.hi + 1, Schedule(loops), None
    groups = s.reorder(pixel, channel).overlap(channel, group)
    if has_condition(loops, part.a):
        lines = s.line_buffer(groups.outer, part.a)
        for copy in (lines.copy, *lines.borders):
            s.vectorize(copy)
    across = s.split(groups.inner, lanes).inner
    tile = s.reorder(across, pixel).vectorize(across).overlap(pixel, min(rule.at_once, pixels)).inner
    s.unroll_and_jam(tile, reduce)
    done = write_out(s, [tile, *(reduce if extent(part.reduce) <= rule.taps else [])])
    return done, lines.buffer if lines else None
