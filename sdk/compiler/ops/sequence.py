"""What an index or a length of a sequence makes of an axis: ``one_hot``, ``reverse_sequence``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import idx, op
from sdk.compiler.ir.loops import Load, Loops, Store
from sdk.compiler.ir.types import F32, I8, I32, I64, TensorType
from sdk.compiler.ops.build import function, nest, param
from sdk.compiler.ops.gather import require_axis, zero_of
from sdk.compiler.ops.positions import guarded, known, position, require_indices, resolve, unproved
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.shapes import require_equal
from sdk.compiler.ops.traits import OPAQUE, AxisRole, Movement
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

Array = NDArray[Any]
Types = Sequence[TensorType]


# --- one_hot ------------------------------------------------------------------------------------------------------


def _one_hot_infer(indices: TensorType, values: TensorType, *, axis: int, depth: Any) -> TensorType:
    require_indices("one_hot", indices.dtype)
    require_axis("the output of one_hot", axis, indices.rank + 1)
    if values.shape != (2,):
        raise BuildError(f"one_hot wants the two values off and on, got shape {values.shape}")
    return TensorType(values.dtype, (*indices.shape[:axis], depth, *indices.shape[axis:]))


def _one_hot_ref(indices: Array, values: Array, *, axis: int, depth: int) -> Array:
    at, inside = resolve(indices, depth)
    shape = [1] * (indices.ndim + 1)
    shape[axis] = depth
    on = (np.expand_dims(at, axis) == np.arange(depth).reshape(shape)) & np.expand_dims(inside, axis)
    return np.asarray(np.where(on, values[1], values[0]))


def _one_hot_loops(name: str, types: Types, outs: Types, given: Mapping[str, Any]) -> Loops:
    """o = values[1] where the axis stands at the index, else values[0]."""
    indices, values = types
    axis: int = given["axis"]
    over = nest(outs[0].shape)
    lead = (*over.index[:axis], *over.index[axis + 1 :])
    names, at = position("at", Load("indices", lead, indices.dtype), outs[0].shape[axis])
    on = op("eq", idx(at), idx(over.index[axis]))
    off_value, on_value = (Load("values", (k,), values.dtype) for k in range(2))
    value = op("select", on, on_value, off_value, dtype=values.dtype)
    params = [param("indices", indices), param("values", values), param("o", outs[0], "write")]
    return function(name, params, [over.around(*names, Store("o", over.index, value))], over.rows)


# --- reverse_sequence ---------------------------------------------------------------------------------------------


def _reverse_infer(x: TensorType, lengths: TensorType, *, batch_axis: int, time_axis: int) -> TensorType:
    require_indices("reverse_sequence", lengths.dtype)
    require_axis("the input of reverse_sequence", batch_axis, x.rank)
    require_axis("the input of reverse_sequence", time_axis, x.rank)
    if lengths.rank != 1 or batch_axis == time_axis:
        raise BuildError("reverse_sequence wants one length per batch, and another axis for time")
    require_equal("sequences and lengths", x.shape[batch_axis], lengths.shape[0])
    return x


def _reverse_ref(x: Array, lengths: Array, *, batch_axis: int, time_axis: int) -> Array:
    moved = np.moveaxis(x, (batch_axis, time_axis), (0, 1))
    out = moved.copy()
    for k, length in enumerate(lengths.tolist()):
        count = min(max(length, 0), moved.shape[1])
        out[k, :count] = moved[k, :count][::-1] if length <= moved.shape[1] else 0
        if length > moved.shape[1]:
            back = np.arange(length - moved.shape[1], moved.shape[1])
            out[k, back] = moved[k, length - 1 - back]
    return np.ascontiguousarray(np.moveaxis(out, (0, 1), (batch_axis, time_axis)))


def _reverse_loops(name: str, types: Types, outs: Types, given: Mapping[str, Any]) -> Loops:
    """o[b, t] = x[b, length - 1 - t] within the length, else x[b, t]."""
    x, lengths = types
    batch, time = int(given["batch_axis"]), int(given["time_axis"])
    over = nest(outs[0].shape)
    names, length = position("length", Load("lengths", (over.index[batch],), lengths.dtype), 0)
    step = over.index[time]
    back = length - 1 - step
    cond = op("lt", idx(step), idx(length))
    inside = unproved([(back, x.shape[time])], known(over))
    there = Load("x", tuple(back if k == time else i for k, i in enumerate(over.index)), x.dtype)
    here = Load("x", over.index, x.dtype)
    mirrored = guarded(inside, Store("o", over.index, there), Store("o", over.index, zero_of(x)))
    body = over.around(*names, guarded(cond, mirrored, Store("o", over.index, here)))
    params = [param("x", x), param("lengths", lengths), param("o", outs[0], "write")]
    return function(name, params, [body], over.rows)


def _choose(*shape: int, lo: int, hi: int) -> Any:
    """Values for a sample: indices in ``lo..hi`` (hi exclusive)."""
    return lambda rng: rng.integers(lo, hi, shape)


def _lengths(*given: int) -> Any:
    return lambda rng: np.array(given)


_T = TensorType
_N: Dim = Var("n", 2, 6).expr

define(
    OpDef(
        "one_hot",
        ("indices", "values"),
        _one_hot_infer,
        _one_hot_ref,
        _one_hot_loops,
        samples=(
            sample(_T(I64, (2, 3)), _T(F32, (2,)), values={0: _choose(2, 3, lo=-5, hi=7)}, axis=1, depth=5),
            sample(_T(I32, (4,)), _T(I8, (2,)), values={0: _choose(4, lo=-2, hi=5)}, axis=1, depth=_N),
        ),
        kind=OPAQUE,
    )
)
define(
    OpDef(
        "reverse_sequence",
        ("x", "lengths"),
        _reverse_infer,
        _reverse_ref,
        _reverse_loops,
        samples=(
            sample(_T(F32, (4, 3)), _T(I64, (3,)), values={1: _lengths(4, 2, 1)}, batch_axis=1, time_axis=0),
            sample(_T(I8, (2, _N, 3)), _T(I32, (2,)), values={1: _lengths(2, 1)}, batch_axis=0, time_axis=1),
        ),
        kind=Movement(),
        axes={"batch_axis": AxisRole.ONE, "time_axis": AxisRole.ONE},
    )
)
