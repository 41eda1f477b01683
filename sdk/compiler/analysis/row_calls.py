"""Functions over rows that take their rows one by one, each as a call of its own would: no loop runs on from row to
row, so rows may lie anywhere, and what follows from there being one is known."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from sdk.compiler.analysis.pattern import classify
from sdk.compiler.analysis.tight import tight
from sdk.compiler.ir.loops import Alloc, Block, For, Let, Loops, Stmt
from sdk.compiler.ir.walk import rewrite, statements, substitute_dims
from sdk.compiler.sym import Var

__all__ = ["by_rows", "drop_single_trips", "loops_of_product"]


def by_rows(loops: Loops) -> Loops:
    """``for p in lo*w..hi*w { S(p / w, p mod w) }`` --> ``for r in lo..hi { for q in 0..w { S(r, q) } }``, whatever
    the loops over the rows ``lo..hi`` of a call are; the function itself where it has no rows."""
    rows = loops.rows
    if rows is None:
        return loops
    taken = {v.name for v in loops.dims} | {n.var.name for n in statements(loops.body) if isinstance(n, For)}
    name = "row"
    while name in taken:
        name += "_"
    row = Var(name, 0, max(rows.lo.hi - 1, 0))
    one = tight(substitute_dims(loops.body, {rows.lo: row.expr, rows.hi: row.expr + 1}))
    body = Block((For(row, rows.lo.expr, rows.hi.expr, one),))
    return drop_single_trips(replace(loops, body=body))


def drop_single_trips(loops: Loops, kept: Collection[Var] = ()) -> Loops:
    """``for i in 3..4 { S(i) }`` --> ``S(3)``, loops over the variables ``kept`` apart; a body with declarations of its
    own stays a block."""

    def goes(stmt: Stmt) -> bool:
        return isinstance(stmt, For) and _single(stmt) and stmt.var not in kept

    def one(node: Any) -> Any:
        if not isinstance(node, Block) or not any(map(goes, node.body)):
            return node
        out: list[Stmt] = []
        for stmt in node.body:
            if isinstance(stmt, For) and goes(stmt):
                body = substitute_dims(stmt.body, {stmt.var: stmt.lo})
                scoped = len(node.body) > 1 and any(isinstance(s, Alloc | Let) for s in body.body)
                out.extend((body,) if scoped else body.body)
            else:
                out.append(stmt)
        return Block(tuple(out))

    body = rewrite(loops.body, one)
    return loops if body is loops.body else replace(loops, body=body)


def loops_of_product(loops: Loops, channels: bool) -> frozenset[Var]:
    """The variables of loops that run once without which a product of bytes would not be seen as one: the last over its
    only product and, with ``channels``, that over its only channel."""
    part = classify(loops).product
    if part is None or any(loops.param(name).buffer.dtype.bits != 8 for name in (part.a, part.b)):
        return frozenset()
    kept = [part.spatial[-1]] if channels and _single(part.spatial[-1]) else []
    kept += [part.reduce[-1]] if all(map(_single, part.reduce)) else []
    return frozenset(loop.var for loop in kept)


def _single(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.kind == "serial" and stmt.until is None and stmt.hi - stmt.lo == 1
