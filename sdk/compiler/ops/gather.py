"""Elements chosen by positions known at run time: ``gather``, ``gather_elements``, ``gather_nd``. A position outside
reads 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import imm, op
from sdk.compiler.ir.loops import Load, Loops, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import F32, I8, I16, I32, I64, U8, TensorType
from sdk.compiler.ops.build import function, nest, param
from sdk.compiler.ops.positions import (
    Check,
    guarded,
    known,
    position,
    require_indices,
    resolve,
    split_nest,
    unproved,
)
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.shapes import require_equal
from sdk.compiler.ops.traits import AxisRole, Movement
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

Array = NDArray[Any]
Types = Sequence[TensorType]


def zero_of(type: TensorType) -> ValueExpr:
    """0 in the element type."""
    return imm(0.0 if type.dtype.is_float else 0, type.dtype)


def require_axis(what: str, axis: int, rank: int) -> None:
    """Checks an axis.

    Raises:
        BuildError: there is none of that number.
    """
    if not 0 <= axis < rank:
        raise BuildError(f"{what} has no axis {axis}: its rank is {rank}")


# --- gather -------------------------------------------------------------------------------------------------------


def _gather_infer(x: TensorType, indices: TensorType, *, axis: int) -> TensorType:
    require_indices("gather", indices.dtype)
    require_axis("the input of gather", axis, x.rank)
    return TensorType(x.dtype, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def _gather_ref(x: Array, indices: Array, *, axis: int) -> Array:
    if x.shape[axis] == 0:
        return np.zeros((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)
    at, inside = resolve(indices, x.shape[axis])
    mask = inside.reshape(inside.shape + (1,) * (x.ndim - axis - 1))
    return np.where(mask, np.take(x, at, axis=axis), np.zeros((), x.dtype))


def _gather_loops(name: str, types: Types, outs: Types, given: Mapping[str, Any]) -> Loops:
    """For each index: its position, then a copy of what lies there."""
    x, indices = types
    axis: int = given["axis"]
    over = nest(outs[0].shape)
    outer, inner = split_nest(over, range(axis + indices.rank))
    chosen = over.index[axis : axis + indices.rank]
    names, at = position("at", Load("indices", chosen, indices.dtype), x.shape[axis])
    source = (*over.index[:axis], at, *over.index[axis + indices.rank :])
    copy = inner.around(Store("o", over.index, Load("x", source, x.dtype)))
    clear = inner.around(Store("o", over.index, zero_of(x)))
    body = outer.around(*names, guarded(unproved([(at, x.shape[axis])], known(over)), copy, clear))
    params = [param("x", x), param("indices", indices), param("o", outs[0], "write")]
    return function(name, params, [body], over.rows)


# --- gather_elements ----------------------------------------------------------------------------------------------


def _elements_infer(x: TensorType, indices: TensorType, *, axis: int) -> TensorType:
    require_indices("gather_elements", indices.dtype)
    require_axis("the input of gather_elements", axis, x.rank)
    if indices.rank != x.rank:
        raise BuildError(f"gather_elements wants indices of rank {x.rank}, got {indices.rank}")
    return TensorType(x.dtype, indices.shape)


def _elements_ref(x: Array, indices: Array, *, axis: int) -> Array:
    at, inside = resolve(indices, x.shape[axis])
    grid: list[Array] = list(np.indices(indices.shape))
    for k, size in enumerate(x.shape):
        if k != axis:
            inside = inside & (grid[k] < size)
            grid[k] = np.where(grid[k] < size, grid[k], 0)
    grid[axis] = at
    return np.where(inside, x[tuple(grid)], np.zeros((), x.dtype)) if x.size else np.zeros(indices.shape, x.dtype)


def _elements_loops(name: str, types: Types, outs: Types, given: Mapping[str, Any]) -> Loops:
    """o[.., i, ..] = x[.., indices[.., i, ..], ..] at each element."""
    x, indices = types
    axis: int = given["axis"]
    over = nest(outs[0].shape)
    names, at = position("at", Load("indices", over.index, indices.dtype), x.shape[axis])
    source = tuple(at if k == axis else i for k, i in enumerate(over.index))
    cond = unproved(list(zip(source, x.shape, strict=True)), known(over))
    load: ValueExpr = Load("x", source, x.dtype)
    value = load if cond is None else op("select", cond, load, zero_of(x), dtype=x.dtype)
    params = [param("x", x), param("indices", indices), param("o", outs[0], "write")]
    return function(name, params, [over.around(*names, Store("o", over.index, value))], over.rows)


# --- gather_nd ----------------------------------------------------------------------------------------------------


def depth_of(what: str, x: TensorType, indices: TensorType, batch: int) -> int:
    """How many axes of ``x`` the last axis of ``indices`` chooses in.

    Raises:
        BuildError: it does not fit the ranks.
    """
    require_indices(what, indices.dtype)
    depth = indices.shape[-1] if indices.rank else None
    if not isinstance(depth, int) or not 0 <= batch < indices.rank or batch + depth > x.rank:
        raise BuildError(f"{what} wants indices[.., d] with a number d of at most the rank {x.rank}")
    for k in range(batch):
        require_equal(f"axis {k} of {what}", x.shape[k], indices.shape[k])
    return depth


def _nd_infer(x: TensorType, indices: TensorType, *, batch: int) -> TensorType:
    depth = depth_of("gather_nd", x, indices, batch)
    return TensorType(x.dtype, (*indices.shape[:-1], *x.shape[batch + depth :]))


def _nd_ref(x: Array, indices: Array, *, batch: int) -> Array:
    depth = indices.shape[-1]
    if not x.size:
        return np.zeros((*indices.shape[:-1], *x.shape[batch + depth :]), x.dtype)
    lead = np.indices(indices.shape[:-1])[:batch]
    inside = np.ones(indices.shape[:-1], dtype=bool)
    places = list(lead)
    for k in range(depth):
        at, good = resolve(indices[..., k], x.shape[batch + k])
        places.append(at)
        inside &= good
    found = x[tuple(places)] if places else np.broadcast_to(x, (*indices.shape[:-1], *x.shape))
    mask = inside.reshape(inside.shape + (1,) * (found.ndim - inside.ndim))
    return np.asarray(np.where(mask, found, np.zeros((), x.dtype)))


def positions_at(indices: TensorType, lead: Sequence[Dim], shape: Sequence[Dim]) -> tuple[list[Stmt], list[Check]]:
    """The positions that ``indices[lead]`` gives in axes of these extents: what names them, and them with the
    extents."""
    names: list[Stmt] = []
    checks: list[Check] = []
    for k, extent in enumerate(shape):
        stmts, at = position(f"at_{k}", Load("indices", (*lead, k), indices.dtype), extent)
        names += stmts
        checks.append((at, extent))
    return names, checks


def _nd_loops(name: str, types: Types, outs: Types, given: Mapping[str, Any]) -> Loops:
    """For each tuple of indices: its positions, then a copy of what lies there."""
    x, indices = types
    batch, depth = int(given["batch"]), depth_of("gather_nd", x, indices, given["batch"])
    over = nest(outs[0].shape)
    count = indices.rank - 1
    outer, inner = split_nest(over, range(count))
    names, checks = positions_at(indices, over.index[:count], x.shape[batch : batch + depth])
    source = (*over.index[:batch], *(at for at, _ in checks), *over.index[count:])
    copy = inner.around(Store("o", over.index, Load("x", source, x.dtype)))
    clear = inner.around(Store("o", over.index, zero_of(x)))
    body = outer.around(*names, guarded(unproved(checks, known(over)), copy, clear))
    params = [param("x", x), param("indices", indices), param("o", outs[0], "write")]
    return function(name, params, [body], over.rows)


def _choose(*shape: int, lo: int, hi: int) -> Any:
    """Values for a sample: indices in ``lo..hi`` (hi exclusive)."""
    return lambda rng: rng.integers(lo, hi, shape)


_T = TensorType
_N: Dim = Var("n", 2, 6).expr
_M: Dim = Var("m", 2, 4).expr

define(
    OpDef(
        "gather",
        ("x", "indices"),
        _gather_infer,
        _gather_ref,
        _gather_loops,
        samples=(
            sample(_T(F32, (7, 5)), _T(I64, (4,)), values={1: _choose(4, lo=-7, hi=7)}, axis=0),
            sample(_T(F32, (_N, 5)), _T(I64, (1, _M)), axis=0),
            sample(_T(I8, (2, _N, 3)), _T(I32, (2, 2)), values={1: _choose(2, 2, lo=-3, hi=7)}, axis=1),
            sample(_T(F32, (3, _N)), _T(I64, ()), values={1: _choose(lo=0, hi=2)}, axis=1),
            sample(_T(I16, (_N, _M, 3)), _T(U8, ()), values={1: _choose(lo=0, hi=2)}, axis=0),
        ),
        kind=Movement(),
        axes={"axis": AxisRole.ONE},
    )
)
define(
    OpDef(
        "gather_elements",
        ("x", "indices"),
        _elements_infer,
        _elements_ref,
        _elements_loops,
        samples=(
            sample(_T(F32, (3, 4)), _T(I64, (2, 4)), values={1: _choose(2, 4, lo=-3, hi=3)}, axis=0),
            sample(_T(I8, (_N, 2, 4)), _T(I32, (2, 2, 3)), values={1: _choose(2, 2, 3, lo=-4, hi=5)}, axis=2),
        ),
        kind=Movement(),
    )
)
define(
    OpDef(
        "gather_nd",
        ("x", "indices"),
        _nd_infer,
        _nd_ref,
        _nd_loops,
        samples=(
            sample(_T(F32, (4, 5, 3)), _T(I64, (6, 2)), values={1: _choose(6, 2, lo=-4, hi=5)}, batch=0),
            sample(_T(I8, (3, _N, 2)), _T(I32, (3, 2, 1)), values={1: _choose(3, 2, 1, lo=-2, hi=7)}, batch=1),
            sample(_T(F32, (_N, _M)), _T(I64, (2,)), values={1: _choose(2, lo=0, hi=2)}, batch=0),
        ),
        kind=Movement(),
    )
)
