"""Matrix products of any element type over any batch: ``matmul``, each operand also as its transpose.

Half floats are summed in single precision; integers wrap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import op
from sdk.compiler.ir.loops import Alloc, Buffer, Load, Loops, Store
from sdk.compiler.ir.types import F16, F32, F64, I32, I64, U8, TensorType
from sdk.compiler.ops.build import broadcast_index, function, loop, nest, param, variable
from sdk.compiler.ops.numerics import compute_type, number, stored, widened
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.shapes import broadcast_shapes, require_equal
from sdk.compiler.ops.traits import SumOfProducts
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

Array = NDArray[Any]


def _sides(x: TensorType, transposed: bool) -> tuple[Dim, Dim]:
    """Rows and columns of a matrix as it is used."""
    rows, columns = x.shape[-2:]
    return (columns, rows) if transposed else (rows, columns)


def _infer(a: TensorType, b: TensorType, *, trans_a: bool = False, trans_b: bool = False) -> TensorType:
    if a.rank < 2 or b.rank < 2 or a.dtype != b.dtype or a.dtype.kind not in "fiu":
        raise BuildError(f"matmul wants two matrices of one type of numbers, got {a.dtype} and {b.dtype}")
    rows, inner = _sides(a, trans_a)
    other, columns = _sides(b, trans_b)
    require_equal("inner extents of matmul", inner, other)
    return TensorType(a.dtype, (*broadcast_shapes(a.shape[:-2], b.shape[:-2]), rows, columns))


def _ref(a: Array, b: Array, *, trans_a: bool = False, trans_b: bool = False) -> Array:
    left, right = (np.swapaxes(x, -1, -2) if t else x for x, t in ((a, trans_a), (b, trans_b)))
    if a.dtype == np.float16:
        return np.asarray(np.matmul(left.astype(np.float32), right.astype(np.float32))).astype(np.float16)
    return np.asarray(np.matmul(left, right))


def _loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]) -> Loops:
    """rows m { n { acc = 0; k { acc += a * b } o = acc }} for every matrix of the batch."""
    a, b = types
    over = nest(outs[0].shape)
    *batch, m, n = over.index
    extent = _sides(a, bool(given.get("trans_a", False)))[1]
    k = variable("k", extent)
    wide = compute_type(outs[0].dtype)

    def load(operand: str, type: TensorType, transposed: str, row: Dim, column: Dim) -> Load:
        matrix = (column, row) if given.get(transposed, False) else (row, column)
        return Load(operand, (*broadcast_index(type.shape[:-2], batch), *matrix), type.dtype)

    acc = Load("acc", (), wide)
    left = widened(load("a", a, "trans_a", m, k.expr))
    right = widened(load("b", b, "trans_b", k.expr, n))
    body = over.around(
        Alloc(Buffer("acc", wide, (), "register")),
        Store("acc", (), number(0, wide)),
        loop(k, extent, Store("acc", (), op("add", acc, op("mul", left, right)))),
        Store("o", over.index, stored(acc, outs[0].dtype)),
    )
    return function(name, [param("a", a), param("b", b), param("o", outs[0], "write")], [body], over.rows)


_T = TensorType
_M: Dim = Var("m", 1, 5).expr
_K: Dim = Var("k", 2, 9).expr
define(
    OpDef(
        "matmul",
        ("a", "b"),
        _infer,
        _ref,
        _loops,
        samples=(
            sample(_T(F32, (_M, _K)), _T(F32, (_K, 4))),
            sample(_T(F32, (2, _M, 5)), _T(F32, (5, 3))),
            sample(_T(F32, (1, 3, 5)), _T(F32, (2, 5, _M))),
            sample(_T(F32, (2, 1, _M, 4)), _T(F32, (3, _K, 4)), trans_b=True),
            sample(_T(F64, (_K, _M)), _T(F64, (3, _K)), trans_a=True, trans_b=True),
            sample(_T(I32, (3, _K)), _T(I32, (_K, 2))),
            sample(_T(I64, (_K, 2)), _T(I64, (_K, 3)), trans_a=True),
            sample(_T(U8, (2, 3)), _T(U8, (3, 2))),
            sample(_T(F16, (3, _K)), _T(F16, (_K, 2))),
        ),
        kind=SumOfProducts(channel=-1, bias=False, trans_x="trans_a", trans_weights="trans_b"),
    )
)
