"""Which register tile a product of floats runs in, and what of it threads divide, by a model of its cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from sdk.compiler.machines.machine import FloatUnit
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.sym import Dim

__all__ = ["Axis", "PanelCosts", "Product", "Tile", "tile_for"]

USUAL_ROWS: Final = 64  # taken for a symbolic number of rows

Axis = Literal["rows", "columns"]


@dataclass(frozen=True, slots=True)
class PanelCosts:
    """What tiles of a core's vectors are weighed by: at most ``max_rows`` rows, of which ``max_pointers`` have a
    distance known at run time, as each takes an address register; bytes that a panel may take of the second cache;
    products under way at once that keep the units busy (``latency``); bytes from the third cache, or from that of
    another core, in the time of a vector of products (``afar``)."""

    max_rows: int
    max_pointers: int
    panel_bytes: int
    latency: int
    afar: int


@dataclass(frozen=True, slots=True)
class Product:
    """What is known of a product: ``rows`` by ``columns`` (None: symbolic), the ``depth`` of its sums (None: not
    long), and the ``stride`` of the left operand from row to row."""

    rows: int | None
    columns: int | None
    depth: int | None = None
    stride: Dim | None = 1


@dataclass(frozen=True, slots=True)
class Tile:
    """``rows`` by ``vectors`` accumulators in registers; ``tails`` are the rows of the tiles that finish; threads
    divide the tiles over rows, or the panels of columns."""

    rows: int
    vectors: int
    tails: tuple[int, ...]
    axis: Axis = "rows"

    def panels(self, unit: FloatUnit, product: Product) -> int:
        """How many panels the columns are, 1 where their number is symbolic."""
        return -(-(_vectors(unit, product) or 1) // self.vectors)


def tile_for(
    unit: FloatUnit, costs: PanelCosts, product: Product, threads: int = 1, axes: tuple[Axis, ...] = ("rows",)
) -> Tile:
    """The tile for a product that leaves registers for one row of the right operand and one element of the left;
    ``threads`` may divide it along one of ``axes``."""
    candidates = [
        (_time(unit, costs, product, threads, size, vectors, axis), size, vectors, axis)
        for size, vectors in _tiles(unit, costs, product)
        for axis in axes
    ]
    if not candidates:
        raise ScheduleError("no register tile fits")
    _, rows, vectors, axis = min(candidates, key=lambda candidate: round(candidate[0], 9))
    return Tile(rows, vectors, _tails(costs, rows, vectors), axis)


def _tiles(unit: FloatUnit, costs: PanelCosts, product: Product) -> Iterator[tuple[int, int]]:
    """Rows and vectors of the tiles that fit the registers."""
    limit = costs.max_rows if isinstance(product.stride, int) else costs.max_pointers
    wanted = _vectors(unit, product)
    for vectors in (1, 2, 3, 4, 5, 6, 8):
        maximum = min((unit.registers - 1 - vectors) // vectors, limit)
        if maximum < 1 or vectors > (wanted or 2) or (vectors > 5 and product.rows != 1):
            continue
        for size in range(1, maximum + 1) if product.rows is not None else (maximum,):
            if product.rows is None or size <= product.rows:
                yield size, vectors


def _vectors(unit: FloatUnit, product: Product) -> int | None:
    return None if product.columns is None else -(-product.columns // unit.lanes)


def _time(
    unit: FloatUnit, costs: PanelCosts, product: Product, threads: int, size: int, vectors: int, axis: Axis
) -> float:
    """Vectors of products, and what takes as long, per step of the sums and vector of columns."""
    wanted, rows = _vectors(unit, product), product.rows or USUAL_ROWS
    across = 1 if wanted is None else -(-wanted // vectors)
    if axis == "columns":
        across = -(-across // threads)
    mine = _largest_part(rows, size, threads if axis == "rows" else 1)
    panels = 1 if wanted is None else across * vectors / wanted
    work = _cost(costs, mine, size, vectors) / vectors
    loads = (size + vectors) / (size * vectors)  # per product; two are free
    time = work * panels * max(1.0, loads) + 0.01 * loads * work
    if 4 * unit.lanes * vectors * (product.depth or 0) > costs.panel_bytes and (product.rows is None or mine > size):
        time *= 2  # every tile would fetch the panel from afar
    return time + (_afar(unit, product, threads, axis) / costs.afar if threads > 1 else 0.0)


def _largest_part(rows: int, size: int, threads: int) -> int:
    """Rows of the largest part, where parts end at the tiles nearest to equal shares."""
    cuts = [min((2 * rows * k + threads * size) // (2 * threads * size) * size, rows) for k in range(threads)]
    return max(b - a for a, b in zip(cuts, [*cuts[1:], rows], strict=True))


def _afar(unit: FloatUnit, product: Product, threads: int, axis: Axis) -> float:
    """Bytes that a thread reads and no other cache near to it holds, per step of the sums and vector of columns:
    weights, the left operand, and of the result what others will read."""
    rows, vector = product.rows or USUAL_ROWS, 4 * unit.lanes
    wanted = _vectors(unit, product) or 1
    if axis == "rows":
        return vector + 4 * rows / threads / wanted
    result = rows * vector / (product.depth or 1) * (threads - 1) / threads
    return vector / threads + 4 * rows / wanted + result


def _cost(costs: PanelCosts, rows: int, tile: int, vectors: int) -> int:
    """Cycles per step of the reduction for ``rows`` in tiles of one size, then in those for the rest."""
    out = 0
    for size in (tile, *_tails(costs, tile, vectors)):
        out += rows // size * max(size * vectors, costs.latency)
        rows %= size
    return out


def _tails(costs: PanelCosts, rows: int, vectors: int) -> tuple[int, ...]:
    """The fewest rows that keep the units busy, then single ones: each size is code of its own."""
    busy = -(-costs.latency // vectors) if vectors > 1 else costs.latency // 2
    return tuple(size for size in dict.fromkeys((busy, 1)) if size < rows)
