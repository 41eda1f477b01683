"""What a scheduled loops function does when it runs, as compilers leave it: counts of loads, operations and turns."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from sdk.compiler.ir.loops import (
    Alloc,
    Block,
    Buffer,
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
from sdk.compiler.ir.walk import statements, walk
from sdk.compiler.schedules.pressure import pressure
from sdk.compiler.sym import Dim, Var, evaluate, free_vars

__all__ = ["events"]

_UNPACKS: Final = ("dot", "mac_lane")  # take packed operands apart
MOST_POINTS: Final = 512  # values of loop variables at which a condition is tried
TURNS, LONG = 8, 56  # turns of a loop that are written out, and instructions of all of them, at most
REGISTERS, AT_HAND = (13, 22), 5  # of cores with few and many, and those that what is read and multiplied takes
Events = dict[str, float]


def events(loops: Loops, dims: Mapping[Var, int]) -> Events:
    """How often each kind of event happens in a call for all rows, at given dims.

    Loops that are written out share what does not depend on their variable, and straight code what it has read, or
    computed of that: a compiler does it once. Registers cost nothing. Names are those of operations with the shape of
    their lanes, and "load1", "store4" (bytes), "loop", "turn", "if", "wrap" (an index modulo something) and "call"; of
    loops over straight code "inner", "inner_turn", "inner_jump" (as often as they jump back where turns are written
    out), "pointer" (those that what they read moves by), "full13" (turns that need more registers than so many), and
    "over13" (by how many, in all turns).
    """
    env: dict[Var, int] = dict(dims)
    if loops.rows is not None:
        env |= {loops.rows.lo: 0, loops.rows.hi: evaluate(loops.rows.extent, env)}
    walker = _Walker({p.buffer.name: p.buffer for p in loops.params})
    walker.block(loops.body, 1.0, _Around(env))
    walker.found["call"] += 1
    return dict(walker.found)


@dataclass(frozen=True)
class _Around:
    """The loops around a statement: values of dims, the variables of loops with their first and last value, and those
    of loops written out."""

    env: Mapping[Var, int]
    ranges: Mapping[Var, tuple[int, int]] = field(default_factory=dict)
    unrolled: Mapping[Var, int] = field(default_factory=dict)

    def ends(self, dim: Dim) -> tuple[float, float]:
        """The values of ``dim`` with every loop variable at its first, and at its last value; what is read from memory
        counts as 0."""
        if isinstance(dim, int):
            return dim, dim
        read = {v: 0 for v in free_vars(dim) if v not in self.env and v not in self.ranges}
        lows = {v: lo for v, (lo, _) in self.ranges.items()}
        highs = {v: hi for v, (_, hi) in self.ranges.items()}
        known = {**self.env, **read}
        return evaluate(dim, {**known, **lows}), evaluate(dim, {**known, **highs})


class _Walker:
    """Adds up events; ``memory`` has the buffers whose elements the compiler does not keep in registers."""

    def __init__(self, memory: dict[str, Buffer]) -> None:
        self.found: defaultdict[str, float] = defaultdict(float)
        self.memory = memory
        self.lets: dict[str, frozenset[Var]] = {}
        self.held: dict[ValueExpr, frozenset[str]] = {}  # values at hand, and the buffers that they are read from

    def block(self, block: Block, times: float, around: _Around) -> None:
        for stmt in block.body:
            self._stmt(stmt, times, around)

    def _stmt(self, stmt: Stmt, times: float, around: _Around) -> None:
        match stmt:
            case Block():
                self.block(stmt, times, around)
            case For() if stmt.kind in ("unroll", "vector"):
                self._loop(stmt, times, around)
            case For() | If():
                self.held = {}
                self._loop(stmt, times, around) if isinstance(stmt, For) else self._if(stmt, times, around)
                self.held = {}
            case Let(name, value):
                self.lets[name] = self._vars(value)
                self._value(value, times, around)
            case Alloc(buffer):
                if buffer.space != "register":
                    self.memory[buffer.name] = buffer
            case Store(buffer, index, value):
                self._value(value, times, around)
                used = self._index(index) | self._vars(value)
                if buffer in self.memory:
                    lanes = self.memory[buffer].dtype if value.dtype.lanes == 1 else value.dtype
                    self._add(f"store{min(lanes.nbytes, 16)}", times, used, around)
                    self._wraps(index, times, used, around)
                    self.held = {v: of for v, of in self.held.items() if buffer not in of}
            case _:
                self._add("other", times, frozenset(), around)

    def _loop(self, loop: For, times: float, around: _Around) -> None:
        (lo0, lo1), (hi0, hi1) = around.ends(loop.lo), around.ends(loop.hi)
        trips = max(((hi0 - lo0) + (hi1 - lo1)) / 2, 0.0)
        span = (int(min(lo0, lo1)), int(max(hi0, hi1, lo0 + 1)) - 1)
        inner = _Around(around.env, {**around.ranges, loop.var: span}, around.unrolled)
        if loop.kind == "unroll":
            self.block(loop.body, times, _Around(inner.env, inner.ranges, {**around.unrolled, loop.var: round(trips)}))
        elif loop.kind == "vector":
            self.block(loop.body, times, inner)
        else:
            copies = times * math.prod(around.unrolled.values())
            flat = _Around(inner.env, inner.ranges, {})
            if _straight(loop.body):
                self._inner(loop, copies, trips, flat)
            else:
                self.found["loop"] += copies
                self.found["turn"] += copies * trips
            # a loop inside of loops written out is there once for each turn of those
            self.block(loop.body, copies * trips, flat)

    def _inner(self, loop: For, copies: float, trips: float, around: _Around) -> None:
        """Adds what a loop over straight code takes beside that."""
        once = _Walker(self.memory)
        once.block(loop.body, 1.0, around)
        size = max(sum(once.found.values()), 1.0)
        turns = next((n for n in range(TURNS, 1, -1) if trips % n == 0 and n * size <= LONG), 1)
        used = pressure(loop.body, self.memory)
        self.found["inner"] += copies
        self.found["inner_turn"] += copies * trips
        self.found["inner_jump"] += copies * trips / turns
        self.found["pointer"] += copies * used.pointers
        for registers in REGISTERS:
            over = max(used.sums + used.pointers + 1 + AT_HAND - registers, 0)
            self.found[f"full{registers}"] += copies * trips * (over > 0)
            self.found[f"over{registers}"] += copies * trips * over

    def _if(self, stmt: If, times: float, around: _Around) -> None:
        self._add("if", times, self._vars(stmt.cond), around)
        self._value(stmt.cond, times, around)
        part = _part(stmt.cond, around)
        self.block(stmt.then, times * part, around)
        self.held = {}
        if stmt.orelse is not None:
            self.block(stmt.orelse, times * (1.0 - part), around)

    def _value(self, value: ValueExpr, times: float, around: _Around) -> None:
        if value in self.held:
            return
        read = {n.buffer for n in walk(value) if isinstance(n, Load)}
        if read and read <= self.memory.keys():
            self.held[value] = frozenset(read)
        match value:
            case Load(buffer, index):
                if buffer in self.memory:
                    used = self._index(index)
                    self._add(f"load{min(value.dtype.nbytes, 16)}", times, used, around)
                    self._wraps(index, times, used, around)
            case Op(name, args):
                for arg in args:
                    self._value(arg, times, around)
                    if name in _UNPACKS and isinstance(arg, Load) and arg.dtype.lanes > 2:
                        self._add(f"operand{arg.dtype.nbytes}", times, self._index(arg.index), around)
                self._add(_kind(name, value), times, self._vars(value), around)
            case Imm() | Idx() | Ref():
                pass

    def _wraps(self, index: tuple[Dim, ...], times: float, used: frozenset[Var], around: _Around) -> None:
        if any(" mod " in str(dim) for dim in index):
            self._add("wrap", times, used, around)

    def _add(self, name: str, times: float, used: frozenset[Var], around: _Around) -> None:
        copies = math.prod(n for var, n in around.unrolled.items() if var in used)
        self.found[name] += times * copies

    def _vars(self, value: ValueExpr) -> frozenset[Var]:
        """The variables that a value depends on."""
        out: frozenset[Var] = frozenset()
        for node in walk(value):
            if isinstance(node, Load):
                out |= self._index(node.index)
            elif isinstance(node, Idx):
                out |= frozenset(free_vars(node.dim))
            elif isinstance(node, Ref):
                out |= self.lets.get(node.name, frozenset())
        return out

    @staticmethod
    def _index(index: tuple[Dim, ...]) -> frozenset[Var]:
        return frozenset(v for dim in index for v in free_vars(dim))


def _straight(block: Block) -> bool:
    """Whether a body is stores and loops of them that are written out."""
    rest = (s for s in statements(block) if not isinstance(s, Block | Store))
    return all(isinstance(s, For) and s.kind in ("unroll", "vector") for s in rest)


def _kind(name: str, op: Op) -> str:
    """The name of an event: casts are told apart by what they make, others by the lanes and width of their operands."""
    wide = max((a.dtype for a in op.args), key=lambda t: (t.nbytes, t.lanes), default=op.dtype)
    return name if wide.lanes == 1 and op.dtype.lanes == 1 else f"{name}x{max(wide.lanes, op.dtype.lanes)}"


def _part(cond: ValueExpr, around: _Around) -> float:
    """The part of the turns in which a condition on loop variables holds; a half where it asks for data, or for a
    value that was read before."""
    if any(isinstance(n, Load | Ref) for n in walk(cond)):
        return 0.5
    asked = sorted({v for n in walk(cond) if isinstance(n, Idx) for v in free_vars(n.dim)}, key=str)
    if any(v not in around.env and v not in around.ranges for v in asked):
        return 0.5
    held = [_holds(cond, {**around.env, **point}) for point in _points(asked, around)]
    return sum(held) / len(held) if held else 1.0


def _points(asked: list[Var], around: _Around) -> Iterator[dict[Var, int]]:
    """Values of the variables: all, or some of each where those are many."""
    spans = {v: around.ranges[v] for v in asked if v in around.ranges}
    each = max(int(MOST_POINTS ** (1 / max(len(spans), 1))), 2)
    choices = []
    for lo, hi in spans.values():
        step = max(-(-(hi - lo + 1) // each), 1)
        choices.append(sorted({*range(lo, hi + 1, step), hi}))
    for values in product(*choices):
        yield dict(zip(spans, values, strict=True))


def _holds(cond: ValueExpr, env: Mapping[Var, int]) -> bool:
    match cond:
        case Op("and", (a, b)):
            return _holds(a, env) and _holds(b, env)
        case Op("or", (a, b)):
            return _holds(a, env) or _holds(b, env)
        case Op(name, (Idx(a), Imm() | Idx() as b)) if name in _COMPARE:
            right = b.value if isinstance(b, Imm) else evaluate(b.dim, dict(env))
            return bool(_COMPARE[name](evaluate(a, dict(env)) - right))
        case _:
            return True


_COMPARE: Final = {
    "lt": lambda d: d < 0,
    "le": lambda d: d <= 0,
    "gt": lambda d: d > 0,
    "ge": lambda d: d >= 0,
    "eq": lambda d: d == 0,
    "ne": lambda d: d != 0,
}
