"""Positions of elements that are not zero: how many there are is a dim that the run computes.

``%c = count_nonzero(%x)``, then ``bind k in 0..n = %c``, then ``%p = nonzero(%x) {count = [k]}``: the pattern for
every op whose result is as large as its data say (compress, unique …).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import cast, idx, imm, op
from sdk.compiler.ir.loops import Alloc, Block, Buffer, If, Let, Load, Loops, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import BOOL, F32, I8, I32, I64, TensorType
from sdk.compiler.ops.build import function, loop, param, variable
from sdk.compiler.ops.numerics import number, widened
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

Array = NDArray[Any]


def _each(x: TensorType, *body: Stmt) -> Stmt:
    """The loops over all elements of ``x``, in order; their variables are ``i0``, ``i1`` …"""
    stmts = body
    for k, extent in reversed(list(enumerate(x.shape))):
        stmts = (loop(variable(f"i{k}", extent), extent, *stmts),)
    return stmts[0] if len(stmts) == 1 else Block(stmts)


def _index(x: TensorType) -> tuple[Dim, ...]:
    return tuple(variable(f"i{k}", extent).expr for k, extent in enumerate(x.shape))


def _is_set(x: TensorType) -> ValueExpr:
    value = widened(Load("x", _index(x), x.dtype))
    if x.dtype == BOOL:
        return value
    zero = op("eq", value, number(0, value.dtype))
    return op("eq", cast(zero, I32), imm(0))


def _counter() -> tuple[Stmt, Stmt, Load]:
    seen = Load("seen", (), I32)
    return Alloc(Buffer("seen", I32, (), "register")), Store("seen", (), imm(0)), seen


# --- count_nonzero ------------------------------------------------------------------------------------------------


def _count_loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]) -> Loops:
    """{ seen = 0; each element { if x { seen += 1 } } o = seen }."""
    alloc, start, seen = _counter()
    step = If(_is_set(types[0]), Block((Store("seen", (), op("add", seen, imm(1))),)))
    body = [alloc, start, _each(types[0], step), Store("o", (0,), seen)]
    return function(name, [param("x", types[0]), param("o", outs[0], "write")], body)


# --- nonzero ------------------------------------------------------------------------------------------------------


def _infer(x: TensorType, *, count: Any) -> TensorType:
    if x.rank == 0:
        raise BuildError("nonzero wants a tensor with axes", hint="reshape the scalar to [1]")
    return TensorType(I64, (x.rank, count))


def _ref(x: Array, *, count: Any) -> Array:
    found = np.stack(np.nonzero(x)).astype(np.int64)[:, :count]
    return np.pad(found, ((0, 0), (0, count - found.shape[1])))


def _loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]) -> Loops:
    """{ o = 0; seen = 0; each element { if x { if seen < count { o[.., seen] = its index } seen += 1 } } }."""
    x, out = types[0], outs[0]
    alloc, start, seen = _counter()
    at = Var("at", *I32.limits)
    inside = op("and", op("ge", idx(at.expr), imm(0)), op("lt", idx(at.expr), idx(out.shape[1])))
    put = tuple(Store("o", (k, at.expr), cast(idx(i), I64)) for k, i in enumerate(_index(x)))
    step = (Let("at", seen), If(inside, Block(put)), Store("seen", (), op("add", seen, imm(1))))
    axis, column = variable("a", x.rank), variable("c", out.shape[1])
    clear = loop(axis, x.rank, loop(column, out.shape[1], Store("o", (axis.expr, column.expr), imm(0, I64))))
    body = [clear, alloc, start, _each(x, If(_is_set(x), Block(step)))]
    return function(name, [param("x", x), param("o", out, "write")], body)


_T = TensorType
_N: Dim = Var("n", 1, 6).expr
_K: Dim = Var("k", 0, 9).expr


def _sparse(rng: np.random.Generator) -> Array:
    return (rng.integers(0, 3, (3, 4)) - 1).astype(np.int8)


define(
    OpDef(
        "count_nonzero",
        ("x",),
        lambda x: TensorType(I32, (1,)),
        lambda x: np.asarray([np.count_nonzero(x)], dtype=np.int32),
        _count_loops,
        samples=(
            sample(_T(I8, (3, 4)), values={0: _sparse}),
            sample(_T(F32, (_N, 2, 2))),
            sample(_T(I64, ())),
            sample(_T(BOOL, (7,))),
        ),
        kind=OPAQUE,
    )
)
define(
    OpDef(
        "nonzero",
        ("x",),
        _infer,
        _ref,
        _loops,
        samples=(
            sample(_T(I8, (3, 4)), values={0: _sparse}, count=5),
            sample(_T(F32, (_N, 2)), count=3),
            sample(_T(I8, (_N,)), count=_K),
        ),
        kind=OPAQUE,
    )
)
