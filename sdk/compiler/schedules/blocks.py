"""Primitives that change the range of a loop: round it up under conditions, or cut it in blocks of some size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from sdk.compiler.analysis.dependence import conflict, row_axis
from sdk.compiler.ir.intrinsics import idx, imm, op
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
    Op,
    Stmt,
    Store,
    ValueExpr,
)
from sdk.compiler.ir.walk import buffers_used, dims_used, rewrite, statements, substitute_dims, walk
from sdk.compiler.schedules.locate import Loop, ScheduleError, Tiles, check_whole, copied, counter, replace_loop
from sdk.compiler.sym import (
    Dim,
    Var,
    ceildiv,
    dmax,
    dmin,
    floordiv,
    free_vars,
    mod,
    prove_eq,
    prove_ge,
    prove_lt,
    substitute,
)

__all__ = ["block", "cyclic", "overlap", "pad_loop", "tile_tails"]


def block(loops: Loops, name: Loop, size: int) -> tuple[Loops, Tiles]:
    """Runs a loop in blocks of at most ``size`` iterations, all by the same code.

    rewrite: ``for i in a..b { S(i) }`` -->
    ``for i_o in 0..(b-a-1)/s + 1 { for i_i in 0..min(s, b - a - s*i_o) { S(a + s*i_o + i_i) } }``
    obligation: size >= 1, and the loop neither ends early nor is bound to an axis.
    """
    if size < 1:
        raise ScheduleError(f"block({name}, {size}): the size must be at least 1")
    made = Tiles(Loop(f"{name}_o"), Loop(f"{name}_i"))

    def one(loop: For) -> tuple[Stmt, ...]:
        check_whole(loop, f"block({name})")
        extent = loop.hi - loop.lo
        count = floordiv(extent - 1, size) + 1  # of its numbers, all are the size
        outer, inner = counter(made.outer, count), Var(made.inner, 0, size - 1)
        at = loop.lo + outer.expr * size + inner.expr
        whole = prove_eq(ceildiv(extent, size) * size, extent) is True
        maximum: Dim = size if whole else dmin(size, extent - outer.expr * size)
        body = substitute_dims(loop.body, {loop.var: at})
        return (For(outer, 0, count, Block((For(inner, 0, maximum, body),)), loop.kind),)

    return replace_loop(loops, name, one), made


def cyclic(loops: Loops, name: Loop, size: int) -> tuple[Loops, Tiles]:
    """Deals the iterations of a loop out to ``size`` of them, one after the other.

    rewrite: ``for i in a..b { S(i) }`` -->
    ``for i_o in 0..s { for i_i in 0..(b - a - i_o + s - 1)/s { S(a + s*i_i + i_o) } }``
    obligation: size >= 1, iterations are independent, and the loop neither ends early nor is bound to an axis.
    """
    if size < 1:
        raise ScheduleError(f"cyclic({name}, {size}): the size must be at least 1")
    made = Tiles(Loop(f"{name}_o"), Loop(f"{name}_i"))

    def one(loop: For) -> tuple[Stmt, ...]:
        check_whole(loop, f"cyclic({name})")
        why = conflict(loop, loops)
        if why:
            raise ScheduleError(f"cyclic({name}, {size}): {why}")
        outer = Var(made.outer, 0, size - 1)
        count = ceildiv(dmax(loop.hi - loop.lo - outer.expr, 0), size)
        inner = counter(made.inner, count)
        body = substitute_dims(loop.body, {loop.var: loop.lo + inner.expr * size + outer.expr})
        return (For(outer, 0, size, Block((For(inner, 0, count, body),)), loop.kind),)

    return replace_loop(loops, name, one), made


def tile_tails(loops: Loops, name: Loop, sizes: Sequence[int]) -> tuple[Loops, list[Tiles]]:
    """Cuts a loop in tiles of the first size, and what is left in tiles of the sizes that follow.

    rewrite: ``for i in a..b { S(i) }`` with sizes s, t, … -->
    ``for i_o in 0..(b-a)/s { for i_i in 0..s { S(a + s*i_o + i_i) } }
    for i_o_tt in 0..(s-1)/t { if b - p - t*i_o_tt >= t { for i_i_tt in 0..t { S(p + t*i_o_tt + i_i_tt) } } } …``
    where p = a + s*((b-a)/s) is where the last tile ended, and the number t stands in the names
    obligation: sizes fall to 1; what is left is dropped where there is none by proof.

    The tiles of each size that there may be some of; those after the first copy the body, one alone has no
    outer loop.
    """
    if not sizes or sizes[-1] != 1 or any(not 0 < b < a for a, b in pairwise(sizes)):
        raise ScheduleError(f"tile_tails({name}): the sizes {sizes} do not fall to 1")
    made: dict[int, Tiles] = {}

    def one(loop: For) -> tuple[Stmt, ...]:
        check_whole(loop, f"tile_tails({name})")
        out: list[Stmt] = []
        at = loop.lo
        for before, size in pairwise((0, *sizes)):
            left = loop.hi - at
            if prove_lt(left, 1) is True:
                break
            if prove_lt(left, size) is not True:
                tiles, made[size] = _rest(loop, at, size, (before - 1) // size) if before else _tiles(loop, size)
                out.append(tiles)
            at = at + dmax(floordiv(left, size), 0) * size
        return tuple(out)

    return replace_loop(loops, name, one), list(made.values())


def _tiles(loop: For, size: int) -> tuple[Stmt, Tiles]:
    """The tiles of the first size."""
    name, count = loop.var.name, floordiv(loop.hi - loop.lo, size)
    outer, inner = counter(f"{name}_o", count), Var(f"{name}_i", 0, size - 1)
    body = substitute_dims(loop.body, {loop.var: loop.lo + outer.expr * size + inner.expr})
    tiles = For(outer, 0, count, Block((For(inner, 0, size, body),)), loop.kind)
    return tiles, Tiles(Loop(outer.name), Loop(inner.name))


def _rest(loop: For, at: Dim, size: int, maximum: int) -> tuple[Stmt, Tiles]:
    """At most so many tiles of a size from ``at`` on, each where there is enough left."""
    name = loop.var.name
    outer, inner = Var(f"{name}_o_t{size}", 0, maximum - 1), Var(f"{name}_i_t{size}", 0, size - 1)
    start = at + outer.expr * size if maximum > 1 else at
    body, copies, buffers = copied(substitute_dims(loop.body, {loop.var: start + inner.expr}), f"_t{size}")
    tile = If(op("ge", idx(loop.hi - start), imm(size)), Block((For(inner, 0, size, body),)))
    made = Tiles(Loop(outer.name), Loop(inner.name), copies=copies, buffers=buffers)
    return For(outer, 0, maximum, Block((tile,))) if maximum > 1 else tile, made


def overlap(loops: Loops, name: Loop, size: int) -> tuple[Loops, Tiles]:
    """Cuts a loop in tiles of one size; the last one goes back over iterations before it where it would not be full.

    rewrite: ``for i in a..b { S(i) }`` -->
    ``for i_o in 0..ceil((b-a)/s) { for i_i in 0..s { S(a + min(s*i_o, b - a - s) + i_i) } }``
    obligation: the loop has at least s iterations by proof, neither ends early nor is bound to an axis, and may run one
    of them twice: nothing it writes is read in it.
    """
    made = Tiles(Loop(f"{name}_o"), Loop(f"{name}_i"))

    def one(loop: For) -> tuple[Stmt, ...]:
        extent = loop.hi - loop.lo
        check_whole(loop, f"overlap({name}, {size})")
        if size < 1 or prove_ge(_minimum(loops, loop, extent), size) is not True:
            raise ScheduleError(f"overlap({name}, {size}): the loop does not run {size} times or more for certain")
        private = {n.buffer.name for n in statements(loop.body) if isinstance(n, Alloc)}
        loads, stores = buffers_used(loop.body)
        if (loads & stores) - private or any(isinstance(n, Eval | Atomic | Barrier) for n in statements(loop.body)):
            raise ScheduleError(f"overlap({name}, {size}): an iteration run twice may give something else")
        outer, inner = counter(made.outer, ceildiv(extent, size)), Var(made.inner, 0, size - 1)
        whole = prove_eq(ceildiv(extent, size) * size, extent) is True
        start = outer.expr * size if whole else dmin(outer.expr * size, extent - size)
        at = loop.lo + start + inner.expr
        body = substitute_dims(loop.body, {loop.var: at})
        return (For(outer, 0, ceildiv(extent, size), Block((For(inner, 0, size, body),)), loop.kind),)

    return replace_loop(loops, name, one), made


def _minimum(loops: Loops, loop: For, extent: Dim) -> Dim:
    """What the extent of a loop is in the last iterations of those around it, where it shrinks with them."""
    for around in (n for n in statements(loops.body) if isinstance(n, For) and loop in statements(n.body)):
        if prove_ge(extent - substitute(extent, {around.var: around.var.expr + 1}), 0) is True:
            extent = substitute(extent, {around.var: around.hi - 1})
    return extent


def pad_loop(loops: Loops, name: Loop, multiple: int) -> Loops:
    """Lets a loop run on to a multiple; what the steps added would read is 0, what they would write is not.

    rewrite: ``for i in 0..n { t = f(w[i]); o[i] = g(t, r[i]) }`` -->
    ``for i in 0..m*ceil(n/m) { t = f(select(i < n, w[i], 0)); if i < n { o[i] = g(t, r[i]) } }``
    obligation: the loop starts at 0; a statement of its body either stores to a parameter, or only computes
    temporaries of the iteration. A read proved inside its buffer all the same stays as it is: of a row padded that
    far, or one that goes on into the next row of elements.
    """

    def one(loop: For) -> tuple[Stmt, ...]:
        if loop.lo != 0 or loop.until is not None or loop.axis or multiple < 1:
            raise ScheduleError(f"pad_loop({name}, {multiple}): the loop must run from 0 to its end")
        whole = ceildiv(loop.hi, multiple) * multiple
        if prove_eq(whole, loop.hi) is True:
            return (loop,)
        var = counter(name, whole)
        body = substitute_dims(loop.body, {loop.var: var.expr})
        return (replace(loop, var=var, hi=whole, body=_Guard(loops, body, var, loop.hi).block(body)),)

    return replace_loop(loops, name, one)


class _Guard:
    """Keeps accesses that vary with ``var`` to ``var < end``."""

    def __init__(self, loops: Loops, body: Block, var: Var, end: Dim) -> None:
        self.loops, self.var = loops, var
        self.inside: ValueExpr = op("lt", idx(var.expr), idx(end))
        self.shapes = {p.buffer.name: p.buffer.shape for p in loops.params}
        self.params = set(self.shapes)
        self.shapes |= {n.buffer.name: n.buffer.shape for n in statements(loops.body) if isinstance(n, Alloc)}
        self.private = {n.buffer.name for n in statements(body) if isinstance(n, Alloc)}

    def block(self, block: Block) -> Block:
        return Block(tuple(self.stmt(s) for s in block.body))

    def stmt(self, stmt: Stmt) -> Stmt:
        match stmt:
            case Alloc():
                return stmt
            case For() if self.var not in free_vars(stmt.lo) | free_vars(stmt.hi):
                return replace(stmt, body=self.block(stmt.body))
            case Block():
                return self.block(stmt)
            case Store() if stmt.buffer in self.params:
                return If(self.inside, Block((stmt,)))
            case Store() if stmt.buffer in self.private and self.surely_inside(stmt):
                return replace(stmt, value=rewrite(stmt.value, self.value))
            case Let() if not any(isinstance(n, Load) for n in walk(stmt.value)):
                return stmt
            case _:
                raise ScheduleError(f"pad_loop({self.var.name}): it holds a {type(stmt).__name__}")

    def value(self, node: ValueExpr) -> ValueExpr:
        if not isinstance(node, Load) or not any(self.var in free_vars(d) for d in dims_used(node)):
            return node
        for place in (node, self.in_next_row(node)):
            if place is not None and self.surely_inside(place):
                return place
        return Op("select", (self.inside, node, imm(0.0 if node.dtype.is_float else 0, node.dtype)), node.dtype)

    def in_next_row(self, load: Load) -> Load | None:
        """The same element by an index that runs on into the next row, if elements of rows follow each other in memory:
        rows that a ring holds do not."""
        shape = self.shapes[load.buffer]
        if len(shape) < 2 or row_axis(shape) >= len(shape) - 2 or load.dtype.lanes > 1:
            return None
        *outer, row, at = load.index
        return replace(load, index=(*outer, row + floordiv(at, shape[-1]), mod(at, shape[-1])))

    def surely_inside(self, place: Load | Store) -> bool:
        return all(
            self.var not in free_vars(at) or (prove_ge(at, 0) is True and prove_lt(at, size) is True)
            for at, size in zip(place.index, self.shapes[place.buffer], strict=True)
        )
