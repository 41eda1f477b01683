"""What is done before printing: loops of kind ``unroll`` are written out, so that register indices become constants,
and terms that are zero are left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sdk.compiler.ir.loops import Alloc, Block, For, If, Imm, Let, Op, Stmt
from sdk.compiler.ir.walk import rewrite, substitute_dims
from sdk.errors import BuildError

__all__ = ["unrolled", "without_zeros"]


def without_zeros(block: Block) -> Block:
    """``block`` without integer masks of 0 and what they are added to: numbers that differ between layers which share a
    kernel, and are the same for all that do."""

    def one(node: Any) -> Any:
        match node:
            case Op("and", (_, Imm(0) as zero)) if node.dtype.kind in "iu" and node.dtype.lanes == 1:
                return zero
            case Op("add", (value, Imm(0))) if node.dtype.kind in "iu" and node.dtype.lanes == 1:
                return value
            case _:
                return node

    return rewrite(block, one)


def unrolled(block: Block) -> Block:
    """``block`` with every ``unroll`` loop replaced by its iterations; each keeps a block of its own when it
    declares something.

    Raises:
        BuildError: the number of iterations is not a constant, or the loop has an early end.
    """
    return Block(tuple(s for stmt in block.body for s in _unrolled(stmt)))


def _unrolled(stmt: Stmt) -> tuple[Stmt, ...]:
    match stmt:
        case Block():
            return (unrolled(stmt),)
        case For(kind="unroll"):
            return _iterations(stmt)
        case For():
            return (replace(stmt, body=unrolled(stmt.body)),)
        case If():
            orelse = None if stmt.orelse is None else unrolled(stmt.orelse)
            return (replace(stmt, then=unrolled(stmt.then), orelse=orelse),)
        case _:
            return (stmt,)


def _iterations(loop: For) -> tuple[Stmt, ...]:
    if not isinstance(loop.lo, int) or not isinstance(loop.hi, int) or loop.until is not None:
        raise BuildError(
            f"loop {loop.var.name} cannot be unrolled: its bounds {loop.lo}..{loop.hi} are not constants"
        )
    out: list[Stmt] = []
    for k in range(loop.lo, loop.hi):
        body = unrolled(substitute_dims(loop.body, {loop.var: k}))
        if any(isinstance(s, Alloc | Let) for s in body.body):
            out.append(body)
        else:
            out += body.body
    return tuple(out)
