"""Products by groups of work items: tiles of both factors lie in memory that the group shares.

before: ``for i { for j { t = init; for k { t = t + a[i, k] * b[k, j] }; o[i, j] = t } }``
after:  ``for i_t, j_t bind group { local x[D, R]; local y[D, C]; for r, c bind local { t[...] = init
            for k_t in 0..ceil(K/D) { x[...] = a[...]; y[...] = b[...]; barrier
                for k in 0..D { t[p, q] = t[p, q] + x[k, r*P + p] * y[k, q*S + c] }; barrier }
            o[...] = t[...] } }``

Every factor is read, checked for padding and converted once for a whole tile, by items that read neighbours. Sums are
in the order of the plain nest: what is past the end of a sum is a product of zeros. Rows and columns past the end are
computed at the last place that there is, and not stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sdk.compiler.analysis.pattern import Contraction, Pattern
from sdk.compiler.ir.intrinsics import idx, imm, op
from sdk.compiler.ir.loops import Alloc, Barrier, Block, Buffer, For, If, Load, Loops, Op, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import DType
from sdk.compiler.ir.walk import buffers_used, dims_used, rename_buffers, substitute_dims, walk
from sdk.compiler.schedules.gpu.axes import Axis, divides, places, places_of
from sdk.compiler.schedules.gpu.lift import QUAD, lifted
from sdk.compiler.schedules.gpu.tiles import Item, Shape
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.sym import (
    Dim,
    Var,
    ceildiv,
    flat_index,
    floordiv,
    free_vars,
    grain,
    linear,
    max_value,
)

__all__ = ["SharedTile", "shared"]

_ODD: Final = 1  # element between rows of a shared array, so that neighbours in a column are in unlike banks


@dataclass(frozen=True)
class SharedTile:
    """A group of ``items`` (rows, columns), each of which computes ``rows`` by ``columns`` results, from ``depth``
    steps of the sums at a time; ``steps`` of them are one step of the innermost loop."""

    items: tuple[int, int]
    rows: int
    columns: int
    depth: int
    steps: int = 1


def shared(loops: Loops, chain: Sequence[For], inner: Block, pattern: Pattern, tile: SharedTile,
           aligned: frozenset[str] = frozenset()) -> Item:  # fmt: skip
    """A tile of the product as the work of a group. Parameters that are ``aligned`` begin at multiples of 16 bytes.

    Iterations of ``chain`` must be independent.

    Raises:
        ScheduleError: the nest is no product with rows, or its factors depend on more than their own axis.
    """
    product, (alloc, init, out) = _parts(chain, inner, pattern)
    if set.intersection(*buffers_used(inner)) & {p.buffer.name for p in loops.params}:
        raise ScheduleError("a parameter is read and written")
    shape = Shape.of(chain, inner, pattern)
    if not shape.inner:
        raise ScheduleError("a product without rows has nothing to share")
    x, y = _factors(product, chain[-1], shape.inner)
    made = _Group(
        loops, tile, product, Axis.of(shape.inner, tile.items[0], tile.rows),
        Axis.of((chain[-1],), tile.items[1], tile.columns), _Depth(product.reduce, tile.depth),
    )  # fmt: skip
    body = lifted(loops, made.work(alloc, init, x, y, out), aligned)
    return Item((*shape.outer, made.rows.loop, made.columns.loop), body, (tile.items[1], tile.items[0]))


def _parts(chain: Sequence[For], inner: Block, pattern: Pattern) -> tuple[Contraction, tuple[Alloc, Store, Store]]:
    """The product, and the statements of an iteration."""
    product = pattern.product
    if pattern.kind != "contraction" or product is None or len(chain) != len(product.spatial):
        raise ScheduleError("no product whose results are all independent")
    match inner.body:
        case (Alloc() as alloc, Store() as init, For(), Store() as out) if init.buffer == product.acc:
            pass
        case _:
            raise ScheduleError("no product of one sum")
    mine = {loop.var for loop in (*chain, *product.reduce)}
    if any(loop.until is not None for loop in (*chain, *product.reduce)):
        raise ScheduleError("a loop ends early")
    if any((free_vars(loop.lo) | free_vars(loop.hi)) & mine for loop in product.reduce):
        raise ScheduleError("the bounds of a sum depend on where it is")
    return product, (alloc, init, out)


def _factors(product: Contraction, column: For, rows: Sequence[For]) -> tuple[ValueExpr, ValueExpr]:
    """The factors of the product, of which each has an axis of its own."""
    update = product.reduce[-1].body.body[0]
    assert isinstance(update, Store)
    assert isinstance(update.value, Op)
    multiplied = update.value.args[1]
    assert isinstance(multiplied, Op)
    x, y = multiplied.args
    for factor, others in ((x, (column,)), (y, rows)):
        if {v for d in dims_used(factor) for v in free_vars(d)} & {loop.var for loop in others}:
            raise ScheduleError("a factor depends on the axis of the other")
    return x, y


@dataclass(frozen=True)
class _Depth:
    """The loops of a sum as one, ``maximum`` steps of which are staged at a time, fewer where there are fewer."""

    reduce: tuple[For, ...]
    maximum: int

    @property
    def extent(self) -> Dim:
        """How many steps there are."""
        return places(self.reduce)

    @property
    def size(self) -> int:
        """Steps of a tile."""
        extent = max_value(self.extent)
        return self.maximum if extent is None else min(self.maximum, max(1 << max(extent - 1, 0).bit_length(), QUAD))

    @property
    def var(self) -> Var:
        """The number of a tile."""
        maximum = max_value(ceildiv(self.extent, self.size))
        return Var("_".join(loop.var.name for loop in self.reduce) + "_t", 0, max((maximum or 1) - 1, 1))

    @property
    def innermost(self) -> For:
        """The innermost loop."""
        return self.reduce[-1]

    @property
    def quads(self) -> bool:
        """Whether four neighbouring steps are there together, and neighbours in the innermost loop."""
        return grain(self.innermost.hi - self.innermost.lo) % QUAD == 0

    @property
    def fits(self) -> bool:
        """Whether tiles fill the sum."""
        return divides(self.size, self.extent)

    def env(self, step: Dim, within: int) -> Mapping[Var, Dim]:
        """The variables at a step, or a few behind it in the innermost loop."""
        found = dict(places_of(self.reduce, step))
        found[self.innermost.var] = found[self.innermost.var] + within
        return found


@dataclass(frozen=True)
class _Group:
    loops: Loops
    tile: SharedTile
    product: Contraction
    rows: Axis
    columns: Axis
    depth: _Depth

    @property
    def _name(self) -> str:
        """What names of its own begin with."""
        used = {p.buffer.name for p in self.loops.params} | {v.name for v in self.loops.dims}
        used |= {n.buffer.name for n in walk(self.loops.body) if isinstance(n, Alloc)}
        used |= {n.var.name for n in walk(self.loops.body) if isinstance(n, For)}
        return "tile" if not any(name.startswith("tile") for name in used) else "tile_of_items"

    @property
    def _item(self) -> tuple[Var, Var]:
        """An item's row and column in the group."""
        return (Var(f"{self._name}_row", 0, max(self.rows.items - 1, 1)),
                Var(f"{self._name}_column", 0, max(self.columns.items - 1, 1)))  # fmt: skip

    def work(self, alloc: Alloc, init: Store, x: ValueExpr, y: ValueExpr, out: Store) -> Block:
        """What a group does."""
        held = [
            Buffer(f"{self._name}_{end}", value.dtype, (self.depth.size, axis.size + _ODD), "local")
            for end, value, axis in (("x", x, self.rows), ("y", y, self.columns))
        ]
        loads = (*self._stage(held[0], x, self.rows), *self._stage(held[1], y, self.columns))
        over = Block((*loads, Barrier("group"), self._products(held), Barrier("group")))
        sums = self._each(alloc, init)
        stores = self._stores(out)
        steps = For(self.depth.var, 0, ceildiv(self.depth.extent, self.depth.size), over)
        body = Block((*sums, steps, *stores))
        row, column = self._item
        for var, size, axis in ((column, self.columns.items, "x"), (row, self.rows.items, "y")):
            body = Block((For(var, 0, size, body, "bind", f"local.{axis}"),))
        return Block((*map(Alloc, held), *body.body))

    # --- staging ---------------------------------------------------------------------------------------------

    def _stage(self, into: Buffer, value: ValueExpr, axis: Axis) -> list[Stmt]:
        """A tile of a factor, read by all items; neighbours read what lies next to each other."""
        along = not self._neighbours(value, axis.fused[-1]) or self._neighbours(value, self.depth.innermost)
        width = QUAD if (self.depth.quads if along else axis.together(QUAD)) else 1
        across, deep = axis.size, self.depth.size
        fast = (deep if along else across) // width
        count, items = across * deep // width, self.rows.items * self.columns.items
        out: list[Stmt] = []
        for k in range(-(-count // items)):
            row, column = self._item
            number = row.expr * self.columns.items + column.expr + k * items
            slow, quick = floordiv(number, fast), (number - floordiv(number, fast) * fast) * width
            step, place = (quick, slow) if along else (slow, quick)
            made = self._staged(into, value, axis, (step, place), width, along)
            if (k + 1) * items > count:
                made = [If(op("lt", idx(number), imm(count)), Block(tuple(made)))]
            out += made
        return out

    def _staged(
        self, into: Buffer, value: ValueExpr, axis: Axis, at: tuple[Dim, Dim], width: int, along: bool
    ) -> list[Stmt]:
        """``width`` neighbours ``along`` the sum, or along the axis, from a step and a place of the tile on."""
        step, place = at
        number = self.depth.var.expr * self.depth.size + step
        stores, zeros = [], []
        for n in range(width):
            if along:
                env = {**axis.env(axis.start + place), **self.depth.env(number, n)}
                where = (step + n, place)
            else:
                env = {**axis.env(axis.start + place, n, width), **self.depth.env(number, 0)}
                where = (step, place + n)
            stores.append(Store(into.name, where, substitute_dims(value, env)))
            zeros.append(Store(into.name, where, _zero(value.dtype)))
        if self.depth.fits:
            return list(stores)
        there = op("lt", idx(number), idx(self.depth.extent))
        return [If(there, Block(tuple(stores)), Block(tuple(zeros)))]

    def _neighbours(self, value: ValueExpr, loop: For) -> bool:
        """Whether iterations of a loop read neighbours."""
        shapes = {p.buffer.name: p.buffer.shape for p in self.loops.params}
        loads = [n for n in walk(value) if isinstance(n, Load) and n.buffer in shapes]
        apart = [linear(flat_index(n.index, shapes[n.buffer]), loop.var) for n in loads]
        return any(one is not None and one[0] == 1 for one in apart)

    # --- sums ------------------------------------------------------------------------------------------------

    def _sum(self, p: int, q: int) -> str:
        return f"{self.product.acc}_{p}_{q}"

    def _row(self, p: int) -> Dim:
        """A row of an item in its group: those of an item are neighbours."""
        return self._item[0].expr * self.rows.each + p

    def _column(self, q: int) -> Dim:
        """A column of an item: neighbouring items have neighbouring ones."""
        return self._item[1].expr + q * self.columns.items

    def _env(self, p: int, q: int) -> Mapping[Var, Dim]:
        rows = self.rows.env(self.rows.start + self._row(p))
        return {**rows, **self.columns.env(self.columns.start + self._column(q))}

    def _each(self, alloc: Alloc, init: Store) -> list[Stmt]:
        """The variables of all results of an item, as they begin."""
        out: list[Stmt] = []
        for p in range(self.rows.each):
            for q in range(self.columns.each):
                names = {self.product.acc: self._sum(p, q)}
                out += [rename_buffers(alloc, names), rename_buffers(substitute_dims(init, self._env(p, q)), names)]
        return out

    def _products(self, held: Sequence[Buffer]) -> Stmt:
        """The products of what is staged."""
        steps = self.tile.steps if self.depth.size % self.tile.steps == 0 else 1
        var = Var(f"{self._name}_step", 0, max(self.depth.size // steps - 1, 1))
        out: list[Stmt] = []
        for k in range(steps):
            step = var.expr * steps + k
            for end, buffer, count, place in (
                ("a", held[0], self.rows.each, self._row), ("b", held[1], self.columns.each, self._column)
            ):  # fmt: skip
                for n in range(count):
                    own = Buffer(f"{self._name}_{end}{n}_{k}", buffer.dtype, (), "register")
                    out += [Alloc(own), Store(own.name, (), Load(buffer.name, (step, place(n)), buffer.dtype))]
            out += [self._added(p, q, k, held) for p in range(self.rows.each) for q in range(self.columns.each)]
        return For(var, 0, self.depth.size // steps, Block(tuple(out)))

    def _added(self, p: int, q: int, k: int, held: Sequence[Buffer]) -> Store:
        update = self.product.reduce[-1].body.body[0]
        assert isinstance(update, Store)
        assert isinstance(update.value, Op)
        name, kind = self._sum(p, q), update.value.dtype
        ends = zip((f"a{p}", f"b{q}"), held, strict=True)
        a, b = (Load(f"{self._name}_{end}_{k}", (), buffer.dtype) for end, buffer in ends)
        return Store(name, (), op("add", Load(name, (), kind), op("mul", a, b)))

    def _stores(self, out: Store) -> list[Stmt]:
        """The results of an item, where there are such rows and columns."""
        made: list[Stmt] = []
        for p in range(self.rows.each):
            row: list[Stmt] = []
            for q in range(self.columns.each):
                one = rename_buffers(substitute_dims(out, self._env(p, q)), {self.product.acc: self._sum(p, q)})
                row += self.columns.inside(self.columns.start + self._column(q), (one,))
            made += self.rows.inside(self.rows.start + self._row(p), tuple(row))
        return made


def _zero(kind: DType) -> ValueExpr:
    return imm(0.0 if kind.is_float else 0, kind)
