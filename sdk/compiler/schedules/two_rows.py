"""A primitive for instructions that multiply two rows of one factor by two columns of the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from sdk.compiler.ir.intrinsics import op
from sdk.compiler.ir.loops import Alloc, Block, Buffer, For, If, Imm, Load, Loops, Op, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import I32, I64, DType
from sdk.compiler.ir.walk import substitute_dims
from sdk.compiler.schedules.locate import Loop, ScheduleError, find, fresh
from sdk.compiler.schedules.tensorize import no_var
from sdk.compiler.sym import Var

__all__ = ["use_dot_2x2"]

_SUMS: Final = I32.with_lanes(4)
_Made = Callable[[Store, Store], tuple[Stmt, ...]]


def use_dot_2x2(loops: Loops, name: Loop) -> Loops:
    """Computes sums of two iterations of a loop together, by products of two rows and two columns.

    rewrite: ``for k { for i in 0..2 { c[i] = dot_lane(c[i], a[i, 16*k : 16*k + 16], b[k, 0:32], 0) } … }`` -->
    ``c[0], c[1] = crossed(c[0], c[1])``,
    ``for k { c[0] = dot_2x2(c[0], p, b[k, 0:16]); c[1] = dot_2x2(c[1], p, b[k, 16:32]) }``,
    ``c[0], c[1] = crossed(c[0], c[1])``, where ``p = zip_lo(a[0, …], a[1, …])``, of halves as ``crossed`` is
    obligation: the loop runs from 0 to an even number; in a reduction around it all it holds are such dots, of four
    sums by two words of eight: b does not vary over i, and the sums are of the loop's own iteration.
    """
    loop = find(loops, name)
    if loop.lo != 0 or not isinstance(loop.hi, int) or loop.hi % 2:
        raise ScheduleError(f"use_dot_2x2({name}): the loop must run from 0 to an even number")
    rows = _Rows(name, fresh(loops, "crossed"))
    body = rows.block(loops.body)
    if body == loops.body:
        raise ScheduleError(f"use_dot_2x2({name}): no reduction holds dots of words of two rows only")
    return replace(loops, body=body)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The loop over rows, and the name of the registers that halves are crossed in."""

    name: Loop
    registers: str

    def block(self, block: Block) -> Block:
        return Block(tuple(s for stmt in block.body for s in self.stmt(stmt)))

    def stmt(self, stmt: Stmt) -> tuple[Stmt, ...]:
        match stmt:
            case For() if all(self.is_rows(s) for s in stmt.body.body):
                first = stmt.body.body[0]
                assert isinstance(first, For)
                crossed = self.paired(first, self.crossed)
                inner = tuple(self.paired(s, self.product) for s in stmt.body.body if isinstance(s, For))
                return crossed, replace(stmt, body=Block(inner)), crossed
            case For():
                return (replace(stmt, body=self.block(stmt.body)),)
            case If():
                orelse = None if stmt.orelse is None else self.block(stmt.orelse)
                return (replace(stmt, then=self.block(stmt.then), orelse=orelse),)
            case Block():
                return (self.block(stmt),)
            case _:
                return (stmt,)

    def is_rows(self, stmt: Stmt) -> bool:
        """Whether a statement is the loop over rows around one dot of words of eight."""
        if not isinstance(stmt, For) or stmt.var.name != self.name:
            return False
        store = _innermost(stmt)
        if not isinstance(store, Store):
            return False
        match store.value:
            case Op("dot_lane", (Load() as acc, Load() as a, Load() as b, Imm()), dtype):
                shaped = (dtype, a.dtype.lanes, b.dtype.lanes) == (_SUMS, 16, 32) and a.dtype.bits == 8
                own = (acc.buffer, acc.index) == (store.buffer, store.index) and acc.buffer not in (a.buffer, b.buffer)
                return shaped and own and store.index[:1] == (stmt.var.expr,) and no_var(b, stmt.var)
            case _:
                return False

    def paired(self, loop: For, made: _Made) -> Stmt:
        """The loop over pairs of rows, around what is made of the dots of both."""
        assert isinstance(loop.hi, int)
        pair = Var(f"{loop.var.name}_p", 0, loop.hi // 2 - 1)
        inner = self._around(loop, pair, made, loop.body)
        return For(pair, 0, loop.hi // 2, inner, "unroll")

    def _around(self, rows: For, pair: Var, made: _Made, block: Block) -> Block:
        (stmt,) = block.body
        if isinstance(stmt, For):
            return Block((replace(stmt, body=self._around(rows, pair, made, stmt.body), kind="unroll"),))
        assert isinstance(stmt, Store)
        one, two = (substitute_dims(stmt, {rows.var: pair.expr * 2 + k}) for k in range(2))
        return Block(made(one, two))

    def crossed(self, one: Store, two: Store) -> tuple[Stmt, ...]:
        """The sums of two rows, of which halves change places."""
        sums = [Load(s.buffer, s.index, _SUMS) for s in (one, two)]
        own = Buffer(self.registers, _SUMS, (2,), "register")
        made = [Store(own.name, (k,), _halves(half, *sums)) for k, half in enumerate(("zip_lo", "zip_hi"))]
        back = [replace(s, value=Load(own.name, (k,), _SUMS)) for k, s in enumerate((one, two))]
        return Alloc(own), *made, *back

    def product(self, one: Store, two: Store) -> tuple[Stmt, ...]:
        """The products of two rows by two columns, and by the next two."""
        assert isinstance(one.value, Op)
        assert isinstance(two.value, Op)
        _, a, b, word = one.value.args
        assert isinstance(b, Load)
        assert isinstance(word, Imm)
        rows = _halves("zip_hi" if word.value else "zip_lo", a, two.value.args[1])
        *outer, at, _ = b.index
        out = []
        for k, store in enumerate((one, two)):
            columns = replace(b, index=(*outer, at + 2 * k, 0), dtype=b.dtype.with_lanes(16))
            acc = Load(store.buffer, store.index, _SUMS)
            out.append(replace(store, value=Op("dot_2x2", (acc, rows, columns), _SUMS)))
        return tuple(out)


def _innermost(loop: For) -> Stmt | None:
    """The one statement of a chain of loops."""
    stmts: tuple[Stmt, ...] = loop.body.body
    while len(stmts) == 1 and isinstance(stmts[0], For):
        stmts = stmts[0].body.body
    return stmts[0] if len(stmts) == 1 else None


def _halves(name: str, a: ValueExpr, b: ValueExpr) -> ValueExpr:
    """``zip_lo`` or ``zip_hi`` of halves of vectors."""
    wide: DType = I64.with_lanes(2)
    zipped = op(name, Op("bits", (a,), wide), Op("bits", (b,), wide))
    return Op("bits", (zipped,), a.dtype)
