"""Functions shared by run-time numbers: an instance of one, and whether two functions are the same but for names.

A shared function lists the values of its dims that it may be called with. Nothing is proved of it for other values:
whatever holds of a function is asked of its instances, each a function without dims.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from sdk.compiler.analysis.tight import narrow, tight
from sdk.compiler.ir.loops import (
    Alloc,
    Atomic,
    Block,
    Buffer,
    Eval,
    For,
    Idx,
    If,
    Imm,
    Let,
    Load,
    Loops,
    Op,
    Ref,
    Rows,
    Stmt,
    Store,
)
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Plan, PlanCall, PlanStmt, Repeat
from sdk.compiler.ir.walk import buffers_used, rewrite, substitute_dims, walk
from sdk.compiler.sym import Dim, Var, prove_eq, substitute

__all__ = ["instance", "same", "specialised"]

REMEMBERED: Final = 1 << 10


@lru_cache(maxsize=REMEMBERED)
def instance(loops: Loops, values: tuple[int, ...]) -> Loops:
    """The function that a call with these values of its dims runs: without dims, loops with the range they have."""
    env: dict[Var, Dim] = dict(zip(loops.dims, values, strict=True))
    made = substitute_dims(replace(loops, dims=(), instances=(), body=Block(())), env)
    rows = made.rows
    if rows is not None:
        lo, hi = (narrow(v, 0, rows.extent + 1) for v in (rows.lo, rows.hi))
        env |= {rows.lo: lo.expr, rows.hi: hi.expr}
        made = replace(made, rows=Rows(lo, hi, rows.extent))
    name = f"{loops.name}[{', '.join(map(str, values))}]"
    return replace(made, name=name, body=tight(substitute_dims(loops.body, env)))


def specialised(module: Module, plan: Plan) -> tuple[Module, Plan]:
    """A plan in which every call of a shared function is one of its instance, and the module with these; the same
    objects where it calls none."""
    shared = {name: f for name, f in module.loops.items() if f.instances}
    if not shared:
        return module, plan
    loops = dict(module.loops)

    def one(stmt: PlanStmt) -> PlanStmt:
        if isinstance(stmt, Repeat):
            return replace(stmt, body=tuple(map(one, stmt.body)))
        values = stmt.dims if isinstance(stmt, PlanCall) and stmt.callee in shared else ()
        numbers = tuple(v for v in values if isinstance(v, int))
        if not isinstance(stmt, PlanCall) or not numbers or numbers not in shared[stmt.callee].instances:
            return stmt
        made = instance(shared[stmt.callee], numbers)
        loops[made.name] = made
        return replace(stmt, callee=made.name, dims=())

    body = tuple(map(one, plan.body))
    return replace(module, loops=loops), replace(plan, body=body)


# --- equality -------------------------------------------------------------------------------------------------


def same(a: Loops, b: Loops) -> bool:
    """Whether two functions without dims do the same, statement by statement: but for names, for how loops run
    (kinds), for loops that run once or never, and for what was written differently in an index."""
    if a.dims or b.dims or len(a.params) != len(b.params) or (a.rows is None) != (b.rows is None):
        return False
    pairs = _Pairs()
    for p, q in zip(a.params, b.params, strict=True):
        if p.mode != q.mode or not pairs.declare(p.buffer, q.buffer):
            return False
    if a.rows is not None and b.rows is not None:
        if not pairs.dims(a.rows.extent, b.rows.extent):
            return False
        pairs.vars |= {b.rows.lo: a.rows.lo.expr, b.rows.hi: a.rows.hi.expr}
    return pairs.block(_plain(a).body, _plain(b).body)


@lru_cache(maxsize=REMEMBERED)
def _plain(loops: Loops) -> Block:
    """The body without what changes nothing: loops that run once, blocks, temporaries that nothing uses."""
    names = Counter(n.buffer.name if isinstance(n, Alloc) else n.name for n in walk(loops.body) if _declares(n))
    body: Block = rewrite(tight(loops.body), _numbers)
    loads, stores = buffers_used(body)
    used = loads | stores

    def one(node: Any) -> Any:
        return Block(tuple(s for stmt in node.body for s in flat(stmt))) if isinstance(node, Block) else node

    def flat(stmt: Stmt) -> Sequence[Stmt]:
        if isinstance(stmt, Alloc) and stmt.buffer.name not in used:
            return ()
        if isinstance(stmt, For) and stmt.until is None and stmt.hi - stmt.lo == 1:
            stmt = one(substitute_dims(stmt.body, {stmt.var: stmt.lo}))
        if not isinstance(stmt, Block):
            return (stmt,)
        own = [s.buffer.name if isinstance(s, Alloc) else s.name for s in stmt.body if isinstance(s, Alloc | Let)]
        return stmt.body if all(names[n] == 1 for n in own) else (stmt,)

    before: Block | None = None
    while before is not body:
        before, body = body, rewrite(body, one)
        body = before if body == before else body
    return tight(body)


def _declares(node: object) -> bool:
    return isinstance(node, Alloc | Let)


def _numbers(node: Any) -> Any:
    """A dim that is a number, converted or not, is a literal."""
    match node:
        case Idx(int(value), dtype):
            return Imm(value, dtype)
        case Op("cast", (Imm(int(value)),), dtype) if dtype.kind in "iu" and dtype.lanes == 1:
            lo, hi = dtype.limits
            return Imm(value, dtype) if lo <= value <= hi else node
        case _:
            return node


class _Pairs:
    """Names of the second function by those of the first, as declared so far."""

    def __init__(self) -> None:
        self.vars: dict[Var, Dim] = {}
        self.names: dict[tuple[str, str], str] = {}

    def dims(self, a: Dim | None, b: Dim | None) -> bool:
        if a is None or b is None:
            return a is b
        other = substitute(b, self.vars)
        return a is other or a == other or prove_eq(a, other) is True

    def index(self, a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
        return len(a) == len(b) and all(map(self.dims, a, b))

    def declare(self, a: Buffer, b: Buffer) -> bool:
        self.names["buffer", b.name] = a.name
        return (a.dtype, a.space, a.ring) == (b.dtype, b.space, b.ring) and self.index(a.shape, b.shape)

    def buffer(self, a: str, b: str) -> bool:
        return self.names.get(("buffer", b)) == a

    def block(self, a: Sequence[Stmt], b: Sequence[Stmt]) -> bool:
        if len(a) != len(b):
            return False
        names, found = dict(self.names), dict(self.vars)
        done = all(map(self.stmt, a, b))
        self.names, self.vars = names, found
        return done

    def stmt(self, a: Stmt, b: Stmt) -> bool:
        match a, b:
            case Block(), Block():
                return self.block(a.body, b.body)
            case For(), For():
                return self._loop(a, b)
            case If(), If():
                both = a.orelse.body if a.orelse else (), b.orelse.body if b.orelse else ()
                return self.value(a.cond, b.cond) and self.block(a.then.body, b.then.body) and self.block(*both)
            case Let(), Let():
                if not self.value(a.value, b.value):
                    return False
                self.names["let", b.name] = a.name
                kind = a.value.dtype
                if kind.kind in "iu" and kind.lanes == 1:
                    self.vars[Var(b.name, *kind.limits)] = Var(a.name, *kind.limits).expr
                return True
            case Alloc(), Alloc():
                return self.declare(a.buffer, b.buffer)
            case Store(), Store():
                there = self.buffer(a.buffer, b.buffer) and self.index(a.index, b.index)
                return there and self.dims(a.count, b.count) and self.value(a.value, b.value)
            case Atomic(), Atomic():
                there = self.buffer(a.buffer, b.buffer) and self.index(a.index, b.index)
                return there and a.op == b.op and self.value(a.value, b.value)
            case Eval(), Eval():
                return a.symbol == b.symbol and len(a.args) == len(b.args) and all(map(self.value, a.args, b.args))
            case _:
                return a == b

    def _loop(self, a: For, b: For) -> bool:
        if not (self.dims(a.lo, b.lo) and self.dims(a.hi, b.hi)) or (a.until is None) != (b.until is None):
            return False
        found = dict(self.vars)
        self.vars[b.var] = a.var.expr
        done = self.block(a.body.body, b.body.body)
        done = done and (a.until is None or b.until is None or self.value(a.until, b.until))
        self.vars = found
        return done

    def value(self, a: object, b: object) -> bool:
        match a, b:
            case Imm(), Imm():
                return a == b
            case Idx(), Idx():
                return a.dtype == b.dtype and self.dims(a.dim, b.dim)
            case Ref(), Ref():
                return a.dtype == b.dtype and self.names.get(("let", b.name)) == a.name
            case Load(), Load():
                there = self.buffer(a.buffer, b.buffer) and self.index(a.index, b.index)
                return there and a.dtype == b.dtype and self.dims(a.count, b.count)
            case Op(), Op():
                alike = (a.name, a.dtype, len(a.args)) == (b.name, b.dtype, len(b.args))
                return alike and all(map(self.value, a.args, b.args))
            case _:
                return False
