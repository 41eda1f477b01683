"""Loops with the range that they have, once the values of dims are known."""

from __future__ import annotations

from dataclasses import replace

from sdk.compiler.ir.loops import Block, For, If, Stmt
from sdk.compiler.ir.walk import substitute_dims
from sdk.compiler.sym import Dim, Var, interval

__all__ = ["narrow", "tight"]


def narrow(var: Var, lo: Dim, hi: Dim) -> Var:
    """The variable with no wider range than lo..hi (hi exclusive) can have."""
    minimum, maximum = interval(lo)[0], interval(hi)[1]
    low = var.lo if minimum is None else max(var.lo, minimum)
    high = var.hi if maximum is None else min(var.hi, maximum - 1)
    return var if (low, high) == (var.lo, var.hi) or low > high else Var(var.name, low, high, var.multiple)


def tight(block: Block) -> Block:
    """Loops with variables of no wider range than theirs, outer before inner; without those that never run."""
    return Block(tuple(_tight(s) for s in block.body if not _never(s)))


def _never(stmt: Stmt) -> bool:
    trips = stmt.hi - stmt.lo if isinstance(stmt, For) else 1
    return isinstance(trips, int) and trips < 1


def _tight(stmt: Stmt) -> Stmt:
    match stmt:
        case Block():
            return tight(stmt)
        case If():
            return replace(stmt, then=tight(stmt.then), orelse=stmt.orelse and tight(stmt.orelse))
        case For():
            less = narrow(stmt.var, stmt.lo, stmt.hi)
            inner = stmt if less is stmt.var else substitute_dims(stmt, {stmt.var: less.expr})
            return replace(inner, var=less, body=tight(inner.body))
        case _:
            return stmt
