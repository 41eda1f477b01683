"""Primitives for copies: a square tile transposed in registers, scalars of a block put where they are used."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any, Final

from sdk.compiler.analysis.dependence import conflict
from sdk.compiler.ir.intrinsics import op
from sdk.compiler.ir.loops import Alloc, Block, Buffer, For, If, Let, Load, Loops, Ref, Stmt, Store, ValueExpr
from sdk.compiler.ir.walk import dims_used, rewrite, walk
from sdk.compiler.schedules.locate import Loop, ScheduleError, fresh, replace_loop
from sdk.compiler.sym import Dim, Var, free_vars, linear, substitute

__all__ = ["inline", "transpose_tile"]


def transpose_tile(loops: Loops, outer: Loop, inner: Loop) -> Loops:
    """Copies a square tile by whole vectors, transposed in registers.

    rewrite: ``for i in 0..4 { for j in 0..4 { o[i, j] = x[j, i] } }`` --> ``for j { t[j] = x[j, 0:4] }``, twice
    ``t[2*k], t[2*k + 1] = zip_lo(t[k], t[k + 2]), zip_hi(t[k], t[k + 2])``, ``for i { o[i, 0:4] = t[i] }``
    obligation: both loops run from 0 to the same power of two and hold one copy of an element; the source is
    consecutive over one of them, the destination over the other; iterations are independent.
    """
    name = fresh(loops, f"{outer}_tile")

    def one(loop: For) -> tuple[Stmt, ...]:
        child, store, load = _copy(loop, inner)
        why = conflict(loop, loops) or conflict(child, loops)
        size = loop.hi
        if why or loop.lo != 0 or child.lo != 0 or not isinstance(size, int) or child.hi != size or size & (size - 1):
            raise ScheduleError(f"transpose_tile({outer}): {why or 'the loops are no square of a power of two'}")
        pair = {loop.var, child.var}
        along_x, along_o = _along(load.index, pair), _along(store.index, pair)
        if along_x is None or along_o is None or along_x is along_o or size < 2 or load.dtype.kind == "b":
            raise ScheduleError(f"transpose_tile({outer}): the copy does not turn rows into columns")
        return _Tile(name, store, load, along_x, along_o, size).statements()

    return replace_loop(loops, outer, one)


def _copy(loop: For, inner: str) -> tuple[For, Store, Load]:
    child = loop.body.body[0]
    if len(loop.body.body) != 1 or not isinstance(child, For) or child.var.name != inner:
        raise ScheduleError(f"transpose_tile({loop.var.name}): {inner} is not alone inside")
    store = child.body.body[0]
    if len(child.body.body) != 1 or not isinstance(store, Store) or not isinstance(store.value, Load):
        raise ScheduleError(f"transpose_tile({loop.var.name}): it holds more than one copy of an element")
    return child, store, store.value


def _along(index: tuple[Dim, ...], pair: set[Var]) -> Var | None:
    """The loop of the two that steps through consecutive elements; it stands in the last index alone."""
    *before, last = index
    found = [v for v in pair if v in free_vars(last)]
    if len(found) != 1 or any(found[0] in free_vars(d) for d in before):
        return None
    step = linear(last, found[0])
    return found[0] if step is not None and step[0] == 1 else None


class _Tile:
    """The statements of one tile of ``size`` vectors."""

    def __init__(self, name: str, store: Store, load: Load, along_x: Var, along_o: Var, size: int) -> None:
        self.name, self.store, self.load = name, store, load
        self.along_x, self.along_o, self.size = along_x, along_o, size
        self.wide = load.dtype.with_lanes(size)

    def statements(self) -> tuple[Stmt, ...]:
        out: list[Stmt] = [self._registers(0)]
        for k in range(self.size):
            index = tuple(substitute(d, {self.along_x: 0, self.along_o: k}) for d in self.load.index)
            out.append(Store(self._at(0), (k,), Load(self.load.buffer, index, self.wide)))
        stages = self.size.bit_length() - 1
        for stage in range(stages):
            out += self._stage(stage)
        for k in range(self.size):
            index = tuple(substitute(d, {self.along_x: k, self.along_o: 0}) for d in self.store.index)
            out.append(Store(self.store.buffer, index, Load(self._at(stages), (k,), self.wide)))
        return (Block(tuple(out)),)

    def _at(self, stage: int) -> str:
        return f"{self.name}{stage}"

    def _registers(self, stage: int) -> Stmt:
        return Alloc(Buffer(self._at(stage), self.wide, (self.size,), "register"))

    def _stage(self, stage: int) -> list[Stmt]:
        half = self.size // 2
        out = [self._registers(stage + 1)]
        for k in range(half):
            pair = [Load(self._at(stage), (k + j * half,), self.wide) for j in range(2)]
            for j, half_of in enumerate(("zip_lo", "zip_hi")):
                out.append(Store(self._at(stage + 1), (2 * k + j,), op(half_of, *pair)))
        return out


LONG: Final = 256  # operations of a scalar that is not repeated at each use: scalars of scalars grow without end


def inline(loops: Loops) -> Loops:
    """Puts scalars that read no memory, and are short, where they are used.

    rewrite: ``let $c = f32(idx(i)) o[i] = x[i] / $c`` --> ``o[i] = x[i] / f32(idx(i))``
    obligation: the value reads no buffer, and no index names the scalar.
    """
    named = {v.name for d in dims_used(loops.body) for v in free_vars(d)}
    return replace(loops, body=_inlined(loops.body, {}, named))


def _inlined(block: Block, known: dict[str, ValueExpr], named: set[str]) -> Block:
    known = dict(known)
    out: list[Stmt] = []

    def value(node: Any) -> Any:
        return known.get(node.name, node) if isinstance(node, Ref) else node

    for stmt in block.body:
        match stmt:
            case Block():
                out.append(_inlined(stmt, known, named))
            case For():
                until = None if stmt.until is None else rewrite(stmt.until, value)
                out.append(replace(stmt, until=until, body=_inlined(stmt.body, known, named)))
            case If():
                orelse = None if stmt.orelse is None else _inlined(stmt.orelse, known, named)
                out.append(If(rewrite(stmt.cond, value), _inlined(stmt.then, known, named), orelse))
            case Let():
                found = rewrite(stmt.value, value)
                parts = list(islice(walk(found), LONG + 1))
                if stmt.name in named or len(parts) > LONG or any(isinstance(n, Load) for n in parts):
                    out.append(Let(stmt.name, found))
                else:
                    known[stmt.name] = found
            case _:
                out.append(rewrite(stmt, value))
    return Block(tuple(out))
