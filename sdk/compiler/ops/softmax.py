"""The softmax of each row (the last axis) and its logarithm, safe for any finite input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr
from sdk.compiler.ir.intrinsics import op
from sdk.compiler.ir.loops import Alloc, Buffer, Let, Load, Loops, Ref, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import F16, F32, F64, DType, TensorType
from sdk.compiler.ops.build import Nest, function, loop, nest, param, variable
from sdk.compiler.ops.numerics import compute_type, number, require_float, single, stored, widened
from sdk.compiler.ops.registry import LoopsOf, OpDef, define, sample
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

Array = NDArray[Any]


def _infer(x: TensorType) -> TensorType:
    require_float("softmax", x)
    if x.rank < 1:
        raise BuildError("softmax wants at least one axis")
    return x


def _softmax_ref(x: Array) -> Array:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True, initial=-np.inf))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def _log_softmax_ref(x: Array) -> Array:
    down = x - np.max(x, axis=-1, keepdims=True, initial=-np.inf)
    return np.asarray(down - np.log(np.exp(down).sum(axis=-1, keepdims=True)))


def _row(x: TensorType, over: Nest, var: Var) -> ValueExpr:
    """The element of a row at ``var``, as it is computed with."""
    return widened(Load("x", (*over.index, var.expr), x.dtype))


def _largest(x: TensorType, over: Nest, kind: DType) -> list[Stmt]:
    """top = the largest element of the row."""
    j, top = variable("j", x.shape[-1]), Load("top", (), kind)
    return [
        Alloc(Buffer("top", kind, (), "register")),
        Store("top", (), number(float("-inf"), kind)),
        loop(j, x.shape[-1], Store("top", (), op("max", top, _row(x, over, j)))),
    ]


def _loops(rest: Callable[[TensorType, Nest, DType], list[Stmt]]) -> LoopsOf:
    """For each row: its largest element, a total of 0, then the ``rest``."""

    def build(
        name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Attr]
    ) -> Loops:
        x, over = types[0], nest(types[0].shape, inner=1)
        kind = compute_type(x.dtype)
        body = over.around(
            *_largest(x, over, kind),
            Alloc(Buffer("total", kind, (), "register")),
            Store("total", (), number(0, kind)),
            *rest(x, over, kind),
        )
        return function(name, [param("x", x), param("o", outs[0], "write")], [body], over.rows)

    return build


def _down(x: TensorType, over: Nest, var: Var) -> ValueExpr:
    """The element of a row at ``var`` less the largest one."""
    value = _row(x, over, var)
    return op("sub", value, Load("top", (), value.dtype))


def _softmax_row(x: TensorType, over: Nest, kind: DType) -> list[Stmt]:
    """e = exp(x - top) with its sum, then e / total."""
    size = x.shape[-1]
    k, i = variable("k", size), variable("l", size)
    total = Load("total", (), kind)
    return [
        Alloc(Buffer("e", kind, (size,), "scratch")),
        loop(k, size, Store("e", (k.expr,), op("exp", _down(x, over, k)))),
        loop(i, size, Store("total", (), op("add", total, Load("e", (i.expr,), kind)))),
        *_scaled(x, over, total),
    ]


def _scaled(x: TensorType, over: Nest, total: Load) -> list[Stmt]:
    """o = e * (1 / total), with one division for the row."""
    m, kind = variable("m", x.shape[-1]), total.dtype
    share = op("mul", Load("e", (m.expr,), kind), Ref("share", kind))
    return [
        Let("share", op("tdiv", number(1, kind), total)),
        loop(m, x.shape[-1], Store("o", (*over.index, m.expr), stored(share, x.dtype))),
    ]


def _log_softmax_row(x: TensorType, over: Nest, kind: DType) -> list[Stmt]:
    """The sum of exp(x - top), then x - top - log(total)."""
    size = x.shape[-1]
    k, i = variable("k", size), variable("l", size)
    total = Load("total", (), kind)
    result = op("sub", _down(x, over, i), Ref("log_total", kind))
    return [
        loop(k, size, Store("total", (), op("add", total, op("exp", _down(x, over, k))))),
        Let("log_total", op("log", total)),
        loop(i, size, Store("o", (*over.index, i.expr), stored(result, x.dtype))),
    ]


_T = TensorType
_N: Dim = Var("n", 1, 6).expr


def _large(rng: np.random.Generator) -> Array:
    rows = rng.uniform(-1000, 1000, (4, 7))
    rows[1, 2:] = -np.inf
    rows[2, 3] = np.nan
    rows[3, :] = 1e30
    return rows


for _name, _fn, _rest in (
    ("softmax", _softmax_ref, _softmax_row),
    ("log_softmax", _log_softmax_ref, _log_softmax_row),
):
    define(
        OpDef(
            _name,
            ("x",),
            _infer,
            single(_fn),
            _loops(_rest),
            samples=(
                sample(_T(F32, (2, _N, 9))),
                sample(_T(F32, (3, _N))),
                sample(_T(F32, (7,))),
                sample(_T(F32, (4, 7)), values={0: _large}),
                sample(_T(F64, (3, 5))),
                sample(_T(F16, (3, _N))),
            ),
            kind=OPAQUE,
        )
    )
