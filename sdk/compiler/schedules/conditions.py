"""Conditions that need not be asked: what the loops around prove, and where a loop is cut for them to prove it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sdk.compiler.analysis.path_conditions import PathConditions, conditions_of
from sdk.compiler.ir.intrinsics import imm
from sdk.compiler.ir.loops import Block, For, Idx, If, Imm, Loops, Op, Stmt, ValueExpr
from sdk.compiler.ir.types import BOOL
from sdk.compiler.ir.walk import rewrite, substitute_dims
from sdk.compiler.schedules.locate import Loop, ScheduleError, check_whole, copied, replace_loop
from sdk.compiler.sym import Var, dmax, dmin, prove_ge

__all__ = ["partition", "simplify_conditions"]

_COMPARISONS = ("lt", "le", "gt", "ge", "eq")


def simplify_conditions(loops: Loops) -> Loops:
    """Drops comparisons of indices that always hold where they stand.

    rewrite: ``for i in 0..n { o[i] = select(i >= 0 & i < n, x[i], 0) }`` --> ``for i in 0..n { o[i] = x[i] }``
    obligation: none; what is not proved stays.
    """
    conditions = PathConditions()
    if loops.rows is not None:
        rows = loops.rows
        conditions = conditions.with_guards((rows.lo.expr, rows.hi.expr - rows.lo.expr, rows.extent - rows.hi.expr))
    return replace(loops, body=_block(loops.body, conditions))


def _block(block: Block, conditions: PathConditions) -> Block:
    return Block(tuple(s for stmt in block.body for s in _stmt(stmt, conditions)))


def _stmt(stmt: Stmt, conditions: PathConditions) -> tuple[Stmt, ...]:
    match stmt:
        case Block():
            return (_block(stmt, conditions),)
        case For():
            return (replace(stmt, body=_block(stmt.body, conditions.with_range(stmt.var, stmt.lo, stmt.hi))),)
        case If():
            cond = _value(stmt.cond, conditions)
            then = _block(stmt.then, conditions.with_guards(conditions_of(cond, {}, True)))
            if _true(cond):
                return then.body
            otherwise = conditions.with_guards(conditions_of(cond, {}, False))
            orelse = _block(stmt.orelse, otherwise) if stmt.orelse else None
            return (If(cond, then, orelse),)
        case _:
            return (rewrite(stmt, lambda node: _one(node, conditions)),)


def _value(expr: ValueExpr, conditions: PathConditions) -> ValueExpr:
    found: ValueExpr = rewrite(expr, lambda node: _one(node, conditions))
    return found


def _true(expr: object) -> bool:
    return isinstance(expr, Imm) and expr.dtype == BOOL and bool(expr.value)


def _one(node: Any, conditions: PathConditions) -> Any:
    """A comparison that holds as the literal it is; what is joined with one, without it."""
    if not isinstance(node, Op):
        return node
    if node.name in _COMPARISONS and all(isinstance(a, Idx | Imm) for a in node.args):
        known = conditions_of(node, {})
        return imm(True, BOOL) if known and all(conditions.nonnegative(d) is True for d in known) else node
    if node.name == "and" and node.dtype == BOOL:
        left = [a for a in node.args if not _true(a)]
        return imm(True, BOOL) if not left else left[0] if len(left) == 1 else node
    if node.name == "select" and _true(node.args[0]):
        return node.args[1]
    return node


def partition(loops: Loops, name: Loop, first: int, last: int) -> tuple[Loops, list[dict[Loop, Loop]]]:
    """Runs what comes before one number and from another on in loops of their own, for
    ``simplify_conditions`` to free the iterations between of checks.

    rewrite: ``for i in a..b { S(i) }`` --> ``for i_a in a..min(b, f) { S(i_a) }
    for i in max(a, f)..min(b, l) { S(i) } for i_z in max(a, l)..b { S(i_z) }``
    obligation: f <= l; the loop neither ends early nor is bound to an axis.

    For each of these loops its handle, and those of the loops inside that are copies, by what they copy.
    """
    made: dict[str, dict[Loop, Loop]] = {}

    def one(loop: For) -> tuple[Stmt, ...]:
        check_whole(loop, f"partition({name})")
        if first > last:
            raise ScheduleError(f"partition({name}): {first} > {last}")
        out: list[Stmt] = []
        for part, lo, hi in (
            ("a", loop.lo, dmin(loop.hi, first)),
            ("", dmax(loop.lo, first), dmin(loop.hi, last)),
            ("z", dmax(loop.lo, last), loop.hi),
        ):
            if prove_ge(lo, hi) is True:
                continue
            begin = lo if isinstance(lo, int) else loop.var.lo
            end = hi - 1 if isinstance(hi, int) else loop.var.hi
            var = Var(f"{name}_{part}" if part else name, begin, end)
            body = substitute_dims(loop.body, {loop.var: var.expr})
            body, copies, _ = copied(body, f"_{name}{part}") if part else (body, {}, {})
            made[part] = {**made.get(part, {}), name: Loop(var.name), **copies}
            out.append(For(var, lo, hi, body, loop.kind))
        return tuple(out)

    return replace_loop(loops, name, one), list(made.values())
