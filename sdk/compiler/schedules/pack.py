"""Packing: a constant operand re-laid at build time so that a tile of it is one run of memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.loops import Alloc, For, Imm, Let, Load, Loops, Pack, Stmt, Store
from sdk.compiler.ir.pattern import has_condition
from sdk.compiler.ir.walk import dims_used, rewrite, substitute_dims, walk
from sdk.compiler.schedules.locate import ScheduleError, replace_loop
from sdk.compiler.schedules.tensorize import is_mac
from sdk.compiler.sym import Var, ceildiv, flat_index, floordiv, free_vars, mod, product

__all__ = ["joined_rows", "pack", "pack_array", "packing_name", "pad"]


def pack(loops: Loops, param: str, row_tile: int, col_tile: int, axis: int = 0) -> Loops:
    """Lays out a read-only parameter, seen as rows (``axis``) by columns (the other axes in order), in tiles.

    rewrite: ``w[r, c…]`` --> ``w[r / rt, c / ct, r mod rt, c mod ct]`` with shape
    [ceil(R/rt), ceil(C/ct), rt, ct], zeros past the edges; axes for tiles of 1 are left
    out, so that tiles of 1 by 1 just make a matrix of it.
    obligation: the parameter is only read, its shape is numbers, it is not packed yet, and its reads are inside
    without a condition or a scalar that says so.
    """
    buffer = loops.param(param).buffer
    if loops.param(param).mode != "read" or any(p.param == param for p in loops.packs):
        raise ScheduleError(f"pack({param}): the parameter is written or packed already")
    if any(not isinstance(d, int) for d in buffer.shape) or not 0 <= axis < len(buffer.shape):
        raise ScheduleError(f"pack({param}): the shape {buffer.shape} is not one of numbers with an axis {axis}")
    if has_condition(loops, param) or _indexed_by_scalars(loops, param):
        raise ScheduleError(f"pack({param}): it is read where a condition holds, or at an index known at run time")
    others = (*buffer.shape[:axis], *buffer.shape[axis + 1 :])
    cols = product(others)
    inner = tuple(t for t in (row_tile, col_tile) if t > 1)
    shape = (ceildiv(buffer.shape[axis], row_tile), ceildiv(cols, col_tile), *inner)

    def one(node: Any) -> Any:
        if isinstance(node, Load) and node.buffer == param:
            col = flat_index((*node.index[:axis], *node.index[axis + 1 :]), others)
            row = node.index[axis]
            tail = tuple(mod(at, t) for at, t in ((row, row_tile), (col, col_tile)) if t > 1)
            return replace(node, index=(floordiv(row, row_tile), floordiv(col, col_tile), *tail))
        return node

    if any(isinstance(n, Load) and n.buffer == param and n.dtype.lanes > 1 for n in walk(loops.body)):
        raise ScheduleError(f"pack({param}): pack before lanes are made")
    params = tuple(
        replace(p, buffer=replace(p.buffer, shape=shape)) if p.buffer.name == param else p for p in loops.params
    )
    return replace(
        loops,
        body=rewrite(loops.body, one),
        params=params,
        packs=(*loops.packs, Pack(param, row_tile, col_tile, axis)),
    )


def _indexed_by_scalars(loops: Loops, param: str) -> bool:
    """Whether an index of a read of the parameter uses a scalar that a ``Let`` binds."""
    scalars = {n.name for n in walk(loops.body) if isinstance(n, Let)}
    return any(
        v.name in scalars
        for n in walk(loops.body)
        if isinstance(n, Load) and n.buffer == param
        for d in n.index
        for v in free_vars(d)
    )


def pad(loops: Loops, name: str, multiple: int) -> Loops:
    """Rounds a reduction up; the steps added multiply zeros.

    rewrite: ``for k in 0..27 { c = c + a[k]*b[k] }`` --> ``for k in 0..28 { c = c + a[k]*b[k] }``
    obligation: the loop runs from 0 to a number and holds one multiply-accumulate; one operand is a window read
    at k whose elements past the end are filled with zeros, the other a parameter packed that far.
    """

    def one(loop: For) -> tuple[Stmt, ...]:
        if loop.lo != 0 or not isinstance(loop.hi, int) or loop.until is not None or not is_mac(loop):
            raise ScheduleError(f"pad({name}): the loop must be a multiply-accumulate from 0 to a number")
        hi = -(-loop.hi // multiple) * multiple
        reads = {n.buffer: n for n in walk(loop.body) if isinstance(n, Load) and loop.var in _vars(n)}
        packed = {p.param: p.col_tile for p in loops.packs}
        windows = [b for b in reads if reads[b].index == (loop.var.expr,) and _zero_after(loops, b, loop.hi, hi)]
        others = [b for b in reads if b in packed and _columns(loops, b, packed[b]) >= hi]
        if len(reads) != 2 or not windows or not others:
            raise ScheduleError(f"pad({name}): its operands are not a window with zeros and a packed parameter")
        var = Var(loop.var.name, 0, hi - 1)
        return (For(var, 0, hi, substitute_dims(loop.body, {loop.var: var.expr}), loop.kind),)

    return replace_loop(loops, name, one)


def _vars(load: Load) -> set[Var]:
    return {v for d in dims_used(load) for v in free_vars(d)}


def _columns(loops: Loops, param: str, col_tile: int) -> int:
    columns = loops.param(param).buffer.shape[1]
    return columns * col_tile if isinstance(columns, int) else 0


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
        for n in walk(loops.body)
        if isinstance(n, For)
    )


def pack_array(data: NDArray[Any], spec: Pack) -> NDArray[Any]:
    """The constant ``data`` in the layout that ``pack`` gives its parameter."""
    matrix = np.moveaxis(data, spec.axis, 0).reshape(data.shape[spec.axis], -1)
    if spec.pairs:
        return np.ascontiguousarray(matrix[0::2].astype(np.int32) + (matrix[1::2].astype(np.int32) << 16))
    if spec.joined:
        matrix = joined_rows(matrix)
    if spec.wide:
        matrix = matrix.astype(np.int16)
    rows, cols = (-(-n // t) for n, t in zip(matrix.shape, (spec.row_tile, spec.col_tile), strict=True))
    out = np.zeros((rows * spec.row_tile, cols * spec.col_tile), dtype=matrix.dtype)
    out[: matrix.shape[0], : matrix.shape[1]] = matrix
    if spec.joined == "paired" or spec.crossed:
        out = out.reshape(len(out), -1, 4)[:, :, [0, 2, 1, 3]].reshape(out.shape)
    tiled = out.reshape(rows, spec.row_tile, cols, spec.col_tile).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(tiled).reshape(rows, cols, *(t for t in (spec.row_tile, spec.col_tile) if t > 1))


def joined_rows(matrix: NDArray[Any]) -> NDArray[np.int16]:
    """Rows 2*r and 2*r + 1 of an int8 matrix as one of 16-bit elements: the second times 256 plus the first.

    Raises:
        ScheduleError: one does not fit 16 bits.
    """
    both: NDArray[np.int32] = 256 * matrix[1::2].astype(np.int32) + matrix[::2]
    if both.size and (both.min() < -(1 << 15) or both.max() >= 1 << 15):
        raise ScheduleError("a pair of weights does not fit 16 bits")
    return both.astype(np.int16)


def packing_name(spec: Pack) -> str:
    """The name of the layout, for the constant it applies to."""
    layout = "pairs" if spec.pairs else f"r{spec.row_tile}c{spec.col_tile}"
    order = "wide" if spec.wide else "crossed" if spec.crossed else ""
    return layout + (f"a{spec.axis}" if spec.axis else "") + spec.joined + order
