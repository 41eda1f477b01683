"""A primitive that chooses the loop whose iterations a call may ask for, and so what threads divide among them."""

from __future__ import annotations

from dataclasses import replace

from sdk.compiler.ir.loops import For, Loops, Rows, Stmt
from sdk.compiler.ir.walk import substitute_dims
from sdk.compiler.schedules.locate import Loop, ScheduleError, find, replace_loop
from sdk.compiler.sym import Dim, Var, free_vars, max_value, substitute

__all__ = ["bind_rows"]


def bind_rows(loops: Loops, name: Loop) -> Loops:
    """Makes the row range of a call count the iterations of a loop.

    rewrite: ``rows lo, hi of n { for i in lo..hi { for j in 0..m { S } } }`` -->
    ``rows lo, hi of m { for i in 0..n { for j in lo..hi { S } } }``
    obligation: with all rows the loop runs from 0 to an end that no loop around it changes; it neither ends early nor
    is bound to an axis; there is one such loop.
    """
    rows = loops.rows
    if rows is None:
        raise ScheduleError(f"bind_rows({name}): {loops.name} has no rows")
    loop = find(loops, name)
    whole: dict[Var, Dim] = {rows.lo: 0, rows.hi: rows.extent}
    extent = substitute(loop.hi, whole)
    maximum = max_value(extent)
    if loop.until is not None or loop.axis or substitute(loop.lo, whole) != 0:
        raise ScheduleError(f"bind_rows({name}): it may end early, is bound to an axis or does not start at 0")
    if maximum is None or not free_vars(extent) <= set(loops.dims):
        raise ScheduleError(f"bind_rows({name}): its extent {extent} has no upper bound or depends on loops around it")
    mine = Rows(Var(rows.lo.name, 0, maximum), Var(rows.hi.name, 0, maximum), extent)
    found: list[For] = []

    def one(node: For) -> tuple[Stmt, ...]:
        found.append(node)
        return (replace(node, lo=mine.lo.expr, hi=mine.hi.expr),)

    done = replace_loop(replace(loops, body=substitute_dims(loops.body, whole), rows=mine), name, one)
    if len(found) != 1:
        raise ScheduleError(f"bind_rows({name}): there are {len(found)} copies of it")
    return done
