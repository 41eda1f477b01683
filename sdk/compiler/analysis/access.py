"""Reads and writes of loops in textual order, each with the loops and conditions around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sdk.compiler.analysis.path_conditions import conditions_of
from sdk.compiler.ir.loops import (
    Alloc,
    Atomic,
    Barrier,
    Block,
    Eval,
    For,
    If,
    Let,
    Load,
    Loops,
    Stmt,
    Store,
    ValueExpr,
)
from sdk.compiler.ir.walk import walk
from sdk.compiler.sym import Dim

__all__ = ["Access", "Same", "accesses"]


@dataclass(frozen=True, slots=True)
class Access:
    """``lanes`` consecutive elements of ``buffer`` from ``index``, of which ``count`` (None: all) count.

    ``order`` counts statements in the text: a load has the order of the statement that uses it. A call of a
    library symbol touches its buffers in an unknown way. ``guards`` are not negative where it happens.
    """

    buffer: str
    index: tuple[Dim, ...]
    lanes: int
    kind: Literal["load", "store", "unknown"]
    order: int
    loops: tuple[For, ...]
    count: Dim | None = None
    guards: tuple[Dim, ...] = ()

    def ends(self) -> tuple[Dim, ...]:
        """How far behind ``index`` the last element is at most; each of them is a bound."""
        return (self.lanes - 1,) if self.count is None else (self.lanes - 1, self.count - 1)


def accesses(block: Block) -> list[Access]:
    """Every access below a block, in textual order."""
    return list(_Walk().block(block, ()))


class _Walk:
    """Numbers statements as it goes."""

    def __init__(self) -> None:
        self.order = 0
        self.guards: tuple[Dim, ...] = ()  # of the conditions around
        self.lets: dict[str, ValueExpr] = {}

    def block(self, block: Block, around: tuple[For, ...]) -> Iterator[Access]:
        outer = self.lets
        self.lets = dict(outer)
        for stmt in block.body:
            yield from self.stmt(stmt, around)
        self.lets = outer

    def stmt(self, stmt: Stmt, around: tuple[For, ...]) -> Iterator[Access]:
        self.order += 1
        match stmt:
            case Block():
                yield from self.block(stmt, around)
            case For():
                yield from self.block(stmt.body, (*around, stmt))
                if stmt.until is not None:
                    self.order += 1
                    yield from self.loads(stmt.until, (*around, stmt))
            case If():
                yield from self.loads(stmt.cond, around)
                outer = self.guards
                self.guards = (*outer, *conditions_of(stmt.cond, self.lets))
                yield from self.block(stmt.then, around)
                self.guards = (*outer, *conditions_of(stmt.cond, self.lets, holds=False))
                if stmt.orelse is not None:
                    yield from self.block(stmt.orelse, around)
                self.guards = outer
            case Let():
                yield from self.loads(stmt.value, around)
                self.lets[stmt.name] = stmt.value
            case Store():
                yield from self.loads(stmt.value, around)
                lanes = stmt.value.dtype.lanes
                yield Access(stmt.buffer, stmt.index, lanes, "store", self.order, around, stmt.count, self.guards)
            case Atomic():
                yield from self.loads(stmt.value, around)
                yield Access(stmt.buffer, stmt.index, 1, "unknown", self.order, around)
            case Eval():
                for load in walk(stmt.args):
                    if isinstance(load, Load):
                        yield Access(load.buffer, load.index, 1, "unknown", self.order, around)
            case Alloc() | Barrier():
                pass

    def loads(self, value: ValueExpr, around: tuple[For, ...]) -> Iterator[Access]:
        for item in walk(value):
            if isinstance(item, Load):
                lanes = item.dtype.lanes
                yield Access(item.buffer, item.index, lanes, "load", self.order, around, item.count, self.guards)


@dataclass(frozen=True, eq=False)
class Same:
    """A function as a key: no other is equal, and no hash has to look into it."""

    loops: Loops

    def __hash__(self) -> int:
        return id(self.loops)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.loops is other.loops
