"""Rules for products of floats: register tiles of vectors over packed or staged panels of the right operand."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from sdk.compiler.ir.loops import Alloc, For, Load, Loops
from sdk.compiler.ir.pattern import Contraction, has_condition
from sdk.compiler.ir.verify_loops import verify_loops
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.model import FloatUnit, Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.locate import ScheduleError, find, fresh, has
from sdk.compiler.schedules.rules.nest import extent, from_rows, fuse_all, names
from sdk.compiler.schedules.rules.tiles import Axis, PanelCosts, Product, Tile, tile_for
from sdk.compiler.schedules.trace import Schedule
from sdk.compiler.sym import Dim, Var, flat_index, free_vars, min_value, substitute

__all__ = ["FloatPanels", "column_axis"]


def _number(dim: Dim) -> int | None:
    return dim if isinstance(dim, int) else None


@dataclass(frozen=True, slots=True)
class FloatPanels:
    """Panels of the right operand outside, rows in tiles of registers inside, the epilogue on the registers.

    Reads of the left operand that reach past an edge are staged, a region of some rows of the image at a time. Where
    the epilogue cannot be made lanes, it runs on a tile of sums kept in scratch. Threads that share a call divide
    its rows or its panels. It takes ``least`` multiply-accumulates.

    ``costs`` choose the tile; where rows of an image are short, ``pixels`` at least share a panel of weights.
    """

    least: int
    costs: PanelCosts
    pixels: int
    name = "float-panels"

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Products of floats, in vectors."""
        return machine.floats.lanes > 1 and nest.is_product("contraction", "floats", self.least)

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """Tiles of vector registers.

        Raises:
            ScheduleError: there are no rows, or an access cannot be proved inside its buffer.
        """
        return _panels(self, nest.loops, nest.part, machine.floats, nest.constant(nest.part.b), nest.threads)


def _panels(
    rule: FloatPanels, loops: Loops, part: Contraction, unit: FloatUnit, constant: bool, threads: int
) -> Loops:
    if len(part.spatial) < 2:
        raise ScheduleError("no rows")
    for apart in (False, True):
        try:
            done = _scheduled(rule, loops, part, unit, constant, threads, apart, aside=False)
        except ScheduleError:
            done = _scheduled(rule, loops, part, unit, constant, threads, apart, aside=True)
        if _proved(done):
            return done
    raise ScheduleError("an access cannot be proved inside its buffer")


def _proved(loops: Loops) -> bool:
    """Whether the verifier proves every access: a division of pixels into rows and columns can be beyond it."""
    found: list[str] = []
    verify_loops(loops, lambda _, message: found.append(message))
    return not found


def _scheduled(
    rule: FloatPanels,
    loops: Loops,
    part: Contraction,
    unit: FloatUnit,
    constant: bool,
    threads: int,
    apart: bool,
    aside: bool,
) -> Loops:
    column, reduce = part.spatial[-1].var.name, names(part.reduce)
    s = Schedule(loops)
    rows = _region_rows(rule, s, part) if has_condition(loops, part.a) else _pixels(s, part, apart)
    if len(reduce) > 1:
        reduce = _run(s, reduce)
    tile = _tile(rule.costs, s, part, unit, rows, threads, aside)
    s.knobs |= {"lanes": unit.lanes, "tm": tile.rows, "nr": tile.vectors * unit.lanes}
    if constant:
        s.do("pack", part.b, "nr", 1, column_axis(s.loops, part))
    right = "" if constant else part.b
    if threads > 1 and tile.axis == "rows" and _whole(s.loops, rows) and _stride(s.loops, part, rows[0]) is not None:
        s.do("bind_rows", rows[0])  # rows that lie one behind the other are cut anywhere
    if not aside:
        _columns(s, right, column, rows, reduce, unit.fma)
    if tile.axis == "columns":
        s.do("bind_rows", f"{column}_o")
    row = rows[-1]
    s.do("cascade", row, ["tm", *(str(size) for size in tile.tails)])
    for suffix in ("", *(f"_t{size}" for size in tile.tails)):
        inner, across, sums = f"{row}_i{suffix}", f"{column}{suffix}", [f"{r}{suffix}" for r in reduce]
        if not has(s.loops, inner):
            continue
        if aside:
            s.do("round_up", across, "nr").do("split", across, "nr").do("fission", inner)
            _columns(s, right, across, [inner], sums, unit.fma)
        s.do("unroll_and_jam", inner, sums).do("unroll", inner)
        written_out = f"{column}_i_o{suffix}" if not aside else f"{across}_i_o"
        if has(s.loops, written_out):
            s.do("unroll", written_out)
    return s.done()


def _tile(
    costs: PanelCosts, s: Schedule, part: Contraction, unit: FloatUnit, rows: list[str], threads: int, aside: bool
) -> Tile:
    """The tile; threads divide its rows where one loop runs over all rows of a call, or its panels."""
    product = Product(
        _count(s.loops, rows[-1]),
        _number(part.spatial[-1].hi),
        extent(part.reduce),
        _stride(s.loops, part, rows[-1]),
    )
    panels = threads > 1 and not aside and product.columns is not None
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
    around = [n for n in walk(loops.body) if isinstance(n, For) and hi in free_vars(n.hi)]
    least = min_value(_all_rows(loops, around[0].hi)) if around else 1
    return max(least or 1, 1)


def _whole(loops: Loops, rows: list[str]) -> bool:
    """Whether one loop runs over all that the rows of a call are."""
    return len(rows) == 1 and loops.rows is not None and loops.rows.hi in free_vars(find(loops, rows[0]).hi)


def _columns(s: Schedule, right: str, column: str, rows: list[str], reduce: list[str], fma: bool) -> None:
    """Moves the columns out of the rows, in panels of vectors; the operand ``right`` is staged a panel at a time."""
    whole = column if has(s.loops, column) else f"{column}_o"
    for row in reversed(rows):
        s.do("reorder", row, whole)
    if whole == column:
        s.do("round_up", column, "nr").do("split", column, "nr")
    else:
        s.do("reorder", rows[-1], f"{column}_i")
    if right:
        _stage_panel(s, right, f"{column}_o", [*reduce, f"{column}_i"])
    into = [*rows, *reduce]
    inside = walk(find(s.loops, rows[0]).body)
    acc = next(n.buffer.name for n in inside if isinstance(n, Alloc) and n.buffer.space == "register")
    s.do("split", f"{column}_i", "lanes").do("unroll_and_jam", f"{column}_i_i", into)
    s.do("vectorize", f"{column}_i_i").do("vector_registers", acc, "lanes").do("unroll_and_jam", f"{column}_i_o", into)
    if fma:
        s.do("use_fma", reduce[-1])


def _pixels(s: Schedule, part: Contraction, apart: bool) -> list[str]:
    """The loops over rows of the left operand that share the right one: one loop of all where they follow each
    other in memory, unless they are to stay ``apart``."""
    inside = names(from_rows(s.loops, part.spatial[:-1]))
    shared = [n for n in inside if not _reads_vary(s.loops, part.b, n)]
    if apart or len(inside) < 2 or shared != inside:
        return shared or inside[-1:]
    pixel = fresh(s.loops, "px")
    return [pixel] if s.attempt(_one_loop, part, inside, pixel) else inside


def _one_loop(s: Schedule, part: Contraction, rows: list[str], pixel: str) -> None:
    fuse_all(s, rows, pixel)
    if _flat_step(s.loops, part.a, find(s.loops, pixel).var) is None and not isinstance(part.spatial[-2].hi, int):
        raise ScheduleError("a division by a symbol for each row of a tile")


def _region_rows(rule: FloatPanels, s: Schedule, part: Contraction) -> list[str]:
    """Stages the rows of the image that some rows of the result read; the loops over pixels below."""
    chain = from_rows(s.loops, part.spatial[:-1])
    inside = names(chain)
    if any(_reads_vary(s.loops, part.b, n) for n in inside):
        raise ScheduleError("the right operand varies over the rows")
    across = 1
    for loop in chain[1:]:
        across *= math.isqrt(max(min_value(loop.hi) or 1, 1) * (loop.var.hi + 1))
    s.knobs["region"] = -(-rule.pixels // across)
    if s.knobs["region"] > 1:
        s.do("block", inside[0], "region").do("line_buffer", f"{inside[0]}_o", part.a)
        return [f"{inside[0]}_i", *inside[1:]]
    s.do("line_buffer", inside[0], part.a)
    if len(inside) < 2:
        raise ScheduleError("one row is one pixel")
    return inside[1:]


def _run(s: Schedule, reduce: list[str]) -> list[str]:
    """Fuses the innermost reductions where they read one run of the left operand."""
    run = fresh(s.loops, "run")
    return [*reduce[:-2], run] if s.attempt(_one_run, reduce[-2:], run) else reduce


def _one_run(s: Schedule, chain: list[str], run: str) -> None:
    fuse_all(s, chain, run)
    if any(_flat_step(s.loops, b, find(s.loops, run).var) is None for b in _sources(s.loops, run)):
        raise ScheduleError("not one run")


def _sources(loops: Loops, name: str) -> set[str]:
    """The buffers that the body of a loop reads at indices that vary with it."""
    loop = find(loops, name)
    return {n.buffer for n in walk(loop.body) if isinstance(n, Load) and any(loop.var in free_vars(d) for d in n.index)}


def _reads_vary(loops: Loops, buffer: str, name: str) -> bool:
    var = find(loops, name).var
    return any(
        isinstance(n, Load) and n.buffer == buffer and any(var in free_vars(d) for d in n.index)
        for n in walk(loops.body)
    )


def _flat_step(loops: Loops, buffer: str, var: Var) -> Dim | None:
    """How many elements further the reads of a buffer are one step of ``var`` later; None where that varies."""
    shapes = {p.buffer.name: p.buffer.shape for p in loops.params}
    shapes |= {n.buffer.name: n.buffer.shape for n in walk(loops.body) if isinstance(n, Alloc)}
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


def _count(loops: Loops, row: str) -> int | None:
    """How many iterations the rows have, at the whole extent of the result."""
    return _number(_all_rows(loops, find(loops, row).hi))


def _all_rows(loops: Loops, dim: Dim) -> Dim:
    """A dim for a call of all rows."""
    rows = loops.rows
    return substitute(dim, {rows.hi: rows.extent, rows.lo: 0}) if rows and not isinstance(dim, int) else dim


def _stride(loops: Loops, part: Contraction, row: str) -> Dim | None:
    """The step of the left operand from row to row, of what it was staged to where it was."""
    var = find(loops, row).var
    return next((_flat_step(loops, b, var) for b in _sources(loops, row) if b.startswith(part.a)), None)


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


def _stage_panel(s: Schedule, right: str, at: str, over: list[str]) -> None:
    """Copies a panel, in lanes where its rows are runs of memory."""
    s.do("cache_read", at, right, over)
    s.attempt(_copy_lanes, f"{over[-1]}_s")


def _copy_lanes(s: Schedule, copy: str) -> None:
    s.do("split", copy, "lanes").do("vectorize", f"{copy}_i")
