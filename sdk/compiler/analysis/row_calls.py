"""Functions over rows that take their rows one by one, each as a call of its own would: no loop runs on from row to
row, so rows may lie anywhere, and what follows from there being one is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sdk.compiler.ir.loops import Alloc, Block, For, If, Let, Loops, Stmt
from sdk.compiler.ir.walk import rewrite, substitute_dims, walk
from sdk.compiler.sym import Var

__all__ = ["by_rows", "drop_single_trips"]


def by_rows(loops: Loops) -> Loops:
    """``for p in lo*w..hi*w { S(p / w, p mod w) }`` --> ``for r in lo..hi { for q in 0..w { S(r, q) } }``, whatever
    the loops over the rows ``lo..hi`` of a call are; the function itself where it has no rows."""
    rows = loops.rows
    if rows is None:
        return loops
    taken = {v.name for v in loops.dims} | {n.var.name for n in walk(loops.body) if isinstance(n, For)}
    name = "row"
    while name in taken:
        name += "_"
    row = Var(name, 0, max(rows.lo.hi - 1, 0))
    one = _tight(substitute_dims(loops.body, {rows.lo: row.expr, rows.hi: row.expr + 1}))
    body = Block((For(row, rows.lo.expr, rows.hi.expr, one),))
    return drop_single_trips(replace(loops, body=body))


def _tight(block: Block) -> Block:
    """Loops between numbers with variables of no wider range, outer before inner; without those that never run."""
    runs = (s for s in block.body if not (isinstance(s, For) and isinstance(n := s.hi - s.lo, int) and n < 1))
    return Block(tuple(_tight_stmt(stmt) for stmt in runs))


def _tight_stmt(stmt: Stmt) -> Stmt:
    match stmt:
        case Block():
            return _tight(stmt)
        case If():
            return replace(stmt, then=_tight(stmt.then), orelse=stmt.orelse and _tight(stmt.orelse))
        case For(var, int(lo), int(hi)) if lo < hi and (var.lo, var.hi) != (lo, hi - 1) and var.multiple == 1:
            less = Var(var.name, lo, hi - 1)
            renamed = substitute_dims(stmt, {var: less.expr})
            return replace(renamed, var=less, body=_tight(renamed.body))
        case For():
            return replace(stmt, body=_tight(stmt.body))
        case _:
            return stmt


def drop_single_trips(loops: Loops) -> Loops:
    """``for i in 3..4 { S(i) }`` --> ``S(3)``; a body with declarations of its own stays a block."""

    def one(node: Any) -> Any:
        if not isinstance(node, Block) or not any(_single(s) for s in node.body):
            return node
        out: list[Stmt] = []
        for stmt in node.body:
            if isinstance(stmt, For) and _single(stmt):
                body = substitute_dims(stmt.body, {stmt.var: stmt.lo})
                scoped = len(node.body) > 1 and any(isinstance(s, Alloc | Let) for s in body.body)
                out.extend((body,) if scoped else body.body)
            else:
                out.append(stmt)
        return Block(tuple(out))

    body = rewrite(loops.body, one)
    return loops if body is loops.body else replace(loops, body=body)


def _single(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.kind == "serial" and stmt.until is None and stmt.hi - stmt.lo == 1
