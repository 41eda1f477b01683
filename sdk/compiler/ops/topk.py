"""The largest or smallest elements of an axis in order, with their places: ``topk``; equal ones by place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import cast, idx, imm, op
from sdk.compiler.ir.loops import Alloc, Block, Buffer, If, Let, Load, Loops, Ref, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import F16, F32, I8, I32, I64, TensorType
from sdk.compiler.ops.build import function, loop, nest, param, row_axis_of, variable
from sdk.compiler.ops.numerics import compute_type, number, stored, widened
from sdk.compiler.ops.positions import split_nest
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.sym import Dim, Var, prove_ge
from sdk.errors import BuildError

Array = NDArray[Any]


def _infer(x: TensorType, *, k: Any, axis: int, largest: bool) -> tuple[TensorType, TensorType]:
    if not 0 <= axis < x.rank or x.dtype.kind not in "fiu":
        raise BuildError(f"topk along axis {axis} of a {x.dtype} tensor of rank {x.rank}")
    if prove_ge(x.shape[axis], k) is not True:
        raise BuildError(f"the {k} best of {x.shape[axis]} elements, which may be fewer")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return TensorType(x.dtype, shape), TensorType(I64, shape)


def _ref(x: Array, *, k: int, axis: int, largest: bool) -> tuple[Array, Array]:
    order = x.astype(np.float64) if x.dtype.kind == "f" else x.astype(object)
    places = np.argsort(-order if largest else order, axis=axis, kind="stable").astype(np.int64)
    places = np.take(places, np.arange(k), axis=axis)
    return np.take_along_axis(x, places, axis), places


def _loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]) -> Loops:
    """Each line { rank { the best element after the one found before, by value and then place } }."""
    x, axis = types[0], int(given["axis"])
    over = nest(outs[0].shape)
    lines, _ = split_nest(over, [k for k in range(x.rank) if k != axis])
    rank = variable("rank", outs[0].shape[axis])
    lead, tail = over.index[:axis], over.index[axis + 1 :]
    mine = over.rows is not None and axis == row_axis_of(x.rank)
    rows = over.rows if mine else None
    put = _put(x, (*lead, rank.expr, *tail), rows.lo.expr if rows else None, rank.expr)
    ranks = loop(rank, rows.hi.expr if rows else outs[0].shape[axis], *_find(x, axis, lead, tail, given), *put)
    wide = compute_type(x.dtype)
    state: list[Stmt] = []
    for what, kind, value in (("best", wide, 0), ("last", wide, 0), ("at", I32, -1), ("last_at", I32, -1)):
        state += [Alloc(Buffer(what, kind, (), "register")), Store(what, (), number(value, kind))]
    params = [param("x", x), param("o0", outs[0], "write"), param("o1", outs[1], "write")]
    return function(name, params, [lines.around(*state, ranks)], over.rows)


def _find(
    x: TensorType, axis: int, lead: Sequence[Dim], tail: Sequence[Dim], given: Mapping[str, Any]
) -> tuple[Stmt, ...]:
    """at = the place of the best element that comes after ``last`` at ``last_at``; -1 without."""
    better, wide = ("gt" if given["largest"] else "lt"), compute_type(x.dtype)
    place = variable("place", x.shape[axis])
    value = Ref("value", wide)
    best, last = Load("best", (), wide), Load("last", (), wide)
    at, last_at = Load("at", (), I32), Load("last_at", (), I32)
    tie = op("and", op("eq", value, last), op("gt", idx(place.expr), last_at))
    fresh: ValueExpr = op("or", op("lt", last_at, imm(0)), op("or", op(better, last, value), tie))
    wins = op("and", fresh, op("or", op("lt", at, imm(0)), op(better, value, best)))
    take = If(wins, Block((Store("best", (), value), Store("at", (), idx(place.expr)))))
    named = Let("value", widened(Load("x", (*lead, place.expr, *tail), x.dtype)))
    return (
        Store("at", (), imm(-1)),
        loop(place, x.shape[axis], named, take),
        Store("last", (), best),
        Store("last_at", (), at),
    )


def _put(x: TensorType, index: tuple[Dim, ...], first: Dim | None, rank: Dim) -> tuple[Stmt, ...]:
    """The element found, as the one of its rank; those before the rows to compute are not wanted."""
    best, at = Load("best", (), compute_type(x.dtype)), Load("at", (), I32)
    put = (Store("o0", index, stored(best, x.dtype)), Store("o1", index, cast(at, I64)))
    return put if first is None else (If(op("ge", idx(rank), idx(first)), Block(put)),)


_T = TensorType
_N: Dim = Var("n", 2, 6).expr
_M: Dim = Var("m", 2, 4).expr
define(
    OpDef(
        "topk",
        ("x",),
        _infer,
        _ref,
        _loops,
        samples=(
            sample(_T(F32, (3, 7)), k=3, axis=1, largest=True),
            sample(_T(I8, (9,)), values={0: lambda rng: rng.integers(0, 3, 9)}, k=5, axis=0, largest=False),
            sample(_T(F32, (2, _N, 3)), k=2, axis=1, largest=True),
            sample(_T(I64, (_N, _M)), k=_N, axis=0, largest=False),
            sample(_T(F16, (4,)), k=1, axis=0, largest=True),
        ),
        kind=OPAQUE,
    )
)
