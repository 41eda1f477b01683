"""Matrix products of quantised integers with exact accumulators: ``dense``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import op
from sdk.compiler.ir.loops import Alloc, Buffer, Load, Loops, Store
from sdk.compiler.ir.types import I8, I16, I32, I64, TensorType
from sdk.compiler.ops.build import function, loop, nest, param, variable
from sdk.compiler.ops.conv import shifted
from sdk.compiler.ops.numerics import exact_matmul
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.shapes import require_equal
from sdk.compiler.ops.traits import SumOfProducts
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

Array = NDArray[Any]


def _dense_infer(x: TensorType, w: TensorType, b: TensorType, **_: Any) -> TensorType:
    if x.rank < 1 or w.rank != 2 or b.rank != 1 or b.dtype not in (I32, I64):
        raise BuildError(
            f"dense wants x[..,k], weights[n,k], i32 or i64 bias[n], not ranks {x.rank}, {w.rank}, {b.rank}"
        )
    require_equal("inner extents of dense", x.shape[-1], w.shape[1])
    require_equal("outputs of weights and bias", w.shape[0], b.shape[0])
    return TensorType(b.dtype, (*x.shape[:-1], w.shape[0]))


def _dense_ref(x: Array, w: Array, b: Array, *, x_offset: int, w_offset: int) -> Array:
    product = exact_matmul(x.astype(np.int64) + x_offset, (w.astype(np.int64) + w_offset).T)
    return (product + b).astype(b.dtype)


def _dense_loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]) -> Loops:
    """rows m { n { acc = b; k { acc += (x + x_offset) * (w + w_offset) } o = acc }}."""
    x, w, b, o = (
        param("x", types[0]),
        param("w", types[1]),
        param("b", types[2]),
        param("o", outs[0], "write"),
    )
    over = nest(outs[0].shape)
    k = variable("k", types[0].shape[-1])
    acc_type = outs[0].dtype
    acc = Load("acc", (), acc_type)
    left = shifted(Load("x", (*over.index[:-1], k.expr), types[0].dtype), given["x_offset"], acc_type)
    right = shifted(Load("w", (over.index[-1], k.expr), types[1].dtype), given["w_offset"], acc_type)
    body = over.around(
        Alloc(Buffer("acc", acc_type, (), "register")),
        Store("acc", (), Load("b", (over.index[-1],), types[2].dtype)),
        loop(k, types[0].shape[-1], Store("acc", (), op("add", acc, op("mul", left, right)))),
        Store("o", over.index, acc),
    )
    return function(name, [x, w, b, o], [body], over.rows)


def _bias(rng: np.random.Generator) -> Array:
    return rng.integers(-1000, 1000, 6)


_M: Dim = Var("m", 1, 5).expr
_K: Dim = Var("k", 2, 9).expr
_T = TensorType
define(
    OpDef(
        "dense",
        ("x", "w", "b"),
        _dense_infer,
        _dense_ref,
        _dense_loops,
        samples=(
            sample(_T(I8, (1, 9)), _T(I8, (6, 9)), _T(I32, (6,)), values={2: _bias}, x_offset=128, w_offset=0),
            sample(_T(I8, (_M, _K)), _T(I8, (6, _K)), _T(I32, (6,)), values={2: _bias}, x_offset=-5, w_offset=3),
            sample(_T(I16, (2, 3, 8)), _T(I8, (6, 8)), _T(I64, (6,)), values={2: _bias}, x_offset=0, w_offset=0),
        ),
        kind=SumOfProducts(),
    )
)
