"""Which statements of several blocks are the same step."""

from __future__ import annotations

from collections.abc import Sequence

from sdk.compiler.ir.loops import Alloc, Block, For, Let, Stmt, Store

__all__ = ["aligned"]

Mark = tuple[object, ...]
Column = tuple[Stmt | None, ...]


def aligned(blocks: Sequence[tuple[Stmt, ...] | None]) -> list[Column] | None:
    """The statements of every block (None: no block), a column for each step; None where the order of steps differs
    too much. Blocks of as many statements of the same kinds are taken in order, else names tell. Of loops that run in
    none of the functions nothing is left."""
    given = [b for b in blocks if b is not None]
    if not given:
        return []
    kinds = [tuple(map(type, b)) for b in given]
    if all(k == kinds[0] for k in kinds):
        return [tuple(None if b is None else b[k] for b in blocks) for k in range(len(kinds[0]))]
    steps: list[Mark] = []
    for block in given:
        steps = _merged(steps, [_mark(s) for s in block])
    rows: list[list[Stmt | None]] = []
    for one in blocks:
        row = _placed(steps, one or ())
        if row is None:
            return None
        rows.append(row)
    return [tuple(row[k] for row in rows) for k in range(len(steps))]


def _mark(stmt: Stmt) -> Mark:
    match stmt:
        case For():
            return ("for", stmt.var.name)
        case Store():
            return ("store", stmt.buffer)
        case Alloc():
            return ("alloc", stmt.buffer.name)
        case Let():
            return ("let", stmt.name)
        case Block():
            return ("block", *map(_mark, stmt.body[:1]))
        case _:
            return (type(stmt).__name__,)


def _merged(a: list[Mark], b: list[Mark]) -> list[Mark]:
    """The shortest list that has both in order."""
    length = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in reversed(range(len(a))):
        for j in reversed(range(len(b))):
            best = max(length[i + 1][j], length[i][j + 1])
            length[i][j] = length[i + 1][j + 1] + 1 if a[i] == b[j] else best
    out: list[Mark] = []
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            out.append(a[i])
            i, j = i + 1, j + 1
        elif length[i + 1][j] >= length[i][j + 1]:
            out.append(a[i])
            i += 1
        else:
            out.append(b[j])
            j += 1
    return [*out, *a[i:], *b[j:]]


def _placed(steps: Sequence[Mark], block: Sequence[Stmt]) -> list[Stmt | None] | None:
    """The statements at their steps, in order."""
    out: list[Stmt | None] = []
    rest = list(block)
    for step in steps:
        out.append(rest.pop(0) if rest and _mark(rest[0]) == step else None)
    return None if rest else out
