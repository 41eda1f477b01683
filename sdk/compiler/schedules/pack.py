"""Packing: a constant operand re-laid at build time so that a tile of it is one run of memory."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from sdk.compiler.analysis.pattern import has_condition
from sdk.compiler.ir.layout import Fuse, Layout, Pad, Permute, Step, Tile
from sdk.compiler.ir.loops import Alloc, For, Imm, Let, Load, Loops, Param, Stmt, Store
from sdk.compiler.ir.walk import dims_used, rewrite, statements, substitute_dims, walk
from sdk.compiler.schedules.locate import Loop, ScheduleError, replace_loop
from sdk.compiler.schedules.tensorize import is_mac
from sdk.compiler.sym import Var, free_vars
from sdk.errors import BuildError

__all__ = ["pack", "pad", "stored_as"]


def pack(loops: Loops, param: str, row_tile: int, col_tile: int, axis: int = 0) -> Loops:
    """Lays out a read-only parameter, seen as rows (``axis``) by columns (the other axes in order), in tiles.

    rewrite: ``w[r, c…]`` --> ``w[r / rt, c / ct, r mod rt, c mod ct]`` with shape
    [ceil(R/rt), ceil(C/ct), rt, ct], zeros past the edges; axes for tiles of 1 are left
    out, so that tiles of 1 by 1 just make a matrix of it.
    obligation: the parameter is only read, its shape is numbers, it is not packed yet, and its reads are inside
    without a condition or a scalar that says so.
    """
    buffer = loops.param(param).buffer
    if loops.param(param).mode != "read" or param in loops.layouts:
        raise ScheduleError(f"pack({param}): the parameter is written or packed already")
    if any(not isinstance(d, int) for d in buffer.shape) or not 0 <= axis < len(buffer.shape):
        raise ScheduleError(f"pack({param}): the shape {buffer.shape} is not one of numbers with an axis {axis}")
    if has_condition(loops, param) or _indexed_by_scalars(loops, param):
        raise ScheduleError(f"pack({param}): it is read where a condition holds, or at an index known at run time")
    axes = range(len(buffer.shape))
    rows_first = (Permute((axis, *(k for k in axes if k != axis))),) if axis else ()
    tiles = (Tile(k, size) for k, size in enumerate((row_tile, col_tile)) if size > 1)
    layout = Layout((*rows_first, Fuse(1, -1), *tiles))

    def one(node: Any) -> Any:
        if isinstance(node, Load) and node.buffer == param:
            return replace(node, index=layout.index(node.index, buffer.shape))
        return node

    if any(isinstance(n, Load) and n.buffer == param and n.dtype.lanes > 1 for n in walk(loops.body)):
        raise ScheduleError(f"pack({param}): pack before lanes are made")
    return stored_as(replace(loops, body=rewrite(loops.body, one)), param, *layout.steps)


def stored_as(loops: Loops, param: str, *steps: Step) -> Loops:
    """The function with a parameter stored as more steps make it of how it is; reads are not rewritten.

    Raises:
        ScheduleError: a step does not apply to it.
    """

    def one(p: Param) -> Param:
        if p.buffer.name != param:
            return p
        type = Layout(steps).stored(p.buffer.type)
        return Param(replace(p.buffer, dtype=type.dtype, shape=type.shape), p.mode, p.layout.then(*steps))

    try:
        return replace(loops, params=tuple(map(one, loops.params)))
    except BuildError as error:
        raise ScheduleError(f"parameter {param}: {error.message}") from None


def _indexed_by_scalars(loops: Loops, param: str) -> bool:
    """Whether an index of a read of the parameter uses a scalar that a ``Let`` binds."""
    scalars = {n.name for n in statements(loops.body) if isinstance(n, Let)}
    return any(
        v.name in scalars
        for n in walk(loops.body)
        if isinstance(n, Load) and n.buffer == param
        for d in n.index
        for v in free_vars(d)
    )


def pad(loops: Loops, name: Loop, multiple: int) -> Loops:
    """Rounds a reduction up; the steps added multiply zeros.

    rewrite: ``for k in 0..27 { c = c + a[k]*b[k] }`` --> ``for k in 0..28 { c = c + a[k]*b[k] }``
    obligation: the loop runs from 0 to a number and holds one multiply-accumulate; one operand is a window read
    at k whose elements past the end are filled with zeros, the other a parameter packed that far, or packed in tiles
    of 1, which is filled up too.
    """
    filled: list[str] = []

    def one(loop: For) -> tuple[Stmt, ...]:
        if loop.lo != 0 or not isinstance(loop.hi, int) or loop.until is not None or not is_mac(loop):
            raise ScheduleError(f"pad({name}): the loop must be a multiply-accumulate from 0 to a number")
        hi = -(-loop.hi // multiple) * multiple
        reads = {n.buffer: n for n in walk(loop.body) if isinstance(n, Load) and loop.var in _vars(n)}
        windows = [b for b in reads if reads[b].index == (loop.var.expr,) and _zero_after(loops, b, loop.hi, hi)]
        others = [b for b in reads if b in loops.layouts and _columns(loops.param(b)) >= hi]
        if hi > loop.hi and not others:
            others = [b for b in reads if b in loops.layouts and _plain(loops.param(b))]
            filled.extend(others)
        if len(reads) != 2 or not windows or not others:
            raise ScheduleError(f"pad({name}): its operands are not a window with zeros and a packed parameter")
        var = Var(loop.var.name, 0, hi - 1)
        return (For(var, 0, hi, substitute_dims(loop.body, {loop.var: var.expr}), loop.kind),)

    done = replace_loop(loops, name, one)
    return stored_as(done, filled[0], Pad(1, multiple)) if filled else done


def _plain(param: Param) -> bool:
    """Whether a packed parameter is a matrix."""
    return len(param.buffer.shape) == 2 and all(isinstance(s, Permute | Fuse) for s in param.layout.steps)


def _vars(load: Load) -> set[Var]:
    return {v for d in dims_used(load) for v in free_vars(d)}


def _columns(param: Param) -> int:
    """How many columns the tiles of a packed parameter have room for."""
    columns = param.buffer.shape[1]
    sizes = (s.size for s in param.layout.steps if isinstance(s, Tile) and s.axis == 1)
    return columns * prod(sizes) if isinstance(columns, int) else 0


def _zero_after(loops: Loops, window: str, lo: int, hi: int) -> bool:
    """Whether the function fills elements ``lo..hi`` of a temporary with zeros (there may be none to fill)."""
    if not any(isinstance(n, Alloc) and n.buffer.name == window for n in walk(loops.body)):
        return False
    return lo == hi or any(
        n.lo == lo
        and n.hi == hi
        and isinstance(store := n.body.body[0], Store)
        and (store.buffer, store.index) == (window, (n.var.expr,))
        and isinstance(store.value, Imm)
        and store.value.value == 0
        for n in statements(loops.body)
        if isinstance(n, For)
    )
