"""What loops functions take, roughly: operations, products and instructions of a call, and the size of the code."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from sdk.compiler.analysis.access import Same
from sdk.compiler.ir.loops import Alloc, Atomic, Block, Buffer, For, If, Let, Load, Loops, Op, Stmt, Store
from sdk.compiler.ir.walk import walk
from sdk.compiler.sym import Dim, Expr, Func, Var, dmax, flat_index, free_vars, interval, max_value, substitute

__all__ = [
    "PART_WORK",
    "Cost",
    "Trips",
    "Work",
    "cost",
    "length",
    "macs",
    "max_trips",
    "operations",
    "size_of",
    "work",
]

Trips = tuple[Dim, ...]
PART_WORK: Final = 1 << 16  # operations below which a part of a call is not worth waking a thread for
ITERATION: Final = 3  # instructions of a loop for each iteration
ADDRESS: Final = 4  # of an address that registers may have no room for
WRITTEN_OUT: Final = 400  # of a loop that compilers write out
LOOP: Final = 6  # of its code, beside the body
REMEMBERED: Final = 1 << 10  # answers: layers that are alike share a function
_MAX_OPERATIONS: Final = (1 << 31) - 1


def operations(loops: Loops, rows: int) -> Dim:
    """Operations on scalars that a call for ``rows`` rows takes, a dim in those of the function; at most 2^31 - 1."""
    return _operations_of(Same(loops), rows)


@lru_cache(maxsize=REMEMBERED)
def _operations_of(same: Same, rows: int) -> Dim:
    loops = same.loops
    env: dict[Var, Dim] = {} if loops.rows is None else {loops.rows.lo: 0, loops.rows.hi: rows}
    total = _total(loops.body, _operations, env, frozenset(loops.dims))
    maximum = max_value(total)
    return total if maximum is not None and maximum <= _MAX_OPERATIONS else _MAX_OPERATIONS


def macs(loops: Loops) -> Dim:
    """Multiply-accumulates of a call for all rows: every tap of every channel counts, also one that a condition leaves
    out; of loops whose bounds move with others, the most."""
    return _macs_of(Same(loops))


@lru_cache(maxsize=REMEMBERED)
def _macs_of(same: Same) -> Dim:
    loops = same.loops
    env: dict[Var, Dim] = {} if loops.rows is None else {loops.rows.lo: 0, loops.rows.hi: loops.rows.extent}
    return _total(loops.body, _products, env, frozenset(loops.dims))


def max_trips(extent: Dim) -> int:
    """How often a loop over ``extent`` values runs at most; 1 where nothing bounds it."""
    maximum = interval(extent)[1]
    return 1 if maximum is None else max(maximum, 0)


def _total(block: Block, own: Callable[[Stmt], int], env: dict[Var, Dim], dims: frozenset[Var]) -> Dim:
    """The sum of what each statement has of its ``own``, as often as the loops around it run."""
    total: Dim = 0
    for stmt in block.body:
        match stmt:
            case Block():
                total = total + _total(stmt, own, env, dims)
            case For():
                inner = _total(stmt.body, own, env, dims)
                total = total + (0 if inner == 0 else inner * _trips(stmt, env, dims))
            case If():
                total = total + own(stmt) + _total(stmt.then, own, env, dims)
                if stmt.orelse is not None:
                    total = total + _total(stmt.orelse, own, env, dims)
            case _:
                total = total + own(stmt)
    return total


def _trips(loop: For, env: dict[Var, Dim], dims: frozenset[Var]) -> Dim:
    """How often a loop runs, at most: a dim of the function's, or a number where it depends on loops around."""
    extent = dmax(substitute(loop.hi - loop.lo, env), 0)
    if free_vars(extent) <= dims:
        return extent
    maximum = max_value(extent)
    return loop.var.hi - loop.var.lo + 1 if maximum is None else maximum


def _operations(stmt: Stmt) -> int:
    match stmt:
        case If():
            value = stmt.cond
        case Let() | Store() | Atomic():
            value = stmt.value
        case _:
            return 0
    return sum(n.dtype.lanes for n in walk(value) if isinstance(n, Op)) + value.dtype.lanes


def _products(stmt: Stmt) -> int:
    """1 where a statement adds a product to what it stores to."""
    if not isinstance(stmt, Store) or not isinstance(stmt.value, Op) or stmt.value.name not in ("add", "fma"):
        return 0
    own = any(isinstance(a, Load) and a.buffer == stmt.buffer for a in stmt.value.args)
    products = (n for n in walk(stmt.value) if isinstance(n, Op) and n.name == "mul")
    return int(own and (stmt.value.name == "fma" or any(products)))


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """What a function takes as a function of its dims: pieces of so many instructions, each with how often the loops
    around it run."""

    loops: Loops
    pieces: tuple[tuple[int, Trips], ...]

    def at(self, values: tuple[int, ...] = ()) -> int:
        """Instructions of a call for all rows, with these values of the dims; of what has no number, the most."""
        env: dict[Var, Dim] = dict(zip(self.loops.dims, values, strict=False))
        rows = self.loops.rows
        if rows is not None:
            env |= {rows.lo: 0, rows.hi: substitute(rows.extent, env)}
        known: dict[Dim, int] = {}

        def count(trips: Dim) -> int:
            if trips not in known:
                known[trips] = max_trips(substitute(trips, env))
            return known[trips]

        return sum(cost * math.prod(map(count, trips)) for cost, trips in self.pieces)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a function takes, and about how many instructions its code has."""

    work: Work
    code: int


def cost(loops: Loops, unrolls: bool = False) -> Cost:
    """The cost of a function that a compiler makes all instructions of; ``unrolls`` is that of ``work``."""
    return Cost(work(loops, unrolls), length(loops.body))


def work(loops: Loops, unrolls: bool = False) -> Work:
    """What a call takes, roughly: operations, accesses, iterations of loops, and addresses to be added up. ``unrolls``:
    the compiler writes out short loops itself."""
    pieces: list[tuple[int, Trips]] = []
    buffers = {p.buffer.name: p.buffer for p in loops.params}
    _Pieces(buffers, pieces, WRITTEN_OUT if unrolls else 0).block(loops.body, (), {})
    return Work(loops, tuple(pieces))


class _Pieces:
    def __init__(self, buffers: dict[str, Buffer], pieces: list[tuple[int, Trips]], short: int) -> None:
        self.buffers, self.pieces, self.short = buffers, pieces, short

    def block(self, block: Block, trips: Trips, unrolled: Mapping[Var, int]) -> None:
        """What stands between loops is one piece."""
        cost, places = self.stretch(block.body, trips, unrolled)
        self.pieces.append((cost + ADDRESS * sum(places.values()), trips))

    def stretch(self, body: Sequence[Stmt], trips: Trips, unrolled: Mapping[Var, int]) -> tuple[int, dict[object, int]]:
        """Instructions without those for addresses; of each address how many there are."""
        cost, places, times = 0, dict[object, int](), math.prod(unrolled.values())
        for stmt in body:
            match stmt:
                case Alloc():
                    self.buffers[stmt.buffer.name] = stmt.buffer
                case For(lo=int(lo), hi=int(hi)) if stmt.kind == "unroll" or self.is_short(stmt.body, hi - lo):
                    more, there = self.stretch(stmt.body.body, trips, {**unrolled, stmt.var: hi - lo})
                    cost, places = cost + more, places | there
                case For():
                    inner = (*trips, (stmt.hi - stmt.lo) * times)
                    self.pieces.append((ITERATION, inner))
                    self.block(stmt.body, inner, {})
                case If():
                    for arm in (stmt.then, stmt.orelse):
                        if arm is not None:
                            self.block(arm, trips, unrolled)
                case Block():
                    self.block(stmt, trips, unrolled)
                case _:
                    cost += size_of(stmt) * times
                    places |= self.places(stmt, unrolled)
        return cost, places

    def is_short(self, body: Block, iterations: int) -> bool:
        """Whether a compiler writes out such a loop."""
        inner = any(isinstance(n, For | If) and getattr(n, "kind", "") != "unroll" for n in walk(body))
        return not inner and iterations * length(body) <= self.short

    def places(self, stmt: Stmt, unrolled: Mapping[Var, int]) -> dict[object, int]:
        """What must be added up for the accesses: those that lie a fixed distance apart share an address."""
        out: dict[object, int] = {}
        for node in walk(stmt):
            if isinstance(node, Load | Store | Atomic):
                buffer = self.buffers.get(node.buffer)
                if buffer is not None and buffer.space != "register":
                    offset = flat_index(node.index, buffer.shape)
                    terms = [t for t, _ in offset.terms if not _fixed(t, unrolled)] if isinstance(offset, Expr) else []
                    moving = {v for t in terms for f, _ in t for v in _vars(f)}
                    out[node.buffer, tuple(terms)] = math.prod(n for v, n in unrolled.items() if v in moving)
        return out


def _fixed(term: tuple[tuple[Var | Func, int], ...], unrolled: Mapping[Var, int]) -> bool:
    """Whether a term is a number once loops are written out."""
    return all(isinstance(f, Var) and f in unrolled for f, _ in term)


def _vars(factor: Var | Func) -> frozenset[Var]:
    return frozenset((factor,)) if isinstance(factor, Var) else factor.free


def size_of(node: object) -> int:
    """Operations, reads and writes written out."""
    return sum(isinstance(n, Load | Store | Op | Let) for n in walk(node))


def length(block: Block) -> int:
    """About as many instructions as the code of a block has."""
    out = 0
    for stmt in block.body:
        match stmt:
            case Block():
                out += length(stmt)
            case For():
                copies = stmt.hi - stmt.lo if stmt.kind == "unroll" else 1
                out += (copies if isinstance(copies, int) else 1) * length(stmt.body) + (stmt.kind != "unroll") * LOOP
            case If():
                out += length(stmt.then) + (length(stmt.orelse) if stmt.orelse else 0) + 2
            case Alloc():
                pass
            case _:
                out += size_of(stmt)
    return out
