"""Packing: a constant operand re-laid at build time so that a tile of it is one run of memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.loops import Alloc, For, Load, Loops, Pack, Stmt
from sdk.compiler.ir.walk import dims_used, rewrite, substitute_dims, walk
from sdk.compiler.schedules.locate import ScheduleError, replace_loop
from sdk.compiler.sym import Dim, Var, ceildiv, floordiv, free_vars, mod, product

__all__ = ["pack", "pack_array", "packing_name", "pad"]


def pack(loops: Loops, param: str, row_tile: int, col_tile: int) -> Loops:
    """Lays out a read-only parameter, seen as rows (axis 0) by columns (the other axes), in tiles.

    rewrite: ``w[r, c…]`` --> ``w[r / rt, c / ct, r mod rt, c mod ct]`` with shape
    [ceil(R/rt), ceil(C/ct), rt, ct], zeros past the edges; axes for tiles of 1 are left
    out, so that tiles of 1 by 1 just make a matrix of it.
    obligation: the parameter is only read, its shape is numbers, and it is not packed yet.
    """
    buffer = loops.param(param).buffer
    if loops.param(param).mode != "read" or any(p.param == param for p in loops.packs):
        raise ScheduleError(f"pack({param}): the parameter is written or packed already")
    if any(not isinstance(d, int) for d in buffer.shape) or len(buffer.shape) < 2:
        raise ScheduleError(f"pack({param}): the shape {buffer.shape} is not a matrix of numbers")
    cols = product(buffer.shape[1:])
    inner = tuple(t for t in (row_tile, col_tile) if t > 1)
    shape = (ceildiv(buffer.shape[0], row_tile), ceildiv(cols, col_tile), *inner)

    def one(node: Any) -> Any:
        if isinstance(node, Load) and node.buffer == param:
            col: Dim = 0
            for at, size in zip(node.index[1:], buffer.shape[1:], strict=True):
                col = col * size + at
            row = node.index[0]
            tail = tuple(mod(at, t) for at, t in ((row, row_tile), (col, col_tile)) if t > 1)
            return replace(node, index=(floordiv(row, row_tile), floordiv(col, col_tile), *tail))
        return node

    if any(isinstance(n, Load) and n.buffer == param and n.dtype.lanes > 1 for n in walk(loops.body)):
        raise ScheduleError(f"pack({param}): pack before lanes are made")
    params = tuple(
        replace(p, buffer=replace(p.buffer, shape=shape)) if p.buffer.name == param else p
        for p in loops.params
    )
    return replace(
        loops,
        body=rewrite(loops.body, one),
        params=params,
        packs=(*loops.packs, Pack(param, row_tile, col_tile)),
    )


def pad(loops: Loops, name: str, multiple: int) -> Loops:
    """Rounds a reduction up; the steps added multiply zeros.

    rewrite: ``for k in 0..27 { c = c + a[k]*b[k] }`` --> ``for k in 0..28 { c = c + a[k]*b[k] }``
    obligation: the loop runs from 0 to a number and holds one multiply-accumulate, one of whose operands is a
    packed parameter (zero past its edge) or a window staged to the same multiple, the other one readable there.
    """

    def one(loop: For) -> tuple[Stmt, ...]:
        if loop.lo != 0 or not isinstance(loop.hi, int):
            raise ScheduleError(f"pad({name}): the loop must run from 0 to a number")
        hi = -(-loop.hi // multiple) * multiple
        loads = [n for n in walk(loop.body) if isinstance(n, Load)]
        packed = {p.param: p.col_tile for p in loops.packs}
        windows = {
            n.buffer.name: n.buffer.shape[0]
            for n in walk(loops.body)
            if isinstance(n, Alloc) and n.buffer.space == "scratch"
        }
        operands = {n.buffer for n in loads if any(loop.var in free_vars(d) for d in dims_used(n))}
        if not any(packed.get(b, 1) % multiple == 0 for b in operands & set(packed)):
            raise ScheduleError(f"pad({name}): no operand is packed to a multiple of {multiple}")
        for b in operands - set(packed):
            if windows.get(b) != hi:
                raise ScheduleError(f"pad({name}): {b} cannot be read past {loop.hi}")
        var = Var(loop.var.name, 0, hi - 1)
        return (For(var, 0, hi, substitute_dims(loop.body, {loop.var: var.expr}), loop.kind),)

    return replace_loop(loops, name, one)


def pack_array(data: NDArray[Any], spec: Pack) -> NDArray[Any]:
    """The constant ``data`` in the layout that ``pack`` gives its parameter."""
    matrix = data.reshape(data.shape[0], -1)
    rows, cols = (-(-n // t) for n, t in zip(matrix.shape, (spec.row_tile, spec.col_tile), strict=True))
    out = np.zeros((rows * spec.row_tile, cols * spec.col_tile), dtype=data.dtype)
    out[: matrix.shape[0], : matrix.shape[1]] = matrix
    tiled = out.reshape(rows, spec.row_tile, cols, spec.col_tile).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(tiled).reshape(
        rows, cols, *(t for t in (spec.row_tile, spec.col_tile) if t > 1)
    )


def packing_name(spec: Pack) -> str:
    """The name of the layout, for the constant it applies to."""
    return f"r{spec.row_tile}c{spec.col_tile}"
