"""Rows of its parameters that a call of a loops function for some of its rows may touch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import numpy as np

from sdk.compiler.analysis.access import Access, Same, accesses
from sdk.compiler.analysis.dependence import row_axis
from sdk.compiler.ir.loops import For, Loops
from sdk.compiler.sym import (
    Dim,
    Var,
    bounds,
    dmax,
    dmin,
    evaluate,
    evaluate_grid,
    flat_index,
    free_vars,
    interval,
    product,
    substitute,
)

__all__ = ["loop_ranges", "rows_touched"]

FEW_VALUES: Final = 4096
REMEMBERED: Final = 1 << 10
Env = dict[Var, Dim]


@dataclass(frozen=True, slots=True)
class _RowAccess:
    """An access to a parameter as its rows see it: the index on the row axis, and where in its row it ends.

    ``whole``: it may touch any row. ``end`` is None where the lanes surely stay in the row.
    """

    kind: Literal["load", "store", "unknown"]
    index: Dim
    end: Dim | None
    whole: bool
    loops: tuple[For, ...]
    guards: tuple[Dim, ...]


def rows_touched(
    loops: Loops, param: str, dims: Mapping[Var, int], rows: tuple[int, int], store: bool
) -> tuple[int, int]:
    """Rows ``lo..hi`` (hi exclusive) of a parameter that a call for output rows ``rows`` may touch.

    A safe superset by interval analysis of the indices on the row axis, clipped to the buffer; ``(0, 0)``
    when it touches none. ``dims`` gives the function's dims.
    """
    buffer = loops.param(param).buffer
    if not buffer.shape:
        return 0, 1
    extent = evaluate(buffer.shape[row_axis(buffer.shape)], dims)
    base: Env = {v: n for v, n in dims.items()}
    if loops.rows is not None:
        base |= {loops.rows.lo: rows[0], loops.rows.hi: rows[1]}
    low, high = extent, 0
    for access in _row_accesses(Same(loops)).get(param, ()):
        if access.kind == ("load" if store else "store"):
            continue
        if access.whole:
            return 0, extent
        ranges = loop_ranges(access.loops, base)
        if ranges is None:
            continue
        found = _guarded(access, base, ranges)
        if found is None:
            continue
        lo, hi = found
        if hi is not None and access.end is not None:
            size = product(buffer.shape[row_axis(buffer.shape) + 1 :])
            last = _bounds(_at(access.end, base, ranges))[1]
            hi = None if last is None else hi + max(last - 1, 0) // max(evaluate(size, dims), 1)
        low = min(low, 0 if lo is None else max(lo, 0))
        high = max(high, extent if hi is None else min(hi + 1, extent))
    return (low, high) if low < high else (0, 0)


@lru_cache(maxsize=REMEMBERED)
def _row_accesses(same: Same) -> dict[str, tuple[_RowAccess, ...]]:
    """By parameter."""
    out: dict[str, dict[_RowAccess, None]] = {p.buffer.name: {} for p in same.loops.params if p.buffer.shape}
    for access in accesses(same.loops.body):
        if access.buffer in out:
            found = _row_access(access, same.loops.param(access.buffer).buffer.shape)
            out[access.buffer][found] = None
    return {name: tuple(found) for name, found in out.items()}


def _row_access(access: Access, shape: tuple[Dim, ...]) -> _RowAccess:
    axis = row_axis(shape)
    end: Dim | None = None
    room = bounds(shape[-1] - access.lanes - access.index[-1])[0] if access.lanes > 1 else 0
    if room is None or room < 0:  # lanes may run on into the next row
        used = access.lanes if access.count is None else dmin(access.lanes, dmax(access.count, 0))
        # every index is proved to be inside its axis, be it by a condition around the access
        inner = [dmax(dmin(at, extent - 1), 0) for at, extent in zip(access.index, shape, strict=True)][axis + 1 :]
        end = flat_index(inner, shape[axis + 1 :]) + used
    whole = access.kind == "unknown" or (access.lanes > 1 and axis == len(shape) - 1)
    return _RowAccess(access.kind, access.index[axis], end, whole, access.loops, access.guards)


def _at(dim: Dim, base: Env, ranges: Mapping[Var, tuple[int, int]]) -> Dim:
    """``dim`` with loop variables of these ranges, the others as numbers."""
    used = free_vars(dim)
    env = {v: n for v, n in base.items() if v in used}
    return substitute(dim, env | {v: _dim(v, *ranges[v]) for v in used if v in ranges})


def loop_ranges(
    around: tuple[For, ...], base: Mapping[Var, Dim] | Mapping[Var, int]
) -> dict[Var, tuple[int, int]] | None:
    """First and last value each loop variable may take, outer loops first; None when a loop does not run.

    ``base`` gives the other symbols.
    """
    known: Env = dict(base)
    out: dict[Var, tuple[int, int]] = {}
    for loop in around:
        if isinstance(loop.lo, int) and isinstance(loop.hi, int):
            first, last = loop.lo, loop.hi - 1
        else:
            lo, hi = _bounds(_at(loop.lo, known, out))[0], _bounds(_at(loop.hi, known, out))[1]
            first = loop.var.lo if lo is None else lo
            last = loop.var.hi if hi is None else hi - 1
        if last < first:
            return None
        out[loop.var] = first, last
    return out


def _dim(var: Var, first: int, last: int) -> Dim:
    return first if first == last else Var(var.name, first, last).expr


def _guarded(
    access: _RowAccess, base: Env, ranges: Mapping[Var, tuple[int, int]]
) -> tuple[int | None, int | None] | None:
    """Bounds of the index where all guards hold, as far as few values tell; None where they never do."""
    index = _at(access.index, base, ranges)
    moving, guards = free_vars(index), []
    for guard in (_at(g, base, ranges) for g in access.guards):
        maximum = _bounds(guard)[1]
        if maximum is not None and maximum < 0:
            return None
        if free_vars(guard) & moving:
            guards.append(guard)
    names = sorted({v for d in (index, *guards) for v in free_vars(d)}, key=lambda v: v.name)
    if not guards or math.prod(v.hi - v.lo + 1 for v in names) > FEW_VALUES:
        return _bounds(index)
    axes = np.indices([1, *(v.hi - v.lo + 1 for v in names)]).reshape(len(names) + 1, -1)
    env = {v: axes[k] + v.lo for k, v in enumerate(names, 1)}
    shape = axes.shape[1:]
    held = np.ones(shape, dtype=bool)
    for guard in guards:
        held &= np.broadcast_to(evaluate_grid(guard, env), shape) >= 0
    at = np.broadcast_to(evaluate_grid(index, env), shape)[held]
    return (int(at.min()), int(at.max())) if at.size else None


def _bounds(dim: Dim) -> tuple[int | None, int | None]:
    """Exact bounds where the variables have few values, else by intervals."""
    count = 1
    for var in free_vars(dim):
        count *= var.hi - var.lo + 1
    return bounds(dim) if count <= FEW_VALUES else interval(dim)
