"""Rules for products of floats: register tiles of vectors over packed or staged panels of the right operand."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from sdk.compiler.analysis.pattern import Contraction, has_condition
from sdk.compiler.ir.loops import Alloc, For, Load, Loops
from sdk.compiler.ir.walk import statements, walk
from sdk.compiler.machines.machine import FloatUnit, Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.locate import Loop, ScheduleError, Tiles, find, fresh, loop_of, loops_of
from sdk.compiler.schedules.rules.nest import extent, from_rows, fuse_all
from sdk.compiler.schedules.rules.tiles import Axis, PanelCosts, Product, Tile, tile_for
from sdk.compiler.schedules.trace import Schedule
from sdk.compiler.sym import Dim, Var, flat_index, free_vars, min_value, substitute
from sdk.compiler.verify.loops import verify_loops

__all__ = ["FloatPanels", "column_axis"]


@dataclass(frozen=True, slots=True)
class FloatPanels:
    """Panels of the right operand outside, rows in tiles of registers inside, the epilogue on the registers.

    Reads of the left operand that reach past an edge are staged, a region of some rows of the image at a time. Where
    the epilogue cannot be made lanes, it runs on a tile of sums kept in scratch. Threads that share a call divide
    its rows or its panels. It takes ``minimum`` multiply-accumulates.

    ``costs`` choose the tile; where rows of an image are short, ``pixels`` at least share a panel of weights.
    """

    minimum: int
    costs: PanelCosts
    pixels: int
    name = "float-panels"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Products of floats, in vectors."""
        return machine.floats.lanes > 1 and nest.is_product("contraction", "floats", self.minimum)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Tiles of vector registers.

        Raises:
            ScheduleError: there are no rows, or an access cannot be proved inside its buffer.
        """
        if len(nest.part.spatial) < 2:
            raise ScheduleError("no rows")
        for separate in (False, True):
            try:
                done = _scheduled(self, nest, machine.floats, separate, fissioned=False)
            except ScheduleError:
                done = _scheduled(self, nest, machine.floats, separate, fissioned=True)
            if _proved(done):
                return done
        raise ScheduleError("an access cannot be proved inside its buffer")


def _proved(loops: Loops) -> bool:
    """Whether the verifier proves every access: a division of pixels into rows and columns can be beyond it."""
    found: list[str] = []
    verify_loops(loops, lambda _, message: found.append(message))
    return not found


def _scheduled(rule: FloatPanels, nest: Nest, unit: FloatUnit, separate: bool, fissioned: bool) -> Loops:
    part, s = nest.part, Schedule(nest.loops)
    column, reduce = loop_of(part.spatial[-1]), loops_of(part.reduce)
    checked = has_condition(nest.loops, part.a)
    left, rows = _region_rows(rule, s, part) if checked else (part.a, _pixels(s, part, separate))
    if len(reduce) > 1:
        reduce = _run(s, reduce)
    tile = _tile(rule.costs, s, nest, left, unit, rows, fissioned)
    width, right = tile.vectors * unit.lanes, None if nest.constant(part.b) else part.b
    if right is None:
        s.pack(part.b, width, 1, column_axis(s.loops, part))
    if (
        tile.axis == "rows"
        and nest.threads > 1
        and _whole(s.loops, rows)
        and _stride(s.loops, left, rows[0]) is not None
    ):
        s.bind_rows(rows[0])  # rows that lie one behind the other are cut anywhere
    if not fissioned:
        for row in reversed(rows):
            s.reorder(row, column)
        panel = s.pad_loop(column, width).split(column, width)
        vectors = _vectors(s, unit, right, part.acc, panel, rows, reduce)
        if tile.axis == "columns":
            s.bind_rows(panel.outer)
    for tiles in s.tile_tails(rows[-1], [tile.rows, *tile.tails]):
        sums = tiles.in_tail(reduce)
        if fissioned:
            (whole,) = tiles.in_tail([column])
            panel = s.pad_loop(whole, width).split(whole, width)
            s.fission(tiles.inner)
            s.reorder(tiles.inner, panel.outer).reorder(tiles.inner, panel.inner)
            acc = tiles.buffers.get(part.acc, part.acc)
            across = _vectors(s, unit, right, acc, panel, [tiles.inner], sums)
        else:
            (across,) = tiles.in_tail([vectors])
        s.unroll_and_jam(tiles.inner, sums).unroll(tiles.inner).unroll(across)
    return s.done()


def _tile(
    costs: PanelCosts, s: Schedule, nest: Nest, left: str, unit: FloatUnit, rows: list[Loop], fissioned: bool
) -> Tile:
    """The tile; threads divide its rows where one loop runs over all rows of a call, or its panels."""
    threads, columns = nest.threads, nest.part.spatial[-1].hi
    product = Product(
        _count(s.loops, rows[-1]),
        columns if isinstance(columns, int) else None,
        extent(nest.part.reduce),
        _stride(s.loops, left, rows[-1]),
    )
    panels = threads > 1 and not fissioned and product.columns is not None
    if _whole(s.loops, rows):
        axes: tuple[Axis, ...] = ("rows", "columns") if panels else ("rows",)
        return tile_for(unit, costs, product, threads, axes)
    tile = tile_for(unit, costs, product)
    if panels and _evenly(_blocks(s.loops), threads) < _evenly(tile.panels(unit, product), threads):
        return replace(tile, axis="columns")
    return tile


def _evenly(parts: int, threads: int) -> float:
    """How many times faster threads are that divide so many equal parts."""
    return parts / -(-parts // threads)


def _blocks(loops: Loops) -> int:
    """How many parts the rows of a call have at least, where regions or heads are around the rows of a product."""
    hi = loops.rows.hi if loops.rows else None
    around = [n for n in statements(loops.body) if isinstance(n, For) and hi in free_vars(n.hi)]
    minimum = min_value(_all_rows(loops, around[0].hi)) if around else 1
    return max(minimum or 1, 1)


def _whole(loops: Loops, rows: list[Loop]) -> bool:
    """Whether one loop runs over all that the rows of a call are."""
    return len(rows) == 1 and loops.rows is not None and loops.rows.hi in free_vars(find(loops, rows[0]).hi)


def _vectors(
    s: Schedule, unit: FloatUnit, right: str | None, acc: str, panel: Tiles, rows: list[Loop], reduce: list[Loop]
) -> Loop:
    """Makes vectors of the columns of a panel; the loop over them. The operand ``right`` is copied a panel at a time,
    in lanes where its rows are runs of memory."""
    if right:
        copy = s.cache_read(panel.outer, right, [*reduce, panel.inner])
        s.attempt(_copy_lanes, copy.loops[-1], unit.lanes)
    vectors, into = s.split(panel.inner, unit.lanes), [*rows, *reduce]
    s.unroll_and_jam(vectors.inner, into).vectorize(vectors.inner).vector_registers(acc, unit.lanes)
    s.unroll_and_jam(vectors.outer, into)
    if unit.fma:
        s.use_fma(reduce[-1])
    return vectors.outer


def _copy_lanes(s: Schedule, copy: Loop, lanes: int) -> Schedule:
    return s.vectorize(s.split(copy, lanes).inner)


def _pixels(s: Schedule, part: Contraction, separate: bool) -> list[Loop]:
    """The loops over rows of the left operand that share the right one: one loop of all where they follow each
    other in memory, unless they are to stay ``separate``."""
    inside = loops_of(from_rows(s.loops, part.spatial[:-1]))
    shared = [n for n in inside if not _reads_vary(s.loops, part.b, n)]
    if separate or len(inside) < 2 or shared != inside:
        return shared or inside[-1:]
    pixel = s.attempt(_one_loop, part, inside)
    return [pixel] if pixel else inside


def _one_loop(s: Schedule, part: Contraction, rows: list[Loop]) -> Loop:
    pixel = fuse_all(s, rows, fresh(s.loops, "px"))
    if _flat_step(s.loops, part.a, find(s.loops, pixel).var) is None and not isinstance(part.spatial[-2].hi, int):
        raise ScheduleError("a division by a symbol for each row of a tile")
    return pixel


def _region_rows(rule: FloatPanels, s: Schedule, part: Contraction) -> tuple[str, list[Loop]]:
    """Copies the rows of the image that some rows of the result read; the buffer, and the loops over pixels below."""
    chain = from_rows(s.loops, part.spatial[:-1])
    first, *inside = loops_of(chain)
    if any(_reads_vary(s.loops, part.b, n) for n in (first, *inside)):
        raise ScheduleError("the right operand varies over the rows")
    across = 1
    for loop in chain[1:]:
        across *= math.isqrt(max(min_value(loop.hi) or 1, 1) * (loop.var.hi + 1))
    region = -(-rule.pixels // across)
    if region > 1:
        rows = s.block(first, region)
        return s.line_buffer(rows.outer, part.a).buffer.name, [rows.inner, *inside]
    if not inside:
        raise ScheduleError("one row is one pixel")
    return s.line_buffer(first, part.a).buffer.name, inside


def _run(s: Schedule, reduce: list[Loop]) -> list[Loop]:
    """Fuses the innermost reductions where they read one run of the left operand."""
    run = s.attempt(_one_run, reduce[-2:])
    return [*reduce[:-2], run] if run else reduce


def _one_run(s: Schedule, chain: list[Loop]) -> Loop:
    run = fuse_all(s, chain, fresh(s.loops, "run"))
    if any(_flat_step(s.loops, b, find(s.loops, run).var) is None for b in _sources(s.loops, run)):
        raise ScheduleError("not one run")
    return run


def _sources(loops: Loops, name: Loop) -> set[str]:
    """The buffers that the body of a loop reads at indices that vary with it."""
    loop = find(loops, name)
    return {n.buffer for n in walk(loop.body) if isinstance(n, Load) and any(loop.var in free_vars(d) for d in n.index)}


def _reads_vary(loops: Loops, buffer: str, name: Loop) -> bool:
    var = find(loops, name).var
    return any(
        isinstance(n, Load) and n.buffer == buffer and any(var in free_vars(d) for d in n.index)
        for n in walk(loops.body)
    )


def _flat_step(loops: Loops, buffer: str, var: Var) -> Dim | None:
    """How many elements further the reads of a buffer are one step of ``var`` later; None where that varies."""
    shapes = {p.buffer.name: p.buffer.shape for p in loops.params}
    shapes |= {n.buffer.name: n.buffer.shape for n in statements(loops.body) if isinstance(n, Alloc)}
    found: set[Dim] = set()
    for node in walk(loops.body):
        if isinstance(node, Load) and node.buffer == buffer:
            flat = flat_index(node.index, shapes[buffer])
            step = substitute(flat, {var: var.expr + 1}) - flat
            found.add(step)
    if len(found) != 1:
        return None
    (only,) = found
    return None if var in free_vars(only) else only


def _count(loops: Loops, row: Loop) -> int | None:
    """How many iterations the rows have, at the whole extent of the result."""
    count = _all_rows(loops, find(loops, row).hi)
    return count if isinstance(count, int) else None


def _all_rows(loops: Loops, dim: Dim) -> Dim:
    """A dim for a call of all rows."""
    rows = loops.rows
    return substitute(dim, {rows.hi: rows.extent, rows.lo: 0}) if rows and not isinstance(dim, int) else dim


def _stride(loops: Loops, left: str, row: Loop) -> Dim | None:
    """The step of the left operand from row to row; None where that varies, or it does not move."""
    return _flat_step(loops, left, find(loops, row).var) if left in _sources(loops, row) else None


def column_axis(loops: Loops, part: Contraction) -> int:
    """The axis of the right operand that the columns run over."""
    var = part.spatial[-1].var
    found = {
        k
        for n in walk(loops.body)
        if isinstance(n, Load) and n.buffer == part.b
        for k, at in enumerate(n.index)
        if var in free_vars(at)
    }
    if len(found) != 1:
        raise ScheduleError(f"the columns of {part.b} are not one axis")
    return found.pop()
