"""Primitives that change the shape of a nest: split, fuse, reorder, unroll, parallel, bind."""

from __future__ import annotations

from dataclasses import replace

from sdk.compiler.analysis.dependence import conflict
from sdk.compiler.ir.loops import Alloc, Block, For, ForKind, Loops, Stmt
from sdk.compiler.ir.walk import buffers_used, substitute_dims, walk
from sdk.compiler.schedules.locate import Loop, ScheduleError, Tiles, copied, replace_loop
from sdk.compiler.sym import Dim, Var, dmax, floordiv, free_vars, max_value, prove_eq

__all__ = ["bind", "fuse", "parallel", "reorder", "split", "unroll"]


def _variable(name: str, extent: Dim) -> Var:
    most = max_value(extent)
    if most is None:
        raise ScheduleError(f"the extent {extent} of {name} has no upper bound")
    return Var(name, 0, max(most - 1, 0))


def _plain(loop: For, step: str) -> None:
    """Refuses loops whose other properties a new shape would lose."""
    if loop.until is not None or loop.axis:
        raise ScheduleError(f"{step}: {loop.var.name} may end early or is bound to an axis")


def split(loops: Loops, name: Loop, factor: int) -> tuple[Loops, Tiles]:
    """Splits a loop in two; what does not fill a whole step runs in a tail loop ``<name>_t``.

    rewrite: ``for i in a..b { S(i) }`` --> ``for i_o in 0..(b-a)/f { for i_i in 0..f { S(a + f*i_o + i_i) } }``
    ``for i_t in a + f*((b-a)/f)..b { S(i_t) }``
    obligation: factor >= 1; the tail is dropped where f divides b - a by proof.
    """
    if factor < 1:
        raise ScheduleError(f"split({name}, {factor}): the factor must be at least 1")
    made = Tiles(Loop(f"{name}_o"), Loop(f"{name}_i"), whole=False)

    def one(loop: For) -> tuple[Stmt, ...]:
        nonlocal made
        _plain(loop, f"split({name}, {factor})")
        extent = loop.hi - loop.lo
        whole = floordiv(extent, factor)
        out: list[Stmt] = []
        if whole != 0:
            made = replace(made, whole=True)
            outer, inner = _variable(made.outer, whole), Var(made.inner, 0, factor - 1)
            at = loop.lo + outer.expr * factor + inner.expr
            body = substitute_dims(loop.body, {loop.var: at})
            out.append(For(outer, 0, whole, Block((For(inner, 0, factor, body),)), loop.kind))
        if prove_eq(whole * factor, extent) is not True:
            tail = Var(f"{name}_t", loop.var.lo, loop.var.hi)
            body, copies, buffers = copied(substitute_dims(loop.body, {loop.var: tail.expr}), "_t" if out else "")
            made = replace(
                made,
                tail=Loop(tail.name),
                copies={**made.copies, **copies},
                buffers={**made.buffers, **buffers},
            )
            start = loop.lo + dmax(whole, 0) * factor  # a range that is empty backwards has no tail either
            out.append(For(tail, start, loop.hi, body))
        return tuple(out)

    return replace_loop(loops, name, one), made


def fuse(loops: Loops, outer: Loop, inner: Loop, name: str) -> tuple[Loops, Loop]:
    """Makes one loop of two perfectly nested ones.

    rewrite: ``for i in a..b { for j in 0..n { S(i, j) } }`` --> ``for f in a*n..b*n { S(f / n, f mod n) }``
    obligation: nothing else between the two; the inner loop starts at 0 and does not depend on the outer one.
    """

    def one(loop: For) -> tuple[Stmt, ...]:
        child = loop.body.body[0]
        if len(loop.body.body) != 1 or not isinstance(child, For) or child.var.name != inner:
            raise ScheduleError(f"fuse({outer}, {inner}): {inner} is not alone inside {outer}")
        _plain(loop, f"fuse({outer}, {inner})")
        _plain(child, f"fuse({outer}, {inner})")
        if child.lo != 0 or loop.var in free_vars(child.hi):
            raise ScheduleError(f"fuse({outer}, {inner}): {inner} must start at 0 and not depend on {outer}")
        var = _variable(name, (loop.var.hi + 1) * child.hi)
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
    registers = {n.buffer.name for n in walk(loops.body) if isinstance(n, Alloc) and n.buffer.space == "register"}

    def one(loop: For) -> tuple[Stmt, ...]:
        if copies == "register" and not registers & set().union(*buffers_used(loop.body)):
            return (loop,)
        extent = loop.hi - loop.lo
        if not isinstance(extent, int) or extent > 64:
            raise ScheduleError(f"unroll({name}): the trip count {extent} is not a number of at most 64")
        return (replace(loop, kind="unroll"),)

    return replace_loop(loops, name, one)


def parallel(loops: Loops, name: Loop) -> Loops:
    """Lets iterations run at the same time. obligation: they are independent."""
    return _concurrent(loops, name, "parallel", "")


def bind(loops: Loops, name: Loop, axis: str) -> Loops:
    """Maps iterations to a hardware axis (``group.x``, ``local.x`` …). obligation: they are independent."""
    return _concurrent(loops, name, "bind", axis)


def _concurrent(loops: Loops, name: Loop, kind: ForKind, axis: str) -> Loops:
    def one(loop: For) -> tuple[Stmt, ...]:
        why = conflict(loop, loops)
        if why:
            raise ScheduleError(f"{kind}({name}): {why}")
        return (replace(loop, kind=kind, axis=axis),)

    return replace_loop(loops, name, one)
