"""Primitives that bring loops of any length into lanes: whole vectors with a masked rest, and vector accumulators."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from sdk.compiler.ir.intrinsics import idx, imm, op
from sdk.compiler.ir.loops import Alloc, Block, Buffer, For, If, Load, Loops, Op, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import BOOL, DType
from sdk.compiler.ir.walk import statements, substitute_dims, walk
from sdk.compiler.schedules.locate import Loop, ScheduleError, check_whole, copied, counter, fresh, replace_loop
from sdk.compiler.schedules.tensorize import Lanes, broadcast
from sdk.compiler.sym import Dim, Var, dmax, floordiv, prove_eq, prove_lt

__all__ = ["accumulate", "strip"]

# Operations that may be regrouped, and what leaves the other operand as it is.
_IDENTITY: Final = {"add": 0, "mul": 1, "max": -math.inf, "min": math.inf}


def strip(loops: Loops, name: Loop, size: int) -> tuple[Loops, list[Loop]]:
    """Cuts a loop in strips of ``size`` and one strip of what is left; the loops for ``vectorize`` to make lanes of.

    rewrite: ``for i in a..b { S(i) }`` --> ``for i_o in 0..(b-a)/s { for i_i in 0..s { S(a + s*i_o + i_i) } }``
    ``if r > 0 { for i_r in 0..s { if i_r < r { S(p + i_r) } } }`` where r iterations are left from p on; a rest that
    is a number and a power of two needs no condition, one iteration becomes ``i_t``
    obligation: size >= 1, and the loop neither ends early nor is bound to an axis.
    """
    if size < 1:
        raise ScheduleError(f"strip({name}, {size}): the size must be at least 1")
    made: list[Loop] = []

    def one(loop: For) -> tuple[Stmt, ...]:
        check_whole(loop, f"strip({name}, {size})")
        whole = floordiv(loop.hi - loop.lo, size)
        out: list[Stmt] = []
        if not _none(loop, size):
            outer, inner = counter(f"{name}_o", whole), Var(f"{name}_i", 0, size - 1)
            body = substitute_dims(loop.body, {loop.var: loop.lo + outer.expr * size + inner.expr})
            made.append(Loop(inner.name))
            out.append(For(outer, 0, whole, Block((For(inner, 0, size, body),)), loop.kind))
        start = loop.lo + _steps(loop, size) * size
        if prove_eq(start, loop.hi) is not True:
            out.append(_rest(loop, start, size, "_r" if out else "", made))
        return tuple(out)

    return replace_loop(loops, name, one), list(dict.fromkeys(made))


def _none(loop: For, size: int) -> bool:
    """Whether no strip is whole, by proof."""
    return prove_lt(loop.hi - loop.lo, size) is True


def _steps(loop: For, size: int) -> Dim:
    """How many strips are whole; a range that is empty backwards has none."""
    return 0 if _none(loop, size) else dmax(floordiv(loop.hi - loop.lo, size), 0)


def _rest(loop: For, start: Dim, size: int, suffix: str, made: list[Loop]) -> Stmt:
    """The iterations from ``start`` on, fewer than ``size``; where it is a loop of some it is put into ``made``."""
    left = loop.hi - start
    few = isinstance(left, int) and left & (left - 1) == 0
    extent = left if isinstance(left, int) and few else size
    var = Var(f"{loop.var.name}_{'t' if extent == 1 else 'r'}", 0, extent - 1)
    body, _, _ = copied(substitute_dims(loop.body, {loop.var: start + var.expr}), suffix)
    if extent > 1:
        made.append(Loop(var.name))
    if few:
        return For(var, 0, extent, body)
    masked = For(var, 0, size, Block((If(op("lt", idx(var.expr), idx(left)), body),)))
    if isinstance(left, int):
        return masked
    return If(op("gt", idx(left), imm(0)), Block((masked,)))


def accumulate(loops: Loops, name: Loop, lanes: int, accumulators: int) -> Loops:
    """Sums, multiplies, or finds the extreme of a run in ``accumulators`` vectors of ``lanes``, joined at the end.

    rewrite: ``for k in a..b { c = c + t(k) }`` -->
    ``v = broadcast(0) for k_o in 0..(b-a)/s { v = v + t[lanes](a + s*k_o) } v = v + select(first(r), t[lanes](p), 0)
    c = c + fold_add(v)`` where s is accumulators * lanes and r elements are left from p on
    obligation: the loop holds one step of +, *, min or max on a temporary that the term does not read, and the term
    reads consecutive elements over k or the same ones. Sums and products of floats are regrouped.
    """
    vectors = fresh(loops, f"{name}_acc")
    stack = frozenset(
        n.buffer.name for n in statements(loops.body) if isinstance(n, Alloc) and n.buffer.space == "register"
    )

    def one(loop: For) -> tuple[Stmt, ...]:
        step = f"accumulate({name}, {lanes})"
        check_whole(loop, step)
        store, operation, term = _step(loop, step)
        if store.buffer not in stack:
            raise ScheduleError(f"{step}: {store.buffer} is no register")
        return _Vectors(loop, store, operation, term, vectors, lanes, accumulators, stack).statements()

    return replace_loop(loops, name, one)


def _step(loop: For, step: str) -> tuple[Store, str, ValueExpr]:
    """Takes ``c = c + t`` apart."""
    (*before, store) = loop.body.body
    if before or not isinstance(store, Store) or not isinstance(store.value, Op) or store.value.name not in _IDENTITY:
        raise ScheduleError(f"{step}: the loop holds no single step of a sum, product, minimum or maximum")
    acc, term = store.value.args
    if acc != Load(store.buffer, store.index, acc.dtype) or acc.dtype.lanes > 1:
        raise ScheduleError(f"{step}: it does not go on from what it found")
    if any(isinstance(n, Load) and n.buffer == store.buffer for n in walk(term)):
        raise ScheduleError(f"{step}: the term reads the result so far")
    return store, store.value.name, term


def identity(operation: str, kind: DType) -> int | float:
    """What leaves the other operand of ``operation`` as it is."""
    value = _IDENTITY[operation]
    if kind.is_float:
        return float(value)
    return kind.limits[0] if operation == "max" else kind.limits[1] if operation == "min" else int(value)


class _Vectors:
    """The statements that take the place of a reduction loop."""

    def __init__(
        self,
        loop: For,
        store: Store,
        operation: str,
        term: ValueExpr,
        name: str,
        lanes: int,
        accumulators: int,
        stack: frozenset[str],
    ) -> None:
        self.loop, self.store, self.operation, self.term = loop, store, operation, term
        self.name, self.lanes, self.accumulators, self.stack = name, lanes, accumulators, stack
        self.kind = store.value.dtype
        self.wide = self.kind.with_lanes(lanes)
        self.start = broadcast(imm(identity(operation, self.kind), self.kind), lanes)

    def statements(self) -> tuple[Stmt, ...]:
        loop, size = self.loop, self.lanes * self.accumulators
        out: list[Stmt] = [Alloc(Buffer(self.name, self.wide, (self.accumulators,), "register"))]
        out += [Store(self.name, (k,), self.start) for k in range(self.accumulators)]
        if not _none(loop, size):
            outer = counter(f"{loop.var.name}_o", floordiv(loop.hi - loop.lo, size))
            base = loop.lo + outer.expr * size
            steps = tuple(self._more(k, base + k * self.lanes) for k in range(self.accumulators))
            out.append(For(outer, 0, floordiv(loop.hi - loop.lo, size), Block(steps)))
        after = replace(loop, lo=loop.lo + _steps(loop, size) * size)
        if self.accumulators > 1 and not _none(after, self.lanes) and prove_eq(after.lo, after.hi) is not True:
            inner = counter(f"{loop.var.name}_v", floordiv(after.hi - after.lo, self.lanes))
            at = after.lo + inner.expr * self.lanes
            out.append(For(inner, 0, floordiv(after.hi - after.lo, self.lanes), Block((self._more(0, at),))))
            after = replace(after, lo=after.lo + _steps(after, self.lanes) * self.lanes)
        out += self._masked(after)
        joined: ValueExpr = Load(self.name, (0,), self.wide)
        for k in range(1, self.accumulators):
            joined = op(self.operation, joined, Load(self.name, (k,), self.wide))
        acc = Load(self.store.buffer, self.store.index, self.kind)
        folded = op(f"fold_{self.operation}", joined, dtype=self.kind)
        return (Block((*out, Store(self.store.buffer, self.store.index, op(self.operation, acc, folded)))),)

    def _term(self, at: Dim, count: Dim | None = None) -> ValueExpr:
        """The term in lanes from ``at`` on; its loads touch ``count`` elements."""
        lane = Var(f"{self.loop.var.name}_lane", 0, self.lanes - 1)
        work = Lanes(lane, self.lanes, self.stack)
        work.count = count
        return work.spread(work.value(substitute_dims(self.term, {self.loop.var: at + lane.expr})))

    def _more(self, k: int, at: Dim) -> Store:
        return Store(self.name, (k,), op(self.operation, Load(self.name, (k,), self.wide), self._term(at)))

    def _masked(self, after: For) -> list[Stmt]:
        left = after.hi - after.lo
        if prove_eq(left, 0) is True:
            return []
        inside = op("first", idx(left), dtype=BOOL.with_lanes(self.lanes))
        term = op("select", inside, self._term(after.lo, left), self.start, dtype=self.wide)
        step = Store(self.name, (0,), op(self.operation, Load(self.name, (0,), self.wide), term))
        return [step] if isinstance(left, int) else [If(op("gt", idx(left), imm(0)), Block((step,)))]
