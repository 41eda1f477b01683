"""Which output of a loops function may take over the bytes of an input, read off the accesses.

Proved where, for every load of the input and every store of the output that can meet at an element, the load
comes no later: in the text, and in each loop around both. That holds in program order and in any order that
vectorising, interchanging or (for parallel loops, where equality is asked) running threads gives those loops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.dependence import conflict, shapes_of
from sdk.compiler.ir.loops import Buffer, For, Loops
from sdk.compiler.ir.types import TensorType
from sdk.compiler.ir.walk import rename_buffers, walk
from sdk.compiler.memory.access import Access, accesses, loop_ranges
from sdk.compiler.sym import Dim, Var, evaluate_grid, free_vars, prove_eq

__all__ = ["may_take_over"]

Grid = NDArray[np.int64]
MAX_ELEMENTS: Final = 1 << 20
MAX_READS: Final = 8  # reads per element above which the input is a window, not a map


def may_take_over(loops: Loops, out: str, source: str) -> bool:
    """Whether a call may have ``out`` at the very bytes of ``source`` (parameter names), which is lost by it.

    Only for a dense read parameter of the same shape and element size as the dense written one.
    """
    a, b = loops.param(out), loops.param(source)
    if a.mode != "write" or b.mode != "read" or not _same_layout(a.buffer, b.buffer):
        return False
    found = accesses(loops)
    loads = [x for x in found if x.buffer == source]
    stores = [x for x in found if x.buffer == out and x.kind != "load"]
    if any(x.kind == "unknown" for x in (*loads, *stores)):
        return False
    base = _row_range(loops)
    size = math.prod(d for d in a.buffer.shape if isinstance(d, int))
    if base is not None and sum(_count(x, base) for x in loads) > MAX_READS * size and _static(a.buffer):
        return False
    return _independent(loops, out, source, loads, stores) or _ordered_elements(
        loops, a.buffer, loads, stores
    )


def _same_layout(a: Buffer, b: Buffer) -> bool:
    return (
        a.ring is None
        and b.ring is None
        and a.dtype.nbytes == b.dtype.nbytes
        and len(a.shape) == len(b.shape)
        and all(prove_eq(x, y) is True for x, y in zip(a.shape, b.shape, strict=True))
    )


def _independent(loops: Loops, out: str, source: str, loads: list[Access], stores: list[Access]) -> bool:
    """By symbols: taken as one buffer, no loop around both carries a dependence, and loads stand first."""
    pairs = [(load, store) for load in loads for store in stores]
    if any(load.order > store.order for load, store in pairs):
        return False
    shared = {f.var for load, store in pairs for f in _common(load, store)}
    merged = rename_buffers(loops.body, {source: out})
    shapes = shapes_of(loops)
    return all(conflict(f, shapes) is None for f in walk(merged) if isinstance(f, For) and f.var in shared)


def _common(a: Access, b: Access) -> list[For]:
    """The loops around both, outer first."""
    out = []
    for x, y in zip(a.loops, b.loops, strict=False):
        if x is not y:
            break
        out.append(x)
    return out


def _ordered_elements(loops: Loops, buffer: Buffer, loads: list[Access], stores: list[Access]) -> bool:
    """By enumeration, for static shapes and inputs read few times per element; False where it cannot tell."""
    if not all(isinstance(d, int) for d in buffer.shape):
        return False
    shape = TensorType(buffer.dtype, buffer.shape).static_shape
    size = int(np.prod(shape, dtype=np.int64))
    grids: list[_Touched] = []
    for access in (*loads, *stores):
        grid = _touched(loops, access, shape, MAX_READS * size)
        if size > MAX_ELEMENTS or grid is None:
            return False
        grids.append(grid)
    reads, writes = grids[: len(loads)], grids[len(loads) :]
    return all(_in_order(read, write, size) for read in reads for write in writes)


@dataclass(frozen=True)
class _Touched:
    """Flat elements an access touches, one per iteration and lane, and the loop variables there."""

    access: Access
    elements: Grid
    values: dict[Var, Grid]


def _touched(loops: Loops, access: Access, shape: tuple[int, ...], most: int) -> _Touched | None:
    base: dict[Var, Dim] = {}
    if loops.rows is not None:
        if not isinstance(loops.rows.extent, int):
            return None
        base = {loops.rows.lo: 0, loops.rows.hi: loops.rows.extent}
    ranges = loop_ranges(access.loops, base)
    if ranges is None:
        return _Touched(
            access, np.zeros(0, dtype=np.int64), {f.var: np.zeros(0, dtype=np.int64) for f in access.loops}
        )
    known = base.keys() | ranges.keys()
    spans = [last - first + 1 for first, last in ranges.values()]
    if any(not free_vars(d) <= known for d in access.index) or math.prod(spans) * access.lanes > most:
        return None
    axes = np.indices((*spans, access.lanes)).reshape(len(spans) + 1, -1)
    env: dict[Var, Grid] = {v: np.asarray(d) for v, d in base.items() if isinstance(d, int)}
    env |= {var: axes[k] + first for k, (var, (first, _)) in enumerate(ranges.items())}
    inside = np.ones(axes.shape[1], dtype=bool)
    flat: Grid = np.zeros(axes.shape[1], dtype=np.int64)
    for dim, extent in zip(access.index, shape, strict=True):
        at = evaluate_grid(dim, env)
        inside &= (at >= 0) & (
            at < extent
        )  # what lies outside is guarded in the function: it does not happen
        flat = flat * extent + at
    flat += axes[-1]
    inside &= flat < math.prod(shape)
    return _Touched(access, flat[inside], {var: env[var][inside] for var in ranges})


def _in_order(read: _Touched, write: _Touched, size: int) -> bool:
    """Whether no element is written before a read of it: see the module's rule."""
    met = np.zeros(size, dtype=bool)
    met[write.elements] = True
    again = np.zeros(size, dtype=bool)
    again[read.elements] = True
    met &= again
    if not met.any():
        return True
    if read.access.order > write.access.order:
        return False
    for loop in _common(read.access, write.access):
        last = np.full(size, np.iinfo(np.int64).min)
        np.maximum.at(last, read.elements, read.values[loop.var])
        first = np.full(size, np.iinfo(np.int64).max)
        np.minimum.at(first, write.elements, write.values[loop.var])
        if loop.kind in ("parallel", "bind"):
            earliest = np.full(size, np.iinfo(np.int64).max)
            np.minimum.at(earliest, read.elements, read.values[loop.var])
            latest = np.full(size, np.iinfo(np.int64).min)
            np.maximum.at(latest, write.elements, write.values[loop.var])
            if (last != first)[met].any() or (earliest != latest)[met].any():
                return False
        elif (last > first)[met].any():
            return False
    return True
