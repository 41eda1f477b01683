"""Memory that a work item has not: arrays of its own that are large, or of a size that a run chooses, as an operand of
the kernel, a part of it for each item."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any, Final

from sdk.compiler.ir.loops import Alloc, Atomic, Block, Buffer, For, Load, Loops, Param, Store
from sdk.compiler.ir.walk import rewrite, substitute_dims, walk
from sdk.compiler.schedules.gpu.axes import joined
from sdk.compiler.sym import Dim, Var, floordiv, max_value
from sdk.errors import BuildError

__all__ = ["PRIVATE_BYTES", "outside"]

PRIVATE_BYTES: Final = 4096  # of arrays that a work item may have of its own
MAX_BYTES: Final = 16 << 20  # of such an operand, where fewer items at a time make do with that
MIN_ITEMS: Final = 64  # that share it at a time; what they take then is the least
ROW_BYTES: Final = 1 << 20  # of one item


def outside(loops: Loops, chain: list[For], inner: Block, room: int = 0) -> tuple[Loops, list[For], Block]:
    """A nest, as its outer loops that become axes and what a work item does, with the arrays that are no item's own as
    the last parameters. With ``room`` so many bytes of arrays, whatever their size is at a time, are a group's. Where
    all items at once would want too much of them, fewer items do several in turn.

    Raises:
        BuildError: an array whose size has no bound, or that is too large for one item.
    """
    moved = _moved(inner, room)
    if not moved:
        return loops, chain, inner
    row = sum(b.type.max_bytes for b in moved)
    if row > ROW_BYTES:
        arrays = ", ".join(b.name for b in moved)
        raise BuildError(f"{arrays}: more memory of its own than a work item of a GPU has", why=f"{ROW_BYTES} bytes")
    extents = [max_value(loop.hi - loop.lo) for loop in chain]
    if chain and (any(n is None for n in extents) or prod(n or 1 for n in extents) * row > MAX_BYTES):
        chain, inner = _in_turns(chain, inner, max(MIN_ITEMS, MAX_BYTES // row))
    at: tuple[Dim, ...] = tuple(loop.var.expr - loop.lo for loop in chain)
    shape: tuple[Dim, ...] = tuple(loop.hi - loop.lo for loop in chain)
    names = {b.name for b in moved}

    def one(node: Any) -> Any:
        if isinstance(node, Load | Store | Atomic) and node.buffer in names:
            return replace(node, index=(*at, *node.index))
        if isinstance(node, Block):
            kept = tuple(s for s in node.body if not (isinstance(s, Alloc) and s.buffer.name in names))
            return node if len(kept) == len(node.body) else Block(kept)
        return node

    params = tuple(Param(Buffer(b.name, b.dtype, (*shape, *b.shape)), "update") for b in moved)
    return replace(loops, params=(*loops.params, *params)), chain, rewrite(inner, one)


def _moved(inner: Block, room: int) -> list[Buffer]:
    """The arrays that no item has room for: those of unknown size, which groups have room for, then the largest, until
    the others have."""
    held = {n.buffer for n in walk(inner) if isinstance(n, Alloc) and n.buffer.space in ("register", "scratch")}
    if len({b.name for b in held}) < len(held):
        return []  # unlike ones of one name, in blocks of their own
    moved = [b for b in held if not room and not isinstance(b.type.nbytes, int)]
    rest = sorted((b for b in held if b not in moved), key=lambda b: (b.type.max_bytes, b.name))
    while sum(b.type.max_bytes for b in rest) > (room or PRIVATE_BYTES):
        moved.append(rest.pop())
    return sorted(moved, key=lambda b: b.name)


def _in_turns(chain: list[For], inner: Block, items: int) -> tuple[list[For], Block]:
    """``items`` work items that do all iterations of the outer loops, each every items-th."""
    while len(chain) > 1:
        one, env = joined(*chain[-2:])
        chain, inner = [*chain[:-2], one], substitute_dims(inner, env)
    whole = chain[0]
    extent = whole.hi - whole.lo
    maximum = max_value(extent)
    item = Var(f"{whole.var.name}_item", 0, items - 1)
    turn = Var(f"{whole.var.name}_turn", 0, max((maximum or 1) // items, 1))
    body = substitute_dims(inner, {whole.var: turn.expr * items + item.expr + whole.lo})
    turns = For(turn, 0, floordiv(extent - item.expr + (items - 1), items), body)
    return [For(item, 0, items, Block(()))], Block((turns,))
