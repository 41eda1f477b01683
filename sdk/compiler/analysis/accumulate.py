"""Results that a function gathers row after row: the first row sets all of them, the others go on from there."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import idx, imm, op
from sdk.compiler.ir.loops import Block, Buffer, For, If, Loops, Stmt, Store
from sdk.compiler.ir.walk import buffers_used
from sdk.compiler.sym import Var, evaluate_grid, flat_index, free_vars, product

__all__ = ["accumulators"]

_MAX_ELEMENTS: Final = 1 << 20


def accumulators(loops: Loops) -> frozenset[str]:
    """The parameters to be updated whose contents do not matter to a call that starts at row 0.

    Proved where the function is a loop over its rows that, at row 0 and before anything else touches the parameter,
    writes every element of it. A later row takes what the rows before left there.
    """
    rows, body = loops.rows, loops.body.body
    updated = {p.buffer.name: p.buffer for p in loops.params if p.mode == "update"}
    if not updated or rows is None or len(body) != 1 or not isinstance(body[0], For):
        return frozenset()
    around = body[0]
    if (around.lo, around.hi, around.kind) != (rows.lo.expr, rows.hi.expr, "serial"):
        return frozenset()
    found: set[str] = set()
    touched: set[str] = set()
    for stmt in around.body.body:
        if isinstance(stmt, If) and _at_first(stmt, around.var):
            found |= {n for n, b in updated.items() if n not in touched and _fills(stmt.then, b)}
        loads, stores = buffers_used(stmt)
        touched |= loads | stores
    return frozenset(found)


def _at_first(stmt: If, row: Var) -> bool:
    return stmt.orelse is None and stmt.cond == op("eq", idx(row.expr), imm(0))


def _fills(block: Block, buffer: Buffer) -> bool:
    """Whether the block, nests of loops around stores of what is no load, writes all of a buffer of known size
    and nothing else."""
    size = product(buffer.shape)
    if not isinstance(size, int) or size > _MAX_ELEMENTS or buffer.ring is not None:
        return False
    met = np.zeros(size, dtype=bool)
    return _only_stores(block, buffer, (), met) and bool(met.all())


def _only_stores(stmt: Stmt, buffer: Buffer, inside: tuple[For, ...], met: NDArray[np.bool_]) -> bool:
    """Marks the elements of a buffer that stores within loops write; False where there is anything else."""
    match stmt:
        case Block():
            return all(_only_stores(part, buffer, inside, met) for part in stmt.body)
        case For(until=None):
            return _only_stores(stmt.body, buffer, (*inside, stmt), met)
        case Store() if stmt.buffer == buffer.name and not buffers_used(stmt.value)[0]:
            return _marked(stmt, buffer, inside, met)
        case _:
            return False


def _marked(stmt: Store, buffer: Buffer, inside: tuple[For, ...], met: NDArray[np.bool_]) -> bool:
    """Marks what one store writes; False where that is not known."""
    spans = [(f.var, f.lo, f.hi) for f in inside if isinstance(f.lo, int) and isinstance(f.hi, int)]
    at, lanes = flat_index(stmt.index, buffer.shape), stmt.value.dtype.lanes
    count = lanes if stmt.count is None else stmt.count
    if len(spans) < len(inside) or not free_vars(at) | free_vars(count) <= {var for var, _, _ in spans}:
        return False
    axes = np.indices((*(max(hi - lo, 0) for _, lo, hi in spans), 1)).reshape(len(spans) + 1, -1)
    env = {var: axes[k] + lo for k, (var, lo, _) in enumerate(spans)}
    first, stored = (np.broadcast_to(evaluate_grid(d, env), axes.shape[1:]) for d in (at, count))
    for lane in range(lanes):
        met[first[stored > lane] + lane] = True
    return True
