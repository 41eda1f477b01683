"""Products of quantised matrices over any batch, with exact sums: ``matmul_sum``, each operand also as its transpose.

Of matrices that are constant ``dense`` is the faster one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import op
from sdk.compiler.ir.loops import Alloc, Buffer, Load, Loops, Store
from sdk.compiler.ir.types import I8, I16, I32, I64, TensorType, dtype
from sdk.compiler.ops.build import broadcast_index, function, loop, nest, param, variable
from sdk.compiler.ops.conv import shifted
from sdk.compiler.ops.numerics import number
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.shapes import broadcast_shapes, require_equal
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

Array = NDArray[Any]


def _inner(type: TensorType, swapped: bool) -> tuple[Dim, Dim]:
    """Rows and columns of a matrix as it is used."""
    rows, columns = type.shape[-2:]
    return (columns, rows) if swapped else (rows, columns)


def _infer(
    a: TensorType, b: TensorType, *, a_offset: int, b_offset: int, trans_a: bool, trans_b: bool, out: str
) -> TensorType:
    if a.rank < 2 or b.rank < 2 or a.dtype not in (I8, I16) or b.dtype not in (I8, I16):
        raise BuildError(f"matmul_sum wants two matrices of i8 or i16, got {a.dtype} and {b.dtype}")
    if dtype(out) not in (I32, I64):
        raise BuildError(f"matmul_sum makes i32 or i64, not {out}")
    rows, inner = _inner(a, trans_a)
    other, columns = _inner(b, trans_b)
    require_equal("inner extents of matmul_sum", inner, other)
    return TensorType(dtype(out), (*broadcast_shapes(a.shape[:-2], b.shape[:-2]), rows, columns))


def _ref(a: Array, b: Array, *, a_offset: int, b_offset: int, trans_a: bool, trans_b: bool, out: str) -> Array:
    left, right = (
        np.swapaxes(x, -1, -2) if turned else x
        for x, turned in ((a.astype(np.int64) + a_offset, trans_a), (b.astype(np.int64) + b_offset, trans_b))
    )
    return np.asarray(np.matmul(left, right)).astype(dtype(out).numpy)


def _loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]) -> Loops:
    """rows m { n { acc = 0; k { acc += (a + a_offset) * (b + b_offset) } o = acc }} for every matrix of the batch."""
    kind, over = outs[0].dtype, nest(outs[0].shape)
    *batch, m, n = over.index
    extent = _inner(types[0], given["trans_a"])[1]
    k = variable("k", extent)
    sides = []
    for operand, type, row, column in (("a", types[0], m, k.expr), ("b", types[1], k.expr, n)):
        matrix = (column, row) if given[f"trans_{operand}"] else (row, column)
        load = Load(operand, (*broadcast_index(type.shape[:-2], batch), *matrix), type.dtype)
        sides.append(shifted(load, given[f"{operand}_offset"], kind))
    acc = Load("acc", (), kind)
    body = over.around(
        Alloc(Buffer("acc", kind, (), "register")),
        Store("acc", (), number(0, kind)),
        loop(k, extent, Store("acc", (), op("add", acc, op("mul", *sides)))),
        Store("o", over.index, acc),
    )
    return function(name, [param("a", types[0]), param("b", types[1]), param("o", outs[0], "write")], [body], over.rows)


_T = TensorType
_M: Dim = Var("m", 1, 5).expr
_K: Dim = Var("k", 2, 9).expr
_PLAIN: Any = {"trans_a": False, "trans_b": False}
define(
    OpDef(
        "matmul_sum",
        ("a", "b"),
        _infer,
        _ref,
        _loops,
        samples=(
            sample(_T(I8, (_M, _K)), _T(I8, (_K, 4)), a_offset=3, b_offset=-5, out="i32", **_PLAIN),
            sample(_T(I8, (2, _M, 5)), _T(I8, (5, 3)), a_offset=128, b_offset=0, out="i32", **_PLAIN),
            sample(
                _T(I8, (2, 1, 5, _M)), _T(I8, (3, 4, 5)),
                a_offset=-127, b_offset=128, trans_a=True, trans_b=True, out="i32",
            ),
            sample(_T(I16, (2, 3, _K)), _T(I16, (2, _K, 2)), a_offset=0, b_offset=0, out="i64", **_PLAIN),
            sample(_T(I16, (3, _K)), _T(I8, (2, _K)), a_offset=0, b_offset=0, trans_a=False, trans_b=True, out="i64"),
        ),
        kind=OPAQUE,
    )
)  # fmt: skip
