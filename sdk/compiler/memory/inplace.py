"""Which output of a loops function may take over the bytes of an input, read off the accesses.

Proved where, for every load of the input and every store of the output that can meet at an element, the load
comes no later: in the text, and in each loop around both. That holds in program order and in any order that
vectorising, interchanging or (for parallel loops, where equality is asked) running threads gives those loops.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.analysis.access import Access, Same, accesses
from sdk.compiler.analysis.dependence import conflict
from sdk.compiler.analysis.rows_touched import loop_ranges, rows_touched
from sdk.compiler.ir.loops import Buffer, For, Loops
from sdk.compiler.ir.walk import rename_buffers, walk
from sdk.compiler.memory.rings import dense
from sdk.compiler.sym import Var, evaluate_grid, free_vars, prove_eq

__all__ = ["may_take_over"]

Grid = NDArray[np.int64]
MAX_ELEMENTS: Final = 1 << 20
MAX_READS: Final = 8  # reads per element above which the input is a window, not a map
REMEMBERED: Final = 1 << 10


def may_take_over(loops: Loops, out: str, source: str, rows: tuple[int, int] | None = None) -> bool:
    """Whether a call may have ``out`` at the very bytes of ``source`` (parameter names), which is lost by it; with
    ``rows``, a call for these rows only.

    Only for a read parameter of the same shape and element size as the written one. Rings must keep as many rows
    and all that the call touches of either.
    """
    a, b = loops.param(out), loops.param(source)
    if a.mode != "write" or b.mode != "read" or not _same_layout(a.buffer, b.buffer):
        return False
    ring = a.buffer.ring
    if ring is not None and (rows is None or _rows_between(loops, out, source, rows) > ring):
        return False
    found = _accesses(Same(loops), out, source)
    if found is None:
        return False
    numbers = _numbers(loops, a.buffer, rows)
    if numbers is not None and sum(numbers.count(x) for x in found.loads) > MAX_READS * numbers.size:
        return False
    return found.independent or (numbers is not None and _decided(Same(loops), out, source, numbers))


@dataclass(frozen=True)
class _Accesses:
    """Loads of the input and stores of the output; whether by symbols no store comes before a load."""

    loads: list[Access]
    stores: list[Access]
    independent: bool


@lru_cache(maxsize=REMEMBERED)
def _accesses(same: Same, out: str, source: str) -> _Accesses | None:
    """Once for each function, which layers and rows call many times; None where it touches bytes in unknown ways."""
    loops = dense(same.loops)
    found = [_known(x, loops) for x in accesses(loops.body) if x.buffer in (out, source)]
    loads = [x for x in found if x.buffer == source]
    stores = [x for x in found if x.buffer == out and x.kind != "load"]
    if any(x.kind == "unknown" for x in (*loads, *stores)):
        return None
    return _Accesses(loads, stores, _independent(loops, out, source, loads, stores))


def _known(access: Access, loops: Loops) -> Access:
    """The access at 0 where a position that was read, and may be in or out, counts along an axis of one element."""
    if access.kind == "unknown":
        return access
    given = {f.var for f in access.loops} | {*loops.dims} | ({loops.rows.lo, loops.rows.hi} if loops.rows else set())
    shape = loops.param(access.buffer).buffer.shape
    return replace(access, index=tuple(
        0 if extent == 1 and not free_vars(d) <= given else d for d, extent in zip(access.index, shape, strict=True)
    ))  # fmt: skip


@lru_cache(maxsize=REMEMBERED)
def _decided(same: Same, out: str, source: str, numbers: _Numbers) -> bool:
    found = _accesses(same, out, source)
    if found is None or numbers.size > MAX_ELEMENTS:
        return False
    pairs = [(x, y) for x in found.loads for y in found.stores if x.order > y.order or _common(x, y)]
    return _ordered_elements(numbers, _once(x for x, _ in pairs), _once(y for _, y in pairs))


def _once(found: Iterable[Access]) -> list[Access]:
    return list({id(x): x for x in found}.values())


@dataclass(frozen=True)
class _Numbers:
    """What enumeration needs: the buffers' shape and the row range, as numbers."""

    shape: tuple[int, ...]
    range: tuple[tuple[Var, int], ...]

    @property
    def rows(self) -> dict[Var, int]:
        """The ends of the row range."""
        return dict(self.range)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def count(self, access: Access) -> int:
        """How many elements an access touches, repeats included."""
        ranges = loop_ranges(access.loops, self.rows) or {}
        return math.prod(last - first + 1 for first, last in ranges.values()) * access.lanes


def _rows_between(loops: Loops, out: str, source: str, rows: tuple[int, int]) -> int:
    """Rows from the first to the last that a call touches of either parameter."""
    touched = [rows_touched(loops, name, {}, rows, store) for name, store in ((out, True), (source, False))]
    return max(hi for _, hi in touched) - min(lo for lo, _ in touched)


def _numbers(loops: Loops, buffer: Buffer, part: tuple[int, int] | None) -> _Numbers | None:
    if not all(isinstance(d, int) for d in buffer.shape):
        return None
    if loops.rows is None:
        return _Numbers(buffer.type.static_shape, ())
    if not isinstance(loops.rows.extent, int):
        return None
    lo, hi = part or (0, loops.rows.extent)
    return _Numbers(buffer.type.static_shape, ((loops.rows.lo, lo), (loops.rows.hi, hi)))


def _same_layout(a: Buffer, b: Buffer) -> bool:
    return (
        a.ring == b.ring
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
    return all(conflict(f, loops) is None for f in walk(merged) if isinstance(f, For) and f.var in shared)


def _common(a: Access, b: Access) -> list[For]:
    """The loops around both, outer first."""
    out = []
    for x, y in zip(a.loops, b.loops, strict=False):
        if x is not y:
            break
        out.append(x)
    return out


def _ordered_elements(numbers: _Numbers, loads: list[Access], stores: list[Access]) -> bool:
    """By enumeration of every access; False where it cannot tell."""
    if sum(numbers.count(x) for x in stores) > MAX_READS * numbers.size:
        return False
    touched = [_touched(numbers, x) for x in (*loads, *stores)]
    known = [t for t in touched if t is not None]
    if len(known) < len(touched):
        return False
    ends = [(int(t.elements.min()), int(t.elements.max()) + 1) for t in known if t.elements.size]
    low, high = min((lo for lo, _ in ends), default=0), max((hi for _, hi in ends), default=0)
    near = [replace(t, elements=t.elements - low) for t in known]  # a row may be little of its buffer
    reads, writes = near[: len(loads)], near[len(loads) :]
    return all(_in_order(read, write, high - low) for read in reads for write in writes)


@dataclass(frozen=True)
class _Touched:
    """Flat elements an access touches, one per iteration and lane, and the loop variables there."""

    access: Access
    elements: Grid
    values: dict[Var, Grid]


def _touched(numbers: _Numbers, access: Access) -> _Touched | None:
    """None where an index has a symbol without a number."""
    ranges = loop_ranges(access.loops, numbers.rows)
    if ranges is None:
        nothing = np.zeros(0, dtype=np.int64)
        return _Touched(access, nothing, {f.var: nothing for f in access.loops})
    known = numbers.rows.keys() | ranges.keys()
    count = access.lanes if access.count is None else access.count
    if any(not free_vars(d) <= known for d in (*access.index, count)):
        return None
    spans = [last - first + 1 for first, last in ranges.values()]
    axes = np.indices((*spans, access.lanes)).reshape(len(spans) + 1, -1)
    env: dict[Var, Grid] = {v: np.asarray(d) for v, d in numbers.rows.items()}
    env |= {var: axes[k] + first for k, (var, (first, _)) in enumerate(ranges.items())}
    inside = np.asarray(axes[-1] < evaluate_grid(count, env))
    flat: Grid = np.zeros(axes.shape[1], dtype=np.int64)
    for dim, extent in zip(access.index, numbers.shape, strict=True):
        at = evaluate_grid(dim, env)
        inside &= (at >= 0) & (at < extent)  # the function guards what lies outside: it does not happen
        flat = flat * extent + at
    flat += axes[-1]
    inside &= flat < numbers.size
    return _Touched(access, flat[inside], {var: env[var][inside] for var in ranges})


def _in_order(read: _Touched, write: _Touched, size: int) -> bool:
    """Whether no element, below ``size``, is written before a read of it: see the module's rule."""
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
