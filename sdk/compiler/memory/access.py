"""Reads and writes of a loops function in textual order, each with the loops around it; rows they touch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from sdk.compiler.ir.dependence import row_axis
from sdk.compiler.ir.loops import Alloc, Atomic, Barrier, Block, Eval, For, If, Let, Load, Loops, Stmt, Store
from sdk.compiler.ir.walk import walk
from sdk.compiler.sym import Dim, Var, bounds, evaluate, free_vars, interval, substitute

__all__ = ["Access", "accesses", "loop_ranges", "rows_touched"]

FEW_VALUES: Final = 4096


@dataclass(frozen=True, slots=True)
class Access:
    """``lanes`` consecutive elements of ``buffer`` from ``index``.

    ``order`` counts statements in the text: a load has the order of the statement that uses it. A call of a
    library symbol touches its buffers in an unknown way.
    """

    buffer: str
    index: tuple[Dim, ...]
    lanes: int
    kind: Literal["load", "store", "unknown"]
    order: int
    loops: tuple[For, ...]


def accesses(loops: Loops) -> list[Access]:
    """Every access below the function, in textual order."""
    return list(_Walk().block(loops.body, ()))


class _Walk:
    """Numbers statements as it goes."""

    def __init__(self) -> None:
        self.order = 0

    def block(self, block: Block, around: tuple[For, ...]) -> Iterator[Access]:
        for stmt in block.body:
            yield from self.stmt(stmt, around)

    def stmt(self, stmt: Stmt, around: tuple[For, ...]) -> Iterator[Access]:
        self.order += 1
        match stmt:
            case Block():
                yield from self.block(stmt, around)
            case For():
                yield from self.block(stmt.body, (*around, stmt))
                if stmt.until is not None:
                    self.order += 1
                    yield from self.loads(stmt.until, (*around, stmt))
            case If():
                yield from self.loads(stmt.cond, around)
                yield from self.block(stmt.then, around)
                if stmt.orelse is not None:
                    yield from self.block(stmt.orelse, around)
            case Let():
                yield from self.loads(stmt.value, around)
            case Store():
                yield from self.loads(stmt.value, around)
                yield Access(stmt.buffer, stmt.index, stmt.value.dtype.lanes, "store", self.order, around)
            case Atomic():
                yield from self.loads(stmt.value, around)
                yield Access(stmt.buffer, stmt.index, 1, "unknown", self.order, around)
            case Eval():
                for load in walk(stmt.args):
                    if isinstance(load, Load):
                        yield Access(load.buffer, load.index, 1, "unknown", self.order, around)
            case Alloc() | Barrier():
                pass

    def loads(self, node: object, around: tuple[For, ...]) -> Iterator[Access]:
        for item in walk(node):
            if isinstance(item, Load):
                yield Access(item.buffer, item.index, item.dtype.lanes, "load", self.order, around)


Env = dict[Var, Dim]


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
    axis = row_axis(buffer.shape)
    extent = evaluate(buffer.shape[axis], dims)
    base: Env = {v: n for v, n in dims.items()}
    if loops.rows is not None:
        base |= {loops.rows.lo: rows[0], loops.rows.hi: rows[1]}
    low, high = extent, 0
    for access in accesses(loops):
        if access.buffer != param or (access.kind == ("load" if store else "store")):
            continue
        if access.kind == "unknown" or (access.lanes > 1 and axis == len(buffer.shape) - 1):
            return 0, extent
        ranges = loop_ranges(access.loops, base)
        if ranges is None:
            continue
        env = base | {var: _dim(var, lo, last) for var, (lo, last) in ranges.items()}
        lo, hi = _bounds(substitute(access.index[axis], env))
        low = min(low, 0 if lo is None else max(lo, 0))
        high = max(high, extent if hi is None else min(hi + 1, extent))
    return (low, high) if low < high else (0, 0)


def loop_ranges(
    around: tuple[For, ...], base: Mapping[Var, Dim] | Mapping[Var, int]
) -> dict[Var, tuple[int, int]] | None:
    """First and last value each loop variable may take, outer loops first; None when a loop does not run.

    ``base`` gives the other symbols.
    """
    env: Env = dict(base)
    out: dict[Var, tuple[int, int]] = {}
    for loop in around:
        lo, hi = _bounds(substitute(loop.lo, env))[0], _bounds(substitute(loop.hi, env))[1]
        first = loop.var.lo if lo is None else lo
        last = loop.var.hi if hi is None else hi - 1
        if last < first:
            return None
        out[loop.var] = first, last
        env[loop.var] = _dim(loop.var, first, last)
    return out


def _dim(var: Var, first: int, last: int) -> Dim:
    return first if first == last else Var(var.name, first, last).expr


def _bounds(dim: Dim) -> tuple[int | None, int | None]:
    """Exact bounds where the variables have few values, else by intervals."""
    count = 1
    for var in free_vars(dim):
        count *= var.hi - var.lo + 1
    return bounds(dim) if count <= FEW_VALUES else interval(dim)
