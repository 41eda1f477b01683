"""Rules for depthwise windows of integers: channels in lanes or packed words, or neighbouring pixels of staged rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sdk.compiler.analysis.pattern import Contraction, has_condition
from sdk.compiler.ir.loops import Load, Loops
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Choice, Factors, Nest
from sdk.compiler.schedules.locate import Loop, ScheduleError, find, loop_of, loops_of
from sdk.compiler.schedules.rules.gather import COPY_RUN, gather_window
from sdk.compiler.schedules.rules.nest import BYTES, extent, write_out
from sdk.compiler.schedules.trace import Schedule
from sdk.compiler.sym import Var, floordiv, free_vars, linear, max_value, prove_ge

__all__ = [
    "MANY",
    "ColumnWindow",
    "LaneWindow",
    "WordWindow",
    "best_tile",
    "copy_in_runs",
    "dilation",
    "inside",
    "is_depthwise",
    "is_window",
    "multiplier",
    "pixels_of",
    "row_cost",
    "span",
    "taps_along",
    "window_stride",
    "words_read",
]

MANY: Final = 8  # channels of the result to one of the image
LONG: Final = 16  # products of a window that many channels read
TAPS: Final = 16  # taps written out; more are a loop
COPY: Final = 6  # elements copied between two branches; the last ones overlap
# instructions, as counted in Thumb code: to bring a sum to 8 bits, around a tile, and to find where the last one begins
STORE: Final = 3
AROUND_TILE: Final = 9
TOGETHER: Final = 6  # sums for which registers are left while they are brought to 8 bits; more go to memory
KEPT: Final = 2  # instructions for each that does
AROUND_LAST: Final = 8
LONGEST_COPY: Final = 8  # where others fill a row: their registers and two addresses
AROUND_COPY: Final = 8  # instructions around such a run; half of that more to find where the last one begins


@dataclass(frozen=True, slots=True)
class LaneWindow:
    """Depthwise: the padded window gathered per pixel, channels in lanes, taps written out. It takes ``minimum``
    multiply-accumulates; the sums of the channels read at once fill at most ``vectors``."""

    minimum: int
    vectors: int = 1
    name = "lane-window"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Windows of bytes."""
        return nest.is_product("window", "bytes", self.minimum) and is_depthwise(nest, machine.integer_lanes)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Channels in lanes."""
        channels, lanes = nest.part.spatial[-1].var.hi + 1, machine.integer_lanes
        return _window_lanes(nest.loops, nest.part, min(self.vectors, channels // lanes) * lanes)


@dataclass(frozen=True, slots=True)
class ColumnWindow:
    """The rows that a row of the result reads are staged, a word of channels at a time and padded, or one channel that
    several of the result read; of each channel neighbouring pixels are computed at once, so that an element read serves
    all of their windows. It takes ``minimum`` multiply-accumulates of such ``factors``. Of ``tiles``, pixels computed
    at once, that is taken which executes least, with ``store`` instructions to bring a sum to 8 bits and ``around`` of
    them around a tile."""

    factors: Factors
    minimum: int
    tiles: tuple[int, ...]
    store: int
    around: int
    name = "column-window"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Windows of some pixels."""
        if not nest.is_product("window", self.factors, self.minimum) or nest.choice.variant not in (None, "columns"):
            return False
        part = nest.part
        if len(part.spatial) < 2 or not isinstance(part.spatial[-1].hi, int):
            return False
        return pixels_of(part) >= min(self.tiles) and multiplier(nest.loops, part) > 0

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Neighbouring pixels of a word of channels."""
        return _window_columns(self, nest.loops, nest.part, nest.choice)


@dataclass(frozen=True, slots=True)
class WordWindow:
    """One column of pixels: channels in packed words. It takes ``minimum`` multiply-accumulates."""

    minimum: int
    name = "word-window"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Windows of a word of channels or more."""
        if not nest.is_product("window", "bytes", self.minimum) or not is_depthwise(nest):
            return False
        wide = nest.loops.param(nest.part.b).buffer.dtype.bits > 8  # weights of i16, two of which are a word
        return not wide and nest.part.spatial[-1].var.hi + 1 >= BYTES

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Words of channels."""
        return _window_words(nest.loops, nest.part)


def is_depthwise(nest: Nest, channels: int = 1) -> bool:
    """Whether there are pixels of so many channels, each computed from the channel of its own."""
    part = nest.part
    return len(part.spatial) > 1 and part.spatial[-1].var.hi + 1 >= channels and _same_channel(nest.loops, part)


def pixels_of(part: Contraction) -> int:
    """The pixels of a row; 0 where their number is known at run time."""
    return part.spatial[-2].hi if isinstance(part.spatial[-2].hi, int) else 0


def _window_lanes(loops: Loops, part: Contraction, lanes: int) -> Loops:
    channel, pixel = loop_of(part.spatial[-1]), loop_of(part.spatial[-2])
    s = Schedule(loops)
    if has_condition(loops, part.a):
        gather_window(s, part, pixel, [*loops_of(part.reduce), channel])
    s.vectorize(s.split(channel, lanes).inner)
    return write_out(s, _small(part))


def _window_words(loops: Loops, part: Contraction) -> Loops:
    channel, pixel, reduce = loop_of(part.spatial[-1]), loop_of(part.spatial[-2]), loops_of(part.reduce)
    s = Schedule(loops)
    if has_condition(loops, part.a):
        gather_window(s, part, pixel, [*reduce, channel], word=BYTES, run=COPY_RUN)
    word = s.split(channel, BYTES).inner
    s.unroll_and_jam(word, reduce).use_mac_lanes(word)
    return write_out(s, [*_small(part), word])


def _window_columns(rule: ColumnWindow, loops: Loops, part: Contraction, choice: Choice) -> Loops:
    channels, pixels = part.spatial[-1].var.hi + 1, pixels_of(part)
    channel, pixel = loop_of(part.spatial[-1]), loop_of(part.spatial[-2])
    word = BYTES // loops.param(part.a).buffer.dtype.nbytes
    size = choice.rows or _pixels_at_once(rule, loops, part)
    several = multiplier(loops, part)
    s = Schedule(loops).reorder(pixel, channel)
    words = s.overlap(channel, min(word, channels)) if several == 1 else s.split(channel, several)
    lines = s.line_buffer(words.outer, part.a)
    if several > 1:
        copy_in_runs(s, lines.copy)
    elif channels >= word:
        for copy in (lines.copy, *lines.borders):
            s.vectorize(copy)
    s.reorder(words.inner, pixel)
    tile = s.overlap(pixel, min(size, pixels)).inner
    s.unroll_and_jam(tile, [words.inner, *loops_of(part.reduce)])
    return write_out(s, [*_small(part), tile])


def _small(part: Contraction) -> list[Loop]:
    """The loops over taps where they are few: to be written out."""
    return loops_of(part.reduce) if extent(part.reduce) <= TAPS else []


def copy_in_runs(s: Schedule, copy: Loop) -> None:
    """Writes out some elements of a copy between two branches: as many as there are for certain, and as few as take the
    fewest instructions. Runs of ``COPY`` that fill a row stay, so that kernels of halved images are alike."""
    loop = find(s.loops, copy)
    count = loop.hi - loop.lo
    sizes = [n for n in range(2, LONGEST_COPY + 1) if prove_ge(count, n) is True]
    if isinstance(count, int) and count % COPY and sizes:
        size = min(sizes, key=lambda n: -(-count // n) * (2 * n + AROUND_COPY + (count % n > 0) * AROUND_COPY // 2))
    else:
        size = max((n for n in sizes if n <= COPY), default=1)
    if size > 1:
        s.unroll(s.overlap(copy, size).inner)


def window_stride(loops: Loops, part: Contraction, over: Var) -> int:
    """How many elements of an axis the windows of neighbours are from each other."""
    reads = (n for n in walk(loops.body) if isinstance(n, Load) and n.buffer == part.a)
    steps = (step[0] for n in reads for d in n.index if (step := linear(d, over)) is not None)
    return max(steps, default=1) or 1


def taps_along(loops: Loops, part: Contraction, over: Var) -> set[Var]:
    """The loops over taps of the window that go along the axis of ``over``; none where it has one tap there."""
    reads = (n for n in walk(loops.body) if isinstance(n, Load) and n.buffer == part.a)
    along = (free_vars(d) for n in reads for d in n.index if over in free_vars(d))
    return {loop.var for loop in part.reduce} & set().union(*along)


def words_read(size: int, step: int, taps: int) -> int:
    """The pairs of elements that the windows of ``size`` neighbouring pixels read of a row."""
    return -(-(step * (size - 1) + taps) // 2)


def best_tile(tiles: tuple[int, ...], pixels: int, step: int, taps: int, rows: int) -> int:
    """Of ``tiles``, neighbouring pixels whose windows are ``step`` elements apart and read ``rows`` of so many
    ``taps``, two products at once, that which takes the fewest instructions for a row of ``pixels``.

    Raises:
        ScheduleError: all tiles have more pixels.
    """
    sizes = [size for size in tiles if size <= pixels]
    if not sizes:
        raise ScheduleError(f"rows of {pixels} pixels, fewer than a tile has")
    return min(sizes, key=lambda size: (row_cost(size, pixels, step, taps, rows), size))


def row_cost(size: int, pixels: int, step: int, taps: int, rows: int, together: int = TOGETHER) -> int:
    """The instructions for a row of ``pixels``, ``size`` at once, of which ``together`` sums stay in registers; the
    rest as for ``best_tile``."""
    words = words_read(size, step, taps) + -(-taps // 2)
    products = sum(-(-(taps + step * k % 2) // 2) for k in range(size))
    around = AROUND_TILE + (AROUND_LAST if pixels % size else 0) + (KEPT * size if size > together else 0)
    return -(-pixels // size) * (rows * (words + products) + STORE * size + around)


def dilation(loops: Loops, part: Contraction, over: Var) -> int:
    """How many elements of the axis of ``over`` the taps along it are from each other; 1 where there is one."""
    reads = [n for n in walk(loops.body) if isinstance(n, Load) and n.buffer == part.a]
    along = taps_along(loops, part, over)
    steps = (linear(d, tap) for n in reads for d in n.index if over in free_vars(d) for tap in along & free_vars(d))
    return max((step[0] for step in steps if step is not None), default=1) or 1


def span(loops: Loops, part: Contraction, over: Var, count: int) -> int:
    """What the windows of so many neighbours along an axis take of it."""
    along = taps_along(loops, part, over)
    taps = extent(tuple(loop for loop in part.reduce if loop.var in along))
    return window_stride(loops, part, over) * (count - 1) + dilation(loops, part, over) * (taps - 1) + 1


def inside(loops: Loops, part: Contraction, over: Var) -> int:
    """The extent of the axis of ``a`` that neighbours along ``over`` read, at the largest dims."""
    reads = (n for n in walk(loops.body) if isinstance(n, Load) and n.buffer == part.a)
    axis = next(k for n in reads for k, d in enumerate(n.index) if over in free_vars(d))
    return max_value(loops.param(part.a).buffer.shape[axis]) or 0


def _pixels_at_once(rule: ColumnWindow, loops: Loops, part: Contraction) -> int:
    """How many pixels to compute at once: that which takes the fewest instructions for a row."""
    columns, taps = part.reduce[-1].var.hi + 1, extent(part.reduce)
    step, pixels = window_stride(loops, part, part.spatial[-2].var), pixels_of(part)

    def cost(size: int) -> tuple[int, int]:
        loads = taps // columns * (step * (size - 1) + columns)
        return -(-pixels // size) * (loads + taps * (size + 1) + rule.store * size + rule.around), size

    return min((size for size in rule.tiles if size <= pixels), key=cost)


def _same_channel(loops: Loops, part: Contraction) -> bool:
    """Whether ``a`` is read at consecutive channels (no channel multiplier)."""
    return multiplier(loops, part) == 1


def is_window(nest: Nest, factors: Factors, minimum: int, gathered: int) -> bool:
    """Whether it is a product of windows, each of one channel: depthwise, or a convolution of an image of one channel
    and several rows, which all channels of the result read. Windows of one column with more than ``gathered`` products
    a pixel, those of all channels together, are another rule's to gather; so are short ones beside each other that many
    channels read, for which rows staged for one row of the result cost no more, and all where code shall be short."""
    if nest.is_product("window", factors, minimum):
        return True
    if not nest.is_product("contraction", factors, minimum) or nest.compact or len(nest.part.spatial) < 3:
        return False
    loops, part = nest.loops, nest.part
    row, pixel = (taps_along(loops, part, loop.var) for loop in part.spatial[-3:-1])
    if part.spatial[-3].var.hi == 0:
        return False
    if multiplier(loops, part) != extent(part.spatial[-1:]) or {loop.var for loop in part.reduce} != row | pixel:
        return False
    outputs, products = extent(part.spatial[-1:]), extent(part.reduce)
    if not pixel:
        return products * outputs <= gathered
    over = part.spatial[-2].var
    apart = max(window_stride(loops, part, over), dilation(loops, part, over))
    return outputs < MANY or products >= LONG or apart > 1


def multiplier(loops: Loops, part: Contraction) -> int:
    """How many channels of the result read each channel of ``a``, which follow each other; 0 where it is otherwise."""
    var = part.spatial[-1].var
    reads = [n.index[-1] for n in walk(loops.body) if isinstance(n, Load) and n.buffer == part.a]
    for size in (n for n in range(1, var.hi + 2) if (var.hi + 1) % n == 0):
        if all(at == floordiv(var.expr, size) or (at == 0 and size == var.hi + 1) for at in reads):
            return size
    return 0
