"""What the items of a kernel compute again and again, computed once: addresses, conditions, values that are read.

before: ``for k { t = t + select(i - 1 >= 0, x[i - 1, k], 0) * w[k]; u = u + y[i, k] * w[k] }``
after:  ``let c = i - 1 >= 0; let p = select(c, (i - 1)*K, 0); let q = i*K``
        ``for k { let a = x[p + k]; let b = w[k]; let d = y[q + k]; t = t + select(c, a, 0) * b; u = u + d * b }``

Parameters become arrays of one axis. Drivers do little of this themselves: some move nothing out of loops that other
items may leave earlier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sdk.compiler.ir.intrinsics import op
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
    Stmt,
    Store,
    ValueExpr,
)
from sdk.compiler.ir.types import I32, DType
from sdk.compiler.ir.walk import dims_used, statements, walk
from sdk.compiler.schedules.gpu.known import Values
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.sym import Dim, Expr, Var, flat_index, floordiv, free_vars, grain, product, prove_ge, prove_lt
from sdk.compiler.sym.dim import from_terms

__all__ = ["QUAD", "flat", "lifted"]

QUAD: Final = 4  # 32-bit elements of the widest vector that all drivers read at once; narrow ones are a word or two
WORD: Final = 32  # bits


def flat(loops: Loops) -> Loops:
    """The function with parameters of one axis; its body is to be indexed so as well."""

    def one(buffer: Buffer) -> Buffer:
        return replace(buffer, shape=(product(buffer.shape),))

    return replace(loops, params=tuple(replace(p, buffer=one(p.buffer)) for p in loops.params))


def lifted(loops: Loops, block: Block, aligned: frozenset[str] = frozenset(), prefix: str = "at") -> Block:
    """The work of an item with what it repeats computed once; ``loops`` has the parameters as its indices have them.
    Of parameters that are ``aligned``, which begin at multiples of ``QUAD`` elements, neighbours are read as vectors.

    obligation: no parameter is both read and written, and what is bound is bound under no name of ``prefix``.

    Raises:
        ScheduleError: statements that other items see.
    """
    every = list(statements(block))
    if any(isinstance(s, Atomic | Eval) for s in every):
        raise ScheduleError("what other items see in between is not moved")
    scalars = {s.name for s in every if isinstance(s, Let)}
    if scalars and any(v.name in scalars for d in dims_used(block) for v in free_vars(d)):
        raise ScheduleError("indices that depend on scalars that are bound are not moved")
    wide = {
        p.buffer.name
        for p in loops.params
        if p.buffer.dtype.bits <= WORD and p.buffer.dtype.kind != "b" and _is_multiple(product(p.buffer.shape))
    }
    return _Lift({p.buffer.name: p.buffer for p in loops.params}, aligned & wide, prefix).block(block, None)


@dataclass
class _Level:
    """A block: what is bound at its start, and what in it so far."""

    first: list[Stmt] = field(default_factory=list)
    known: dict[object, ValueExpr] = field(default_factory=dict)
    out: list[Stmt] = field(default_factory=list)
    read: dict[object, ValueExpr] = field(default_factory=dict)
    lanes: Counter[tuple[str, Dim]] = field(default_factory=Counter)


class _Lift:
    def __init__(self, params: dict[str, Buffer], aligned: frozenset[str], prefix: str) -> None:
        self.params, self.aligned, self.prefix = params, aligned, prefix
        self.values = Values()
        self.quads: set[str] = set()
        self.depth: dict[Var, int] = {}
        self.levels: list[_Level] = []
        self.count = 0

    # --- blocks ----------------------------------------------------------------------------------------------

    def block(self, block: Block, var: Var | None) -> Block:
        """A block; ``var`` is the loop's that it is the body of."""
        self.levels.append(_Level())
        if var is not None:
            self.depth[var] = len(self.levels) - 1
        self._statements(block.body)
        level = self.levels.pop()
        return Block((*level.first, *level.out))

    def _statements(self, body: Sequence[Stmt]) -> None:
        run: list[Store | Let] = []
        for stmt in _joined(body):
            if isinstance(stmt, Store | Let):
                run.append(stmt)
                continue
            if isinstance(stmt, Alloc):  # what a run stores to may be declared within it
                self.levels[-1].out.append(stmt)
                continue
            self._run(run)
            run = []
            self.levels[-1].out.append(self._one(stmt))
        self._run(run)

    def _one(self, stmt: Stmt) -> Stmt:
        match stmt:
            case For():
                until = None if stmt.until is None else stmt.until
                if until is not None and any(n.buffer in self.params for n in walk(until) if isinstance(n, Load)):
                    raise ScheduleError("a loop ends by what it reads")
                return replace(stmt, body=self.block(stmt.body, stmt.var))  # of a bound that is bound no size is known
            case If():
                cond = self.value(stmt.cond)
                orelse = None if stmt.orelse is None else self.block(stmt.orelse, None)
                return replace(stmt, cond=cond, then=self.block(stmt.then, None), orelse=orelse)
            case Block():
                return self.block(stmt, None)
            case _:
                return stmt

    def _run(self, run: list[Store | Let]) -> None:
        """Stores and scalars in a row: what several read or compute is bound before the first that does."""
        self.levels[-1].read = {}
        self.levels[-1].lanes = self._neighbours(run)
        made = []
        for stmt in run:
            before = len(self.levels[-1].out)
            one: Store | Let = replace(stmt, value=self.value(stmt.value))
            if isinstance(one, Store) and one.buffer in self.params:
                one = replace(one, index=(self.address(one.index, self.params[one.buffer].shape),))
            reads = self.levels[-1].out[before:]
            del self.levels[-1].out[before:]
            made.append((reads, one))
        counts: Counter[int] = Counter()
        for _, stmt in made:
            counts.update(self.values.operations(stmt.value, self._pure))
        bound: dict[int, ValueExpr] = {}
        vectors = self._stored(run)
        for (reads, stmt), source in zip(made, run, strict=True):
            self.levels[-1].out += reads
            value = self._shared(stmt.value, counts, bound, 1)
            if isinstance(source, Store) and source in vectors:
                self._put(source, value, *vectors[source])
            else:
                self.levels[-1].out.append(replace(stmt, value=value))

    def _pure(self, expr: Op) -> bool:
        """Whether a value is the same wherever in the run it stands."""
        return self.values.of(expr).buffers <= self.quads and (expr.dtype.lanes == 1 or expr.dtype.kind != "b")

    def _shared(
        self, expr: ValueExpr, counts: Counter[int], bound: dict[int, ValueExpr], above: int
    ) -> ValueExpr:
        if not isinstance(expr, Op):
            return expr
        number = self.values.number(expr)
        if number in bound:
            return bound[number]
        count = counts.get(number, 0)
        args = tuple([self._shared(a, counts, bound, max(count, 1)) for a in expr.args])
        made = Op(expr.name, args, expr.dtype)
        if count > above:
            bound[number] = self._let(made, self.levels[-1].out)
            return bound[number]
        return made

    # --- values ----------------------------------------------------------------------------------------------

    def _let(self, value: ValueExpr, into: list[Stmt]) -> Ref:
        self.count += 1
        name = f"{self.prefix}{self.count}"
        into.append(Let(name, value))
        return Ref(name, value.dtype)

    def _bound(self, level: int, value: ValueExpr) -> Ref:
        """A value at the start of a block around, once."""
        held = self.levels[level]
        found = held.known.get(value)
        if found is None:
            found = held.known[value] = self._let(value, held.first)
            self.depth[Var(found.name, *I32.limits)] = level
        assert isinstance(found, Ref)
        return found

    def level(self, node: ValueExpr | Dim) -> int:
        """The innermost of the blocks around whose variables are used."""
        used = free_vars(node) if isinstance(node, int | Expr) else self.values.of(node).vars
        return max([self.depth.get(v, 0) for v in used], default=0)

    def dim(self, dim: Dim) -> Dim:
        """A sum whose parts of blocks around are bound there."""
        here = len(self.levels) - 1
        if isinstance(dim, int) or here == 0:
            return dim
        parts: dict[int, list[Any]] = {}
        for term in dim.terms:
            parts.setdefault(self.level(from_terms((term,))), []).append(term)
        base: Dim = 0
        for level in sorted(k for k in parts if k < here):
            base = base + from_terms(tuple(parts[level]))
            if not _is_variable(base):
                base = Var(self._bound(level, Idx(base, I32)).name, *I32.limits).expr
        rest = from_terms(tuple(parts[here])) if here in parts else 0
        return base + rest + dim.const

    def address(self, index: tuple[Dim, ...], shape: tuple[Dim, ...]) -> Dim:
        """Where an element lies in the flat buffer."""
        return self.dim(flat_index(index, shape))

    def value(self, expr: ValueExpr, bind: bool = True) -> ValueExpr:
        """A value; with ``bind`` what it reads may be read before the statement."""
        match expr:
            case Idx():
                return Idx(self.dim(expr.dim), expr.dtype)
            case Load() if expr.buffer in self.params:
                shape = self.params[expr.buffer].shape
                if bind and (lane := self._lane(expr)) is not None:
                    return self._in_quad(expr, self.dim(floordiv(flat_index(expr.index, shape) - lane, QUAD)), lane)
                return self._read(Load(expr.buffer, (self.address(expr.index, shape),), expr.dtype, expr.count), bind)
            case Op("select", (cond, yes, no)) if self._reads(yes) or self._reads(no):
                return self._select(expr, cond, yes, no, bind)
            case Op():
                known = self.values.of(expr)
                if not known.varies and known.indexes and self.level(expr) < len(self.levels) - 1:
                    return self._bound(self.level(expr), expr)
                return Op(expr.name, tuple([self.value(a, bind) for a in expr.args]), expr.dtype)
            case _:
                return expr

    def _read(self, load: Load, bind: bool) -> ValueExpr:
        if not bind:
            return load
        read = self.levels[-1].read
        if load not in read:
            read[load] = self._let(load, self.levels[-1].out)
        return read[load]

    # --- vectors ---------------------------------------------------------------------------------------------

    def _stored(self, run: Sequence[Store | Let]) -> dict[Store, tuple[str, int, bool]]:
        """Of the writes to whole vectors of aligned parameters an array for the vector, the lane, and whether it is the
        last of them."""
        found: dict[tuple[str, Dim], list[tuple[int, Store]]] = {}
        for stmt in run:
            if isinstance(stmt, Store) and stmt.buffer in self.aligned:
                base, lane = self._apart(stmt, stmt.value.dtype)
                if lane is not None:
                    found.setdefault((stmt.buffer, base), []).append((lane, stmt))
        out: dict[Store, tuple[str, int, bool]] = {}
        for lanes in found.values():
            if sorted(lane for lane, _ in lanes) == list(range(QUAD)):
                self.count += 1
                name = f"{self.prefix}{self.count}"
                self.levels[-1].out.append(Alloc(Buffer(name, lanes[0][1].value.dtype, (QUAD,), "register")))
                out |= {stmt: (name, lane, k == QUAD - 1) for k, (lane, stmt) in enumerate(lanes)}
        return out

    def _put(self, source: Store, value: ValueExpr, name: str, lane: int, last: bool) -> None:
        """One element of a vector that is written; with the last of them the vector."""
        self.levels[-1].out.append(Store(name, (lane,), value))
        if last:
            start = flat_index(source.index, self.params[source.buffer].shape) - lane
            whole = Load(name, (0,), value.dtype.with_lanes(QUAD))
            self.levels[-1].out.append(Store(source.buffer, (self.dim(floordiv(start, QUAD)) * QUAD,), whole))

    def _neighbours(self, run: Sequence[Store | Let]) -> Counter[tuple[str, Dim]]:
        """How many elements of each vector of the aligned parameters are read."""
        reads = {n for stmt in run for n in walk(stmt.value) if isinstance(n, Load) and n.buffer in self.aligned}
        return Counter((n.buffer, base) for n in reads for base, lane in [self._apart(n, n.dtype)] if lane is not None)

    def _apart(self, access: Load | Store, kind: DType) -> tuple[Dim, int | None]:
        """The start of the vector that an element is in, and its lane; None where that is not known."""
        at = flat_index(access.index, self.params[access.buffer].shape)
        lane = (at if isinstance(at, int) else at.const) % QUAD
        return (at - lane, lane) if kind.lanes == 1 and _is_multiple(at - lane) else (at, None)

    def _lane(self, load: Load) -> int | None:
        """The lane of an element that is read as one of a vector."""
        if load.buffer not in self.aligned:
            return None
        base, lane = self._apart(load, load.dtype)
        return lane if self.levels[-1].lanes[load.buffer, base] > 1 else None

    def _in_quad(self, load: Load, number: Dim, lane: int) -> ValueExpr:
        """An element of a vector."""
        read = self.levels[-1].read
        wide = Load(load.buffer, (number * QUAD,), load.dtype.with_lanes(QUAD))
        if wide not in read:
            self.count += 1
            name = f"{self.prefix}{self.count}"
            self.quads.add(name)
            self.levels[-1].out += [Alloc(Buffer(name, load.dtype, (QUAD,), "register")), Store(name, (0,), wide)]
            read[wide] = Load(name, (0,), load.dtype)
        held = read[wide]
        assert isinstance(held, Load)
        return Load(held.buffer, (lane,), held.dtype)

    # --- choices ---------------------------------------------------------------------------------------------

    def _reads(self, expr: ValueExpr) -> bool:
        return not self.values.of(expr).buffers.isdisjoint(self.params)

    def _select(self, expr: Op, cond: ValueExpr, yes: ValueExpr, no: ValueExpr, bind: bool) -> ValueExpr:
        """A choice of what is read: where the condition is known before, the first element is read in place of one that
        is not there."""
        known = bind and not self.values.of(cond).varies and not self._reads(no)
        if known:
            held = self.value(cond)
            loads = [n for n in walk(yes) if isinstance(n, Load) and n.buffer in self.params]
            safe = {load: self._safe(load, cond, held) for load in loads}
            if all(at is not None for at in safe.values()) and not self.values.of(yes).chooses:
                return replace(expr, args=(held, self._with(yes, safe), self.value(no)))
        return replace(expr, args=(self.value(cond, bind), self.value(yes, False), self.value(no, False)))

    def _with(self, expr: ValueExpr, safe: dict[Load, Dim | None]) -> ValueExpr:
        if isinstance(expr, Load) and expr in safe:
            at, lane = safe[expr], self._lane(expr)
            assert at is not None
            if lane is not None:
                return self._in_quad(expr, at, lane)
            return self._read(replace(expr, index=(at,)), True)
        if isinstance(expr, Op):
            return replace(expr, args=tuple(self._with(a, safe) for a in expr.args))
        return self.value(expr)

    def _safe(self, load: Load, cond: ValueExpr, held: ValueExpr) -> Dim | None:
        """An address that is that of the load where the condition holds, and otherwise one that is there; None where
        none is found: then what depends on later loops is not inside by itself."""
        level, shape = self.level(cond), self.params[load.buffer].shape
        outer: list[Dim] = []
        rest: list[Dim] = []
        for at, extent in zip(load.index, shape, strict=True):
            inner = self._after(at, level)
            apart = at - inner
            if not free_of(apart):  # a constant belongs to what it is added to
                inner, apart = at, 0
            if prove_ge(inner, 0) is not True or prove_lt(inner, extent) is not True:
                return None
            outer.append(apart)
            rest.append(inner)
        base, after = flat_index(tuple(outer), shape), flat_index(tuple(rest), shape)
        lane = self._lane(load)
        if lane is not None:
            const = after if isinstance(after, int) else after.const
            base, after = base + const - lane, after - const
            if not _is_multiple(base) or not _is_multiple(after) or prove_ge(after, 0) is not True:
                return None
            base, after = floordiv(base, QUAD), floordiv(after, QUAD)
        if isinstance(base, int):
            return self.dim(base + after) if base == 0 else None
        chosen = op("select", held, Idx(self._at(base, level), I32), Imm(0, I32), dtype=I32)
        name = (self._bound(level, chosen) if level < len(self.levels) - 1 else self._here(chosen)).name
        self.depth[Var(name, *I32.limits)] = level
        return self.dim(Var(name, *I32.limits).expr + after)

    def _here(self, value: ValueExpr) -> Ref:
        read = self.levels[-1].read
        if value not in read:
            read[value] = self._let(value, self.levels[-1].out)
        found = read[value]
        assert isinstance(found, Ref)
        return found

    def _at(self, dim: Dim, level: int) -> Dim:
        """A sum as seen from a block around."""
        if isinstance(dim, int) or level == 0:
            return dim
        held, self.levels = self.levels, self.levels[: level + 1]
        found = self.dim(dim)
        self.levels = held
        return found

    def _after(self, dim: Dim, level: int) -> Dim:
        """The terms that depend on loops further inside."""
        if isinstance(dim, int):
            return 0
        terms = tuple(t for t in dim.terms if self.level(from_terms((t,))) > level)
        return from_terms(terms) if terms else 0


def _joined(body: Sequence[Stmt]) -> list[Stmt]:
    """Statements in which neighbours under one condition on indices are one."""
    out: list[Stmt] = []
    for stmt in body:
        last = out[-1] if out else None
        if isinstance(stmt, If) and isinstance(last, If) and _continues(last, stmt):
            out[-1] = replace(last, then=Block(last.then.body + stmt.then.body))
        else:
            out.append(stmt)
    return out


def _continues(last: If, stmt: If) -> bool:
    """Whether two conditions are one that nothing between changes."""
    alone = last.orelse is None and stmt.orelse is None
    return alone and last.cond == stmt.cond and not any(isinstance(n, Load) for n in walk(stmt.cond))


def _is_multiple(dim: Dim) -> bool:
    """Whether a dim is a multiple of ``QUAD`` by its form."""
    return grain(dim) % QUAD == 0


def free_of(dim: Dim) -> bool:
    """Whether a dim has a variable."""
    return not isinstance(dim, int)


def _is_variable(dim: Dim) -> bool:
    return (
        not isinstance(dim, int)
        and dim.const == 0
        and len(dim.terms) == 1
        and isinstance(dim.terms[0][0][0][0], Var)
        and dim.terms[0][1] == 1
        and len(dim.terms[0][0]) == 1
        and dim.terms[0][0][0][1] == 1
    )
