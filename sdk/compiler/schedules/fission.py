"""Fission of sums from what is done with them: a tile of sums is kept in scratch, then read back one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

from sdk.compiler.analysis.dependence import conflict
from sdk.compiler.ir.loops import Alloc, Block, Buffer, For, If, Let, Load, Loops, Stmt, Store
from sdk.compiler.ir.walk import rewrite, substitute_dims, walk
from sdk.compiler.schedules.locate import Loop, ScheduleError, fresh, replace_loop
from sdk.compiler.sym import Dim, Var, free_vars, max_value
from sdk.compiler.verify.loops import LOCAL_BYTES

__all__ = ["fission"]

SumSpace = Literal["scratch", "local"]


def fission(loops: Loops, name: Loop, space: SumSpace = "scratch") -> tuple[Loops, tuple[Loop, ...]]:
    """Computes all sums of a tile first, and what they become after, in loops of their own; they are kept in scratch,
    or on the stack (``local``) where they are few.

    rewrite: ``for i { for j in 0..n { alloc c; …; o[i, j] = f(c) } }`` -->
    ``alloc t[ni, n]; for i { for j { alloc c; …; t[i, j] = c } }
    for i_e { for j_e { o[i_e, j_e] = f(t[i_e, j_e]) } }``, the last statement
    as it is, also under a condition.
    obligation: the loops hold nothing but each other and the sum; they run from 0 to ends that do not depend on each
    other, all iterations are independent, and the last statement alone stores to a parameter; the space is one of
    the two, and what is on the stack small.
    """
    if space not in get_args(SumSpace):
        raise ScheduleError(f"fission({name}): sums are not kept in {space}")
    stem = fresh(loops, "sums")
    made: tuple[Loop, ...] = ()

    def one(loop: For) -> tuple[Stmt, ...]:
        nonlocal made
        chain = [loop]
        while len(chain[-1].body.body) == 1 and isinstance(inside := chain[-1].body.body[0], For):
            chain.append(inside)
        body = chain[-1].body.body
        why = next((found for f in chain if (found := conflict(f, loops))), None)
        if why:
            raise ScheduleError(f"fission({name}): {why}")
        shape: list[Dim] = [f.hi for f in chain]
        if any(f.lo != 0 or max_value(f.hi) is None or free_vars(f.hi) & {g.var for g in chain} for f in chain):
            raise ScheduleError(f"fission({name}): a loop does not run from 0 to an end of its own")
        total = body[0] if body else None
        last = body[-1] if body else None
        if not isinstance(total, Alloc) or total.buffer.shape or not isinstance(last, Store | If):
            raise ScheduleError(f"fission({name}): it holds no sum that is stored at the end")
        if any(isinstance(n, If | Let) for n in walk(body[:-1])) or _stored(body[1:-1]) != {total.buffer.name}:
            raise ScheduleError(f"fission({name}): more than the sum is computed")
        kept = Buffer(stem, total.buffer.dtype, tuple(shape), space)
        if space == "local" and (kept.type.max_bytes or LOCAL_BYTES + 1) > LOCAL_BYTES:
            raise ScheduleError(f"fission({name}): the sums are more than {LOCAL_BYTES} bytes of the stack")
        at = tuple(f.var.expr for f in chain)
        read = Load(total.buffer.name, (), total.buffer.dtype)
        sums = _around(chain, (*body[:-1], Store(stem, at, read)))
        after = {f.var: Var(f"{f.var.name}_e", f.var.lo, f.var.hi) for f in chain}
        made = tuple(Loop(var.name) for var in after.values())
        back = rewrite(last, lambda n: Load(stem, at, read.dtype) if n == read else n)
        back = substitute_dims(back, {v: w.expr for v, w in after.items()})
        rest = _around([replace(f, var=after[f.var]) for f in chain], (back,))
        return Alloc(kept), sums, rest

    return replace_loop(loops, name, one), made


def _stored(stmts: tuple[Stmt, ...]) -> set[str]:
    return {n.buffer for n in walk(stmts) if isinstance(n, Store)}


def _around(chain: list[For], stmts: tuple[Stmt, ...]) -> Stmt:
    for loop in reversed(chain):
        stmts = (replace(loop, body=Block(stmts)),)
    return stmts[0]
