"""What a loop reads again and again: constants at places that do not change with it are read once, before it."""

from __future__ import annotations

from collections.abc import Iterator, Set

from sdk.compiler.ir.loops import Block, For, If, Let, Load, Stmt
from sdk.compiler.ir.types import I32
from sdk.compiler.ir.walk import walk
from sdk.compiler.sym import free_vars

__all__ = ["invariant_reads"]


def invariant_reads(loop: For, constant: Set[str]) -> list[Load]:
    """The 32-bit integers that turns of ``loop`` read from the buffers ``constant`` at one place, not behind
    conditions: those places are inside the buffers whatever happens in the loop."""
    inner = (n for n in walk(loop) if isinstance(n, Let | For))
    inside = {loop.var.name, *(n.name if isinstance(n, Let) else n.var.name for n in inner)}
    found = [n for n in dict.fromkeys(_reads(loop.body)) if n.buffer in constant and n.dtype == I32 and n.count is None]
    return [n for n in found if not any(var.name in inside for dim in n.index for var in free_vars(dim))]


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
