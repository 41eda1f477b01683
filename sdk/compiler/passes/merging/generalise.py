"""Several loops functions as one with dims: statements are matched, numbers that differ become dims.

How it is found needs no trust: a function is shared only where the instance of every one of them is proved to be the
same as the function it stands for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from sdk.compiler.analysis.instances import instance, same
from sdk.compiler.ir.graph import fresh_name
from sdk.compiler.ir.layout import ROW_MAJOR
from sdk.compiler.ir.loops import (
    Alloc,
    Block,
    Buffer,
    For,
    ForKind,
    Idx,
    If,
    Imm,
    Let,
    Load,
    Loops,
    Op,
    Param,
    Ref,
    Rows,
    Stmt,
    Store,
    ValueExpr,
)
from sdk.compiler.ir.types import I32, DType
from sdk.compiler.ir.walk import statements, walk
from sdk.compiler.passes.merging.align import aligned
from sdk.compiler.passes.merging.holes import Different, Hole, Sum, Tree, build, choose, holes_of
from sdk.compiler.passes.merging.index_trees import common_dim
from sdk.compiler.sym import Dim, Var, free_vars, substitute

__all__ = ["Different", "Shared", "generalise", "proved"]

T = TypeVar("T")
MAX_DIMS: Final = 12


@dataclass(frozen=True, slots=True)
class Shared:
    """The function, and what each of those that it stands for gives its dims."""

    loops: Loops
    values: tuple[tuple[int, ...], ...]


def generalise(functions: Sequence[Loops], name: str) -> Shared:
    """One function for all of ``functions``, which have no dims: also where one has loops or blocks that another
    lacks, unrolls a loop that another runs, or computes with other numbers. Whether it is right is not proved yet.

    Raises:
        Different: they are not alike.
    """
    work = _Common(functions)
    open_ = work.function(name)
    names = {n.name for n in work.made} | work.names
    stands, dims, values = choose((h for t in work.trees for h in holes_of(t)), names)
    if len(dims) > MAX_DIMS:
        raise Different
    loops = _filled(open_, lambda tree: build(tree, stands))
    values = values or tuple(() for _ in functions)
    shared = replace(loops, dims=dims, instances=tuple(dict.fromkeys(values)))
    return Shared(shared, values)


def proved(functions: Sequence[Loops], shared: Shared) -> bool:
    """Whether the instance of each function is the function."""
    pairs = zip(functions, shared.values, strict=True)
    return bool(shared.loops.dims) and all(same(f, instance(shared.loops, v)) for f, v in pairs)


@dataclass(frozen=True, slots=True)
class _Open:
    """A dim with holes, where the function will have a dim."""

    tree: Tree


def _filled(node: T, fill: Callable[[Tree], Dim]) -> T:
    """The function with dims in the place of open ones."""

    def one(item: Any) -> Any:
        if isinstance(item, _Open):
            return fill(item.tree)
        if isinstance(item, tuple):
            return tuple(map(one, item))
        if isinstance(item, (Var, DType)) or not hasattr(item, "__dataclass_fields__"):
            return item
        return type(item)(*(one(getattr(item, name)) for name in item.__dataclass_fields__))

    made: T = one(node)
    return made


@dataclass
class _Scope:
    """How a function calls what the common one has declared so far."""

    vars: dict[Var, Dim] = field(default_factory=dict)
    buffers: dict[str, str] = field(default_factory=dict)
    lets: dict[str, str] = field(default_factory=dict)

    def child(self) -> _Scope:
        return _Scope(dict(self.vars), dict(self.buffers), dict(self.lets))


class _Common:
    """Builds the common function; every method takes one node of each function, None where it has none there."""

    def __init__(self, functions: Sequence[Loops]) -> None:
        self.functions = functions
        self.trees: list[Tree] = []
        self.made: list[Var] = []
        self.names: set[str] = set()
        self.registers = [
            {n.buffer.name for n in statements(f.body) if isinstance(n, Alloc) and n.buffer.space == "register"}
            for f in functions
        ]

    # --- declarations -----------------------------------------------------------------------------------------

    def function(self, name: str) -> Loops:
        """The function, with open dims."""
        scopes = [_Scope() for _ in self.functions]
        first = self.functions[0]
        if not all(len(f.params) == len(first.params) and not f.dims for f in self.functions):
            raise Different
        alike = all(f.layouts == first.layouts for f in self.functions)
        params = []
        for k, p in enumerate(first.params):
            if any(f.params[k].mode != p.mode for f in self.functions):
                raise Different
            layout = p.layout if alike else ROW_MAJOR
            params.append(Param(self.buffer([f.params[k].buffer for f in self.functions], scopes), p.mode, layout))
        rows = self.rows([f.rows for f in self.functions], scopes)
        body = Block(self.block([f.body.body for f in self.functions], scopes))
        return Loops(name, (), tuple(params), body, rows)

    def buffer(self, buffers: Sequence[Buffer | None], scopes: Sequence[_Scope]) -> Buffer:
        given = [b for b in buffers if b is not None]
        first = given[0]
        if any((b.dtype, b.space, b.ring, len(b.shape)) != (first.dtype, first.space, first.ring, len(first.shape))
               for b in given):  # fmt: skip
            raise Different
        shape = tuple(
            self.dim([None if b is None else b.shape[k] for b in buffers], scopes, f"{first.name}_{k}")
            for k in range(len(first.shape))
        )
        name = fresh_name(first.name, self.names)
        for b, scope in zip(buffers, scopes, strict=True):
            if b is not None:
                scope.buffers[b.name] = name
        made = Buffer(name, first.dtype, shape, first.space, first.ring)
        if first.space in ("register", "local") and any(isinstance(d, _Open) for d in shape):
            raise Different  # C wants its registers counted
        return made

    def variable(self, vars: Sequence[Var | None], scopes: Sequence[_Scope]) -> Var:
        """A variable with the range of all."""
        given = [v for v in vars if v is not None]
        multiple = math.gcd(*(v.multiple for v in given))
        made = Var(fresh_name(given[0].name, self.names), min(v.lo for v in given), max(v.hi for v in given), multiple)
        for v, scope in zip(vars, scopes, strict=True):
            if v is not None:
                scope.vars[v] = made.expr
        self.made.append(made)
        return made

    def rows(self, rows: Sequence[Rows | None], scopes: Sequence[_Scope]) -> Rows | None:
        given = [r for r in rows if r is not None]
        if not given:
            return None
        if len(given) != len(rows):
            raise Different
        extent = self.dim([r.extent for r in given], scopes, "rows")
        return Rows(self.variable([r.lo for r in given], scopes), self.variable([r.hi for r in given], scopes), extent)

    def dim(self, dims: Sequence[Dim | None], scopes: Sequence[_Scope], hint: str) -> Any:
        """A dim, or an open one."""
        mine = [None if d is None else substitute(d, s.vars) for d, s in zip(dims, scopes, strict=True)]
        own = [{w: v.expr for v, e in s.vars.items() for w in free_vars(e)} for s in scopes]
        tree = common_dim(mine, hint, own)
        if not isinstance(tree, Hole | Sum):
            return tree
        self.trees.append(tree)
        return _Open(tree)

    # --- statements -------------------------------------------------------------------------------------------

    def block(self, blocks: Sequence[tuple[Stmt, ...] | None], scopes: Sequence[_Scope]) -> tuple[Stmt, ...]:
        columns = aligned(blocks)
        if columns is None:
            raise Different
        inner = [s.child() for s in scopes]
        return tuple(self.column(c, blocks, inner) for c in columns)

    def column(
        self, column: Sequence[Stmt | None], blocks: Sequence[tuple[Stmt, ...] | None], scopes: Sequence[_Scope]
    ) -> Stmt:
        """One statement of each function; what some lack runs there no time."""
        lacking = _lacks(column, blocks)
        first = next(s for s in column if s is not None)
        if not lacking or isinstance(first, Alloc):
            return self.stmt(column, scopes)
        if isinstance(first, Let):
            raise Different
        loops = [s for s in column if isinstance(s, For)]
        if loops and all(isinstance(s.lo, int) and isinstance(s.hi, int) and s.until is None for s in loops):
            start = loops[0].lo
            none = [_never(s, start) if s is None and b is not None else s for s, b in zip(column, blocks, strict=True)]
            return self.stmt(none, scopes)
        has = (None if b is None else int(s is not None) for s, b in zip(column, blocks, strict=True))
        iterations = Hole(tuple(has), "has")
        self.trees.append(iterations)
        once = Var(fresh_name("once", self.names), 0, 0)
        self.made.append(once)
        inner = first.body if isinstance(first, Block) else None
        body = self.stmt(column, scopes)
        hi: Any = _Open(iterations)
        return For(once, 0, hi, body if inner is not None and isinstance(body, Block) else Block((body,)))

    def stmt(self, stmts: Sequence[Stmt | None], scopes: Sequence[_Scope]) -> Stmt:
        first = next(s for s in stmts if s is not None)
        if any(type(s) is not type(first) for s in stmts if s is not None):
            raise Different
        match first:
            case Block():
                return Block(self.block([s.body if isinstance(s, Block) else None for s in stmts], scopes))
            case For():
                return self.loop([s if isinstance(s, For) else None for s in stmts], scopes)
            case If():
                return self.choice([s if isinstance(s, If) else None for s in stmts], scopes)
            case Let():
                return self.let([s if isinstance(s, Let) else None for s in stmts], scopes)
            case Alloc():
                return Alloc(self.buffer([s.buffer if isinstance(s, Alloc) else None for s in stmts], scopes))
            case Store():
                return self.store([s if isinstance(s, Store) else None for s in stmts], scopes)
            case _:
                raise Different

    def loop(self, loops: Sequence[For | None], scopes: Sequence[_Scope]) -> For:
        given = [s for s in loops if s is not None]
        lo = self.dim([None if s is None else s.lo for s in loops], scopes, f"{given[0].var.name}_lo")
        hi = self.dim([None if s is None else s.hi for s in loops], scopes, f"{given[0].var.name}_n")
        inner = [s.child() for s in scopes]
        var = self.variable([None if s is None else s.var for s in loops], inner)
        kind = self.kind(loops, isinstance(lo, _Open) or isinstance(hi, _Open))
        if any(s.until is not None or s.axis for s in given):
            raise Different
        body = Block(self.block([s.body.body if s is not None and _runs(s) else None for s in loops], inner))
        return For(var, lo, hi, body, kind)

    def kind(self, loops: Sequence[For | None], open_: bool) -> ForKind:
        """How the loop runs: unrolled only where it is in all, for as many iterations."""
        kinds = {s.kind for s in loops if s is not None and _runs(s)}
        if len(kinds) == 1 and (kinds == {"serial"} or not open_):
            return next(iter(kinds))
        if not kinds <= {"serial", "unroll"}:
            raise Different
        for s, registers in zip(loops, self.registers, strict=True):
            for node in walk(s) if s is not None else ():
                at = isinstance(node, Load | Store) and node.buffer in registers
                if at and any(s is not None and s.var in free_vars(d) for d in node.index):
                    raise Different  # registers have no addresses
        return "serial"

    def choice(self, ifs: Sequence[If | None], scopes: Sequence[_Scope]) -> If:
        cond = self.value([None if s is None else s.cond for s in ifs], scopes)
        then = Block(self.block([None if s is None else s.then.body for s in ifs], scopes))
        others = [None if s is None else s.orelse.body if s.orelse else () for s in ifs]
        orelse = self.block(others, scopes) if any(others) else ()
        return If(cond, then, Block(orelse) if orelse else None)

    def let(self, lets: Sequence[Let | None], scopes: Sequence[_Scope]) -> Let:
        first = next(s for s in lets if s is not None)
        value = self.value([None if s is None else s.value for s in lets], scopes)
        name = fresh_name(first.name, self.names)
        kind = first.value.dtype
        for s, scope in zip(lets, scopes, strict=True):
            if s is not None:
                scope.lets[s.name] = name
                if kind.kind in "iu" and kind.lanes == 1:
                    scope.vars[Var(s.name, *kind.limits)] = Var(name, *kind.limits).expr
        return Let(name, value)

    def store(self, stores: Sequence[Store | None], scopes: Sequence[_Scope]) -> Store:
        buffer, index = self.place(stores, scopes)
        count = self.count(stores, scopes)
        return Store(buffer, index, self.value([None if s is None else s.value for s in stores], scopes), count)

    def place(self, nodes: Sequence[Store | Load | None], scopes: Sequence[_Scope]) -> tuple[str, tuple[Any, ...]]:
        names = {s.buffers.get(n.buffer) for n, s in zip(nodes, scopes, strict=True) if n is not None}
        ranks = {len(n.index) for n in nodes if n is not None}
        name = next(iter(names))
        if len(names) != 1 or len(ranks) != 1 or name is None:
            raise Different
        index = [
            self.dim([None if n is None else n.index[k] for n in nodes], scopes, f"{name}_at_{k}")
            for k in range(next(iter(ranks)))
        ]
        return name, tuple(index)

    def count(self, nodes: Sequence[Store | Load | None], scopes: Sequence[_Scope]) -> Any:
        counts = [None if n is None else n.count for n in nodes]
        lacking = [n is not None and n.count is None for n in nodes]
        if any(lacking):
            if any(c is not None for c in counts):
                raise Different
            return None
        return self.dim(counts, scopes, "lanes")

    # --- values -----------------------------------------------------------------------------------------------

    def value(self, values: Sequence[ValueExpr | None], scopes: Sequence[_Scope]) -> ValueExpr:
        first = next(v for v in values if v is not None)
        if any(type(v) is not type(first) or v.dtype != first.dtype for v in values if v is not None):
            raise Different
        match first:
            case Imm():
                return self.literal([v if isinstance(v, Imm) else None for v in values])
            case Idx():
                dim = self.dim([v.dim if isinstance(v, Idx) else None for v in values], scopes, "at")
                return Idx(dim, first.dtype)
            case Ref():
                pairs = zip(values, scopes, strict=True)
                names = {s.lets.get(v.name) for v, s in pairs if isinstance(v, Ref)}
                name = next(iter(names))
                if len(names) != 1 or name is None:
                    raise Different
                return Ref(name, first.dtype)
            case Load():
                loads = [v if isinstance(v, Load) else None for v in values]
                buffer, index = self.place(loads, scopes)
                return Load(buffer, index, first.dtype, self.count(loads, scopes))
            case Op():
                ops = [v if isinstance(v, Op) else None for v in values]
                if any((v.name, len(v.args)) != (first.name, len(first.args)) for v in ops if v is not None):
                    raise Different
                args = [
                    self.value([None if v is None else v.args[k] for v in ops], scopes) for k in range(len(first.args))
                ]
                return Op(first.name, tuple(args), first.dtype)

    def literal(self, values: Sequence[Imm | None]) -> ValueExpr:
        first = next(v for v in values if v is not None)
        if all(v == first for v in values if v is not None):
            return first
        whole = tuple(None if v is None else v.value if isinstance(v.value, int) else None for v in values)
        if not isinstance(first.value, int) or first.dtype.kind not in "iu" or first.dtype.bits > 32:
            raise Different
        tree = Hole(whole, "value")
        self.trees.append(tree)
        dim: Any = _Open(tree)
        number = Idx(dim, I32)
        return number if first.dtype == I32 else Op("cast", (number,), first.dtype)


def _lacks(column: Sequence[Stmt | None], blocks: Sequence[tuple[Stmt, ...] | None]) -> bool:
    """Whether some function that has the block has no such statement in it."""
    return any(s is None and b is not None for s, b in zip(column, blocks, strict=True))


def _never(_: object, start: Dim) -> For:
    """A loop that runs no time."""
    return For(Var("never", 0, 0), start, start, Block(()))


def _runs(loop: For) -> bool:
    return not (isinstance(loop.lo, int) and loop.lo == loop.hi)
