"""Elements put at positions known only at run time: ``scatter_elements`` and ``scatter_nd``, with a reduction.

A position outside writes nothing. Without a reduction the updates go straight to the output, over the copy of the
input; with one they gather in scratch memory, since an output is never read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import idx, op
from sdk.compiler.ir.loops import Alloc, Buffer, Load, Loops, Rows, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import BOOL, F16, F32, I8, I32, I64, DType, TensorType
from sdk.compiler.ops.build import Nest, function, loop, nest, param, row_axis_of, variable
from sdk.compiler.ops.gather import depth_of, positions_at
from sdk.compiler.ops.numerics import compute_type, stored, widened
from sdk.compiler.ops.positions import Check, all_of, guarded, known, position, require_indices, resolve, unproved
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.shapes import require_equal
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.sym import Dim, Var, prove_ge
from sdk.errors import BuildError

Array = NDArray[Any]
Types = Sequence[TensorType]
_REDUCTIONS: Mapping[str, str] = {"none": "", "add": "add", "mul": "mul", "min": "min", "max": "max"}
_ON_BOOLS: Mapping[str, str] = {"": "", "add": "or", "mul": "and", "min": "and", "max": "or"}
_NUMPY: Mapping[str, Callable[[Any, Any], Any]] = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "min": np.minimum,
    "max": np.maximum,
}


def _check(what: str, x: TensorType, updates: TensorType, reduction: str) -> None:
    if updates.dtype != x.dtype:
        raise BuildError(f"{what} wants updates of {x.dtype}, got {updates.dtype}")
    if reduction not in _REDUCTIONS:
        raise BuildError(f"{what} has no reduction {reduction}", hint=f"one of {', '.join(_REDUCTIONS)}")


def _meeting(reduction: str, kind: DType) -> str:
    """The operation that an update meets an element by; "" where it takes its place."""
    found = _REDUCTIONS[reduction]
    return _ON_BOOLS[found] if kind == BOOL else found


@dataclass(frozen=True)
class _Target:
    """Where the updates go: the output, or scratch that becomes the output at the end."""

    type: TensorType
    over: Nest
    reduction: str

    @property
    def name(self) -> str:
        return "sum" if self.reduction else "o"

    @property
    def wide(self) -> DType:
        """The type that the updates meet in."""
        return compute_type(self.type.dtype)

    def before(self) -> list[Stmt]:
        """The copy of the input."""
        at = self.over.index
        space: list[Stmt] = []
        if self.reduction:
            space.append(Alloc(Buffer("sum", self.wide, self.type.shape, "scratch")))
        start: ValueExpr = Load("x", at, self.type.dtype)
        return [*space, self.over.around(Store(self.name, at, widened(start) if self.reduction else start))]

    def update(self, index: tuple[Dim, ...], value: ValueExpr) -> Stmt:
        """One element met by one update."""
        if self.reduction:
            value = op(self.reduction, Load("sum", index, self.wide), widened(value))
        return Store(self.name, index, value)

    def after(self) -> list[Stmt]:
        """The copy of the scratch to the output."""
        if not self.reduction:
            return []
        last = nest(self.type.shape, names=[f"l{k}" for k in range(self.type.rank)])
        value = stored(Load("sum", last.index, self.wide), self.type.dtype)
        return [last.around(Store("o", last.index, value))]


def _wide(x: Array) -> Array:
    """A copy in the type that updates meet in."""
    return x.astype(np.float32) if x.dtype == np.float16 else x.copy()


def _in_rows(at: Dim, rows: Rows | None) -> ValueExpr | None:
    """The condition that a row found at run time is one of those to compute."""
    if rows is None:
        return None
    return op("and", op("ge", idx(at), idx(rows.lo.expr)), op("lt", idx(at), idx(rows.hi.expr)))


# --- scatter_elements ---------------------------------------------------------------------------------------------


def _elements_infer(
    x: TensorType, indices: TensorType, updates: TensorType, *, axis: int, reduction: str
) -> TensorType:
    require_indices("scatter_elements", indices.dtype)
    _check("scatter_elements", x, updates, reduction)
    if not 0 <= axis < x.rank or indices.rank != x.rank or updates.rank != x.rank:
        raise BuildError(f"scatter_elements wants three tensors of one rank above axis {axis}")
    for k, (a, b) in enumerate(zip(indices.shape, updates.shape, strict=True)):
        require_equal(f"axis {k} of indices and updates", a, b)
    return x


def _elements_ref(x: Array, indices: Array, updates: Array, *, axis: int, reduction: str) -> Array:
    out = _wide(x)
    at, inside = resolve(indices, x.shape[axis])
    for place in np.ndindex(indices.shape):
        target = (*place[:axis], int(at[place]), *place[axis + 1 :])
        if inside[place] and all(t < s for t, s in zip(target, x.shape, strict=True)):
            out[target] = _NUMPY[reduction](out[target], updates[place])
    return out.astype(x.dtype)


def _elements_loops(name: str, types: Types, outs: Types, given: Mapping[str, Any]) -> Loops:
    """o = x; for each index in order, o[.., index, ..] takes the update."""
    x, indices, updates = types
    axis: int = given["axis"]
    over = nest(x.shape)
    target = _Target(x, over, _meeting(given["reduction"], x.dtype))
    inner = _updates_nest(over.rows, indices, axis, x)
    names, at = position("at", Load("indices", inner.index, indices.dtype), x.shape[axis])
    place = (*inner.index[:axis], at, *inner.index[axis + 1 :])
    row = row_axis_of(x.rank)
    mine = [_in_rows(at, over.rows)] if axis == row else []
    cond = all_of([unproved(list(zip(place, x.shape, strict=True)), known(inner)), *mine])
    update = target.update(place, Load("updates", inner.index, x.dtype))
    scatter = inner.around(*names, guarded(cond, update))
    params = [param("x", x), param("indices", indices), param("updates", updates), param("o", outs[0], "write")]
    return function(name, params, [*target.before(), scatter, *target.after()], over.rows)


def _updates_nest(rows: Rows | None, indices: TensorType, axis: int, x: TensorType) -> Nest:
    """Loops over the updates that can fall into the rows, each in the order of memory."""
    row = row_axis_of(x.rank)
    index, loops = [], []
    for k, extent in enumerate(indices.shape):
        var = variable(f"j{k}", extent)
        index.append(var.expr)
        bounds: tuple[Dim, Dim] = (0, extent)
        if rows is not None and k == row and axis != row and prove_ge(extent, x.shape[k]) is True:
            bounds = (rows.lo.expr, rows.hi.expr)
        loops.append((var, *bounds))
    return Nest(rows, tuple(index), tuple(loops))


# --- scatter_nd ---------------------------------------------------------------------------------------------------


def _nd_infer(x: TensorType, indices: TensorType, updates: TensorType, *, reduction: str) -> TensorType:
    depth = depth_of("scatter_nd", x, indices, 0)
    _check("scatter_nd", x, updates, reduction)
    wanted = (*indices.shape[:-1], *x.shape[depth:])
    if updates.rank != len(wanted):
        raise BuildError(f"scatter_nd wants updates of rank {len(wanted)}, got {updates.rank}")
    for k, (a, b) in enumerate(zip(updates.shape, wanted, strict=True)):
        require_equal(f"axis {k} of the updates of scatter_nd", a, b)
    return x


def _nd_ref(x: Array, indices: Array, updates: Array, *, reduction: str) -> Array:
    out = _wide(x)
    depth = indices.shape[-1]
    found = [resolve(indices[..., k], x.shape[k]) for k in range(depth)]
    for place in np.ndindex(indices.shape[:-1]):
        if all(inside[place] for _, inside in found):
            target = tuple(int(at[place]) for at, _ in found)
            out[target] = _NUMPY[reduction](out[target], updates[place])
    return out.astype(x.dtype)


def _nd_loops(name: str, types: Types, outs: Types, given: Mapping[str, Any]) -> Loops:
    """o = x; for each tuple of indices in order, the slice of o there takes the update."""
    x, indices, updates = types
    depth = depth_of("scatter_nd", x, indices, 0)
    over = nest(x.shape)
    target = _Target(x, over, _meeting(given["reduction"], x.dtype))
    lead = [variable(f"j{k}", extent) for k, extent in enumerate(indices.shape[:-1])]
    first = tuple(v.expr for v in lead)
    names, checks = positions_at(indices, first, x.shape[:depth])
    row = row_axis_of(x.rank)
    conditions = known(Nest(over.rows, first, tuple((v, 0, n) for v, n in zip(lead, indices.shape, strict=False))))
    cond = all_of([unproved(checks, conditions), _in_rows(checks[row][0], over.rows) if row < depth else None])
    stmt = guarded(cond, _nd_tail(target, checks, updates, first, depth))
    stmts: tuple[Stmt, ...] = (*names, stmt)
    for var, extent in reversed(list(zip(lead, indices.shape[:-1], strict=True))):
        stmts = (loop(var, extent, *stmts),)
    params = [param("x", x), param("indices", indices), param("updates", updates), param("o", outs[0], "write")]
    return function(name, params, [*target.before(), *stmts, *target.after()], over.rows)


def _nd_tail(target: _Target, checks: Sequence[Check], updates: TensorType, first: tuple[Dim, ...], depth: int) -> Stmt:
    """The loops over the slice that one tuple of indices names."""
    x, rows = target.type, target.over.rows
    loops, index = [], []
    for k in range(depth, x.rank):
        var = variable(f"k{k}", x.shape[k])
        index.append(var.expr)
        bounds: tuple[Dim, Dim] = (0, x.shape[k])
        if rows is not None and k == row_axis_of(x.rank):
            bounds = (rows.lo.expr, rows.hi.expr)
        loops.append((var, *bounds))
    place = (*(at for at, _ in checks), *index)
    value = Load("updates", (*first, *index), updates.dtype)
    return Nest(rows, tuple(index), tuple(loops)).around(target.update(place, value))


def _choose(*shape: int, lo: int, hi: int) -> Any:
    """Values for a sample: indices in ``lo..hi`` (hi exclusive)."""
    return lambda rng: rng.integers(lo, hi, shape)


_T = TensorType
_N: Dim = Var("n", 2, 6).expr
_M: Dim = Var("m", 2, 4).expr
_LINE = (_T(F32, (6,)), _T(I64, (9,)), _T(F32, (9,)))
_PLANE = (_T(I32, (_N, 4)), _T(I32, (2, 4)), _T(I32, (2, 4)))
_HALF = (_T(F16, (2, 4)), _T(I64, (3, 4)), _T(F16, (3, 4)))
_DEEP = (_T(F32, (2, 3, _M)), _T(I64, (1, 3, 2)), _T(F32, (1, 3, 2)))
_POINTS = (_T(F32, (8,)), _T(I64, (5, 1)), _T(F32, (5,)))
_SLABS = (_T(I8, (4, _N, 2)), _T(I64, (3, 1)), _T(I8, (3, _N, 2)))
_ROWS = (_T(F32, (2, _N, 3)), _T(I32, (6, 2)), _T(F32, (6, 3)))

define(
    OpDef(
        "scatter_elements",
        ("x", "indices", "updates"),
        _elements_infer,
        _elements_ref,
        _elements_loops,
        samples=(
            sample(*_LINE, values={1: _choose(9, lo=-7, hi=8)}, axis=0, reduction="none"),
            sample(*_LINE, values={1: _choose(9, lo=-6, hi=6)}, axis=0, reduction="add"),
            sample(*_PLANE, values={1: _choose(2, 4, lo=-3, hi=5)}, axis=0, reduction="max"),
            sample(*_PLANE, values={1: _choose(2, 4, lo=0, hi=4)}, axis=1, reduction="mul"),
            sample(*_HALF, values={1: _choose(3, 4, lo=-2, hi=2)}, axis=0, reduction="add"),
            sample(*_DEEP, values={1: _choose(1, 3, 2, lo=0, hi=3)}, axis=2, reduction="min"),
        ),
        kind=OPAQUE,
    )
)
define(
    OpDef(
        "scatter_nd",
        ("x", "indices", "updates"),
        _nd_infer,
        _nd_ref,
        _nd_loops,
        samples=(
            sample(*_POINTS, values={1: _choose(5, 1, lo=-9, hi=9)}, reduction="none"),
            sample(*_SLABS, values={1: _choose(3, 1, lo=0, hi=4)}, reduction="add"),
            sample(*_ROWS, values={1: _choose(6, 2, lo=0, hi=3)}, reduction="mul"),
        ),
        kind=OPAQUE,
    )
)
