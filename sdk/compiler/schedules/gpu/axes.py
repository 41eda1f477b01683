"""Loops over work items and groups: two of them as one."""

from __future__ import annotations

from collections.abc import Mapping

from sdk.compiler.ir.loops import Block, For
from sdk.compiler.sym import Dim, Var, dmax, floordiv, max_value, prove_ge

__all__ = ["joined"]


def joined(outer: For, inner: For) -> tuple[For, Mapping[Var, Dim]]:
    """One loop in place of two, and what their variables are in it."""
    rows, extent = outer.hi - outer.lo, inner.hi - inner.lo
    most = max_value(rows * extent)
    var = Var(f"{outer.var.name}_{inner.var.name}", 0, max((most or 1) - 1, 1))
    quotient = floordiv(var.expr, extent if prove_ge(extent, 1) is True else dmax(extent, 1))  # of 0 there is no item
    env = {outer.var: quotient + outer.lo, inner.var: var.expr - quotient * extent + inner.lo}
    return For(var, 0, rows * extent, Block(())), env
