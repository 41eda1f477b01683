"""One operand at every place of a shape: ``broadcast_to``; and what a triangle of a matrix leaves: ``trilu``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import idx, imm, op
from sdk.compiler.ir.loops import Load, Loops, Store
from sdk.compiler.ir.types import BOOL, F32, I8, I64, TensorType
from sdk.compiler.ops.build import broadcast_index, function, nest, param
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.shapes import require_equal
from sdk.compiler.ops.traits import OPAQUE, AxisRole, Movement
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

Array = NDArray[Any]
Types = Sequence[TensorType]


def _broadcast_infer(x: TensorType, *, shape: Any) -> TensorType:
    if x.rank > len(shape):
        raise BuildError(f"a tensor of rank {x.rank} does not broadcast to rank {len(shape)}")
    for k, dim in enumerate(x.shape, start=len(shape) - x.rank):
        if dim != 1:
            require_equal(f"axis {k} of broadcast_to", dim, shape[k])
    return TensorType(x.dtype, tuple(shape))


def _broadcast_loops(name: str, types: Types, outs: Types, given: Mapping[str, Any]) -> Loops:
    """o = x, repeated over the axes of extent 1."""
    over = nest(outs[0].shape)
    source = broadcast_index(types[0].shape, over.index)
    body = over.around(Store("o", over.index, Load("x", source, types[0].dtype)))
    return function(name, [param("x", types[0]), param("o", outs[0], "write")], [body], over.rows)


def _trilu_infer(x: TensorType, *, k: Any, upper: bool) -> TensorType:
    if x.rank < 2:
        raise BuildError(f"trilu wants matrices, got a tensor of rank {x.rank}")
    return x


def _trilu_ref(x: Array, *, k: int, upper: bool) -> Array:
    return np.triu(x, k) if upper else np.tril(x, k)


def _trilu_loops(name: str, types: Types, outs: Types, given: Mapping[str, Any]) -> Loops:
    """o = x on the diagonal k and on one side of it, else 0."""
    kind = types[0].dtype
    over = nest(outs[0].shape)
    row, column = over.index[-2:]
    kept = op("ge" if given["upper"] else "le", idx(column), idx(row + given["k"]))
    zero = imm(0.0 if kind.is_float else 0, kind)
    body = over.around(Store("o", over.index, op("select", kept, Load("x", over.index, kind), zero, dtype=kind)))
    return function(name, [param("x", types[0]), param("o", outs[0], "write")], [body], over.rows)


_T = TensorType
_N: Dim = Var("n", 1, 6).expr
_M: Dim = Var("m", 2, 4).expr

define(
    OpDef(
        "broadcast_to",
        ("x",),
        _broadcast_infer,
        lambda x, *, shape: np.broadcast_to(x, shape).copy(),
        _broadcast_loops,
        samples=(
            sample(_T(F32, (3, 1)), shape=(2, 3, 4)),
            sample(_T(I8, (_N, 1)), shape=(_M, _N, 3)),
            sample(_T(BOOL, (1, 1, _N)), shape=(1, _M, _N)),
            sample(_T(I64, ()), shape=(_N,)),
        ),
        kind=Movement(),
        axes={"shape": AxisRole.EACH},
    )
)
define(
    OpDef(
        "trilu",
        ("x",),
        _trilu_infer,
        _trilu_ref,
        _trilu_loops,
        samples=(
            sample(_T(F32, (3, 5)), k=1, upper=True),
            sample(_T(I64, (2, _N, _M)), k=-1, upper=False),
            sample(_T(BOOL, (_N, _N)), k=_N - 1, upper=True),
        ),
        kind=OPAQUE,
    )
)
