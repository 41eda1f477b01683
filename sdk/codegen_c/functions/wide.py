"""Wide reads: vectors of memory that become scalars, read by one instruction where a core loads several registers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sdk.compiler.ir.loops import Alloc, Atomic, Block, Buffer, Load, Stmt, Store
from sdk.compiler.ir.types import DType
from sdk.compiler.ir.walk import buffers_used, statements, walk
from sdk.compiler.sym import Dim, prove_eq

__all__ = ["follow", "parts", "register_uses", "straight_runs", "wide_registers"]


def wide_registers(body: Block) -> frozenset[str]:
    """The register buffers of scalars that are stored as vectors read from memory, and used one by one."""
    mine = {n.buffer.name for n in statements(body) if isinstance(n, Alloc) and n.buffer.space == "register"}
    stores = [n for n in statements(body) if isinstance(n, Store) and n.buffer in mine and n.value.dtype.lanes > 1]
    single = {n.buffer for n in walk(body) if isinstance(n, Load) and n.dtype.lanes == 1}
    plain = {n.buffer for n in stores if not isinstance(n.value, Load) or n.value.count is not None}
    return frozenset({n.buffer for n in stores} & single - plain)


def parts(store: Store) -> list[tuple[Dim, ...]]:
    """The indices of the scalars that a store of a vector fills."""
    *outer, last = store.index
    return [(*outer, last + k) for k in range(store.value.dtype.lanes)]


def register_uses(buffer: Buffer, stmts: Sequence[Stmt], wide: bool) -> tuple[dict[tuple[Dim, ...], bool], set[DType]]:
    """The indices at which statements use a register buffer, in order, each with whether a plain store comes first; and
    the types it is used as. ``wide``: vectors are stored to it as scalars."""
    uses: dict[tuple[Dim, ...], bool] = {}
    types: set[DType] = set()
    for stmt in stmts:
        direct = isinstance(stmt, Store) and buffer.name not in buffers_used(stmt.value)[0]
        for node in walk(stmt):
            if isinstance(node, Store) and node.buffer == buffer.name and wide:
                uses.update(dict.fromkeys(parts(node), False))
            elif isinstance(node, Load | Store | Atomic) and node.buffer == buffer.name:
                uses.setdefault(node.index, direct)
                types.add(node.dtype if isinstance(node, Load) else node.value.dtype)
    return uses, types


def straight_runs(block: Block, wide: frozenset[str]) -> dict[str, list[Load]]:
    """The wide reads of ``block`` outside of loops and conditions, in order, by the buffer that they read."""
    found: dict[str, list[Load]] = {}
    for stmt in block.body:
        if isinstance(stmt, Block):
            for name, reads in straight_runs(stmt, wide).items():
                found.setdefault(name, []).extend(reads)
        elif isinstance(stmt, Store) and stmt.buffer in wide and isinstance(stmt.value, Load):
            found.setdefault(stmt.value.buffer, []).append(stmt.value)
    return found


def follow(offsets: list[Dim], lanes: int) -> bool:
    """Whether reads of so many lanes at these offsets follow each other in memory."""
    return all(prove_eq(b - a, lanes) is True for a, b in pairwise(offsets))
