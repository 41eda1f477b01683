"""A group of work items that computes together what one iteration of a nest does: sums, maxima, norms, softmax.

before: ``for i { t = 0; for k { t = t + x[i, k] }; for k { o[i, k] = x[i, k] / t } }``
after:  ``for i bind group { local part[S]; for s in 0..S bind local {
            t = select(s == 0, 0, 0); for q in 0..ceil((K - s)/S) { t = t + x[i, q*S + s] }
            part[s] = t; barrier; if s < S/2 { part[s] = part[s] + part[s + S/2] }; barrier; ...; t = part[0]; barrier
            for q in 0..ceil((K - s)/S) { o[i, q*S + s] = x[i, q*S + s] / t } } }``

Items of a group take neighbouring iterations, so that they read neighbours. Where neighbours in memory are neighbouring
iterations of the outer loop, a group computes several of these, and divides their loops among fewer items each. What is
the same for all items is computed by each of them, and stored by the first. Barriers stand where all items come by:
never below a condition, or in a loop whose bounds are read from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sdk.compiler.analysis.dependence import conflict
from sdk.compiler.ir.intrinsics import idx, imm, op
from sdk.compiler.ir.loops import (
    Alloc,
    Atomic,
    Barrier,
    Block,
    Buffer,
    Eval,
    For,
    If,
    Let,
    Load,
    Loops,
    Op,
    Ref,
    Stmt,
    Store,
    ValueExpr,
)
from sdk.compiler.ir.types import DType
from sdk.compiler.ir.walk import buffers_used, rewrite, substitute_dims, walk
from sdk.compiler.schedules.gpu.axes import joined
from sdk.compiler.schedules.gpu.best import Best, best_of
from sdk.compiler.schedules.gpu.tiles import Item
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.sym import Dim, Var, ceildiv, dmin, flat_index, floordiv, free_vars, linear, max_value

__all__ = ["SHARED_BYTES", "Team", "cooperative", "longest"]

# of a nest's arrays that a group shares; the rest of WebGPU's 16 KiB is for partial sums
SHARED_BYTES: Final = 12 * 1024
_WORD: Final = 4  # bytes, of which neighbours have one each
_SIGNED_START: Final = {"max": 0, "min": 1}


@dataclass(frozen=True)
class Team:
    """The size of a group: at most ``items``, of which as many as ``columns`` take neighbouring iterations of the outer
    loop where these are neighbours in memory."""

    items: int
    columns: int = 1


@dataclass(frozen=True)
class Divided:
    """A loop whose iterations items divide: the variables that it sums up, with the operation of each, and what it
    looks for the best of."""

    loop: For
    sums: Mapping[str, str] = field(default_factory=dict)
    best: Best | None = None


def _division(loop: For, loops: Loops, scalars: Mapping[str, DType]) -> Divided | None:
    """How items may divide a loop, perfectly nested ones as one; ``scalars`` are the variables declared around it."""
    found = _alone(loop, loops, scalars)
    if found is None or found.best is not None:
        return found
    while len(loop.body.body) == 1 and isinstance(inner := loop.body.body[0], For):
        depends = loop.var in free_vars(inner.lo) | free_vars(inner.hi)
        if inner.until is not None or depends or _alone(inner, loops, scalars) is None:
            break
        one, env = joined(loop, inner)
        loop = replace(one, body=substitute_dims(inner.body, env))
    return replace(found, loop=loop)


def _alone(loop: For, loops: Loops, scalars: Mapping[str, DType]) -> Divided | None:
    if loop.until is not None or loop.kind not in ("serial", "parallel", "unroll"):
        return None
    sums: dict[str, str] = {}
    private = {n.buffer.name for n in walk(loop.body) if isinstance(n, Alloc)}
    changed = [n for n in walk(loop.body) if isinstance(n, Store) and n.buffer in scalars and n.buffer not in private]
    best = best_of(loop, scalars) if changed else None
    if best is None:
        for store in changed:
            name = _sums(store)
            if name is None or sums.setdefault(store.buffer, name) != name:
                return None
        loads = [n.buffer for n in walk(loop.body) if isinstance(n, Load) and n.buffer in sums]
        if len(loads) != len(changed):
            return None  # it is read in between
    own = tuple(Alloc(Buffer(name, scalars[name], (), "register")) for name in {s.buffer for s in changed})
    if conflict(replace(loop, body=Block((*own, *loop.body.body))), loops) is not None:
        return None
    return Divided(loop, sums, best)


def _sums(store: Store) -> str | None:
    """The operation by which a variable gathers values in whatever order."""
    value = store.value
    if not isinstance(value, Op) or len(value.args) != 2 or value.dtype.lanes != 1:
        return None
    mine = [isinstance(a, Load) and a.buffer == store.buffer for a in value.args]
    fine = value.name in ("add", "mul", "max", "min", "and", "or", "xor") and value.dtype.kind in "iuf"
    return value.name if fine and sum(mine) == 1 and all(a.dtype == value.dtype for a in value.args) else None


def _start(name: str, kind: DType) -> ValueExpr:
    """What changes nothing when it is gathered."""
    if name in _SIGNED_START:
        if kind.is_float:
            return imm(float("inf") if name == "min" else float("-inf"), kind)
        return imm(kind.limits[_SIGNED_START[name]], kind)
    if name == "and":
        return imm(-1 if kind.kind == "i" else kind.limits[1], kind)
    one: float = 1 if name == "mul" else 0
    return imm(float(one) if kind.is_float else one, kind)


def cooperative(loops: Loops, chain: Sequence[For], inner: Block, team: Team) -> Item:
    """The iterations of ``chain``, which are independent, as the work of a group each.

    Raises:
        ScheduleError: no loop of an iteration can be divided, one must be and cannot, or the arrays that items would
            share are too large.
    """
    if any(isinstance(n, Atomic | Barrier | Eval) for n in walk(inner)) or any(f.until is not None for f in chain):
        raise ScheduleError("what items do in an order of their own is not divided")
    names = {v.name for v in loops.dims} | {n.var.name for n in walk(loops.body) if isinstance(n, For)}
    names |= {n.buffer.name for n in walk(loops.body) if isinstance(n, Alloc)} | {p.buffer.name for p in loops.params}
    names |= {n.name for n in walk(loops.body) if isinstance(n, Let)}
    loops = replace(loops, body=inner)
    found = list(_loops_divided(inner, loops, {}))
    if not found:
        raise ScheduleError("no loop that items may divide")
    columns = _columns(chain, found, loops, team.columns)
    slices = min(team.items // columns, _power(longest(inner, loops)))
    if slices < 2:
        raise ScheduleError("the loops are too short to divide them")
    prefix = "team" if not any(name.startswith("team") for name in names) else "team_of_items"
    work = _Work(loops, chain[-1] if chain else None, columns, slices, prefix)
    return work.item(chain, inner)


def longest(inner: Block, loops: Loops) -> int:
    """The most steps of a loop of an iteration that items may divide; 0 where there is none."""
    within = replace(loops, body=inner)  # the function may declare what has become a parameter
    return max((_maximum(d.loop.hi - d.loop.lo) for d in _loops_divided(inner, within, {})), default=0)


def _maximum(extent: Dim) -> int:
    maximum = max_value(extent)
    return 1 << 20 if maximum is None else maximum


def _power(count: int) -> int:
    """The power of two that is not below a number."""
    return 1 << max(count - 1, 0).bit_length()


def _columns(chain: Sequence[For], found: Sequence[Divided], loops: Loops, maximum: int) -> int:
    """How many iterations of the innermost loop of ``chain`` a group does: several where they are neighbours in what
    the divided loops read."""
    if not chain or maximum < 2:
        return 1
    shapes = {p.buffer.name: p.buffer.shape for p in loops.params}
    for one in found:
        for load in walk(one.loop.body):
            if isinstance(load, Load) and load.buffer in shapes:
                apart = linear(flat_index(load.index, shapes[load.buffer]), chain[-1].var)
                if apart is not None and (apart[0] == 1 or apart[0] * load.dtype.nbytes == _WORD):
                    return min(maximum, _power(_maximum(chain[-1].hi - chain[-1].lo)))
    return 1


def _loops_divided(block: Block, loops: Loops, scalars: Mapping[str, DType]) -> Iterator[Divided]:
    """The loops of an iteration that are divided, as ``_Work`` meets them."""
    known = dict(scalars)
    for stmt in block.body:
        match stmt:
            case Alloc() if stmt.buffer.space == "register" and not stmt.buffer.shape:
                known[stmt.buffer.name] = stmt.buffer.dtype
            case For():
                one = _division(stmt, loops, known)
                if one is not None:
                    yield one
                else:
                    yield from _loops_divided(stmt.body, loops, known)
            case Block():
                yield from _loops_divided(stmt, loops, known)
            case _:
                pass


@dataclass
class _Work:
    """Makes the work of a group of ``slices`` items for each of ``columns`` iterations of ``last``."""

    loops: Loops
    last: For | None
    columns: int
    slices: int
    prefix: str
    scalars: dict[str, DType] = field(default_factory=dict)
    shared: dict[str, Buffer] = field(default_factory=dict)
    loaded: set[str] = field(default_factory=set)  # scalars that come from memory
    places: dict[str, set[object]] = field(default_factory=dict)  # where loops touch what they read and write

    partial: dict[str, Buffer] = field(default_factory=dict)
    held: dict[str, Buffer] = field(default_factory=dict)  # the partial results of the variables at hand

    def __post_init__(self) -> None:
        self.slice = Var(f"{self.prefix}_item", 0, self.slices - 1)
        self.column = Var(f"{self.prefix}_column", 0, self.columns - 1)
        self.at: Dim = self.column.expr if self.columns > 1 else 0
        self.inside: ValueExpr | None = None
        self.outs = {p.buffer.name for p in self.loops.params if p.mode != "read"}

    def item(self, chain: Sequence[For], inner: Block) -> Item:
        """The loops over groups, and in them those over items."""
        self._share(inner)
        both = set.intersection(*buffers_used(inner)) & {p.buffer.name for p in self.loops.params}
        self.places = {name: set() for name in both}
        groups = list(chain)
        if self.columns > 1 and self.last is not None:
            extent = self.last.hi - self.last.lo
            tile = Var(f"{self.prefix}_tile", 0, max(-(-_maximum(extent) // self.columns) - 1, 1))
            at = tile.expr * self.columns + self.column.expr
            inner = substitute_dims(inner, {self.last.var: dmin(at, extent - 1) + self.last.lo})
            self.inside = op("lt", idx(at), idx(extent))
            groups[-1] = For(tile, 0, ceildiv(extent, self.columns), Block(()))
        body = self.block(inner)
        if any(len(where) > 1 for where in self.places.values()):
            raise ScheduleError("items read what others write")
        axes = (
            [(self.slice, self.slices)]
            if self.columns == 1
            else [(self.slice, self.slices), (self.column, self.columns)]
        )
        for (var, size), axis in zip(reversed(axes), "xy", strict=False):
            body = Block((For(var, 0, size, body, "bind", f"local.{axis}"),))
        parts = tuple(Alloc(b) for b in (*self.shared.values(), *self.partial.values()))
        return Item(tuple(groups), Block((*parts, *body.body)), tuple(size for _, size in reversed(axes)), flat=False)

    # --- arrays ----------------------------------------------------------------------------------------------

    def _share(self, inner: Block) -> None:
        """Finds the arrays that divided loops touch, which become the group's."""
        touched: set[str] = set()
        for one in _loops_divided(inner, self.loops, {}):
            own = {n.buffer.name for n in walk(one.loop.body) if isinstance(n, Alloc)}
            touched |= set.union(*buffers_used(one.loop.body)) - own
        for node in walk(inner):
            if isinstance(node, Alloc) and node.buffer.name in touched and node.buffer.shape:
                shape = tuple(maximum for d in node.buffer.shape if (maximum := max_value(d)) is not None)
                if (
                    len(shape) < len(node.buffer.shape)
                    or node.buffer.ring is not None
                    or node.buffer.name in self.shared
                ):
                    raise ScheduleError(f"{node.buffer.name} has no largest size, or there are two")
                self.shared[node.buffer.name] = replace(node.buffer, shape=(self.columns, *shape), space="local")
        if sum(b.type.max_bytes for b in self.shared.values()) > SHARED_BYTES:
            raise ScheduleError(f"more than {SHARED_BYTES} bytes that a group would share")

    def _placed(self, node: Any) -> Any:
        """An access to what a group shares."""
        if isinstance(node, Load | Store) and node.buffer in self.shared:
            return replace(node, index=(self.at, *node.index))
        return node

    def _part(self, kind: DType, number: int) -> Buffer:
        """Room for what items have gathered."""
        name = f"{self.prefix}_{kind}_{number}"
        return self.partial.setdefault(name, Buffer(name, kind, (self.slices, self.columns), "local"))

    # --- statements ------------------------------------------------------------------------------------------

    def block(self, block: Block) -> Block:
        """Statements that all items come by."""
        out: list[Stmt] = []
        for stmt in block.body:
            out += self._one(stmt)
        return Block(tuple(out))

    def _one(self, stmt: Stmt) -> list[Stmt]:
        match stmt:
            case Alloc():
                if stmt.buffer.name in self.shared:
                    return []
                if not stmt.buffer.shape and stmt.buffer.space == "register":
                    self.scalars[stmt.buffer.name] = stmt.buffer.dtype
                return [stmt]
            case Let():
                if any(isinstance(n, Load) or (isinstance(n, Ref) and n.name in self.loaded) for n in walk(stmt.value)):
                    self.loaded.add(stmt.name)
                return [rewrite(self._seen(stmt), self._placed)]
            case Store():
                return self._store(self._seen(stmt))
            case Block():
                return [self.block(stmt)]
            case For():
                one = _division(stmt, self.loops, self.scalars)
                return self._around(stmt) if one is None else self._divided(one)
            case If():
                return [self._if(stmt)]
            case _:
                raise ScheduleError(f"{type(stmt).__name__.lower()} among what items divide")

    def _seen(self, stmt: Any) -> Any:
        """A statement of all items, which touches nothing that loops read and write."""
        if set.union(*buffers_used(stmt)) & self.places.keys():
            raise ScheduleError("what items read and write is touched by all of them")
        return stmt

    def _store(self, stmt: Store) -> list[Stmt]:
        made = rewrite(stmt, self._placed)
        if stmt.buffer in self.shared:
            return [Barrier("group"), If(self._is_first, Block((made,))), Barrier("group")]
        if stmt.buffer in self.outs:
            return [If(self._is_first, Block((self._guarded(made),)))]
        return [made]

    def _guarded(self, stmt: Stmt) -> Stmt:
        return stmt if self.inside is None else If(self.inside, Block((stmt,)))

    def _if(self, stmt: If) -> If:
        """A condition of values that all items have."""
        if any(isinstance(n, For | Alloc | Let) for n in walk(stmt)):
            raise ScheduleError("loops under a condition")

        def arm(block: Block) -> Block:
            made = self.block(block)
            if any(isinstance(n, Barrier) for n in walk(made)):
                raise ScheduleError("a barrier under a condition")
            return made

        orelse = None if stmt.orelse is None else arm(stmt.orelse)
        return If(rewrite(self._seen(stmt.cond), self._placed), arm(stmt.then), orelse)

    def _around(self, stmt: For) -> list[Stmt]:
        """A loop that all items go through together."""
        read = {v.name for d in (stmt.lo, stmt.hi) for v in free_vars(d)} & self.loaded
        mine = {self.slice, self.column} & (free_vars(stmt.lo) | free_vars(stmt.hi))
        if stmt.until is not None or read or mine or stmt.kind not in ("serial", "parallel", "unroll"):
            raise ScheduleError(f"the loop {stmt.var.name} may end at another iteration for some items")
        return [replace(stmt, body=self.block(stmt.body))]

    # --- divided loops ---------------------------------------------------------------------------------------

    def _divided(self, one: Divided) -> list[Stmt]:
        loop = one.loop
        self._note(loop)
        stores = buffers_used(loop.body)[1] & self.shared.keys()
        extent, mine = loop.hi - loop.lo, self.slice.expr
        step = Var(f"{loop.var.name}_q", 0, max(-(-_maximum(extent) // self.slices) - 1, 1))
        out: list[Stmt] = [
            Store(name, (), op("select", self._is_first, Load(name, (), kind), _start(how, kind), dtype=kind))
            for name, how in one.sums.items()
            for kind in (self.scalars[name],)
        ]
        place, count = step.expr * self.slices + mine, floordiv(extent + (self.slices - 1) - mine, self.slices)
        if one.best is not None:  # in order: each item takes neighbouring iterations
            chunk = ceildiv(extent, self.slices)
            place, count = mine * chunk + step.expr, dmin(chunk, extent - mine * chunk)
            out.append(self._first_of(one.best, loop, chunk, extent))
        body = substitute_dims(rewrite(loop.body, self._placed), {loop.var: place + loop.lo})
        body = body if self.inside is None else rewrite(body, self._only_inside)
        barrier = [Barrier("group")] if stores else []
        out += [*barrier, For(step, 0, count, body), *barrier]
        if one.sums:
            out += self._gathered(tuple(one.sums), lambda half: self._summed(one.sums, half))
        if one.best is not None:
            best = one.best
            out += self._gathered(best.names, lambda half: self._better(best, half, chunk, extent), True)
        return out

    def _first_of(self, best: Best, loop: For, chunk: Dim, extent: Dim) -> Stmt:
        """All items but the first begin with the first of what they look at."""
        at = self.slice.expr * chunk
        held = rewrite(tuple(Store(n, (), later) for n, later in best.taken.items()), self._placed)
        stores = substitute_dims(held, {loop.var: at + loop.lo})
        some = op("and", op("gt", idx(self.slice.expr), imm(0)), op("lt", idx(at), idx(extent)))
        return If(some, Block(stores))

    @property
    def _is_first(self) -> ValueExpr:
        return op("eq", idx(self.slice.expr), imm(0))

    def _only_inside(self, node: Any) -> Any:
        def one(stmt: Stmt) -> Stmt:
            return self._guarded(stmt) if isinstance(stmt, Store) and stmt.buffer in self.outs else stmt

        return Block(tuple(one(stmt) for stmt in node.body)) if isinstance(node, Block) else node

    def _note(self, loop: For) -> None:
        """Notes where a loop touches what is read and written: an item may, where only it does."""
        var = Var("any", loop.var.lo, loop.var.hi, loop.var.multiple)
        for node in walk(loop.body):
            if isinstance(node, Load | Store) and node.buffer in self.places:
                self.places[node.buffer].add((substitute_dims(node, {loop.var: var.expr}).index, loop.lo))

    def _gathered(self, names: Sequence[str], combine: Callable[[int], Stmt], in_order: bool = False) -> list[Stmt]:
        """What all items have gathered as the value of each: a tree of partial results, of neighbours where they are to
        be taken in order."""
        self.held = {}
        for name in names:
            kind = self.scalars[name]
            number = sum(self.scalars[other] == kind for other in self.held)
            self.held[name] = self._part(kind, number)
        mine, all_of = (self.slice.expr, self.at), (0, self.at)
        out: list[Stmt] = [Store(part.name, mine, Load(n, (), part.dtype)) for n, part in self.held.items()]
        out.append(Barrier("group"))
        halves = [1 << k for k in range(self.slices.bit_length() - 1)]
        for half in halves if in_order else reversed(halves):
            out += [combine(half), Barrier("group")]
        out += [Store(n, (), Load(part.name, all_of, part.dtype)) for n, part in self.held.items()]
        return [*out, Barrier("group")]

    def _summed(self, sums: Mapping[str, str], half: int) -> Stmt:
        stores = []
        for name, how in sums.items():
            part = self.held[name]
            mine, other = ((at, self.at) for at in (self.slice.expr, self.slice.expr + half))
            both = op(how, Load(part.name, mine, part.dtype), Load(part.name, other, part.dtype))
            stores.append(Store(part.name, mine, both))
        return If(op("lt", idx(self.slice.expr), imm(half)), Block(tuple(stores)))

    def _better(self, best: Best, half: int, chunk: Dim, extent: Dim) -> Stmt:
        """The later part's where it is better; of items without iterations there is nothing."""
        mine = self.slice.expr * (2 * half)
        there = mine + half

        def of(name: str, at: Dim) -> Load:
            part = self.held[name]
            return Load(part.name, (at, self.at), part.dtype)

        cond = best.better(of(best.value, there), of(best.value, mine))
        done = Block(tuple(Store(self.held[n].name, (mine, self.at), of(n, there)) for n in best.names))
        known = op("lt", idx(there * chunk), idx(extent))
        some = op("lt", idx(self.slice.expr), imm(self.slices // (2 * half)))
        return If(some, Block((If(known, Block((If(cond, done),))),)))
