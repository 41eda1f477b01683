"""Unroll-and-jam without the unrolling: pushes a loop of independent iterations inwards past sequence and loops."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Any

from sdk.compiler.analysis.dependence import conflict
from sdk.compiler.ir.loops import Alloc, Atomic, Barrier, Block, Buffer, Eval, For, If, Let, Load, Loops, Stmt, Store
from sdk.compiler.ir.walk import buffers_used, inner_blocks, rewrite, statements, substitute_dims, walk
from sdk.compiler.schedules.locate import Loop, ScheduleError, Tiles, replace_loop
from sdk.compiler.sym import Dim, Var, ceildiv, dmin, free_vars, max_value
from sdk.compiler.verify.loops import LOCAL_BYTES

__all__ = ["tile", "unroll_and_jam"]


def unroll_and_jam(loops: Loops, name: Loop, into: Sequence[Loop]) -> Loops:
    """Distributes a loop over the statements of its body and swaps it with the loops named in ``into``.

    rewrite: ``for i in 0..n { alloc t; S(i); for k { T(i, k) } }`` -->
    ``alloc t[n]; for i { S(i) } for k { for i { T(i, k) } }``; every temporary gets one copy per iteration.
    obligation: iterations of i are independent; i runs from 0 to a number; bounds of the loops passed do not use i; no
    temporary has the name of one in the blocks that it comes to stand in.
    """

    def one(loop: For) -> tuple[Stmt, ...]:
        why = conflict(loop, loops)
        if why:
            raise ScheduleError(f"unroll_and_jam({name}): {why}")
        if loop.lo != 0 or not isinstance(loop.hi, int):
            raise ScheduleError(f"unroll_and_jam({name}): it must run from 0 to a number, not {loop.lo}..{loop.hi}")
        return _push(loop, loop.hi, _expand(loop.body, loop.var, loop.hi), frozenset(into)).body

    done = replace_loop(loops, name, one)
    _check_names(done.body, frozenset(), f"unroll_and_jam({name})")
    return done


def tile(loops: Loops, name: Loop, size: int, into: Sequence[Loop]) -> tuple[Loops, Tiles]:
    """Cuts a loop in tiles that are distributed as ``unroll_and_jam`` does; where the last one is not full, the last
    iteration runs in it more than once, side by side.

    rewrite: ``for i in a..b { alloc t; S(i); for k { T(i, k) } }`` --> ``for i_o in 0..ceil((b-a)/s) { alloc t[s];
    for i_i in 0..s { S(at) } for k { for i_i in 0..s { T(at, k) } } }`` with ``at = a + min(s*i_o + i_i, b-a-1)``
    obligation: those of ``unroll_and_jam``, and an iteration reads nothing that it writes but its temporaries.
    """
    made = Tiles(Loop(f"{name}_o"), Loop(f"{name}_i"))

    def one(loop: For) -> tuple[Stmt, ...]:
        step = f"tile({name}, {size})"
        why = conflict(loop, loops)
        if why or size < 1 or loop.until is not None or loop.axis:
            raise ScheduleError(f"{step}: {why or 'the loop may end early or is bound to an axis, or the size is 0'}")
        private = {n.buffer.name for n in statements(loop.body) if isinstance(n, Alloc)}
        loads, stores = buffers_used(loop.body)
        if (loads & stores) - private or any(isinstance(n, Eval | Atomic | Barrier) for n in statements(loop.body)):
            raise ScheduleError(f"{step}: an iteration run twice may give something else")
        extent = loop.hi - loop.lo
        count = ceildiv(extent, size)
        outer = Var(made.outer, 0, max((max_value(count) or 1) - 1, 0))
        inner = Var(made.inner, 0, size - 1)
        at = loop.lo + dmin(outer.expr * size + inner.expr, extent - 1)
        body = _expand(substitute_dims(loop.body, {loop.var: at}), inner, size)
        tiled = For(inner, 0, size, body)
        return (For(outer, 0, count, _push(tiled, size, body, frozenset(into)), loop.kind),)

    done = replace_loop(loops, name, one)
    _check_names(done.body, frozenset(), f"tile({name}, {size})")
    return done, made


def _check_names(block: Block, scope: Set[str], step: str) -> None:
    """Raises ScheduleError where a temporary is declared in the scope of another of its name."""
    for stmt in block.body:
        if isinstance(stmt, Alloc):
            if stmt.buffer.name in scope:
                raise ScheduleError(f"{step}: {stmt.buffer.name} would stand beside another temporary of that name")
            scope |= {stmt.buffer.name}
        for inner in inner_blocks(stmt):
            _check_names(inner, scope, step)


def _expand(block: Block, var: Var, extent: int) -> Block:
    """Gives every temporary declared in ``block`` a leading axis indexed by ``var``."""
    mine = {n.buffer.name for n in statements(block) if isinstance(n, Alloc)}

    def buffer(old: Buffer) -> Buffer:
        new = replace(old, shape=(extent, *old.shape))
        if new.space == "local" and (new.type.max_bytes or LOCAL_BYTES + 1) > LOCAL_BYTES:
            raise ScheduleError(f"unroll_and_jam({var.name}): {new.name} takes over {LOCAL_BYTES} bytes of stack")
        return new

    def one(node: Any) -> Any:
        match node:
            case Alloc():
                return Alloc(buffer(node.buffer))
            case Load() | Store() if node.buffer in mine:
                index: tuple[Dim, ...] = (var.expr, *node.index)
                return replace(node, index=index)
            case _:
                return node

    return rewrite(block, one)


def _push(loop: For, extent: int, block: Block, into: frozenset[str]) -> Block:
    allocs: list[Stmt] = []
    out: list[Stmt] = []
    for stmt in block.body:
        match stmt:
            case Alloc():
                allocs.append(stmt)
            case Let():
                raise ScheduleError(f"unroll_and_jam({loop.var.name}): {stmt.name} is bound once per iteration")
            case For() if stmt.var.name in into:
                if loop.var in free_vars(stmt.lo) | free_vars(stmt.hi):
                    raise ScheduleError(f"unroll_and_jam({loop.var.name}): the bounds of {stmt.var.name} depend on it")
                out.append(replace(stmt, body=_push(loop, extent, stmt.body, into)))
            case If() if any(n.var.name in into for n in walk(stmt) if isinstance(n, For)):
                raise ScheduleError(f"unroll_and_jam({loop.var.name}): a condition is before the loops to enter")
            case _:
                out.append(replace(loop, hi=extent, body=Block((stmt,))))
    return Block((*allocs, *out))
