"""Where the largest or smallest element of an axis is, as an index or as a mark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import cast, idx, imm, op
from sdk.compiler.ir.loops import Alloc, Buffer, Let, Load, Loops, Ref, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import BOOL, F16, F32, I8, I32, I64, U8, DType, TensorType
from sdk.compiler.ops.build import function, loop, nest, param, variable
from sdk.compiler.ops.numerics import number, require_float, single, stored, widened
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.traits import OPAQUE, AxisRole
from sdk.compiler.sym import Dim, Var, min_value
from sdk.errors import BuildError

Array = NDArray[Any]


def _infer(name: str) -> Callable[..., TensorType]:
    def infer(x: TensorType, *, axis: int, last: bool) -> TensorType:
        if not 0 <= axis < x.rank or x.dtype.kind not in "fiu":
            raise BuildError(f"{name} along axis {axis} of a {x.dtype} tensor of rank {x.rank}")
        _not_empty(name, x.shape[axis])
        return TensorType(I64, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))

    return infer


def _not_empty(name: str, extent: Dim) -> None:
    minimum = min_value(extent)
    if minimum is None or minimum < 1:
        raise BuildError(f"{name} along an axis of {extent} elements, which may be none")


def _reference(best: Callable[..., Array]) -> Callable[..., Array]:
    def run(x: Array, *, axis: int, last: bool) -> Array:
        found = best(np.flip(x, axis) if last else x, axis=axis, keepdims=True)
        return np.asarray(x.shape[axis] - 1 - found if last else found).astype(np.int64)

    return run


def _better(value: ValueExpr, best: ValueExpr, row: str, last: bool) -> ValueExpr:
    """Whether an element takes the place of the best so far: NaN wins, as in numpy, the first or the last one."""
    found: ValueExpr = op({"gt": "ge", "lt": "le"}[row] if last else row, value, best)
    if not value.dtype.is_float:
        return found
    wins: ValueExpr = op("isnan", value)
    return op("or", found, wins if last else op("and", wins, op("not", op("isnan", best))))


def _search(x: TensorType, row: str, last: bool, index: Sequence[Dim], axis: int) -> tuple[list[Stmt], Load]:
    """best = x[0]; at = 0; axis { if x is better: at = its index, best = x }; the statements, and ``at``."""
    var = variable("r", x.shape[axis])
    place, first = list(index), list(index)
    place[axis], first[axis] = var.expr, 0
    value = widened(Load("x", tuple(place), x.dtype))
    best, at, better = Load("best", (), value.dtype), Load("at", (), I32), Ref("better", BOOL)
    steps: list[Stmt] = [
        Alloc(Buffer("best", value.dtype, (), "register")),
        Store("best", (), widened(Load("x", tuple(first), x.dtype))),
        Alloc(Buffer("at", I32, (), "register")),
        Store("at", (), imm(0)),
        loop(
            var,
            x.shape[axis],
            Let("better", _better(value, best, row, last)),
            Store("at", (), op("select", better, idx(var.expr), at, dtype=I32)),
            Store("best", (), op("select", better, value, best, dtype=value.dtype)),
        ),
    ]
    return steps, at


def _loops(row: str) -> Callable[..., Loops]:
    def build(
        name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]
    ) -> Loops:
        over = nest(outs[0].shape)
        steps, at = _search(types[0], row, given["last"], over.index, given["axis"])
        body = over.around(*steps, Store("o", over.index, cast(at, I64)))
        return function(name, [param("x", types[0]), param("o", outs[0], "write")], [body], over.rows)

    return build


def _hardmax_infer(x: TensorType) -> TensorType:
    require_float("hardmax", x)
    if x.rank < 1:
        raise BuildError("hardmax wants at least one axis")
    _not_empty("hardmax", x.shape[-1])
    return x


def _hardmax_ref(x: Array) -> Array:
    at = np.argmax(x, axis=-1, keepdims=True)
    return np.asarray(np.arange(x.shape[-1]) == at).astype(x.dtype)


def _hardmax_loops(
    name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]
) -> Loops:
    """For each row: where its first largest element is, then 1 there and 0 elsewhere."""
    x, over = types[0], nest(types[0].shape, inner=1)
    steps, at = _search(x, "gt", False, (*over.index, 0), x.rank - 1)
    j = variable("j", x.shape[-1])
    kind = widened(Load("x", (), x.dtype)).dtype
    mark = op("select", op("eq", idx(j.expr), at), number(1, kind), number(0, kind), dtype=kind)
    body = over.around(
        *steps, loop(j, x.shape[-1], Store("o", (*over.index, j.expr), stored(mark, x.dtype)))
    )
    return function(name, [param("x", x), param("o", outs[0], "write")], [body], over.rows)


_T = TensorType
_N: Dim = Var("n", 1, 6).expr


def _ties(rng: np.random.Generator) -> Array:
    return np.where(rng.random((6, 9)) < 0.1, np.nan, rng.integers(0, 3, (6, 9)))


def _few(kind: DType) -> Callable[[np.random.Generator], Array]:
    return lambda rng: rng.integers(0, 3, (4, 9)).astype(kind.numpy)


for _name, _row, _fn in (("argmax", "gt", np.argmax), ("argmin", "lt", np.argmin)):
    define(
        OpDef(
            _name,
            ("x",),
            _infer(_name),
            single(_reference(_fn)),
            _loops(_row),
            samples=(
                sample(_T(F32, (2, _N, 5)), axis=2, last=False),
                sample(_T(F32, (_N, 3)), axis=0, last=True),
                sample(_T(F32, (4,)), axis=0, last=False),
                *(sample(_T(F32, (6, 9)), axis=1, last=k, values={0: _ties}) for k in (False, True)),
                *(sample(_T(k, (4, 9)), axis=1, last=True, values={0: _few(k)}) for k in (I8, U8, I64)),
                sample(_T(F16, (3, 9)), axis=1, last=False),
            ),
            kind=OPAQUE,
            axes={"axis": AxisRole.ONE},
        )
    )
define(
    OpDef(
        "hardmax",
        ("x",),
        _hardmax_infer,
        single(_hardmax_ref),
        _hardmax_loops,
        samples=(
            sample(_T(F32, (2, _N, 5))),
            sample(_T(F32, (6, 9)), values={0: _ties}),
            sample(_T(F32, (5,))),
            sample(_T(F16, (3, _N))),
        ),
        kind=OPAQUE,
    )
)
