"""Which elements a loops function reads and writes, found by walking it one iteration at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from sdk.compiler.ir.loops import (
    Alloc,
    Block,
    For,
    Idx,
    If,
    Imm,
    Let,
    Load,
    Loops,
    Op,
    Ref,
    Stmt,
    Store,
    ValueExpr,
)
from sdk.compiler.sym import Dim, Var, evaluate, free_vars

ROWS = tuple[int, int]
COMPARE = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
}


@dataclass
class Touched:
    """Flat elements of each parameter, rows counted from 0 and none in a ring; reads of what the call wrote before
    do not count."""

    reads: dict[str, set[int]] = field(default_factory=dict)
    writes: dict[str, set[int]] = field(default_factory=dict)
    last_read: dict[str, dict[int, int]] = field(default_factory=dict)  # by element, the statement, as it is run
    first_write: dict[str, dict[int, int]] = field(default_factory=dict)


def touched(loops: Loops, dims: Mapping[Var, int], rows: ROWS | None = None) -> Touched:
    """What a call at ``dims`` for ``rows`` touches; both ways of what depends on data."""
    walk = _Walk(loops, dims)
    if loops.rows is not None:
        lo, hi = rows or (0, evaluate(loops.rows.extent, walk.env))
        walk.env |= {loops.rows.lo: lo, loops.rows.hi: hi}
    walk.block(loops.body)
    return walk.found


class _Walk:
    def __init__(self, loops: Loops, dims: Mapping[Var, int]) -> None:
        self.env: dict[Var, int] = dict(dims)
        self.shapes = {p.buffer.name: tuple(evaluate(d, dims) for d in p.buffer.shape) for p in loops.params}
        self.lets: dict[str, int | None] = {}
        self.found = Touched(
            {n: set() for n in self.shapes},
            {n: set() for n in self.shapes},
            {n: {} for n in self.shapes},
            {n: {} for n in self.shapes},
        )
        self.time = 0

    def block(self, block: Block) -> None:
        for stmt in block.body:
            self.stmt(stmt)

    def stmt(self, stmt: Stmt) -> None:
        self.time += 1
        match stmt:
            case Block():
                self.block(stmt)
            case For():
                for k in range(evaluate(stmt.lo, self.env), evaluate(stmt.hi, self.env)):
                    self.env[stmt.var] = k
                    self.block(stmt.body)
                    if stmt.until is not None:
                        self.value(stmt.until)
            case If():
                held = self.value(stmt.cond)
                if held is None or held:
                    self.block(stmt.then)
                if stmt.orelse is not None and not held:
                    self.block(stmt.orelse)
            case Let():
                self.lets[stmt.name] = value = self.value(stmt.value)
                if value is not None:
                    self.env[Var(stmt.name, *stmt.value.dtype.limits)] = int(value)
            case Store():
                self.value(stmt.value)
                self.note(self.found.writes, stmt.buffer, stmt.index, stmt.value.dtype.lanes, stmt.count)
            case Alloc():
                pass
            case _:
                raise NotImplementedError(stmt)

    def note(
        self, where: dict[str, set[int]], name: str, index: tuple[Dim, ...], lanes: int, count: Dim | None
    ) -> None:
        if name not in self.shapes:
            return
        found = self.elements(name, index, lanes, count)
        if where is self.found.writes:
            for element in found:
                self.found.first_write[name].setdefault(element, self.time)
        else:
            self.found.last_read[name] |= dict.fromkeys(found, self.time)
            found = found - self.found.writes[name]
        where[name].update(found)

    def elements(self, name: str, index: tuple[Dim, ...], lanes: int, count: Dim | None) -> set[int]:
        flat = 0
        for at, extent in zip(index, self.shapes[name], strict=True):
            if not free_vars(at) <= self.env.keys():  # data tells
                return set(range(math.prod(self.shapes[name])))
            flat = flat * extent + evaluate(at, self.env)
        used = lanes if count is None else min(lanes, max(evaluate(count, self.env), 0))
        return set(range(flat, flat + used))

    def value(self, expr: ValueExpr) -> int | float | None:
        match expr:
            case Imm():
                return expr.value
            case Idx():
                return evaluate(expr.dim, self.env)
            case Ref():
                return self.lets.get(expr.name)
            case Load():
                self.note(self.found.reads, expr.buffer, expr.index, expr.dtype.lanes, expr.count)
                return None
            case Op(name="select"):
                held = self.value(expr.args[0])
                for arm in expr.args[1:] if held is None else (expr.args[1] if held else expr.args[2],):
                    self.value(arm)
                return None
            case Op():
                given = [self.value(a) for a in expr.args]
                known = expr.name in COMPARE and len(given) == 2 and None not in given
                return COMPARE[expr.name](*given) if known else None
