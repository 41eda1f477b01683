"""Probabilities of classes from those of pairs, as libsvm finds them: ``couple``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import op
from sdk.compiler.ir.loops import Alloc, Block, Buffer, If, Let, Load, Loops, Ref, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import F32, TensorType
from sdk.compiler.ops.build import function, loop, nest, param, variable
from sdk.compiler.ops.numerics import number
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

Array = NDArray[Any]

PASSES: Final = 100
ERROR: Final = 0.005  # over the number of classes: where libsvm stops


def _infer(x: TensorType) -> TensorType:
    count = x.shape[-1] if x.rank else 0
    if x.rank < 2 or x.dtype != F32 or not isinstance(count, int) or count != x.shape[-2] or count < 2:
        raise BuildError("couple wants a square f32 matrix of pairs of a known size, 2 or more")
    return TensorType(F32, x.shape[:-1])


def _reference(x: Array) -> Array:
    """The second algorithm of Wu, Lin and Weng, "Probability estimates for multi-class classification by pairwise
    coupling", 2004: p with the least sum of (p[j] * x[i, j] - p[i] * x[j, i])**2, one element after the other."""
    one, count = np.float32(1), x.shape[-1]
    found = np.empty(x.shape[:-1], np.float32)
    for at in np.ndindex(*x.shape[:-2]):
        q = (-x[at] * x[at].T).astype(np.float32)
        for t in range(count):
            total = np.float32(0)
            for j in range(count):
                total = total + x[at][j, t] * x[at][j, t] if j != t else total
            q[t, t] = total
        p = np.full(count, one / np.float32(count), np.float32)
        for _ in range(PASSES):
            qp = np.array([sum((q[t, j] * p[j] for j in range(count)), np.float32(0)) for t in range(count)])
            pqp = sum((p[t] * qp[t] for t in range(count)), np.float32(0))
            if np.fmax.reduce(np.abs(qp - pqp), initial=np.float32(0)) < np.float32(ERROR / count):
                break
            for t in range(count):
                step = (pqp - qp[t]) / q[t, t]
                p[t] += step
                pqp = (pqp + step * (step * q[t, t] + np.float32(2) * qp[t])) / (one + step) / (one + step)
                qp = (qp + step * q[t]) / (one + step)
                p = p / (one + step)
        found[at] = p
    return found


def _loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]) -> Loops:
    """Each matrix { the quadratic form; passes { how far from the best; unless near, each element in turn } }."""
    count = int(outs[0].shape[-1])  # type: ignore[arg-type]  # a number by infer
    over = nest(outs[0].shape, 1)
    t, u = variable("t", count), variable("u", count)
    pass_ = variable("pass", PASSES)
    near = op("lt", _at("error"), number(ERROR / count, F32))
    start = Store("p", (t.expr,), number(float(np.float32(1) / np.float32(count)), F32))
    inside = over.rows is not None and not over.index  # rows are those of the only result
    lo, hi = (over.rows.lo.expr, over.rows.hi.expr) if over.rows is not None and inside else (0, count)
    body = over.around(
        Alloc(Buffer("q", F32, (count, count), "scratch")),
        Alloc(Buffer("p", F32, (count,), "scratch")),
        Alloc(Buffer("qp", F32, (count,), "scratch")),
        *(Alloc(Buffer(n, F32, (), "register")) for n in ("pqp", "error", "total")),
        loop(t, count, *_form(over.index, t.expr, count), start),
        loop(pass_, PASSES, *_distance(count), If(op("not", near), Block(tuple(_pass(count))))),
        loop(u, hi, Store("o", (*over.index, u.expr), _at("p", u.expr)), lo=lo),
    )
    return function(name, [param("x", types[0]), param("o", outs[0], "write")], [body], over.rows)


def _at(name: str, *index: Dim) -> Load:
    return Load(name, index, F32)


def _form(lead: Sequence[Dim], t: Dim, count: int) -> list[Stmt]:
    """Row ``t`` of the quadratic form."""
    found: list[Stmt] = [Store("total", (), number(0, F32))]
    for stem, lo, hi in (("a", 0, t), ("b", t + 1, count)):
        j = variable(stem, count)
        mine, other = Load("x", (*lead, j.expr, t), F32), Load("x", (*lead, t, j.expr), F32)
        found.append(loop(
            j, hi, Store("total", (), op("add", _at("total"), op("mul", mine, mine))),
            Store("q", (t, j.expr), op("neg", op("mul", mine, other))), lo=lo,
        ))  # fmt: skip
    return [*found, Store("q", (t, t), _at("total"))]


def _distance(count: int) -> list[Stmt]:
    """Q @ p, p' @ Q @ p, and the largest difference between them."""
    t, j, s = variable("t", count), variable("j", count), variable("s", count)
    product = op("mul", _at("q", t.expr, j.expr), _at("p", j.expr))
    apart = op("abs", op("sub", _at("qp", s.expr), _at("pqp")))
    return [
        Store("pqp", (), number(0, F32)),
        loop(
            t, count, Store("total", (), number(0, F32)),
            loop(j, count, Store("total", (), op("add", _at("total"), product))),
            Store("qp", (t.expr,), _at("total")),
            Store("pqp", (), op("add", _at("pqp"), op("mul", _at("p", t.expr), _at("total")))),
        ),
        Store("error", (), number(0, F32)),
        loop(s, count, If(op("gt", apart, _at("error")), Block((Store("error", (), apart),)))),
    ]  # fmt: skip


def _pass(count: int) -> list[Stmt]:
    """Each element to its best place in turn, the sum kept at 1."""
    t, j = variable("t", count), variable("j", count)
    own, one = _at("q", t.expr, t.expr), number(1, F32)
    step, by = Ref("step", F32), Ref("by", F32)
    grown = op("mul", step, op("add", op("mul", step, own), op("mul", number(2, F32), _at("qp", t.expr))))
    moved: ValueExpr = op("add", _at("qp", j.expr), op("mul", step, _at("q", t.expr, j.expr)))
    return [
        loop(
            t, count, Let("step", op("tdiv", op("sub", _at("pqp"), _at("qp", t.expr)), own)),
            Let("by", op("add", one, step)),
            Store("p", (t.expr,), op("add", _at("p", t.expr), step)),
            Store("pqp", (), op("tdiv", op("tdiv", op("add", _at("pqp"), grown), by), by)),
            loop(
                j, count, Store("qp", (j.expr,), op("tdiv", moved, by)),
                Store("p", (j.expr,), op("tdiv", _at("p", j.expr), by)),
            ),
        )
    ]  # fmt: skip


_N: Dim = Var("n", 1, 4).expr
define(
    OpDef(
        "couple",
        ("x",),
        _infer,
        _reference,
        _loops,
        samples=(
            sample(TensorType(F32, (3, 3))),
            sample(TensorType(F32, (_N, 2, 2))),
            sample(TensorType(F32, (2, _N, 5, 5))),
        ),
        kind=OPAQUE,
    )
)
