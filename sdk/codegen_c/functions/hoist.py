"""What a loop reads again and again: constants at places that do not change with it are read once, before it."""

from __future__ import annotations

from collections.abc import Iterator, Set

from sdk.compiler.ir.loops import Block, For, If, Let, Load, Stmt
from sdk.compiler.ir.types import I32
from sdk.compiler.ir.walk import walk
from sdk.compiler.sym import Var, free_vars, prove_ge

__all__ = ["invariant_reads"]


def invariant_reads(loop: For, constant: Set[str], dims: Set[Var]) -> list[Load]:
    """The 32-bit integers that iterations of ``loop`` read from the buffers ``constant`` at one place, not behind
    conditions: those places are inside the buffers whatever happens in the loop. Where it may have no iteration, that
    is known only of places that ``dims``, numbers that a call gives, have no part in."""
    inner = (n for n in walk(loop) if isinstance(n, Let | For))
    inside = {loop.var.name, *(n.name if isinstance(n, Let) else n.var.name for n in inner)}
    found = [n for n in dict.fromkeys(_reads(loop.body)) if n.buffer in constant and n.dtype == I32 and n.count is None]
    moving = set() if prove_ge(loop.hi - loop.lo, 1) is True else dims
    used = {n: {var for dim in n.index for var in free_vars(dim)} for n in found}
    return [n for n in found if not used[n] & moving and not any(var.name in inside for var in used[n])]


def _reads(stmt: Stmt) -> Iterator[Load]:
    match stmt:
        case Block(body):
            for inner in body:
                yield from _reads(inner)
        case For(body=body):
            yield from _reads(body)
        case If():
            return
        case _:
            yield from (n for n in walk(stmt) if isinstance(n, Load))
