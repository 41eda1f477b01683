"""The rule for 8-bit products on cores that multiply halves of words: two rows of weights joined in one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.analysis.pattern import Contraction
from sdk.compiler.ir.loops import Alloc, Load, Loops, Op, Store
from sdk.compiler.ir.types import I8
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.model import Machine
from sdk.compiler.machines.nest import Known, Nest
from sdk.compiler.schedules.locate import ScheduleError, find, has, loop_names
from sdk.compiler.schedules.rules.gather import gather_window, pixel_loop, windowed
from sdk.compiler.schedules.rules.nest import BYTES, extent, fuse_all, names
from sdk.compiler.schedules.trace import Schedule
from sdk.compiler.sym import flat_index, slope

__all__ = ["JoinedTiles", "joinable"]

SUM_BITS: Final = 23  # the second of two joined sums stays below 2 to the power of this


@dataclass(frozen=True, slots=True)
class JoinedTiles:
    """What some pixels read is unpacked to halves of words; two channels at a time then take one row of joined
    weights, four channels where there is one pixel. It takes ``least`` multiply-accumulates.

    A row that stands alone is unpacked where ``wide_channels`` at least read it, and it has no more elements, with its
    result, than ``small_row``.
    """

    least: int
    wide_channels: int
    small_row: int
    name = "joined-tiles"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Products of bytes whose constants can be joined, unless another structure is chosen."""
        if not nest.is_product("contraction", "bytes", self.least) or nest.choice.variant == "rows":
            return False
        return extent(nest.part.reduce) >= BYTES and joinable(nest.loops, nest.part, nest.known or {})

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Tiles of sums of joined weights.

        Raises:
            ScheduleError: the depth is no multiple of a word, of rows read where they lie.
        """
        return _joined(self, nest.loops, nest.part, machine.tile(nest.choice)[0])


def joinable(loops: Loops, part: Contraction, known: Known) -> bool:
    """Whether the constants of every call let pairs of rows be joined: they fit 16 bits, and sums of odd rows 24."""
    weights, bias = known.get(part.b), known.get(_bias(loops, part))
    buffer = loops.param(part.b).buffer
    if weights is None or bias is None or buffer.dtype != I8 or not isinstance(buffer.shape[0], int):
        return False
    most = _farthest(loops, part)
    return buffer.shape[0] % 2 == 0 and all(_fits(w, b, most) for w, b in zip(weights, bias, strict=True))


def _fits(weights: NDArray[Any], bias: NDArray[Any], most: int) -> bool:
    rows = weights.reshape(len(weights), -1).astype(np.int64)
    both = 256 * rows[1::2] + rows[::2]
    reach = np.abs(rows[1::2]).sum(axis=1) * most + np.abs(bias.reshape(-1).astype(np.int64))[1::2]
    return bool(both.min() >= -(1 << 15) and both.max() < 1 << 15 and reach.max() < 1 << SUM_BITS)


def _farthest(loops: Loops, part: Contraction) -> int:
    """The farthest from 0 that an element of ``a`` is when it is multiplied."""
    product = next(n for n in walk(loops.body) if isinstance(n, Op) and n.name == "mul")
    factor = next(a for a in product.args if any(isinstance(n, Load) and n.buffer == part.a for n in walk(a)))
    inner = factor.args[0] if isinstance(factor, Op) and factor.name == "cast" else factor
    return max(map(abs, inner.dtype.limits))


def _bias(loops: Loops, part: Contraction) -> str:
    """The parameter that sums start from; "" where there is none."""
    sums = {n.buffer.name for n in walk(loops.body) if isinstance(n, Alloc) and n.buffer.space == "register"}
    starts = (n.value for n in walk(loops.body) if isinstance(n, Store) and n.buffer in sums)
    return next((v.buffer for v in starts if isinstance(v, Load) and v.buffer != part.a), "")


def _joined(rule: JoinedTiles, loops: Loops, part: Contraction, pixels: int) -> Loops:
    channel, rows = part.spatial[-1].var.name, extent(part.spatial[:-1])
    channels, depth = part.spatial[-1].var.hi + 1, extent(part.reduce)
    tile = 4 if rows == 1 and channels % 4 == 0 else 2
    s = Schedule(loops, tm=pixels, tn=tile, dot=BYTES, word=BYTES)
    fused = len(part.spatial) > 1 and s.attempt(_one_run, part)
    pixel = "px" if fused and has(s.loops, "px") else part.spatial[-2].var.name if part.spatial[:-1] else ""
    small = bool(pixel) and channels >= rule.wide_channels and depth + channels <= rule.small_row
    staged = rows > 1 or small
    if staged:
        gather_window(s, part, pixel, names(part.reduce), "dot")
    s.do("pack", part.b, 1, "dot")
    k = fuse_all(s, names(part.reduce), "k")
    if depth % BYTES:
        s.do("pad", k, "dot")
    s.do("split", k, "dot").do("use_dot", f"{k}_i")
    s.do("split", channel, "tn").do("jam", f"{channel}_i", [f"{k}_o"]).do("join", part.b, f"{channel}_i")
    if staged:
        window = next(n.buffer for n in walk(s.loops.body) if isinstance(n, Alloc) and n.buffer.space == "scratch")
        s.do("unpack", window.name)
    if rows > 1:
        s.do("tile", pixel, "tm", _around(s, channel, k))
    for name in dict.fromkeys(n for n in loop_names(s.loops.body) if n.startswith(f"{channel}_i")):
        s.do("unroll", name)
    if rows > 1:
        s.do("unroll", f"{pixel}_i", "register")
        s.attempt(_side_by_side, window.name)
    return s.done()


def _side_by_side(s: Schedule, window: str) -> None:
    """Words that are multiplied with the same weights follow each other, for one instruction to read them."""
    s.do("interleave", window, "word")


def _one_run(s: Schedule, part: Contraction) -> None:
    """One loop over all pixels, where those read follow each other: a stride apart, each would take a division."""
    if windowed(s.loops, part):
        raise ScheduleError("pixels of windows")
    pixel = pixel_loop(s, part)
    var = find(s.loops, pixel).var
    shape = s.loops.param(part.a).buffer.shape
    reads = (n.index for n in walk(s.loops.body) if isinstance(n, Load) and n.buffer == part.a)
    if any(slope(flat_index(index, shape), var) is None for index in reads):
        raise ScheduleError("pixels a stride apart")


def _around(s: Schedule, channel: str, k: str) -> list[str]:
    """The loops that a tile of pixels is pushed into."""
    return [n for n in (f"{channel}_o", f"{k}_o") if has(s.loops, n)]
