"""Whole tensors in another arrangement: reshape, concat, transpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.loops import Load, Loops, Store
from sdk.compiler.ir.types import F32, I8, I16, TensorType
from sdk.compiler.ops.build import Nest, function, nest, param
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.shapes import require_equal
from sdk.compiler.ops.traits import AxisRole, Movement
from sdk.compiler.sym import Dim, Var, dmax, dmin, floordiv, max_value, product
from sdk.errors import BuildError

Array = NDArray[Any]


def _reshape_infer(x: TensorType, *, shape: Any) -> TensorType:
    known: list[Dim] = list(shape)
    if known.count(-1) > 1 or any(isinstance(d, int) and d < -1 for d in known):
        raise BuildError(f"a reshape to {shape} is ambiguous")
    if -1 in known:
        rest = product(tuple(d for d in known if d != -1))
        known[known.index(-1)] = floordiv(x.size, rest) if rest != 0 else 0
    require_equal(f"elements of a reshape to {shape}", x.size, product(tuple(known)))
    return TensorType(x.dtype, tuple(known))


def _reshape_ref(x: Array, *, shape: Any) -> Array:
    return x.reshape(shape)


def _concat_infer(*xs: TensorType, axis: int) -> TensorType:
    first = xs[0]
    if not 0 <= axis < first.rank or any(x.rank != first.rank or x.dtype != first.dtype for x in xs):
        raise BuildError(f"concat wants tensors of one type and rank above axis {axis}")
    total: Dim = 0
    for x in xs:
        for k in range(first.rank):
            if k != axis:
                require_equal(f"axis {k} of concat", first.shape[k], x.shape[k])
        total = total + x.shape[axis]
    return TensorType(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :]))


def _concat_loops(
    name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]
) -> Loops:
    """One copying nest per operand, over the part of the output that it fills."""
    axis: int = given["axis"]
    whole = nest(outs[0].shape)
    parts, start = [], 0 + 0 * outs[0].shape[axis]
    for k, x in enumerate(types):
        over = _window(whole, axis, start, x.shape[axis], k)
        at = over.index
        source = (*at[:axis], at[axis] - start, *at[axis + 1 :])
        parts.append(over.around(Store("o", at, Load(f"x{k}", source, x.dtype))))
        start = start + x.shape[axis]
    params = [*(param(f"x{k}", x) for k, x in enumerate(types)), param("o", outs[0], "write")]
    return function(name, params, parts, whole.rows)


def _window(whole: Nest, axis: int, start: Dim, size: Dim, part: int) -> Nest:
    """The loops of ``whole`` limited to ``start..start+size`` of one axis, with variables of their own."""
    at = whole.index[axis]
    index: list[Dim] = list(whole.index)
    loops = []
    for var, lo, hi in whole.loops:
        if var.expr is not at:
            loops.append((var, lo, hi))
            continue
        end = start + size
        first = 0 if not isinstance(start, int) else start
        maximum = max_value(end)
        if maximum is None:
            raise BuildError(f"the extent {end} of a concat has no upper bound")
        inner = Var(f"{var.name}_{part}", first, max(maximum - 1, first))
        index[axis] = inner.expr
        loops.append((inner, dmax(lo, start), dmin(hi, end)))
    return Nest(whole.rows, tuple(index), tuple(loops))


def _transpose_infer(x: TensorType, *, perm: Any) -> TensorType:
    if sorted(perm) != list(range(x.rank)):
        raise BuildError(f"{perm} is not a permutation of the axes of rank {x.rank}")
    return TensorType(x.dtype, tuple(x.shape[k] for k in perm))


def _transpose_loops(
    name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]
) -> Loops:
    over = nest(outs[0].shape)
    source = tuple(over.index[given["perm"].index(k)] for k in range(types[0].rank))
    body = over.around(Store("o", over.index, Load("x", source, types[0].dtype)))
    return function(name, [param("x", types[0]), param("o", outs[0], "write")], [body], over.rows)


_T = TensorType
_N: Dim = Var("n", 1, 6).expr
_M: Dim = Var("m", 2, 4).expr

define(
    OpDef(
        "reshape",
        ("x",),
        _reshape_infer,
        _reshape_ref,
        None,
        samples=(
            sample(_T(I8, (1, 5, 4)), shape=(1, 20)),
            sample(_T(I16, (_N, 2, 3)), shape=(_N, -1)),
            sample(_T(F32, (_N, _M, 2)), shape=(-1, 2)),
            sample(_T(F32, (_N, _M, 2)), shape=(_M * _N, 2)),
        ),
        view=True,
        kind=Movement(),
    )
)
define(
    OpDef(
        "concat",
        ("x",),
        _concat_infer,
        lambda *xs, axis: np.concatenate(xs, axis=axis),
        _concat_loops,
        samples=(
            sample(_T(I8, (1, 2, 1, 4)), _T(I8, (1, 3, 1, 4)), axis=1),
            sample(_T(I8, (1, _N, 3)), _T(I8, (1, _M, 3)), _T(I8, (1, 2, 3)), axis=1),
            sample(_T(I16, (_N, 2)), _T(I16, (_N, 3)), axis=1),
            sample(_T(I8, (1, 4)), _T(I8, (1, 4)), axis=0),
        ),
        variadic=True,
        kind=Movement(),
        axes={"axis": AxisRole.ONE},
    )
)
define(
    OpDef(
        "transpose",
        ("x",),
        _transpose_infer,
        lambda x, *, perm: np.ascontiguousarray(np.transpose(x, perm)),
        _transpose_loops,
        samples=(
            sample(_T(I8, (1, 5, 3, 2)), perm=(0, 3, 1, 2)),
            sample(_T(F32, (_N, 3, _M)), perm=(2, 0, 1)),
        ),
        kind=Movement(),
    )
)
