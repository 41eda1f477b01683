"""Wide reads: vectors of memory that become scalars, read by one instruction where a core loads several registers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TypeAlias

from sdk.compiler.ir.loops import Alloc, Atomic, Block, Buffer, Load, Stmt, Store
from sdk.compiler.ir.types import DType
from sdk.compiler.ir.walk import statements, walk
from sdk.compiler.sym import Dim, prove_eq

__all__ = ["accesses", "follow", "parts", "register_uses", "straight_runs", "wide_registers"]

Accesses: TypeAlias = tuple[Load | Store | Atomic, ...]


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


def accesses(stmt: Stmt) -> Accesses:
    """The loads and stores of a statement and of those in it, in order."""
    return tuple(n for n in walk(stmt) if isinstance(n, Load | Store | Atomic))


def register_uses(
    buffer: Buffer, stmts: Iterable[tuple[Stmt, Accesses]], wide: bool
) -> tuple[dict[tuple[Dim, ...], bool], set[DType]]:
    """The indices at which statements, given with their accesses, use a register buffer, in order, each with whether a
    plain store comes first; and the types it is used as. ``wide``: vectors are stored to it as scalars."""
    uses: dict[tuple[Dim, ...], bool] = {}
    types: set[DType] = set()
    for stmt, nodes in stmts:
        own = [node for node in nodes if node.buffer == buffer.name]
        direct = isinstance(stmt, Store) and all(isinstance(node, Store) for node in own)
        for node in own:
            if isinstance(node, Store) and wide:
                uses.update(dict.fromkeys(parts(node), False))
            else:
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
