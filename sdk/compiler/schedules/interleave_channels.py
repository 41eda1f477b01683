"""Primitives for words of two halves: two rows of weights as one row of 16-bit elements, windows unpacked once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sdk.compiler.ir.intrinsics import cast, imm, op
from sdk.compiler.ir.layout import Fuse, Interleave, Join, Layout, Pad, Permute, Tile
from sdk.compiler.ir.loops import Alloc, Block, Buffer, For, Imm, Load, Loops, Op, Param, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import I8, I16, I32
from sdk.compiler.ir.walk import rename_buffers, rewrite, statements, substitute_dims, walk
from sdk.compiler.schedules.locate import Loop, ScheduleError, fresh
from sdk.compiler.schedules.pack import stored_as
from sdk.compiler.sym import Dim, Var, floordiv, mod, prove_eq, substitute

__all__ = ["interleave_channels", "unpack"]

_HALVES = I16.with_lanes(2)
_WORD = I8.with_lanes(4)
_SHIFT = imm(8)
_JOINED = (Join(0, 2, I16), Interleave(2, 2))  # rows in pairs; of each four columns 0, 2, 1, 3


def interleave_channels(loops: Loops, param: str, name: Loop) -> tuple[Loops, list[Loop]]:
    """Computes two sums with weights joined in one: row ``2*r`` of a packed parameter in the low, row ``2*r + 1`` in
    the high byte of 16-bit elements, of each four in the order 0, 2, 1, 3.

    rewrite: ``for c in 0..2 { s[c] = dot(s[c], a[0:4], w[2*r + c, 0:4]) }`` -->
    ``both = dot(dot(both, evens(a[0:4]), w[r, 0:2]), odds(a[0:4]), w[r, 2:4])
    low = dot(dot(low, evens(a[0:4]), evens(bits(w[r, 0:2]))), odds(a[0:4]), evens(bits(w[r, 2:4])))``
    with ``low = s[0]`` and ``both = s[0] + 256*s[1]`` before all steps, ``s[0] = low`` and
    ``s[1] = (both - low) >> 8`` after them; where all that follows shifts them left by 8, so are these. Of rows odd in
    number the last is joined with zeros: its elements are those of the row itself, in 16 bits.
    obligation: the parameter is packed by 1 row and 4 columns and used here alone, or, of a last row without a second,
    in dot products of a loop over that row; the first factor does not change with the loop, whose extent is even;
    nothing else touches the sums between.
    At build time: 256*w[2*r + 1] + w[2*r] fits 16 bits, and every odd sum 24.

    The loops over pairs of sums: before the steps, of a step, after them.
    """
    step = f"interleave_channels({param}, {name})"
    steps, buffer = loops.param(param).layout.steps, loops.param(param).buffer
    rows = buffer.shape[0]
    tiles = [s for s in steps if not isinstance(s, Permute | Fuse)]
    if tiles != [Tile(1, 4)] or buffer.dtype != I8:
        raise ScheduleError(f"{step}: the parameter is not packed by 1 row and 4 columns of bytes")
    if not isinstance(rows, int):
        raise ScheduleError(f"{step}: {rows} rows do not make pairs")
    joined = _Joined(param, name, step, fresh(loops, "both"), fresh(loops, "low"))
    body = rewrite(loops.body if rows % 2 == 0 else _last_alone(loops.body, param, rows - 1), joined.block)
    if joined.found == 0 or any(isinstance(n, Load) and n.buffer == param and n.dtype != _HALVES for n in walk(body)):
        raise ScheduleError(f"{step}: the parameter is not used in dot products of four in that loop alone")
    done = stored_as(replace(loops, body=body), param, *((Pad(0, 2),) if rows % 2 else ()), *_JOINED)
    return done, [joined.over(part) for part in "psq"]


def _last_alone(body: Block, param: str, row: int) -> Block:
    """Products with the last row of a parameter, in a loop over that row alone, by elements of 16 bits."""

    def product(node: Any) -> Any:
        match node:
            case Op("dot", (total, Load() as a, Load() as w)) if (
                w.buffer == param and a.dtype.lanes == w.dtype.lanes == 4 and w.index[0] == row and w.index[-1] == 0
            ):
                for name, k in (("evens", 0), ("odds", 2)):
                    weights = Load(param, (row // 2, *w.index[1:-1], k), _HALVES)
                    total = Op("dot", (total, Op(name, (a,), _HALVES), weights), I32)
                return total
            case _:
                return node

    def one(node: Any) -> Any:
        if not isinstance(node, For) or (node.lo, node.hi) != (row, row + 1):
            return node
        return replace(node, body=rewrite(substitute_dims(node.body, {node.var: row}), product))

    return rewrite(body, one)


class _Joined:
    """Rewrites the blocks that hold the sums."""

    def __init__(self, param: str, name: str, step: str, both: str, low: str) -> None:
        self.param, self.name, self.step, self.both, self.low = param, name, step, both, low
        self.found = 0

    def block(self, node: Any) -> Any:
        """A block that allocates sums of the parameter, with what is computed in their place."""
        if not isinstance(node, Block):
            return node
        mine = {s.buffer.name: s.buffer for s in node.body if isinstance(s, Alloc)}
        using = [k for k, s in enumerate(node.body) if self._sums(s) & set(mine)]
        if not using:
            return node
        at, names = using[0], self._sums(node.body[using[0]])
        if len(using) > 1 or len(names) != 1:
            raise ScheduleError(f"{self.step}: there is more than one loop that adds products of {self.param}")
        total = mine[names.pop()]
        extent = total.shape[0] if len(total.shape) == 1 else None
        if not isinstance(extent, int) or extent % 2 or total.dtype != I32 or total.space != "register":
            raise ScheduleError(f"{self.step}: the sums are no even number of 32-bit registers")
        body = rewrite(node.body[at], lambda n: self._steps(n, total.name))
        if any(isinstance(n, Load | Store) and n.buffer == total.name for n in walk(body)):
            raise ScheduleError(f"{self.step}: {total.name} is used between the steps")
        self.found += 1
        pairs = extent // 2
        registers = (Alloc(Buffer(n, I32, (pairs,), "register")) for n in (self.both, self.low))
        start = self._loop("p", pairs, lambda p: self._start(total.name, p))
        rest = node.body[at + 1 :]
        shifted = _shifted(rest, total.name)
        end = self._loop("q", pairs, lambda p: self._end(total.name, p, shifted is not None))
        return Block((*node.body[:at], *registers, start, body, end, *(rest if shifted is None else shifted)))

    def _sums(self, stmt: Stmt) -> set[str]:
        """The registers that products of the parameter are added to, but for those of a row without a second."""
        return {
            n.buffer
            for n in walk(stmt)
            if isinstance(n, Store)
            and any(isinstance(m, Load) and m.buffer == self.param and m.dtype != _HALVES for m in walk(n.value))
        }

    def over(self, part: str) -> Loop:
        """The loop over pairs of sums of a part."""
        return Loop(f"{self.name}_{part}")

    def _loop(self, part: str, pairs: int, body: Any) -> For:
        var = Var(self.over(part), 0, pairs - 1)
        return For(var, 0, pairs, Block(body(var.expr if pairs > 1 else 0)))

    def _start(self, total: str, p: Dim) -> tuple[Stmt, ...]:
        first, second = Load(total, (2 * p,), I32), Load(total, (2 * p + 1,), I32)
        return (
            Store(self.low, (p,), first),
            Store(self.both, (p,), op("add", first, op("shl", second, _SHIFT))),
        )

    def _end(self, total: str, p: Dim, shifted: bool) -> tuple[Stmt, ...]:
        low, both = Load(self.low, (p,), I32), Load(self.both, (p,), I32)
        if shifted:
            return (
                Store(total, (2 * p,), op("shl", low, _SHIFT)),
                Store(total, (2 * p + 1,), op("sub", both, low)),
            )
        return (
            Store(total, (2 * p,), low),
            Store(total, (2 * p + 1,), op("shr", op("sub", both, low), _SHIFT)),
        )

    def _steps(self, node: Any, total: str) -> Any:
        """The loop over the sums, as a loop over pairs of them."""
        if not isinstance(node, For) or node.var.name != self.name:
            return node
        stmt = node.body.body[0]
        match stmt:
            case Store(_, (at,), Op("dot", (Load(_, (same,)), Load() as a, Load() as w))) if (
                len(node.body.body) == 1
                and stmt.buffer == total
                and at is node.var.expr
                and same is at
                and a.dtype.lanes == w.dtype.lanes == 4
                and a == substitute_dims(a, {node.var: 0})
            ):
                pass
            case _:
                raise ScheduleError(f"{self.step}: the loop holds more than a dot product of four")
        if w.buffer != self.param or node.lo != 0 or not isinstance(node.hi, int) or node.hi % 2 or w.index[-1] != 0:
            raise ScheduleError(f"{self.step}: the loop does not run over an even number of rows of {self.param}")
        pairs = node.hi // 2
        return self._loop("s", pairs, lambda p: self._step(node.var, a, w, p))

    def _step(self, var: Var, a: Load, w: Load, p: Dim) -> tuple[Stmt, ...]:
        row = substitute(w.index[0], {var: 2 * p})
        half = floordiv(row, 2)
        if prove_eq(2 * half, row) is not True:
            raise ScheduleError(f"{self.step}: the first row of a pair is not proved even")
        weights = [Load(self.param, (half, *w.index[1:-1], k), _HALVES) for k in (0, 2)]
        factors = [Op(n, (a,), _HALVES) for n in ("evens", "odds")]
        low: ValueExpr = Load(self.low, (p,), I32)
        both: ValueExpr = Load(self.both, (p,), I32)
        for factor, weight in zip(factors, weights, strict=True):
            both = Op("dot", (both, factor, weight), I32)
            low = Op("dot", (low, factor, Op("evens", (Op("bits", (weight,), _WORD),), _HALVES)), I32)
        return (Store(self.both, (p,), both), Store(self.low, (p,), low))


def _shifted(rest: tuple[Stmt, ...], total: str) -> tuple[Stmt, ...] | None:
    """Statements that use sums only shifted left by 8, as users of what is so already; None where others do."""

    def one(node: Any) -> Any:
        match node:
            case Op("shl", (Load() as load, shift)) if load.buffer == total and shift == _SHIFT:
                return replace(load, buffer=f"{total} shifted")
            case _:
                return node

    marked = tuple(rewrite(s, one) for s in rest)
    if any(isinstance(n, Load | Store) and n.buffer == total for s in marked for n in walk(s)):
        return None
    return tuple(rename_buffers(Block((s,)), {f"{total} shifted": total}).body[0] for s in marked)


def unpack(loops: Loops, window: str) -> Loops:
    """Unpacks the words of a scratch buffer where they are written, once, in place of where they are read.

    rewrite: ``t[4*i : 4*i+4] = x; … evens(t[4*i : 4*i+4]) … odds(t[4*i : 4*i+4])`` -->
    ``t[4*i : 4*i+2] = evens(x); t[4*i+2 : 4*i+4] = odds(x); … t[4*i : 4*i+2] … t[4*i+2 : 4*i+4]`` with 16-bit
    elements; where single elements are written they keep their order, and joined parameters get it too.
    obligation: the buffer has one axis, a multiple of 4 long; it is written in words, or in elements, at multiples of
    their size, and read as above alone; in elements, only multiplied with joined parameters and by ``dot``.
    """
    step = f"unpack({window})"
    found = [n.buffer for n in statements(loops.body) if isinstance(n, Alloc) and n.buffer.name == window]
    if len(found) != 1 or found[0].space != "scratch" or found[0].dtype.bits != 8 or len(found[0].shape) != 1:
        raise ScheduleError(f"{step}: it is no scratch buffer of bytes with one axis")
    length = found[0].shape[0]
    if not isinstance(length, int) or length % 4:
        raise ScheduleError(f"{step}: {length} elements are no whole words")
    stores = [n for n in statements(loops.body) if isinstance(n, Store) and n.buffer == window]
    lanes = {n.value.dtype.lanes for n in stores}
    if lanes not in ({1}, {4}) or any(n.count is not None for n in stores):
        raise ScheduleError(f"{step}: it is not written in words, nor in single elements")

    def one(node: Any) -> Any:
        match node:
            case Alloc() if node.buffer.name == window:
                return Alloc(replace(node.buffer, dtype=I16))
            case Store() if node.buffer == window and lanes == {1}:
                return Store(window, node.index, cast(node.value, I16))
            case Store() if node.buffer == window:
                at = _aligned(node.index[0], step)
                return Block(tuple(Store(window, (at + 2 * k,), v) for k, v in enumerate(_unpacked(node.value))))
            case Op("evens" | "odds", (Load(buffer=b, index=(dim,)),)) if b == window:
                return Load(window, (_aligned(dim, step) + (2 if node.name == "odds" else 0),), _HALVES)
            case _:
                return node

    body = rewrite(loops.body, one)
    if any(isinstance(n, Load) and n.buffer == window and n.dtype != _HALVES for n in walk(body)):
        raise ScheduleError(f"{step}: it is also read otherwise than by evens and odds")
    params = loops.params if lanes == {4} else _in_order(loops, window, step)
    return replace(loops, body=body, params=params)


def _aligned(at: Dim, step: str) -> Dim:
    if prove_eq(mod(at, 4), 0) is not True:
        raise ScheduleError(f"{step}: {at} is not proved a multiple of 4")
    return at


def _unpacked(value: ValueExpr) -> tuple[ValueExpr, ValueExpr]:
    """The elements 0 and 2, and 1 and 3, of four."""
    match value:
        case Op("broadcast", (Imm(number),)):
            both = Op("broadcast", (imm(number, I16),), _HALVES)
            return both, both
    return Op("evens", (value,), _HALVES), Op("odds", (value,), _HALVES)


def _in_order(loops: Loops, window: str, step: str) -> tuple[Param, ...]:
    """The parameters, with those whose elements meet the window's in their own order."""
    met: set[str] = set()
    for node in walk(loops.body):
        if isinstance(node, Op) and any(isinstance(n, Load) and n.buffer == window for n in node.args):
            continue  # evens or odds of the window; what uses that is looked at
        if isinstance(node, Op) and any(_reads(a, window) for a in node.args) and node.name != "dot":
            raise ScheduleError(f"{step}: it is not only multiplied by dot")
        if isinstance(node, Op) and node.name == "dot" and _reads(node.args[1], window):
            met |= {n.buffer for n in walk(node.args[2]) if isinstance(n, Load)}
    if not met <= {name for name, layout in loops.layouts.items() if layout.steps[-2:] == _JOINED}:
        raise ScheduleError(f"{step}: it is multiplied with other things than joined parameters")
    others = {
        n.buffer
        for m in walk(loops.body)
        if isinstance(m, Op) and m.name == "dot" and not _reads(m.args[1], window)
        for n in walk(m.args[2])
        if isinstance(n, Load)
    }
    if met & others:
        raise ScheduleError(f"{step}: {', '.join(sorted(met & others))} is multiplied with other things too")
    return tuple(replace(p, layout=Layout(p.layout.steps[:-1])) if p.buffer.name in met else p for p in loops.params)


def _reads(value: object, window: str) -> bool:
    return any(isinstance(n, Load) and n.buffer == window for n in walk(value))
