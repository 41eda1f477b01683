"""Systems of linear equations of a known size, by elimination with the largest pivot of each column: ``solve``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.analysis.path_conditions import PathConditions
from sdk.compiler.ir.intrinsics import idx, op
from sdk.compiler.ir.loops import Alloc, Block, Buffer, If, Let, Load, Loops, Ref, Stmt, Store
from sdk.compiler.ir.types import F32, F64, I32, TensorType
from sdk.compiler.ops.build import function, loop, nest, param, row_axis_of, variable
from sdk.compiler.ops.positions import guarded, unproved
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

Array = NDArray[Any]


def _infer(a: TensorType, b: TensorType) -> TensorType:
    square = a.rank >= 2 and a.rank == b.rank and isinstance(a.shape[-1], int) and a.shape[-1] == a.shape[-2]
    if not square or a.dtype not in (F32, F64) or a.dtype != b.dtype or not isinstance(b.shape[-1], int):
        raise BuildError("solve wants square matrices and right sides of f32 or f64, of known sizes")
    if not all(map(same_extent, a.shape[:-1], b.shape[:-1])) or a.shape[-1] == 0:
        raise BuildError(f"solve of systems of {a} with right sides of {b}")
    return b


def _reference(a: Array, b: Array) -> Array:
    """Each system; what has no solution is not finite."""
    found = np.empty_like(b)
    for at in np.ndindex(*a.shape[:-2]):
        try:
            found[at] = np.linalg.solve(a[at], b[at])
        except np.linalg.LinAlgError:
            found[at] = np.nan
    return found


def _loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]) -> Loops:
    """Each system { columns { swap the row of the largest element up; subtract it from the rows below }, then the
    unknowns from the last to the first, each subtracted from the rows above }."""
    a, kind = types[0], types[0].dtype
    size, width = (int(d) for d in outs[0].shape[-2:])  # type: ignore[arg-type]  # numbers by infer
    over = nest(outs[0].shape, 2)
    r, c, p = variable("r", size), variable("c", size), variable("p", size)
    s, w, k = variable("s", size), variable("w", width), variable("k", size)
    t, u = variable("t", size), variable("u", width)
    inside = over.rows is not None and len(over.index) <= row_axis_of(outs[0].rank)  # rows are those of a right side
    lo, hi = (over.rows.lo.expr, over.rows.hi.expr) if over.rows is not None and inside else (0, size)
    told = Store("o", (*over.index, t.expr, u.expr), Load("x", (t.expr, u.expr), kind))
    body = over.around(
        Alloc(Buffer("m", kind, (size, size), "scratch")),
        Alloc(Buffer("x", kind, (size, width), "scratch")),
        *(Alloc(Buffer(n, k, (), "register")) for n, k in (("maximum", kind), ("best", I32))),
        loop(r, size, loop(c, size, Store("m", (r.expr, c.expr), Load("a", (*over.index, r.expr, c.expr), kind)))),
        loop(s, size, loop(w, width, Store("x", (s.expr, w.expr), Load("b", (*over.index, s.expr, w.expr), kind)))),
        loop(p, size, *_column(kind, p.expr, size, width)),
        loop(k, size, *_unknown(kind, size - 1 - k.expr, size, width)),
        loop(t, hi, loop(u, width, told), lo=lo),
    )
    params = [param("a", a), param("b", types[1]), param("o", outs[0], "write")]
    return function(name, params, [body], over.rows)


def _column(kind: Any, p: Dim, size: int, width: int) -> list[Stmt]:
    """The largest element from row ``p`` on of column ``p`` to the diagonal, zeros below."""
    s, e = variable("f", size), variable("e", size)
    here = Load("m", (s.expr, p), kind)
    larger = op("gt", op("abs", here), Load("maximum", (), kind))
    find = If(larger, Block((Store("maximum", (), op("abs", here)), Store("best", (), idx(s.expr)))))
    at = Var("at", *I32.limits).expr
    below: list[Stmt] = [Let("factor", op("tdiv", Load("m", (e.expr, p), kind), Load("m", (p, p), kind)))]
    swap: list[Stmt] = []
    for held, wide in (("m", size), ("x", width)):
        q, g = variable(f"q{held}", wide), variable(f"g{held}", wide)
        mine, other = Load(held, (p, q.expr), kind), Load(held, (at, q.expr), kind)
        swap.append(loop(
            q, wide, Let(f"was_{held}", mine), Store(held, (p, q.expr), other),
            Store(held, (at, q.expr), Ref(f"was_{held}", kind)),
        ))  # fmt: skip
        less = op("mul", Ref("factor", kind), Load(held, (p, g.expr), kind))
        below.append(loop(
            g, wide, Store(held, (e.expr, g.expr), op("sub", Load(held, (e.expr, g.expr), kind), less)),
            lo=p if held == "m" else 0,
        ))  # fmt: skip
    return [
        Store("maximum", (), op("abs", Load("m", (p, p), kind))),
        Store("best", (), idx(p)),
        loop(s, size, find, lo=p),
        Let("at", Load("best", (), I32)),
        guarded(unproved([(at, size)], PathConditions()), Block(tuple(swap))),
        loop(e, size, *below, lo=p + 1),
    ]


def _unknown(kind: Any, p: Dim, size: int, width: int) -> list[Stmt]:
    """The unknowns of row ``p``, which those below are known for."""
    c, d, e = variable("y", width), variable("z", width), variable("h", size)
    quotient = op("tdiv", Load("x", (p, c.expr), kind), Load("m", (p, p), kind))
    less = op("mul", Load("m", (e.expr, p), kind), Load("x", (p, d.expr), kind))
    return [
        loop(c, width, Store("x", (p, c.expr), quotient)),
        loop(e, p, loop(d, width, Store("x", (e.expr, d.expr), op("sub", Load("x", (e.expr, d.expr), kind), less)))),
    ]


_T = TensorType
_N: Dim = Var("n", 1, 4).expr
define(
    OpDef(
        "solve",
        ("a", "b"),
        _infer,
        _reference,
        _loops,
        samples=(
            sample(_T(F32, (3, 3)), _T(F32, (3, 2))),
            sample(_T(F64, (_N, 4, 4)), _T(F64, (_N, 4, 1))),
            sample(_T(F32, (2, _N, 2, 2)), _T(F32, (2, _N, 2, 5))),
            sample(_T(F32, (1, 1)), _T(F32, (1, 3))),
        ),
        kind=OPAQUE,
    )
)
