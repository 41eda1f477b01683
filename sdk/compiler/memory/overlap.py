"""How far below an input that dies a result of another layout must begin to be written over it by one whole call.

In each iteration of the loops around all reads of the input and all writes of the result, the bytes written lie below
whatever that iteration or a later one reads. In which order an iteration reads and writes does not matter; iterations
must run one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.analysis.access import Access, Same, accesses
from sdk.compiler.analysis.rows_touched import loop_ranges
from sdk.compiler.ir.loops import Buffer, For, Loops
from sdk.compiler.ir.walk import walk
from sdk.compiler.sym import Var, evaluate_grid, free_vars

__all__ = ["min_lag"]

Ints = NDArray[np.int64]
Ranges = dict[Var, tuple[int, int]]
MAX_ACCESSES: Final = 1 << 20  # accesses that are looked at
REMEMBERED: Final = 1 << 10
_NEVER: Final = np.iinfo(np.int64).max


def min_lag(loops: Loops, out: str, source: str) -> int | None:
    """How many bytes below ``source`` the result ``out`` (parameter names) must begin at least for a call for all rows
    to write it over what was read; from 0 up. None where the accesses do not tell, or iterations may run at once.

    Only for parameters of the same type, or of bytes: compilers may exchange accesses of different types.
    """
    a, b = loops.param(out), loops.param(source)
    if a.mode != "write" or b.mode != "read" or loops.dims or not (_plain(a.buffer) and _plain(b.buffer)):
        return None
    if a.buffer.dtype != b.buffer.dtype and not a.buffer.dtype.nbytes == b.buffer.dtype.nbytes == 1:
        return None
    return _min_lag(Same(loops), out, source)


def _plain(buffer: Buffer) -> bool:
    return buffer.ring is None and buffer.dtype.lanes == 1 and all(isinstance(d, int) for d in buffer.shape)


@lru_cache(maxsize=REMEMBERED)
def _min_lag(same: Same, out: str, source: str) -> int | None:
    loops = same.loops
    if any(isinstance(n, For) and n.kind not in ("serial", "unroll") for n in walk(loops.body)):
        return None
    found = [x for x in accesses(loops.body) if x.buffer in (out, source)]
    if any(x.kind == "unknown" for x in found):
        return None
    found = [x for x in found if x.buffer == source or x.kind == "store"]  # what it reads of the result it wrote itself
    if not found:
        return None
    around = reduce(_common, (x.loops for x in found))
    rows = {} if loops.rows is None else {loops.rows.lo: 0, loops.rows.hi: loops.rows.extent}
    ranges = loop_ranges(around, rows)
    if ranges is None or any(f.until is not None for f in around):
        return None
    base = {v: int(n) for v, n in rows.items() if isinstance(n, int)}
    iterations = math.prod(last - first + 1 for first, last in ranges.values())
    if iterations > MAX_ACCESSES:
        return None
    read, written = np.full(iterations, _NEVER, dtype=np.int64), np.full(iterations, -1, dtype=np.int64)
    for x in found:
        touched = _touched(loops.param(x.buffer).buffer, x, ranges, base)
        if touched is None:
            return None
        iteration, first, end = touched
        if x.kind == "load":
            np.minimum.at(read, iteration, first)
        else:
            np.maximum.at(written, iteration, end)
    needed = np.minimum.accumulate(read[::-1])[::-1]
    both = (written >= 0) & (needed < _NEVER)
    return max(int((written - needed)[both].max(initial=0)), 0)


def _common(a: Sequence[For], b: Sequence[For]) -> tuple[For, ...]:
    """The loops that both begin with."""
    same = 0
    while same < min(len(a), len(b)) and a[same] is b[same]:
        same += 1
    return tuple(a[:same])


def _touched(
    buffer: Buffer, access: Access, around: Ranges, base: dict[Var, int]
) -> tuple[Ints, Ints, Ints] | None:
    """Of each element that an access touches the iteration of the loops ``around``, the byte where it begins and the
    one behind its lanes; None where it has too many, or an index has a symbol without a number."""
    ranges = loop_ranges(access.loops, base)
    nothing = np.zeros(0, dtype=np.int64)
    if ranges is None:
        return nothing, nothing, nothing
    used = {v for d in access.index for v in free_vars(d)}
    if not used <= base.keys() | ranges.keys():
        return None
    axes = {v: r for v, r in ranges.items() if v in used or v in around}
    spans = [last - first + 1 for first, last in axes.values()]
    if math.prod(spans) > MAX_ACCESSES:
        return None
    grid = np.indices((1, *spans)).reshape(len(spans) + 1, -1)[1:]
    env: dict[Var, Ints] = {v: np.asarray(n) for v, n in base.items()}
    env |= {v: grid[k] + first for k, (v, (first, _)) in enumerate(axes.items())}
    shape = (math.prod(spans),)
    iteration, flat = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for v, (first, last) in around.items():
        iteration = iteration * (last - first + 1) + env[v] - first
    inside = np.ones(shape, dtype=bool)
    for dim, extent in zip(access.index, buffer.type.static_shape, strict=True):
        at = evaluate_grid(dim, env)
        inside &= (at >= 0) & (at < extent)  # the function guards what lies outside: it does not happen
        flat = flat * extent + at
    width = buffer.dtype.nbytes
    return iteration[inside], flat[inside] * width, (flat[inside] + access.lanes) * width
