"""Primitives that change the shape of a nest: split, fuse, reorder, unroll, bind."""

from __future__ import annotations

from dataclasses import replace

from sdk.compiler.analysis.dependence import conflict
from sdk.compiler.ir.loops import Alloc, Block, For, Loops, Stmt
from sdk.compiler.ir.walk import buffers_used, statements, substitute_dims
from sdk.compiler.schedules.locate import Loop, ScheduleError, Tiles, check_whole, copied, counter, has, replace_loop
from sdk.compiler.sym import Var, dmax, floordiv, free_vars, prove_eq, prove_ge

__all__ = ["bind", "fuse", "reorder", "split", "unroll"]


def split(loops: Loops, name: Loop, factor: int) -> tuple[Loops, Tiles]:
    """Splits a loop in two; what does not fill a whole step runs in a tail loop ``<name>_t``.

    rewrite: ``for i in a..b { S(i) }`` --> ``for i_o in 0..(b-a)/f { for i_i in 0..f { S(a + f*i_o + i_i) } }``
    ``for i_t in a + f*((b-a)/f)..b { S(i_t) }``
    obligation: factor >= 1; the tail is dropped where f divides b - a by proof.
    """
    if factor < 1:
        raise ScheduleError(f"split({name}, {factor}): the factor must be at least 1")
    outer, inner, tail = Loop(f"{name}_o"), Loop(f"{name}_i"), Loop(f"{name}_t")
    copies: dict[Loop, Loop] = {}
    buffers: dict[str, str] = {}

    def one(loop: For) -> tuple[Stmt, ...]:
        check_whole(loop, f"split({name}, {factor})")
        extent = loop.hi - loop.lo
        whole = floordiv(extent, factor)
        out: list[Stmt] = []
        if whole != 0:
            over, each = counter(outer, whole), Var(inner, 0, factor - 1)
            body = substitute_dims(loop.body, {loop.var: loop.lo + over.expr * factor + each.expr})
            out.append(For(over, 0, whole, Block((For(each, 0, factor, body),)), loop.kind))
        if prove_eq(whole * factor, extent) is not True:
            rest = Var(tail, loop.var.lo, loop.var.hi)
            body, inside, own = copied(substitute_dims(loop.body, {loop.var: rest.expr}), "_t" if out else "")
            copies.update(inside)
            buffers.update(own)
            start = loop.lo + dmax(whole, 0) * factor  # a range that is empty backwards has no tail either
            out.append(For(rest, start, loop.hi, body))
        return tuple(out)

    done = replace_loop(loops, name, one)
    return done, Tiles(outer, inner, has(done, outer), tail if has(done, tail) else None, copies, buffers)


def fuse(loops: Loops, outer: Loop, inner: Loop, name: str) -> tuple[Loops, Loop]:
    """Makes one loop of two perfectly nested ones.

    rewrite: ``for i in a..b { for j in 0..n { S(i, j) } }`` --> ``for f in a*n..b*n { S(f / n, f mod n) }``
    obligation: nothing else between the two; the inner loop starts at 0 and does not depend on the outer one, and runs
    for certain where loops around decide it.
    """

    def one(loop: For) -> tuple[Stmt, ...]:
        child = loop.body.body[0]
        if len(loop.body.body) != 1 or not isinstance(child, For) or child.var.name != inner:
            raise ScheduleError(f"fuse({outer}, {inner}): {inner} is not alone inside {outer}")
        check_whole(loop, f"fuse({outer}, {inner})")
        check_whole(child, f"fuse({outer}, {inner})")
        if child.lo != 0 or loop.var in free_vars(child.hi):
            raise ScheduleError(f"fuse({outer}, {inner}): {inner} must start at 0 and not depend on {outer}")
        if not free_vars(child.hi) <= set(loops.dims) and prove_ge(child.hi, 1) is not True:
            raise ScheduleError(f"fuse({outer}, {inner}): {inner} may run no iteration, by which nothing is divided")
        var = counter(name, (loop.var.hi + 1) * child.hi)
        at = var.expr if var.hi else 0
        div = floordiv(at, child.hi)
        env = {loop.var: div, child.var: at - div * child.hi}
        return (For(var, loop.lo * child.hi, loop.hi * child.hi, substitute_dims(child.body, env), loop.kind),)

    return replace_loop(loops, outer, one), Loop(name)


def reorder(loops: Loops, outer: Loop, inner: Loop) -> Loops:
    """Swaps two perfectly nested loops, in every copy of the outer one that has the inner one alone inside.

    rewrite: ``for i { for j { S } }`` --> ``for j { for i { S } }``
    obligation: iterations of the outer one are independent; bounds do not depend on each other.
    """
    swapped = []

    def one(loop: For) -> tuple[Stmt, ...]:
        child = loop.body.body[0]
        if len(loop.body.body) != 1 or not isinstance(child, For) or child.var.name != inner:
            return (loop,)
        if loop.var in free_vars(child.lo) | free_vars(child.hi):
            raise ScheduleError(f"reorder({outer}, {inner}): the bounds of {inner} depend on {outer}")
        why = conflict(loop, loops) or (f"{inner} may end early" if child.until is not None else None)
        if why:
            raise ScheduleError(f"reorder({outer}, {inner}): {why}")
        swapped.append(loop)
        return (replace(child, body=Block((replace(loop, body=child.body),))),)

    done = replace_loop(loops, outer, one)
    if not swapped:
        raise ScheduleError(f"reorder({outer}, {inner}): {inner} is not alone inside {outer}")
    return done


def unroll(loops: Loops, name: Loop, copies: str = "all") -> Loops:
    """Has the loop written out; of its copies, where ``copies`` is "register", those that use registers.

    rewrite: ``for i in 0..3 { S(i) }`` --> ``S(0) S(1) S(2)``
    obligation: the trip count is a number, at most 64.
    """
    registers = {n.buffer.name for n in statements(loops.body) if isinstance(n, Alloc) and n.buffer.space == "register"}

    def one(loop: For) -> tuple[Stmt, ...]:
        if copies == "register" and not registers & set().union(*buffers_used(loop.body)):
            return (loop,)
        extent = loop.hi - loop.lo
        if not isinstance(extent, int) or extent > 64:
            raise ScheduleError(f"unroll({name}): the trip count {extent} is not a number of at most 64")
        return (replace(loop, kind="unroll"),)

    return replace_loop(loops, name, one)


def bind(loops: Loops, name: Loop, axis: str) -> Loops:
    """Maps iterations to a hardware axis (``group.x``, ``local.x`` …). obligation: they are independent."""

    def one(loop: For) -> tuple[Stmt, ...]:
        why = conflict(loop, loops)
        if why:
            raise ScheduleError(f"bind({name}): {why}")
        return (replace(loop, kind="bind", axis=axis),)

    return replace_loop(loops, name, one)
