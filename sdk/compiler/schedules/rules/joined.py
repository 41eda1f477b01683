"""The rule for 8-bit products on cores that multiply halves of words: two rows of weights joined in one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.analysis.pattern import Contraction
from sdk.compiler.ir.loops import Load, Loops, Op, Store
from sdk.compiler.ir.types import I8
from sdk.compiler.ir.walk import statements, walk
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Known, Nest
from sdk.compiler.schedules.locate import Loop, ScheduleError, find, loop_of, loops_of
from sdk.compiler.schedules.rules.gather import gather_window, pixel_loop, windowed
from sdk.compiler.schedules.rules.nest import BYTES, extent, fuse_all, write_out
from sdk.compiler.schedules.trace import Schedule
from sdk.compiler.sym import flat_index, slope

__all__ = ["JoinedTiles", "bias_of", "farthest", "joinable"]

# channels that pay for what one pixel reads being copied, in bytes: runs of an odd number, of which more are needed for
# sums of up to SHORT products, and runs of two more than whole words
ODD: Final = 8
ODD_SHORT: Final = 12
SHORT: Final = 48
EVEN: Final = 4
WRITTEN: Final = 96  # weights that are written out, all of a layer: a quarter fewer instructions than in a loop
SUM_BITS: Final = 23  # the second of two joined sums stays below 2 to the power of this


@dataclass(frozen=True, slots=True)
class JoinedTiles:
    """What some pixels read is unpacked to halves of words; two channels at a time then take one row of joined
    weights, four channels where there is one pixel. It takes ``minimum`` multiply-accumulates, of
    enough channels where runs of what a pixel reads are no whole words.

    A row that stands alone is unpacked where ``wide_channels`` at least read it, and it has no more elements, with its
    result, than ``small_row``.
    """

    minimum: int
    wide_channels: int
    small_row: int
    name = "joined-tiles"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Products of bytes whose constants can be joined, unless another structure is chosen."""
        if not nest.is_product("contraction", "bytes", self.minimum) or nest.choice.variant == "rows":
            return False
        part = nest.part
        run, depth = part.reduce[-1].var.hi + 1, extent(part.reduce)
        odd = ODD_SHORT if depth <= SHORT else ODD
        if run % BYTES and part.spatial[-1].var.hi + 1 < (odd if run % 2 else EVEN):
            return False
        return depth >= BYTES and joinable(nest.loops, part, nest.known or {})

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Tiles of sums of joined weights.

        Raises:
            ScheduleError: the depth is no multiple of a word, of rows read where they lie.
        """
        return _joined(self, nest.loops, nest.part, machine.tile(nest.choice)[0])


def joinable(loops: Loops, part: Contraction, known: Known) -> bool:
    """Whether the constants of every call let pairs of rows be joined: they fit 16 bits, and sums of odd rows 24."""
    weights, bias = known.get(part.b), known.get(bias_of(loops, part))
    buffer = loops.param(part.b).buffer
    if weights is None or bias is None or buffer.dtype != I8 or not isinstance(buffer.shape[0], int):
        return False
    maximum = farthest(loops, part)
    return buffer.shape[0] > 1 and all(_fits(w, b, maximum) for w, b in zip(weights, bias, strict=True))


def _fits(weights: NDArray[Any], bias: NDArray[Any], maximum: int) -> bool:
    rows = weights.reshape(len(weights), -1).astype(np.int64)
    both = 256 * rows[1::2] + rows[: len(rows) // 2 * 2 : 2]
    reach = np.abs(rows[1::2]).sum(axis=1) * maximum + np.abs(bias.reshape(-1).astype(np.int64))[1::2]
    return bool(both.min() >= -(1 << 15) and both.max() < 1 << 15 and reach.max() < 1 << SUM_BITS)


def farthest(loops: Loops, part: Contraction) -> int:
    """The farthest from 0 that an element of ``a`` is when it is multiplied."""
    product = next(n for n in walk(loops.body) if isinstance(n, Op) and n.name == "mul")
    factor = next(a for a in product.args if any(isinstance(n, Load) and n.buffer == part.a for n in walk(a)))
    inner = factor.args[0] if isinstance(factor, Op) and factor.name == "cast" else factor
    return max(map(abs, inner.dtype.limits))


def bias_of(loops: Loops, part: Contraction) -> str:
    """The parameter that sums start from; "" where there is none."""
    starts = (n.value for n in statements(loops.body) if isinstance(n, Store) and n.buffer == part.acc)
    return next((v.buffer for v in starts if isinstance(v, Load) and v.buffer != part.a), "")


def _joined(rule: JoinedTiles, loops: Loops, part: Contraction, pixels: int) -> Loops:
    channel, rows = loop_of(part.spatial[-1]), extent(part.spatial[:-1])
    channels, depth = part.spatial[-1].var.hi + 1, extent(part.reduce)
    s = Schedule(loops)
    pixel = s.attempt(_one_run, part) or (loop_of(part.spatial[-2]) if part.spatial[:-1] else None)
    small = channels >= rule.wide_channels and depth + channels <= rule.small_row
    window = ""
    if pixel and (rows > 1 or small):
        window = gather_window(s, part, pixel, loops_of(part.reduce), BYTES, word=BYTES, rest=False).buffer
    s.pack(part.b, 1, BYTES)
    k = fuse_all(s, loops_of(part.reduce), "k")
    if depth % BYTES:
        s.pad(k, BYTES)
    steps = s.split(k, BYTES)
    block = s.use_dot(steps.inner).split(channel, 4 if rows == 1 and channels % 4 == 0 else 2)
    pairs = s.unroll_and_jam(block.inner, [steps.outer]).interleave_channels(part.b, block.inner)
    if window:
        s.unpack(window)
    unrolled = [block.inner, *pairs]
    if block.whole and channels * depth <= WRITTEN:
        unrolled.append(block.outer)
    if pixel and rows > 1:
        tile = s.tile(pixel, pixels, [*block.loops, *block.everywhere([steps.outer])]).inner
        s.unroll(tile, "register")
        s.attempt(_side_by_side, window)
    return write_out(s, unrolled)


def _side_by_side(s: Schedule, window: str) -> Schedule:
    """Words that are multiplied with the same weights follow each other, for one instruction to read them."""
    return s.interleave(window, BYTES)


def _one_run(s: Schedule, part: Contraction) -> Loop | None:
    """One loop over all pixels, where those read follow each other: a stride apart, each would take a division."""
    pixel = None if windowed(s.loops, part) else pixel_loop(s, part)
    if pixel is None:
        raise ScheduleError("no pixels, or pixels of windows")
    var = find(s.loops, pixel).var
    shape = s.loops.param(part.a).buffer.shape
    reads = (n.index for n in walk(s.loops.body) if isinstance(n, Load) and n.buffer == part.a)
    if any(slope(flat_index(index, shape), var) is None for index in reads):
        raise ScheduleError("pixels a stride apart")
    return pixel
