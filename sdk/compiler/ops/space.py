"""Channels and places of an image exchanged: ``depth_to_space`` spreads channels over blocks of pixels and
``space_to_depth`` gathers them.

``block`` is (rows, columns). Channels run over (row, column, channel) of a block; with ``inner`` over (channel, row,
column).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.loops import Load, Loops, Store
from sdk.compiler.ir.types import F32, I8, TensorType
from sdk.compiler.ops.build import function, nest, param
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.traits import Movement
from sdk.compiler.sym import Dim, Var, floordiv, mod, prove_eq
from sdk.errors import BuildError

Array = NDArray[Any]


def _check(name: str, x: TensorType, block: Any) -> tuple[int, int, int]:
    """Rows and columns of a block, and the channels."""
    depth = x.shape[-1] if x.rank == 4 else None
    if not isinstance(depth, int) or len(block) != 2 or min(block) < 1:
        raise BuildError(f"{name} wants images x[n,h,w,c] of known channels and a block, got {x.shape} and {block}")
    return block[0], block[1], depth


def _to_space_infer(x: TensorType, *, block: Any, inner: bool = False) -> TensorType:
    bh, bw, depth = _check("depth_to_space", x, block)
    if depth % (bh * bw):
        raise BuildError(f"{depth} channels do not fill blocks of {bh} x {bw}")
    return TensorType(x.dtype, (x.shape[0], x.shape[1] * bh, x.shape[2] * bw, depth // (bh * bw)))


def _to_space_ref(x: Array, *, block: Any, inner: bool = False) -> Array:
    n, h, w, depth = x.shape
    bh, bw = block
    rest = depth // (bh * bw)
    parts = x.reshape((n, h, w, rest, bh, bw) if inner else (n, h, w, bh, bw, rest))
    parts = parts.transpose((0, 1, 4, 2, 5, 3) if inner else (0, 1, 3, 2, 4, 5))
    return np.ascontiguousarray(parts).reshape(n, h * bh, w * bw, rest)


def _to_space_loops(
    name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]
) -> Loops:
    """o[n, h, w, c] = x[n, h // bh, w // bw, the channel of (h % bh, w % bw, c)]."""
    bh, bw = given["block"]
    over = nest(outs[0].shape)
    n, h, w, c = over.index
    row, col = mod(h, bh), mod(w, bw)
    channel = (c * bh + row) * bw + col if given.get("inner") else (row * bw + col) * outs[0].shape[3] + c
    load = Load("x", (n, floordiv(h, bh), floordiv(w, bw), channel), types[0].dtype)
    body = over.around(Store("o", over.index, load))
    return function(name, [param("x", types[0]), param("o", outs[0], "write")], [body], over.rows)


def _to_depth_infer(x: TensorType, *, block: Any, inner: bool = False) -> TensorType:
    bh, bw, depth = _check("space_to_depth", x, block)
    size: list[Dim] = []
    for extent, b in ((x.shape[1], bh), (x.shape[2], bw)):
        if prove_eq(mod(extent, b), 0) is not True:
            raise BuildError(f"an image of {extent} rows or columns is not known to consist of blocks of {b}")
        size.append(floordiv(extent, b))
    return TensorType(x.dtype, (x.shape[0], *size, depth * bh * bw))


def _to_depth_ref(x: Array, *, block: Any, inner: bool = False) -> Array:
    n, h, w, c = x.shape
    bh, bw = block
    parts = x.reshape(n, h // bh, bh, w // bw, bw, c).transpose((0, 1, 3, 5, 2, 4) if inner else (0, 1, 3, 2, 4, 5))
    return np.ascontiguousarray(parts).reshape(n, h // bh, w // bw, bh * bw * c)


def _to_depth_loops(
    name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]
) -> Loops:
    """o[n, h, w, the channel of (row, col, c)] = x[n, h * bh + row, w * bw + col, c]."""
    bh, bw = given["block"]
    depth = types[0].shape[3]
    over = nest(outs[0].shape)
    n, h, w, c = over.index
    inner = given.get("inner", False)
    place, channel = (mod(c, bh * bw), floordiv(c, bh * bw)) if inner else (floordiv(c, depth), mod(c, depth))
    source = (n, h * bh + floordiv(place, bw), w * bw + mod(place, bw), channel)
    body = over.around(Store("o", over.index, Load("x", source, types[0].dtype)))
    return function(name, [param("x", types[0]), param("o", outs[0], "write")], [body], over.rows)


_T = TensorType
_H = Var("h", 2, 7).expr
_E = Var("e", 2, 6, 2).expr
define(
    OpDef(
        "depth_to_space",
        ("x",),
        _to_space_infer,
        _to_space_ref,
        _to_space_loops,
        samples=(
            sample(_T(F32, (2, _H, 3, 12)), block=(2, 3)),
            sample(_T(I8, (1, 3, _H, 8)), block=(2, 2), inner=True),
        ),
        kind=Movement(),
    )
)
define(
    OpDef(
        "space_to_depth",
        ("x",),
        _to_depth_infer,
        _to_depth_ref,
        _to_depth_loops,
        samples=(
            sample(_T(F32, (1, 4, 6, 3)), block=(2, 3)),
            sample(_T(I8, (2, _E, 4, 2)), block=(2, 2)),
            sample(_T(F32, (1, 4, _E, 3)), block=(2, 2), inner=True),
        ),
        kind=Movement(),
    )
)
