"""Rules for products of floats: register tiles of vectors over packed or staged panels of the right operand."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sdk.compiler.ir.loops import Alloc, Load, Loops
from sdk.compiler.ir.pattern import Contraction, has_condition
from sdk.compiler.ir.walk import walk
from sdk.compiler.schedules.locate import ScheduleError, find, fresh, has
from sdk.compiler.schedules.rules.cores import FloatCore
from sdk.compiler.schedules.rules.nest import extent, fuse_all, names
from sdk.compiler.schedules.trace import Schedule
from sdk.compiler.sym import Dim, Var, free_vars, min_value, substitute

__all__ = ["Tile", "float_contraction", "tile_for"]

MAX_ROWS: Final = 14
MAX_POINTERS: Final = 8  # rows whose distance is symbolic: each takes an address register
PANEL_BYTES: Final = 640 << 10  # what a panel may take of the second cache
REGION_PIXELS: Final = 48  # pixels that share a panel of weights, at least, where rows of an image are short
LATENCY: Final = 8  # products under way at once that keep two units of four cycles busy


@dataclass(frozen=True, slots=True)
class Tile:
    """``rows`` by ``vectors`` accumulators in registers; ``tails`` are the rows of the tiles that finish."""

    rows: int
    vectors: int
    tails: tuple[int, ...]


def _cost(rows: int, tile: int, vectors: int) -> int:
    """Cycles per step of the reduction for ``rows`` in tiles of one size, then in those for the rest."""
    out = 0
    for size in (tile, *_tails(tile, vectors)):
        out += rows // size * max(size * vectors, LATENCY)
        rows %= size
    return out


def _tails(rows: int, vectors: int) -> tuple[int, ...]:
    """The fewest rows that keep the units busy, then single ones: each size is code of its own."""
    busy = -(-LATENCY // vectors) if vectors > 1 else LATENCY // 2
    return tuple(size for size in dict.fromkeys((busy, 1)) if size < rows)


def tile_for(
    core: FloatCore, rows: int | None, columns: int | None, depth: int | None = None, stride: Dim | None = 1
) -> Tile:
    """The tile for a product of ``rows`` by ``columns`` (None: symbolic) that leaves registers for one row of the
    right operand and one element of the left. ``depth`` is the length of the sums, ``stride`` the step of the left
    operand from row to row."""
    limit = MAX_ROWS if isinstance(stride, int) else MAX_POINTERS
    wanted = None if columns is None else -(-columns // core.lanes)
    best: tuple[float, int, int] | None = None
    for vectors in (1, 2, 3, 4, 6, 8):
        most = min((core.registers - 1 - vectors) // vectors, limit)
        if most < 1 or vectors > (wanted or 2) or (vectors > 4 and rows != 1):
            continue
        panels = 1 if wanted is None else -(-wanted // vectors) * vectors / wanted
        for size in range(1, most + 1) if rows is not None else (most,):
            if rows is not None and size > rows:
                continue
            work = _cost(rows or 64, size, vectors) / vectors
            loads = (size + vectors) / (size * vectors)  # per product; two are free
            cost = work * panels * max(1.0, loads) + 0.01 * loads * work
            if 4 * core.lanes * vectors * (depth or 0) > PANEL_BYTES and (rows is None or rows > size):
                cost *= 2  # every tile would fetch the panel from afar
            if best is None or cost < best[0] - 1e-9:
                best = (cost, size, vectors)
    if best is None:
        raise ScheduleError("no register tile fits")
    return Tile(best[1], best[2], _tails(best[1], best[2]))


def _number(dim: Dim) -> int | None:
    return dim if isinstance(dim, int) else None


def float_contraction(loops: Loops, part: Contraction, core: FloatCore, packable: Iterable[str] | None) -> Loops:
    """Panels of the right operand outside, rows in tiles of registers inside, the epilogue on the registers.

    Reads of the left operand that reach past an edge are staged, a region of some rows of the image at a time. Where
    the epilogue cannot be made lanes, it runs on a tile of sums kept in scratch.
    """
    if len(part.spatial) < 2 or core.lanes < 2:
        raise ScheduleError("no rows, or no vectors")
    constant = packable is None or part.b in packable
    try:
        return _scheduled(loops, part, core, constant, aside=False)
    except ScheduleError:
        return _scheduled(loops, part, core, constant, aside=True)


def _scheduled(loops: Loops, part: Contraction, core: FloatCore, constant: bool, aside: bool) -> Loops:
    column, reduce = part.spatial[-1].var.name, names(part.reduce)
    s = Schedule(loops)
    rows = _region_rows(s, part) if has_condition(loops, part.a) else _pixels(s, part)
    if len(reduce) > 1:
        reduce = _run(s, part, reduce)
    tile = tile_for(
        core,
        _count(s.loops, rows[-1]),
        _number(part.spatial[-1].hi),
        extent(part.reduce),
        _stride(s.loops, part, rows[-1]),
    )
    s.knobs |= {"lanes": core.lanes, "tm": tile.rows, "nr": tile.vectors * core.lanes}
    if constant:
        s.do("pack", part.b, "nr", 1, _column_axis(s.loops, part))
    right = "" if constant else part.b
    if not aside:
        _columns(s, right, column, rows, reduce, core.fma)
    row = rows[-1]
    s.do("cascade", row, ["tm", *(str(size) for size in tile.tails)])
    for suffix in ("", *(f"_t{size}" for size in tile.tails)):
        inner, across, sums = f"{row}_i{suffix}", f"{column}{suffix}", [f"{r}{suffix}" for r in reduce]
        if not has(s.loops, inner):
            continue
        if aside:
            s.do("round_up", across, "nr").do("split", across, "nr").do("set_aside", inner)
            _columns(s, right, across, [inner], sums, core.fma)
        s.do("jam", inner, sums).do("unroll", inner)
        written_out = f"{column}_i_o{suffix}" if not aside else f"{across}_i_o"
        if has(s.loops, written_out):
            s.do("unroll", written_out)
    return s.done()


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
    s.do("split", f"{column}_i", "lanes").do("jam", f"{column}_i_i", into)
    s.do("vectorize", f"{column}_i_i").do("vector_registers", acc, "lanes").do("jam", f"{column}_i_o", into)
    if fma:
        s.do("use_fma", reduce[-1])


def _first_row(loops: Loops, part: Contraction) -> int:
    """Which of the spatial loops runs over the rows of a call."""
    lo = loops.rows.lo.expr if loops.rows else None
    return next((k for k, loop in enumerate(part.spatial) if loop.lo is lo), 0)


def _pixels(s: Schedule, part: Contraction) -> list[str]:
    """The loops over rows of the left operand that share the right one: one loop of all where they follow each
    other in memory."""
    inside = names(part.spatial[_first_row(s.loops, part) : -1])
    shared = [n for n in inside if not _reads_vary(s.loops, part.b, n)]
    if len(inside) < 2 or shared != inside:
        return shared or inside[-1:]
    before = s.loops, list(s.steps)
    try:
        pixel = fuse_all(s, inside, fresh(s.loops, "px"))
    except ScheduleError:
        s.loops, s.steps = before
        return inside
    var = find(s.loops, pixel).var
    if _flat_step(s.loops, part.a, var) is None and not isinstance(part.spatial[-2].hi, int):
        s.loops, s.steps = before  # a division by a symbol for each row of a tile
        return inside
    return [pixel]


def _region_rows(s: Schedule, part: Contraction) -> list[str]:
    """Stages the rows of the image that some rows of the result read; the loops over pixels below."""
    inside = names(part.spatial[_first_row(s.loops, part) : -1])
    if any(_reads_vary(s.loops, part.b, n) for n in inside):
        raise ScheduleError("the right operand varies over the rows")
    across = 1
    for loop in part.spatial[_first_row(s.loops, part) + 1 : -1]:
        across *= math.isqrt(max(min_value(loop.hi) or 1, 1) * (loop.var.hi + 1))
    s.knobs["region"] = -(-REGION_PIXELS // across)
    if s.knobs["region"] > 1:
        s.do("block", inside[0], "region").do("stage_region", f"{inside[0]}_o", part.a)
        return [f"{inside[0]}_i", *inside[1:]]
    s.do("stage_region", inside[0], part.a)
    if len(inside) < 2:
        raise ScheduleError("one row is one pixel")
    return inside[1:]


def _run(s: Schedule, part: Contraction, reduce: list[str]) -> list[str]:
    """Fuses the innermost reductions where they read one run of the left operand."""
    before = s.loops, list(s.steps)
    try:
        run = fresh(s.loops, "run")
        s.do("fuse", reduce[-2], reduce[-1], run)
        if any(_flat_step(s.loops, b, find(s.loops, run).var) is None for b in _sources(s.loops, run)):
            raise ScheduleError("not one run")
    except ScheduleError:
        s.loops, s.steps = before
        return reduce
    return [*reduce[:-2], run]


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
            flat: Dim = 0
            for at, size in zip(node.index, shapes[buffer], strict=True):
                flat = flat * size + at
            step = substitute(flat, {var: var.expr + 1}) - flat
            found.add(step)
    if len(found) != 1:
        return None
    (only,) = found
    return None if var in free_vars(only) else only


def _count(loops: Loops, row: str) -> int | None:
    """How many iterations the rows have, at the whole extent of the result."""
    loop = find(loops, row)
    rows = loops.rows
    hi = substitute(loop.hi, {rows.hi: rows.extent, rows.lo: 0}) if rows and not isinstance(loop.hi, int) else loop.hi
    return _number(hi)


def _stride(loops: Loops, part: Contraction, row: str) -> Dim | None:
    """The step of the left operand from row to row, of what it was staged to where it was."""
    var = find(loops, row).var
    return next((_flat_step(loops, b, var) for b in _sources(loops, row) if b.startswith(part.a)), None)


def _column_axis(loops: Loops, part: Contraction) -> int:
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
    s.do("stage", at, right, over)
    copy = f"{over[-1]}_s"
    before = s.loops, list(s.steps)
    try:
        s.do("split", copy, "lanes").do("vectorize", f"{copy}_i")
    except ScheduleError:
        s.loops, s.steps = before
