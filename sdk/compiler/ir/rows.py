"""Which loops functions may compute their rows in parts side by side, where to cut, and how much work a cut holds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sdk.compiler.ir.loops import (
    Alloc,
    Atomic,
    Barrier,
    Block,
    Buffer,
    Eval,
    For,
    If,
    Let,
    Load,
    Loops,
    Op,
    Rows,
    Stmt,
    Store,
    ValueExpr,
)
from sdk.compiler.ir.verify_bounds import Facts, facts_of
from sdk.compiler.ir.walk import walk
from sdk.compiler.sym import Dim, Expr, Func, Var, free_vars, max_value, product, prove_eq, substitute

__all__ = ["PART_WORK", "row_granule", "shared_params", "work_of"]

PART_WORK: Final = 1 << 16  # operations below which a part is not worth waking a thread for

_MOST_GRANULE: Final = 256
_MOST_WORK: Final = (1 << 31) - 1


def row_granule(loops: Loops, shared: frozenset[str] = frozenset()) -> int | None:
    """Rows between places where a call may be cut: parts cut at its multiples run in any order, or at once, and
    give every bit that one call gives. None where that is not proved.

    Proved where what a part touches of the parameters that are written, and of those read whose bytes these take
    over (``shared``), lies in the part's own rows; and where tiles of rows (known by divisions of the row range)
    start at the same rows with and without cuts.
    """
    if loops.rows is None or any(isinstance(n, Eval | Barrier | Atomic) for n in walk(loops.body)):
        return None
    if any(isinstance(n, For) and n.until is not None for n in walk(loops.body)):
        return None
    watched = {p.buffer.name: p.buffer for p in loops.params if p.mode != "read" or p.buffer.name in shared}
    found = _touches(loops.body, _row_facts(loops.rows), {}, frozenset(watched))
    if not all(_inside(touch, watched[touch.buffer], loops.rows) for touch in found):
        return None
    tiles = {t for n in walk(loops.body) if isinstance(n, For) for d in (n.lo, n.hi) for t in _tiles(d, loops.rows)}
    granule = math.lcm(*tiles)
    return granule if granule <= _MOST_GRANULE else None


def shared_params(loops: Loops, args: Sequence[str], alias: Mapping[str, str]) -> frozenset[str]:
    """The parameters read whose bytes one that is written takes over, in a call on buffers ``args``; ``alias`` gives
    each buffer the one whose bytes it shares ("" = none)."""

    def root(name: str) -> str:
        while alias.get(name):
            name = alias[name]
        return name

    held = [(p, root(name)) for p, name in zip(loops.params, args, strict=True)]
    written = {r for p, r in held if p.mode != "read"}
    return frozenset(p.buffer.name for p, r in held if p.mode == "read" and r in written)


def work_of(loops: Loops, rows: int) -> Dim:
    """Operations on scalars that a call for ``rows`` rows takes, a dim in those of the function; at most 2^31 - 1."""
    env: dict[Var, Dim] = {} if loops.rows is None else {loops.rows.lo: 0, loops.rows.hi: rows}
    total = _block_work(loops.body, env, frozenset(loops.dims))
    most = max_value(total)
    return total if most is not None and most <= _MOST_WORK else _MOST_WORK


# --- what parts touch --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Touch:
    """``count`` elements of ``buffer`` from ``index``, of which ``used`` (None: all) count; what holds there."""

    buffer: str
    index: tuple[Dim, ...]
    count: int
    used: Dim | None
    facts: Facts


def _row_facts(rows: Rows) -> Facts:
    return Facts().with_range(rows.lo, 0, rows.extent + 1).with_range(rows.hi, rows.lo.expr, rows.extent + 1)


def _touches(block: Block, facts: Facts, lets: dict[str, ValueExpr], watched: frozenset[str]) -> Iterator[_Touch]:
    lets = dict(lets)
    for stmt in block.body:
        match stmt:
            case Block():
                yield from _touches(stmt, facts, lets, watched)
            case For():
                inner = facts.with_range(stmt.var, stmt.lo, stmt.hi)
                yield from _touches(stmt.body, inner, lets, watched)
            case If():
                yield from _loads(stmt.cond, facts, watched)
                yield from _touches(stmt.then, facts.with_guards(facts_of(stmt.cond, lets)), lets, watched)
                if stmt.orelse is not None:
                    otherwise = facts.with_guards(facts_of(stmt.cond, lets, holds=False))
                    yield from _touches(stmt.orelse, otherwise, lets, watched)
            case Let():
                yield from _loads(stmt.value, facts, watched)
                lets[stmt.name] = stmt.value
            case Store():
                yield from _loads(stmt.value, facts, watched)
                if stmt.buffer in watched:
                    yield _Touch(stmt.buffer, stmt.index, stmt.value.dtype.lanes, stmt.count, facts)
            case Alloc() | Eval() | Barrier() | Atomic():
                pass


def _loads(value: ValueExpr, facts: Facts, watched: frozenset[str]) -> Iterator[_Touch]:
    for item in walk(value):
        if isinstance(item, Load) and item.buffer in watched:
            yield _Touch(item.buffer, item.index, item.dtype.lanes, item.count, facts)


def _inside(touch: _Touch, buffer: Buffer, rows: Rows) -> bool:
    """Whether an access stays in the rows of its part, on some axis that the rows may be."""
    if buffer.ring is not None or buffer.dtype.lanes != 1:
        return False
    facts = touch.facts if touch.used is None else touch.facts.with_guards([touch.used - 1])
    return any(
        _inside_axis(touch, buffer, rows, axis, facts)
        for axis, extent in enumerate(buffer.shape)
        if prove_eq(extent, rows.extent) is True
    )


def _inside_axis(touch: _Touch, buffer: Buffer, rows: Rows, axis: int, facts: Facts) -> bool:
    at, last = touch.index[axis], len(buffer.shape) - 1
    span: Dim = touch.count if touch.used is None else touch.used
    reach = span if axis == last else 1
    held = facts.nonnegative(at - rows.lo.expr) is True and facts.nonnegative(rows.hi.expr - reach - at) is True
    if held and (axis == last or touch.count == 1):
        return True
    if held and facts.nonnegative(buffer.shape[last] - span - touch.index[last]) is True:
        return True
    if any(d != 1 for d in buffer.shape[:axis]):
        return False
    row, flat = product(buffer.shape[axis + 1 :]), _flat(touch.index, buffer.shape)
    low = facts.nonnegative(flat - rows.lo.expr * row) is True
    return low and facts.nonnegative(rows.hi.expr * row - span - flat) is True


def _flat(index: tuple[Dim, ...], shape: tuple[Dim, ...]) -> Dim:
    out: Dim = 0
    for at, size in zip(index, shape, strict=True):
        out = out * size + at
    return out


def _tiles(dim: Dim, rows: Rows) -> Iterator[int]:
    """The divisors of the row range in a dim."""
    if not isinstance(dim, Expr):
        return
    for term, _ in dim.terms:
        for factor, _ in term:
            if isinstance(factor, Func):
                if factor.name == "floordiv" and {rows.lo, rows.hi} & free_vars(factor.a):
                    yield factor.b if isinstance(factor.b, int) else _MOST_GRANULE + 1
                yield from _tiles(factor.a, rows)
                yield from _tiles(factor.b, rows)


# --- work --------------------------------------------------------------------------------------------------------


def _block_work(block: Block, env: dict[Var, Dim], dims: frozenset[Var]) -> Dim:
    total: Dim = 0
    for stmt in block.body:
        total = total + _stmt_work(stmt, env, dims)
    return total


def _stmt_work(stmt: Stmt, env: dict[Var, Dim], dims: frozenset[Var]) -> Dim:
    match stmt:
        case Block():
            return _block_work(stmt, env, dims)
        case For():
            return _times(stmt, env, dims) * _block_work(stmt.body, env, dims)
        case If():
            other = 0 if stmt.orelse is None else _block_work(stmt.orelse, env, dims)
            return _operations(stmt.cond) + _block_work(stmt.then, env, dims) + other
        case Let() | Store() | Atomic():
            return _operations(stmt.value)
        case Eval() | Alloc() | Barrier():
            return 0


def _times(loop: For, env: dict[Var, Dim], dims: frozenset[Var]) -> Dim:
    """How often a loop runs, at most: a dim of the function's, or a number where it depends on loops around."""
    extent = substitute(loop.hi, env) - substitute(loop.lo, env)
    if free_vars(extent) <= dims:
        return extent
    return max(max_value(extent) or 1, 0)


def _operations(value: ValueExpr) -> int:
    return sum(n.dtype.lanes for n in walk(value) if isinstance(n, Op)) + value.dtype.lanes
