"""Primitives that put lanes into a nest: vectorize a loop, or replace a small reduction by a dot instruction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sdk.compiler.analysis.dependence import conflict, row_axis
from sdk.compiler.ir.intrinsics import imm
from sdk.compiler.ir.loops import (
    Alloc,
    Block,
    For,
    Idx,
    If,
    Imm,
    Load,
    Loops,
    Op,
    Stmt,
    Store,
    ValueExpr,
)
from sdk.compiler.ir.types import DType
from sdk.compiler.ir.walk import dims_used, rewrite, statements, substitute_dims, walk
from sdk.compiler.schedules.locate import Loop, ScheduleError, replace_loop
from sdk.compiler.sym import Dim, Expr, Var, flat_index, free_vars, linear, substitute

__all__ = [
    "Lanes",
    "broadcast",
    "factors_of",
    "is_mac",
    "no_var",
    "use_dot",
    "use_dot_first",
    "use_dot_lanes",
    "use_fma",
    "use_mac_lanes",
    "vector_registers",
    "vectorize",
]


def no_var(node: object, var: Var) -> bool:
    """Whether no dim of a node uses a variable."""
    return not any(var in free_vars(d) for d in dims_used(node))


def vectorize(loops: Loops, name: Loop) -> Loops:
    """Runs all iterations of a loop as lanes.

    rewrite: ``for i in 0..4 { o[i] = a[i] + b }`` --> ``o[0 : 4] = a[0 : 4] + broadcast(b)``
    obligation: iterations are independent, the loop runs from 0 to a number, and every buffer that the index
    varies in is read and written at consecutive elements; whole vectors may run on over rows of it, but not over those
    that a ring may keep. A temporary indexed by it becomes a vector. A read or write under ``i < n`` touches the first
    lanes only.
    """

    allocs = [n.buffer for n in statements(loops.body) if isinstance(n, Alloc)]
    mine = frozenset(b.name for b in allocs if b.space == "register")
    shapes = {b.name: b.shape for b in (*(p.buffer for p in loops.params), *allocs)}
    rings = frozenset(p.buffer.name for p in loops.params) - set(loops.layouts)

    def one(loop: For) -> tuple[Stmt, ...]:
        why = conflict(loop, loops)
        if why:
            raise ScheduleError(f"vectorize({name}): {why}")
        if loop.lo != 0 or not isinstance(loop.hi, int):
            raise ScheduleError(f"vectorize({name}): the loop must run from 0 to a number")
        return Lanes(loop.var, loop.hi, mine, shapes, rings).block(loop.body).body

    return replace_loop(loops, name, one)


class Lanes:
    """Rewrites the body of a loop over ``var`` to ``lanes`` lanes; registers ``mine`` have room for all of them. Lanes
    run on over rows of the buffers whose ``shapes`` are known, but not over those of what may be ``rings``."""

    def __init__(
        self,
        var: Var,
        lanes: int,
        mine: frozenset[str],
        shapes: Mapping[str, tuple[Dim, ...]] | None = None,
        rings: frozenset[str] = frozenset(),
    ) -> None:
        self.var, self.lanes, self.mine, self.shapes, self.rings = var, lanes, mine, shapes or {}, rings
        self.private: set[str] = set()
        self.count: Dim | None = None  # how many lanes the condition around leaves

    def block(self, block: Block) -> Block:
        """Every statement of a block."""
        return Block(tuple(self.stmt(s) for s in block.body))

    def stmt(self, stmt: Stmt) -> Stmt:
        """A statement for all lanes."""
        match stmt:
            case For() if self.var not in free_vars(stmt.lo) | free_vars(stmt.hi):
                return replace(stmt, body=self.block(stmt.body))
            case If() if no_var(stmt.cond, self.var):
                return replace(
                    stmt, then=self.block(stmt.then), orelse=self.block(stmt.orelse) if stmt.orelse else None
                )
            case If() if stmt.orelse is None and self.count is None and (n := self.below(stmt.cond)) is not None:
                self.count = n
                inside = self.block(stmt.then)
                self.count = None
                return inside
            case Alloc() if stmt.buffer.space == "register":
                self.private.add(stmt.buffer.name)
                return Alloc(replace(stmt.buffer, dtype=stmt.buffer.dtype.with_lanes(self.lanes)))
            case Store():
                if stmt.buffer not in self.private:
                    self.consecutive(stmt.index, stmt.buffer)
                value = self.spread(self.value(stmt.value))
                return Store(stmt.buffer, self.base(stmt.index), value, self.counted(stmt.buffer))
            case _:
                raise ScheduleError(f"vectorize({self.var.name}): {type(stmt).__name__} cannot be made lanes")

    def value(self, expr: ValueExpr) -> ValueExpr:
        """A value in lanes; in one where it is the same for all."""
        match expr:
            case Load() if expr.buffer in self.private:
                return Load(expr.buffer, expr.index, expr.dtype.with_lanes(self.lanes))
            case Load() if not no_var(expr, self.var):
                self.consecutive(expr.index, expr.buffer)
                count = self.counted(expr.buffer)
                return Load(expr.buffer, self.base(expr.index), expr.dtype.with_lanes(self.lanes), count)
            case Op("select", (cond, Load() as load, Imm(0))) if (
                self.count is None
                and load.buffer not in self.private
                and not no_var(load, self.var)
                and (n := self.below(cond)) is not None
            ):
                self.count = n
                read = self.spread(self.value(load))
                self.count = None
                return read
            case Idx() if not no_var(expr, self.var):
                raise ScheduleError(f"vectorize({self.var.name}): its value {expr.dim} is used")
            case Op():
                args = tuple(self.value(a) for a in expr.args)
                if all(a.dtype.lanes == 1 for a in args):
                    return replace(expr, args=args)
                if any(a.dtype.lanes > 1 for a in expr.args):
                    raise ScheduleError(f"vectorize({self.var.name}): {expr.name} has lanes already")
                keep_cond = expr.name == "select" and args[0].dtype.lanes == 1
                spread = tuple(a if keep_cond and k == 0 else self.spread(a) for k, a in enumerate(args))
                return Op(expr.name, spread, expr.dtype.with_lanes(self.lanes))
            case _:
                return expr

    def counted(self, buffer: str) -> Dim | None:
        """How many elements an access of ``buffer`` may touch; None for all."""
        return None if buffer in self.mine else self.count

    def below(self, cond: ValueExpr) -> Dim | None:
        """How many lanes a condition ``i + a < n`` leaves, counted from the first; None where there is but one."""
        match cond:
            case Op("lt", (Idx(at), Idx(end) | Imm(int(end)))) if self.lanes > 1:
                step = linear(at, self.var)
                if step is not None and step[0] == 1 and not (isinstance(end, Expr) and self.var in free_vars(end)):
                    return end - step[1]
        return None

    def spread(self, value: ValueExpr) -> ValueExpr:
        """``value`` in all lanes."""
        return value if value.dtype.lanes > 1 else broadcast(value, self.lanes)

    def consecutive(self, index: tuple[Dim, ...], buffer: str) -> None:
        """Refuses an access whose lanes are not neighbours in memory."""
        *outer, last = index or (0,)
        shape = self.shapes.get(buffer, ())
        along_rows = buffer in self.rings and shape and self.var in free_vars(index[row_axis(shape)])
        if shape and self.count is None and not along_rows:
            outer, last = [], flat_index(index, shape)
        step = linear(last, self.var)
        if step is None or step[0] != 1 or any(self.var in free_vars(d) for d in outer):
            raise ScheduleError(f"vectorize({self.var.name}): elements of {buffer} are not consecutive")

    def base(self, index: tuple[Dim, ...]) -> tuple[Dim, ...]:
        """Where the first lane is."""
        return tuple(substitute(d, {self.var: 0}) for d in index)


def broadcast(value: ValueExpr, lanes: int) -> ValueExpr:
    """``value`` repeated to fill ``lanes`` lanes."""
    return Op("broadcast", (value,), value.dtype.with_lanes(lanes))


def factors_of(stmt: Stmt) -> tuple[Store, ValueExpr, ValueExpr]:
    """Takes ``acc = acc + cast(a) * cast(b)`` apart; a ScheduleError where the statement is no such thing."""
    if isinstance(stmt, Store) and isinstance(stmt.value, Op) and stmt.value.name == "add":
        acc, product = stmt.value.args
        if acc == Load(stmt.buffer, stmt.index, acc.dtype) and isinstance(product, Op) and product.name == "mul":
            a, b = (_uncast(v) for v in product.args)
            return stmt, a, b
    raise ScheduleError("the innermost statement is not acc = acc + a * b")


def is_mac(loop: For) -> bool:
    """Whether the loop holds one ``acc = acc + a * b``."""
    stmt = loop.body.body[0]
    if len(loop.body.body) != 1 or not isinstance(stmt, Store) or not isinstance(stmt.value, Op):
        return False
    return stmt.value.name == "add" and isinstance(stmt.value.args[1], Op) and stmt.value.args[1].name == "mul"


def _uncast(value: ValueExpr) -> ValueExpr:
    if isinstance(value, Op) and value.name == "cast" and isinstance(value.args[0], Load | Op):
        return value.args[0]
    return value


def _lane_load(value: ValueExpr, var: Var, lanes: int) -> Load:
    if isinstance(value, Load):
        flat_last = linear(value.index[-1], var)
        if flat_last is not None and flat_last[0] == 1 and not any(var in free_vars(d) for d in value.index[:-1]):
            index = tuple(substitute(d, {var: 0}) for d in value.index)
            return Load(value.buffer, index, value.dtype.with_lanes(lanes))
    raise ScheduleError(f"elements over {var.name} are not consecutive")


def use_dot(loops: Loops, reduce: Loop, lanes: Loop | None = None) -> Loops:
    """Replaces a reduction of a few steps, on one accumulator or on a lane loop around it, by ``dot``.

    rewrite: ``for k in 0..4 { c = c + a[k]*b[k] }`` --> ``c = dot(c, a[0:4], b[0:4])``; with lanes,
    ``for j in 0..16 { for k in 0..4 { c[j] = c[j] + a[k]*b[j, k] } }`` -->
    ``c[0:16] = dot(c[0:16], broadcast(a[0:4]), b[0, 0:64])``
    obligation: the statement is a multiply-accumulate of integers as wide as each other; a and b are read at
    consecutive elements over k, b over (j, k) together, a not over j.
    """

    def one(loop: For) -> tuple[Stmt, ...]:
        group = loop
        if lanes:
            child = loop.body.body[0]
            if len(loop.body.body) != 1 or not isinstance(child, For) or child.var.name != reduce:
                return (loop,)  # a copy of the lane loop around another statement
            group = child
        store, first, second = _factors(group, f"use_dot({reduce})")
        acc_type: DType = store.value.dtype
        if not lanes:
            acc = Load(store.buffer, store.index, acc_type)
            return (Store(store.buffer, store.index, Op("dot", (acc, first, second), acc_type)),)
        width = loop.hi
        if not isinstance(width, int) or not isinstance(group.hi, int) or loop.lo != 0 or not no_var(first, loop.var):
            raise ScheduleError(f"use_dot({reduce}, {lanes}): the first operand varies over {lanes}, or it starts late")
        _one_run(loops, store, loop.var, second, group.hi)
        wide = _pair_load(second, loop.var, width, group.hi)
        spread = Op("broadcast", (first,), first.dtype.with_lanes(width * group.hi))
        base = tuple(substitute(d, {loop.var: 0}) for d in store.index)
        vector = acc_type.with_lanes(width)
        return (Store(store.buffer, base, Op("dot", (Load(store.buffer, base, vector), spread, wide), vector)),)

    return replace_loop(loops, lanes or reduce, one)


def use_dot_lanes(loops: Loops, name: Loop) -> Loops:
    """Replaces neighbouring words, each spread over a vector for a ``dot``, by the words of one vector.

    rewrite: ``for i in 0..4 { c = dot(c, broadcast(a[4*i : 4*i + 4]), b[i]) }`` -->
    ``c = dot_lane(c, a[0:16], b[0], 0) … c = dot_lane(c, a[0:16], b[3], 3)``
    obligation: the loop runs from 0 to a number and holds one such dot; the words of a follow each other over i.
    """

    def one(loop: For) -> tuple[Stmt, ...]:
        match loop.body.body:
            case (Store(value=Op("dot", (acc, Op("broadcast", (Load() as word,)), b), sums)) as store,):
                pass
            case _:
                return (loop,)  # a copy around another statement
        if loop.lo != 0 or not isinstance(loop.hi, int):
            raise ScheduleError(f"use_dot_lanes({name}): the loop must run from 0 to a number")
        step = linear(word.index[-1], loop.var)
        if step is None or step[0] != word.dtype.lanes or any(loop.var in free_vars(d) for d in word.index[:-1]):
            raise ScheduleError(f"use_dot_lanes({name}): words of {word.buffer} are not consecutive")
        first = substitute_dims(word, {loop.var: 0})
        words = replace(first, dtype=first.dtype.with_lanes(first.dtype.lanes * loop.hi))
        out: list[Stmt] = []
        for k in range(loop.hi):
            at = substitute_dims(store, {loop.var: k})
            second = substitute_dims(b, {loop.var: k})
            out.append(replace(at, value=Op("dot_lane", (acc, words, second, imm(k)), sums)))
        return tuple(out)

    return replace_loop(loops, name, one)


def use_dot_first(loops: Loops, reduce: Loop, lanes: int) -> Loops:
    """Replaces what is left of a reduction by ``dot`` on vectors of which the first elements are read.

    rewrite: ``for k in 0..11 { c = c + a[k]*b[k] }`` --> ``c = dot(c, a[0:16 first 11], b[0:16 first 11])``
    obligation: as ``use_dot`` without lanes, of at most ``lanes`` steps.
    """

    def one(loop: For) -> tuple[Stmt, ...]:
        step = f"use_dot_first({reduce}, {lanes})"
        if not isinstance(loop.lo, int) or not isinstance(loop.hi, int) or not 0 < loop.hi - loop.lo <= lanes:
            raise ScheduleError(f"{step}: the loop must run from a number to one at most {lanes} further")
        count = loop.hi - loop.lo
        var = Var(loop.var.name, 0, lanes - 1)
        body = substitute_dims(loop.body, {loop.var: var.expr + loop.lo})
        store, a, b = _factors(replace(loop, var=var, lo=0, hi=lanes, body=body), step)
        first, second = (replace(load, count=count) if count < lanes else load for load in (a, b))
        acc = Load(store.buffer, store.index, store.value.dtype)
        return (Store(store.buffer, store.index, Op("dot", (acc, first, second), store.value.dtype)),)

    return replace_loop(loops, reduce, one)


def _factors(group: For, step: str) -> tuple[Store, Load, Load]:
    """The multiply-accumulate that a loop from 0 to a number holds, its factors as vectors of all of its steps."""
    if len(group.body.body) != 1 or group.lo != 0 or not isinstance(group.hi, int):
        raise ScheduleError(f"{step}: the loop must hold one statement and run from 0 to a number")
    store, a, b = factors_of(group.body.body[0])
    if any(isinstance(n, Load) and n.buffer == store.buffer for v in (a, b) for n in walk(v)):
        raise ScheduleError(f"{step}: the accumulator is an operand too")
    first, second = _lane_load(a, group.var, group.hi), _lane_load(b, group.var, group.hi)
    if first.dtype.is_float or first.dtype.bits != second.dtype.bits:
        raise ScheduleError(f"{step}: its factors are {first.dtype.scalar} and {second.dtype.scalar}")
    return store, first, second


def _one_run(loops: Loops, store: Store, var: Var, second: Load, group: int) -> None:
    """Checks that accumulators and groups of the second operand follow each other without gaps over ``var``."""
    last = linear(store.index[-1], var) if store.index else None
    if last is None or last[0] != 1 or any(var in free_vars(d) for d in store.index[:-1]):
        raise ScheduleError(f"accumulators over {var.name} are not consecutive")
    shape = loops.param(second.buffer).buffer.shape
    if shape[-1] != group or any(var in free_vars(d) for d in second.index[:-2]):
        raise ScheduleError(f"groups of {second.buffer} over {var.name} are not one run; pack it first")


def _pair_load(load: Load, var: Var, width: int, group: int) -> Load:
    """The load over (var, group) as one run: var must step the last but one axis by one."""
    step = linear(load.index[-2], var) if len(load.index) > 1 else None
    if step is None or step[0] != 1 or load.index[-1] != 0:
        raise ScheduleError(f"elements of {load.buffer} over {var.name} are not one run; pack it first")
    index = tuple(substitute(d, {var: 0}) for d in load.index)
    return Load(load.buffer, index, load.dtype.with_lanes(width * group))


def use_mac_lanes(loops: Loops, name: Loop) -> Loops:
    """Replaces four neighbouring multiply-accumulates by lane operations on two packed words.

    rewrite: ``for i in 0..4 { c[i] = c[i] + a[i]*b[i] }`` -->
    ``for i in 0..4 { c[i] = mac_lane(c[i], a[0:4], b[0:4], i) }``
    obligation: as ``use_dot`` for a and b over i; all three are integers.
    """

    def one(loop: For) -> tuple[Stmt, ...]:
        if not isinstance(loop.hi, int) or loop.lo != 0 or not is_mac(loop):
            return (loop,)  # a copy around another statement
        store, a, b = factors_of(loop.body.body[0])
        if store.value.dtype.is_float:
            raise ScheduleError(f"use_mac_lanes({name}): its products are floats; there are words of integers only")
        first, second = _lane_load(a, loop.var, loop.hi), _lane_load(b, loop.var, loop.hi)
        out: list[Stmt] = []
        for k in range(loop.hi):
            index = tuple(substitute(d, {loop.var: k}) for d in store.index)
            acc = Load(store.buffer, index, store.value.dtype)
            out.append(Store(store.buffer, index, Op("mac_lane", (acc, first, second, imm(k)), store.value.dtype)))
        return tuple(out)

    return replace_loop(loops, name, one)


def use_fma(loops: Loops, name: Loop) -> Loops:
    """Joins the product and the sum of a multiply-accumulate in one operation.

    rewrite: ``for k { c = c + a[k]*b[k] }`` --> ``for k { c = fma(a[k], b[k], c) }``
    obligation: the loop holds one multiply-accumulate of floats; only the rounding of the product goes.
    """

    def one(loop: For) -> tuple[Stmt, ...]:
        inner = loop
        while len(inner.body.body) == 1 and isinstance(inner.body.body[0], For):
            inner = inner.body.body[0]
        store = inner.body.body[0]
        if not is_mac(inner) or not isinstance(store, Store) or not store.value.dtype.is_float:
            raise ScheduleError(f"use_fma({name}): it holds no multiply-accumulate of floats")
        assert isinstance(store.value, Op)  # is_mac
        acc, product = store.value.args
        assert isinstance(product, Op)  # is_mac
        joined = Op("fma", (*product.args, acc), store.value.dtype)
        return (rewrite(loop, lambda n: joined if n is store.value else n),)

    return replace_loop(loops, name, one)


def vector_registers(loops: Loops, buffer: str, lanes: int) -> Loops:
    """Makes a register temporary, whose last axis is only touched ``lanes`` at a time, a temporary of vectors.

    rewrite: ``alloc c[2, 16] … c[i, 0:16] …`` --> ``alloc c[2] of 16 lanes … c[i] …``
    obligation: every access has ``lanes`` lanes from element 0 of the last axis, whose extent is ``lanes``.
    """
    mine = [n.buffer for n in statements(loops.body) if isinstance(n, Alloc) and n.buffer.name == buffer]
    if [b.space for b in mine] != ["register"] or mine[0].shape[-1:] != (lanes,) or mine[0].dtype.lanes != 1:
        raise ScheduleError(f"vector_registers({buffer}): it is no register temporary whose last axis has {lanes}")
    for node in walk(loops.body):
        if isinstance(node, Load | Store) and node.buffer == buffer:
            width = node.dtype.lanes if isinstance(node, Load) else node.value.dtype.lanes
            if width != lanes or node.index[-1] != 0:
                raise ScheduleError(f"vector_registers({buffer}): it is also accessed {width} lanes at a time")

    def one(node: object) -> object:
        if isinstance(node, Load | Store) and node.buffer == buffer:
            return replace(node, index=node.index[:-1])
        if isinstance(node, Alloc) and node.buffer.name == buffer:
            old = node.buffer
            return Alloc(replace(old, shape=old.shape[:-1], dtype=old.dtype.with_lanes(lanes)))
        return node

    return replace(loops, body=rewrite(substitute_dims(loops.body, {}), one))
