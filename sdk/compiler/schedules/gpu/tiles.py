"""The tile of a work item: so many rows by so many columns of the output, of which each value read is used often."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sdk.compiler.analysis.pattern import Pattern, classify
from sdk.compiler.ir.intrinsics import idx, op
from sdk.compiler.ir.loops import Alloc, Block, For, Load, Loops, ValueExpr
from sdk.compiler.ir.walk import buffers_used, substitute_dims, walk
from sdk.compiler.schedules.gpu.axes import divides, places, places_of
from sdk.compiler.schedules.gpu.lift import QUAD, lifted
from sdk.compiler.schedules.gpu.unroll_and_jam import Instance, unroll_and_jam, unrolled
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.schedules.tensorize import Lanes
from sdk.compiler.sym import (
    Dim,
    Var,
    ceildiv,
    dmin,
    free_vars,
    grain,
    max_value,
    min_value,
)

__all__ = ["Item", "Shape", "Tile", "rows_of", "tiled"]

_LANES: Final = 2  # the fewest that are worth a vector


@dataclass(frozen=True)
class Tile:
    """How large: ``rows`` by ``columns`` elements, those in vectors of ``lanes`` at most; without vectors
    ``scalar_rows`` by ``scalar_columns`` (0: as many). ``steps`` of a sum are one step of its loop."""

    rows: int
    columns: int
    lanes: int = 1
    steps: int = 1
    scalar_rows: int = 0
    scalar_columns: int = 0


@dataclass(frozen=True)
class Item:
    """The work of an item, and the loops over items, outermost first. Where items work together these loops are over
    groups of ``local`` items by axis, and the work is that of a group. In what is ``flat`` parameters have one axis."""

    loops: tuple[For, ...]
    body: Block
    local: tuple[int, ...] = ()
    flat: bool = True


def tiled(loops: Loops, chain: Sequence[For], inner: Block, tile: Tile, aligned: frozenset[str] = frozenset()) -> Item:
    """A tile of the iterations of ``chain``, which are independent, as the work of an item.

    rewrite: ``for i in 0..m { for j in 0..n { S(i, j) } }`` --> ``for i_t in 0..ceil(m/r) { for j_t in 0..ceil(n/c) {
    S(min(r*i_t + 0, m - 1), min(c*j_t + 0, n - 1)); ... } }`` where what is past the end is not stored

    Raises:
        ScheduleError: iterations read what others write, or bounds of a loop depend on another.
    """
    loads, stores = buffers_used(inner)
    outs = frozenset(p.buffer.name for p in loops.params if p.mode != "read")
    if loads & stores & {p.buffer.name for p in loops.params}:
        raise ScheduleError("a parameter is read and written")
    if not chain:
        raise ScheduleError("no loop to divide among items")
    if any(loop.until is not None for loop in chain):
        raise ScheduleError("a loop over items ends early")
    shape = Shape.of(chain, inner, classify(loops))
    cols = _columns(chain[-1], tile)
    lanes = cols.lanes
    while True:
        try:
            body = _in_lanes(inner, chain[-1], cols)
            break
        except ScheduleError:
            if lanes == 1:
                raise
            lanes, cols = 1, replace(cols, lanes=1)
    rows = shape.rows(tile.rows if cols.lanes > 1 else tile.scalar_rows or tile.rows)
    instances = [
        Instance({**row.env, **col.env}, f"_{k}" if k else "", (*row.inside, *col.inside), col.skipped)
        for k, (row, col) in enumerate((r, c) for r in rows.instances() for c in cols.instances())
    ]
    body = unrolled(body, tile.steps)
    work = lifted(loops, unroll_and_jam(body, instances, outs), aligned)
    return Item((*shape.outer, *rows.loops, cols.loop), work)


def rows_of(chain: Sequence[For], inner: Block, pattern: Pattern) -> tuple[For, ...]:
    """The loops whose iterations share the second factor of a product, or what neighbouring windows read."""
    return Shape.of(chain, inner, pattern).inner if chain else ()


@dataclass(frozen=True)
class _Part:
    """One place of a tile along an axis."""

    env: Mapping[Var, Dim]
    inside: tuple[ValueExpr, ...] = ()
    skipped: Dim = 0


@dataclass(frozen=True)
class Shape:
    """Which loops are rows of tiles, and those outside of them."""

    outer: tuple[For, ...]
    inner: tuple[For, ...]

    @classmethod
    def of(cls, chain: Sequence[For], inner: Block, pattern: Pattern) -> Shape:
        """Rows are the loops that the second factor of a product is the same for; of a window one loop, whose
        neighbours share what they read; else none."""
        *before, _ = chain
        if pattern.kind == "contraction" and pattern.product is not None:
            b = {v for n in walk(inner) if isinstance(n, Load) and n.buffer == pattern.product.b for d in n.index
                 for v in free_vars(d)}  # fmt: skip
            count = next((k for k, loop in enumerate(reversed(before)) if loop.var in b), len(before))
        else:
            count = min(len(before), 1) if pattern.kind == "window" else 0
        cut = len(before) - count
        return cls(tuple(before[:cut]), tuple(before[cut:]))

    def rows(self, count: int) -> _Rows:
        """So many rows to a tile."""
        return _Rows(self.inner, count)


@dataclass(frozen=True)
class _Rows:
    """Loops that are one axis of rows, ``count`` to a tile."""

    fused: tuple[For, ...]
    count: int

    @property
    def extent(self) -> Dim:
        """How many rows there are."""
        return places(self.fused)

    @property
    def _tile(self) -> int:
        return _even(self.extent, self.count)

    @property
    def _var(self) -> Var:
        maximum = max_value(ceildiv(self.extent, self._tile))
        return Var("_".join(loop.var.name for loop in self.fused) + "_t", 0, max((maximum or 1) - 1, 1))

    @property
    def loops(self) -> tuple[For, ...]:
        """The loop over tiles."""
        if not self.fused:
            return ()
        return (For(self._var, 0, ceildiv(self.extent, self._tile), Block(())),)

    def instances(self) -> Iterator[_Part]:
        """The rows of a tile."""
        if not self.fused:
            yield _Part({})
            return
        size, extent = self._tile, self.extent
        whole = divides(size, extent)
        for k in range(size):
            at = self._var.expr * size + k
            row = at if whole else dmin(at, extent - 1)
            inside = () if whole or k == 0 else (op("lt", idx(at), idx(extent)),)
            yield _Part(places_of(self.fused, row), inside)


@dataclass(frozen=True)
class _Columns:
    """The innermost loop, ``count`` vectors of ``lanes`` to a tile."""

    source: For
    count: int
    lanes: int

    @property
    def extent(self) -> Dim:
        """How many columns there are."""
        return self.source.hi - self.source.lo

    @property
    def _size(self) -> int:
        return self.count * self.lanes

    @property
    def _var(self) -> Var:
        maximum = max_value(ceildiv(self.extent, self._size))
        return Var(f"{self.source.var.name}_t", 0, max((maximum or 1) - 1, 1))

    @property
    def start(self) -> Var:
        """Where a vector begins."""
        return Var(f"{self.source.var.name}_v", self.source.var.lo, self.source.var.hi)

    @property
    def lane(self) -> Var:
        """The place in a vector."""
        return Var(f"{self.source.var.name}_l", 0, self.lanes - 1)

    @property
    def loop(self) -> For:
        """The loop over tiles."""
        return For(self._var, 0, ceildiv(self.extent, self._size), Block(()))

    def instances(self) -> Iterator[_Part]:
        """The vectors of a tile."""
        extent = self.extent
        whole, vectors = divides(self._size, extent), divides(self.lanes, extent)
        quads = self.lanes == 1 and self._size % QUAD == 0 and grain(extent) % QUAD == 0
        for k in range(self.count):
            at = self._var.expr * self._size + k * self.lanes
            start = at if whole else dmin(at, extent - self.lanes)
            first = at - k % QUAD if quads else at  # neighbours in a vector are there together
            inside = () if whole or k < (QUAD if quads else 1) or not vectors else (op("lt", idx(first), idx(extent)),)
            yield _Part({self.start: start + self.source.lo}, inside, 0 if vectors else at - start)


def _columns(loop: For, tile: Tile) -> _Columns:
    extent = loop.hi - loop.lo
    minimum = min_value(extent) or 0
    lanes = tile.lanes
    while lanes > 1 and lanes > minimum:
        lanes //= 2
    lanes = lanes if lanes >= _LANES else 1
    columns = tile.columns if lanes > 1 else tile.scalar_columns or tile.columns
    count = _even(ceildiv(extent, lanes), max(columns // lanes, 1))
    if lanes == 1 and columns >= QUAD and count > 1:
        count = -(-count // QUAD) * QUAD
    return _Columns(loop, count, lanes)


def _in_lanes(body: Block, loop: For, cols: _Columns) -> Block:
    """The body at a vector of columns."""
    if cols.lanes == 1:
        return substitute_dims(body, {loop.var: cols.start.expr})
    mine = frozenset(n.buffer.name for n in walk(body) if isinstance(n, Alloc) and n.buffer.space == "register")
    placed = substitute_dims(body, {loop.var: cols.start.expr + cols.lane.expr})
    return Lanes(cols.lane, cols.lanes, mine).block(placed)


def _even(extent: Dim, maximum: int) -> int:
    """The size of tiles of at most ``maximum``, so that the last one is as full as the others."""
    if not isinstance(extent, int) or maximum <= 1:
        return max(maximum, 1)
    count = -(-extent // maximum)
    return max(-(-extent // max(count, 1)), 1)
