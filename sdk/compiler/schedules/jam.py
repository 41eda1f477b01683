"""Unroll-and-jam without the unrolling: pushes a loop of independent iterations inwards past sequence and loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sdk.compiler.ir.dependence import conflict
from sdk.compiler.ir.loops import Alloc, Block, Buffer, For, If, Let, Load, Loops, Stmt, Store
from sdk.compiler.ir.verify_loops import LOCAL_BYTES
from sdk.compiler.ir.walk import rewrite, walk
from sdk.compiler.schedules.locate import ScheduleError, replace_loop
from sdk.compiler.sym import Dim, Var, free_vars

__all__ = ["jam"]


def jam(loops: Loops, name: str, into: Sequence[str]) -> Loops:
    """Distributes a loop over the statements of its body and swaps it with the loops named in ``into``.

    rewrite: ``for i in 0..n { alloc t; S(i); for k { T(i, k) } }`` -->
    ``alloc t[n]; for i { S(i) } for k { for i { T(i, k) } }``; every temporary gets one copy per iteration.
    obligation: iterations of i are independent; i runs from 0 to a number; bounds of the loops passed do not use i.
    """

    def one(loop: For) -> tuple[Stmt, ...]:
        why = conflict(loop, loops)
        if why:
            raise ScheduleError(f"jam({name}): {why}")
        if loop.lo != 0 or not isinstance(loop.hi, int):
            raise ScheduleError(f"jam({name}): the loop must run from 0 to a number, not {loop.lo}..{loop.hi}")
        return _push(loop, loop.hi, _expand(loop.body, loop.var, loop.hi), frozenset(into)).body

    return replace_loop(loops, name, one)


def _expand(block: Block, var: Var, extent: int) -> Block:
    """Gives every temporary declared in ``block`` a leading axis indexed by ``var``."""
    mine = {n.buffer.name for n in walk(block) if isinstance(n, Alloc)}

    def buffer(old: Buffer) -> Buffer:
        new = replace(old, shape=(extent, *old.shape))
        if new.space == "local" and (new.type.max_bytes or LOCAL_BYTES + 1) > LOCAL_BYTES:
            raise ScheduleError(f"jam({var.name}): {new.name} would take more than {LOCAL_BYTES} bytes of the stack")
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
                raise ScheduleError(f"jam({loop.var.name}): the scalar {stmt.name} is bound once per iteration")
            case For() if stmt.var.name in into:
                if loop.var in free_vars(stmt.lo) | free_vars(stmt.hi):
                    raise ScheduleError(f"jam({loop.var.name}): the bounds of {stmt.var.name} depend on it")
                out.append(replace(stmt, body=_push(loop, extent, stmt.body, into)))
            case If() if any(n.var.name in into for n in walk(stmt) if isinstance(n, For)):
                raise ScheduleError(f"jam({loop.var.name}): a condition stands before the loops it should enter")
            case _:
                out.append(replace(loop, hi=extent, body=Block((stmt,))))
    return Block((*allocs, *out))
