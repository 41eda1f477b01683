"""Sums of stored integers over axes: what a quantised mean is made of, before its requantisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import imm, op
from sdk.compiler.ir.loops import Alloc, Buffer, Load, Loops, Stmt, Store
from sdk.compiler.ir.types import I8, I16, I32, TensorType
from sdk.compiler.ops.build import function, loop, nest, param, variable
from sdk.compiler.ops.conv import shifted
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

Array = NDArray[Any]


def _infer(x: TensorType, *, axes: Any, x_offset: int) -> TensorType:
    if x.dtype not in (I8, I16) or sorted(set(axes)) != list(axes) or any(not 0 <= k < x.rank for k in axes):
        raise BuildError(f"reduce_sum wants an i8 or i16 tensor and ascending axes, got {x.dtype} and {axes}")
    return TensorType(I32, tuple(1 if k in axes else d for k, d in enumerate(x.shape)))


def _ref(x: Array, *, axes: Any, x_offset: int) -> Array:
    return np.asarray((x.astype(np.int64) + x_offset).sum(axis=tuple(axes), keepdims=True)).astype(np.int32)


def _loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]) -> Loops:
    """Every result { acc = 0; reduced axes { acc += x + x_offset } o = acc }; reduced axes are kept as 1."""
    x, over = types[0], nest(outs[0].shape)
    inner = {k: variable(f"r{k}", x.shape[k]) for k in given["axes"]}
    source: list[Dim] = [inner[k].expr if k in inner else i for k, i in enumerate(over.index)]
    acc = Load("acc", (), I32)
    term = shifted(Load("x", tuple(source), x.dtype), given["x_offset"], I32)
    step: Stmt = Store("acc", (), op("add", acc, term))
    for k, var in reversed(inner.items()):
        step = loop(var, x.shape[k], step)
    body = over.around(
        Alloc(Buffer("acc", I32, (), "register")),
        Store("acc", (), imm(0)),
        step,
        Store("o", over.index, acc),
    )
    return function(name, [param("x", x), param("o", outs[0], "write")], [body], over.rows)


_T = TensorType
_N: Dim = Var("n", 1, 6).expr
define(
    OpDef(
        "reduce_sum",
        ("x",),
        _infer,
        _ref,
        _loops,
        samples=(
            sample(_T(I8, (1, 5, 4, 3)), axes=(1, 2), x_offset=128),
            sample(_T(I8, (_N, 4)), axes=(1,), x_offset=0),
            sample(_T(I16, (2, _N, 3)), axes=(0, 1), x_offset=0),
        ),
    )
)
