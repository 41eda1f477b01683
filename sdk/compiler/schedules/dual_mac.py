"""Primitives for instructions that add two products of 16 bits at once: elements of 16 bits, taps two at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sdk.compiler.ir.intrinsics import imm
from sdk.compiler.ir.layout import ROW_MAJOR, Interleave, Tile, Widen
from sdk.compiler.ir.loops import Alloc, For, Imm, Load, Loops, Op, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import I8, I16, I32, I64, U8
from sdk.compiler.ir.walk import rewrite, statements, substitute_dims, walk
from sdk.compiler.schedules.locate import Loop, ScheduleError, replace_loop
from sdk.compiler.schedules.pack import stored_as
from sdk.compiler.schedules.tensorize import factors_of
from sdk.compiler.sym import Dim, Var, free_vars, linear, prove_lt, substitute

__all__ = ["flatten", "use_dual_mac", "use_i16", "use_interleaved_dot"]


def use_i16(loops: Loops, buffer: str) -> Loops:
    """Keeps the bytes of a temporary, or of a packed parameter, as 16-bit integers.

    rewrite: ``alloc t: i8[n]; … t[i] = v … cast(t[j], i32)`` -->
    ``alloc t: i16[n]; … t[i] = cast(v, i16) … cast(t[j], i32)``
    obligation: it holds 8-bit integers, touched one at a time; what is read is cast to i32 or i64.
    """
    packed = [p.buffer for p in loops.params if p.buffer.name == buffer and p.layout.steps]
    mine = [n.buffer for n in statements(loops.body) if isinstance(n, Alloc) and n.buffer.name == buffer]
    mine += packed
    if not mine or any(b.dtype not in (I8, U8) for b in mine):
        raise ScheduleError(f"use_i16({buffer}): it is no temporary or packed parameter of 8-bit integers")
    touched = [n for n in walk(loops.body) if isinstance(n, Load | Store) and n.buffer == buffer]
    if any((n.dtype if isinstance(n, Load) else n.value.dtype).lanes > 1 for n in touched):
        raise ScheduleError(f"use_i16({buffer}): lanes of it are read or written")

    def one(node: Any) -> Any:
        match node:
            case Alloc() if node.buffer.name == buffer:
                return Alloc(replace(node.buffer, dtype=I16))
            case Store(value=Imm(value)) if node.buffer == buffer:
                return replace(node, value=imm(value, I16))
            case Store() if node.buffer == buffer:
                return replace(node, value=Op("cast", (node.value,), I16))
            case Op("cast", (Load() as load,)) if load.buffer == buffer and node.dtype in (I32, I64):
                return replace(node, args=(replace(load, dtype=I16),))
            case _:
                return node

    body = rewrite(loops.body, one)
    if any(isinstance(n, Load) and n.buffer == buffer and n.dtype != I16 for n in walk(body)):
        raise ScheduleError(f"use_i16({buffer}): what is read of it is not cast to i32 or i64")
    done = replace(loops, body=body)
    return stored_as(done, buffer, Widen(I16)) if packed else done


def use_interleaved_dot(loops: Loops, reduce: Loop, param: str) -> Loops:
    """Multiplies 16-bit integers by words of four bytes of a packed parameter, which come in the order 0, 2, 1, 3.

    rewrite: ``for k in 0..4 { c = c + a[k]*w[k] }`` -->
    ``c = dot(dot(c, a[0:2], evens(w[0:4])), a[2:4], odds(w[0:4]))``
    obligation: the loop runs from 0 to 4 and holds one multiply-accumulate of a 16-bit integer and the parameter,
    packed in columns of four bytes and read there alone; both are read at consecutive elements.
    """
    step = f"use_interleaved_dot({reduce}, {param})"
    steps = loops.layouts.get(param, ROW_MAJOR).steps
    if steps[-1:] != (Tile(1, 4),) or loops.param(param).buffer.dtype != I8:
        raise ScheduleError(f"{step}: the parameter is not packed in columns of four bytes")

    def one(loop: For) -> tuple[Stmt, ...]:
        store, first, second = factors_of(loop.body.body[0])
        a, w = (first, second) if isinstance(second, Load) and second.buffer == param else (second, first)
        if (len(loop.body.body), loop.lo, loop.hi) != (1, 0, 4) or not isinstance(a, Load) or not isinstance(w, Load):
            raise ScheduleError(f"{step}: it is not one multiply-accumulate of four steps")
        runs = [linear(load.index[-1], loop.var) for load in (a, w)]
        outer = (d for load in (a, w) for d in load.index[:-1])
        if a.dtype != I16 or w.buffer != param or any(run is None or run[0] != 1 for run in runs):
            raise ScheduleError(f"{step}: its factors are not neighbouring elements of i16 and of the parameter")
        if any(loop.var in free_vars(d) for d in (*outer, *store.index)) or a.buffer == store.buffer:
            raise ScheduleError(f"{step}: rows of the factors or the sum vary")
        word = Load(param, tuple(substitute(d, {loop.var: 0}) for d in w.index), I8.with_lanes(4))
        value: ValueExpr = Load(store.buffer, store.index, store.value.dtype)
        for at, half in ((0, "evens"), (2, "odds")):
            index = tuple(substitute(d, {loop.var: at}) for d in a.index)
            pair = Load(a.buffer, index, I16.with_lanes(2))
            value = Op("dot", (value, pair, Op(half, (word,), I16.with_lanes(2))), store.value.dtype)
        return (Store(store.buffer, store.index, value),)

    done = replace_loop(loops, reduce, one)
    if any(isinstance(n, Load) and n.buffer == param and n.dtype.lanes != 4 for n in walk(done.body)):
        raise ScheduleError(f"{step}: the parameter is read elsewhere too")
    return stored_as(done, param, Interleave(len(loops.param(param).buffer.shape) - 1, 2))


def use_dual_mac(loops: Loops, taps: Loop) -> Loops:
    """Writes out the taps of neighbouring sums, two at a time: pairs of elements serve two sums, pairs of weights two
    taps.

    rewrite: ``for k in 0..3 { for p in 0..2 { c[p] = c[p] + a[p + k]*b[k] } }`` -->
    ``c[0] = dot(c[0], a[0:2], b[0:2]); c[1] = mac_pair(c[1], a[0:2], b[0:2], 1, 0);
    c[0] = mac_pair(c[0], a[2:4], b[1:3], 0, 1); c[1] = dot(c[1], a[2:4], b[1:3])``
    obligation: both loops run from 0 to numbers and hold one multiply-accumulate of 16-bit integers; c varies with p
    alone, a is read at consecutive elements over k and some step over p, b over k and not over p. A pair may end with
    an element of the row that no tap reads; of one tap, sums whose elements are neighbours share a pair.
    """
    shapes = {n.buffer.name: n.buffer.shape for n in statements(loops.body) if isinstance(n, Alloc)}

    def one(loop: For) -> tuple[Stmt, ...]:
        inner = loop.body.body[0]
        if len(loop.body.body) != 1 or not isinstance(inner, For) or len(inner.body.body) != 1:
            raise ScheduleError(f"use_dual_mac({taps}): it holds more than one loop over neighbouring sums")
        if loop.lo != 0 or inner.lo != 0 or not isinstance(loop.hi, int) or not isinstance(inner.hi, int):
            raise ScheduleError(f"use_dual_mac({taps}): the loops must run from 0 to numbers")
        product = inner.body.body[0]
        if loop.hi == 1:  # whatever its place, also in rows
            product = substitute_dims(product, {loop.var: 0})
        store, first, second = factors_of(product)
        for a, b in ((first, second), (second, first)):
            if isinstance(a, Load) and isinstance(b, Load) and not _uses(b, inner.var):
                room = shapes[a.buffer][-1] if a.buffer in shapes else 0
                return _Pairs(taps, store, a, b, loop, inner, room).statements(loop.hi, inner.hi)
        raise ScheduleError(f"use_dual_mac({taps}): both factors vary with {inner.var.name}")

    return replace_loop(loops, taps, one)


def _uses(load: Load | Store, var: Var) -> bool:
    return any(var in free_vars(d) for d in load.index)


class _Pairs:
    """Writes the products of ``a`` and ``b`` over the loops ``taps`` and ``sums``."""

    def __init__(self, name: str, store: Store, a: Load, b: Load, taps: For, sums: For, room: Dim) -> None:
        self.room = room
        self.store, self.a, self.b, self.taps, self.sums = store, a, b, taps.var, sums.var
        step = linear(a.index[-1], sums.var)
        over = [linear(load.index[-1], taps.var) for load in (a, b)]
        if {a.dtype, b.dtype} != {I16} or store.value.dtype != I32:
            raise ScheduleError(f"use_dual_mac({name}): its factors are {a.dtype} and {b.dtype}")
        several = taps.var.hi > 0  # of one tap any place is consecutive
        if step is None or step[0] < 0 or (several and any(o is None or o[0] != 1 for o in over)):
            raise ScheduleError(f"use_dual_mac({name}): elements over {name} are not consecutive")
        outer = (d for load in (a, b) for d in load.index[:-1])
        if any({taps.var, sums.var} & free_vars(d) for d in outer) or _uses(store, taps.var):
            raise ScheduleError(f"use_dual_mac({name}): rows of the factors or the sum vary")
        self.step = step[0]

    def statements(self, taps: int, sums: int) -> tuple[Stmt, ...]:
        """All products, in the order of the elements."""
        if taps == 1:
            return tuple(self.of_one_tap(p, sums) for p in range(sums))
        out: list[Stmt] = []
        end = self.step * (sums - 1) + taps
        for at in range(0, end, 2):
            for p in range(sums):
                inside = [k for k in (at - self.step * p, at + 1 - self.step * p) if 0 <= k < taps]
                if inside:
                    out.append(self.product(at, p, inside, taps, end))
        return tuple(out)

    def of_one_tap(self, p: int, sums: int) -> Stmt:
        """The only product of sum ``p``: neighbouring sums share a word of ``a``."""
        if self.step != 1 or (p == sums - 1 and sums % 2):
            return self.single(0, p)
        index = self.index(self.store.index, 0, p)
        weight = replace(self.b, index=self.index(self.b.index, 0, 0))
        both = Op("broadcast", (Op("cast", (weight,), I16),), I16.with_lanes(2))
        pair = Load(self.a.buffer, self.index(self.a.index, 0, p - p % 2), self.a.dtype.with_lanes(2))
        acc = Load(self.store.buffer, index, I32)
        value = Op("mac_pair", (acc, both, pair, imm(0), imm(p % 2)), I32)
        return Store(self.store.buffer, index, value)

    def single(self, tap: int, p: int) -> Stmt:
        """The product of a tap, added to sum ``p``."""
        index = self.index(self.store.index, 0, p)
        factors = (replace(load, index=self.index(load.index, tap, p)) for load in (self.a, self.b))
        product = Op("mul", tuple(Op("cast", (load,), I32) for load in factors), I32)
        return Store(self.store.buffer, index, Op("add", (Load(self.store.buffer, index, I32), product), I32))

    def product(self, at: int, p: int, inside: list[int], taps: int, end: int) -> Stmt:
        """What elements ``at`` and the next add to sum ``p``, by the taps ``inside``."""
        index = self.index(self.store.index, 0, p)
        acc = Load(self.store.buffer, index, I32)
        k = min(inside[0], taps - 2)
        if len(inside) == 2:
            value = Op("dot", (acc, self.pair(self.a, at), self.pair(self.b, k)), I32)
        elif at + 1 < end or prove_lt(self.element(self.a, at + 1)[-1], self.room) is True:
            lanes = (imm(inside[0] + self.step * p - at), imm(inside[0] - k))
            value = Op("mac_pair", (acc, self.pair(self.a, at), self.pair(self.b, k), *lanes), I32)
        else:
            return self.single(inside[0], p)
        return Store(self.store.buffer, index, value)

    def pair(self, load: Load, at: int) -> Load:
        return Load(load.buffer, self.element(load, at), load.dtype.with_lanes(2))

    def element(self, load: Load, at: int) -> tuple[Dim, ...]:
        """Element ``at`` of the run that the load goes through."""
        return self.index(load.index, at, 0)

    def index(self, index: tuple[Dim, ...], tap: int, p: int) -> tuple[Dim, ...]:
        return tuple(substitute(d, {self.taps: tap, self.sums: p}) for d in index)


def flatten(loops: Loops, buffer: str, room: int = 0) -> Loops:
    """Makes one axis of the last two of a temporary, with ``room`` for so many elements more.

    rewrite: ``alloc t[n, 49, 3]; … t[i, j, k] …`` --> ``alloc t[n, 147 + room]; … t[i, 3*j + k] …``
    obligation: it is a temporary of two axes or more, touched one element at a time.
    """
    mine = [n.buffer for n in statements(loops.body) if isinstance(n, Alloc) and n.buffer.name == buffer]
    touched = [n for n in walk(loops.body) if isinstance(n, Load | Store) and n.buffer == buffer]
    if len(mine) != 1 or len(mine[0].shape) < 2 or room < 0:
        raise ScheduleError(f"flatten({buffer}): it is no temporary of two axes or more")
    if any((n.dtype if isinstance(n, Load) else n.value.dtype).lanes > 1 for n in touched):
        raise ScheduleError(f"flatten({buffer}): lanes of it are read or written")
    *outer, rows, columns = mine[0].shape

    def one(node: Any) -> Any:
        match node:
            case Alloc() if node.buffer.name == buffer:
                return Alloc(replace(node.buffer, shape=(*outer, rows * columns + room)))
            case Load() | Store() if node.buffer == buffer:
                *at, row, column = node.index
                return replace(node, index=(*at, row * columns + column))
            case _:
                return node

    return replace(loops, body=rewrite(loops.body, one))
