"""Determinants of small matrices, by elimination with the largest pivot of each column: ``det``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sdk.compiler.analysis.path_conditions import PathConditions
from sdk.compiler.ir.intrinsics import idx, op
from sdk.compiler.ir.loops import Alloc, Block, Buffer, If, Let, Load, Loops, Ref, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import F32, F64, I32, TensorType
from sdk.compiler.ops.build import function, loop, nest, param, variable
from sdk.compiler.ops.numerics import number
from sdk.compiler.ops.positions import guarded, unproved
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError


def _infer(x: TensorType) -> TensorType:
    if x.rank < 2 or x.dtype not in (F32, F64) or not isinstance(x.shape[-1], int) or x.shape[-1] != x.shape[-2]:
        raise BuildError("det wants square matrices of f32 or f64 of a known size")
    return TensorType(x.dtype, x.shape[:-2])


def _loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]) -> Loops:
    """Each matrix { columns { swap the row of the largest element up; subtract it from the rows below } }."""
    x, size, kind = types[0], int(types[0].shape[-1]), types[0].dtype  # type: ignore[arg-type]  # a number by infer
    over = nest(outs[0].shape)
    r, c, p = variable("r", size), variable("c", size), variable("p", size)
    copy = loop(r, size, loop(c, size, Store("m", (r.expr, c.expr), Load("x", (*over.index, r.expr, c.expr), kind))))
    body = over.around(
        Alloc(Buffer("m", kind, (size, size), "scratch")),
        *(Alloc(Buffer(n, k, (), "register")) for n, k in (("total", kind), ("maximum", kind), ("best", I32))),
        copy,
        Store("total", (), number(1, kind)),
        loop(p, size, *_column(kind, p.expr, size)),
        Store("o", over.index, Load("total", (), kind)),
    )
    return function(name, [param("x", x), param("o", outs[0], "write")], [body], over.rows)


def _column(kind: Any, p: Dim, size: int) -> list[Stmt]:
    def m(row: Dim, column: Dim) -> Load:
        return Load("m", (row, column), kind)

    total = Load("total", (), kind)
    s, q, e, f = (Var(n, 0, size - 1) for n in ("s", "q", "e", "f"))
    larger = op("gt", op("abs", m(s.expr, p)), Load("maximum", (), kind))
    find = If(larger, Block((Store("maximum", (), op("abs", m(s.expr, p))), Store("best", (), idx(s.expr)))))
    at = Var("at", *I32.limits).expr
    swap = loop(
        q, size, Let("held", m(p, q.expr)), Store("m", (p, q.expr), m(at, q.expr)),
        Store("m", (at, q.expr), Ref("held", kind)),
    )  # fmt: skip
    flip = If(op("gt", idx(at), idx(p)), Block((Store("total", (), op("neg", total)),)))
    pivot = Ref("pivot", kind)
    nothing = op("eq", pivot, number(0, kind))
    divisor: ValueExpr = op("select", nothing, number(1, kind), pivot, dtype=kind)
    less = op("sub", m(e.expr, f.expr), op("mul", Ref("factor", kind), m(p, f.expr)))
    below = loop(
        e, size, Let("factor", op("tdiv", m(e.expr, p), divisor)),
        loop(f, size, Store("m", (e.expr, f.expr), less), lo=p), lo=p + 1,
    )  # fmt: skip
    return [
        Store("maximum", (), op("abs", m(p, p))),
        Store("best", (), idx(p)),
        loop(s, size, find, lo=p),
        Let("at", Load("best", (), I32)),
        guarded(unproved([(at, size)], PathConditions()), Block((swap, flip))),
        Let("pivot", m(p, p)),
        Store("total", (), op("mul", total, pivot)),
        below,
    ]


_T = TensorType
_N: Dim = Var("n", 1, 4).expr
define(
    OpDef(
        "det",
        ("x",),
        _infer,
        lambda x: np.asarray(np.linalg.det(x)).astype(x.dtype),
        _loops,
        samples=(
            sample(_T(F32, (3, 3))),
            sample(_T(F64, (_N, 4, 4))),
            sample(_T(F32, (2, _N, 2, 2))),
            sample(_T(F32, (1, 1))),
        ),
        kind=OPAQUE,
    )
)
