"""Products of stored integers over axes, as TensorFlow Lite computes them: ``reduce_prod_q``.

Each product is rescaled before the next factor, in the order in which elements lie in memory, so that it stays in 32
bits; the last one is rescaled once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import apply, cast, imm, op
from sdk.compiler.ir.loops import Alloc, Buffer, Load, Loops, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import I8, I16, I32, I64, TensorType
from sdk.compiler.ops.build import function, loop, nest, param, variable
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.requantize import saturate
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

Array = NDArray[Any]


def _infer(x: TensorType, *, axes: Any, zero: int, mult: int, shift: int, zp: int) -> TensorType:
    if x.dtype not in (I8, I16) or not -31 <= shift <= 7 or not 0 <= mult < 1 << 31:
        raise BuildError(f"reduce_prod_q of {x.dtype} times {mult} shifted by {shift}")
    if not axes or sorted(set(axes)) != list(axes) or any(not 0 <= k < x.rank for k in axes):
        raise BuildError(f"reduce_prod_q wants ascending axes of a tensor of rank {x.rank}, got {axes}")
    if any(d == 0 for k, d in enumerate(x.shape) if k in axes):
        raise BuildError("reduce_prod_q of no elements")
    return TensorType(x.dtype, tuple(1 if k in axes else d for k, d in enumerate(x.shape)))


def _ref(x: Array, *, axes: Any, zero: int, mult: int, shift: int, zp: int) -> Array:
    kept = [k for k in range(x.ndim) if k not in axes]
    rows = x.transpose(*kept, *axes).reshape(*(x.shape[k] for k in kept), -1).astype(np.int64) - zero
    by, places = np.asarray(mult, np.int32), np.asarray(shift, np.int32)

    def scaled(v: Array) -> Array:
        factors = [np.broadcast_to(n, v.shape) for n in (by, places)]
        return apply("mulq64", [v, *factors], I32).astype(np.int64)

    total = rows[..., 0]
    for k in range(1, rows.shape[-1]):
        total = scaled(total * rows[..., k])
    lo, hi = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
    found = np.clip(scaled(total) + zp, lo, hi).astype(x.dtype)
    return np.asarray(found.reshape(tuple(1 if k in axes else d for k, d in enumerate(x.shape))))


def _loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]) -> Loops:
    """Every result { acc = none; reduced axes { acc = first ? x : scaled(acc * x) } o = scaled(acc) }."""
    x, out, over = types[0], outs[0], nest(outs[0].shape)
    inner = {k: variable(f"r{k}", x.shape[k]) for k in given["axes"]}
    source: list[Dim] = [inner[k].expr if k in inner else i for k, i in enumerate(over.index)]
    acc, first = Load("acc", (), I32), Load("first", (), I32)
    value = op("sub", cast(Load("x", tuple(source), x.dtype), I32), imm(int(given["zero"])))

    def scaled(v: ValueExpr) -> ValueExpr:
        return op("mulq64", v, imm(int(given["mult"])), imm(int(given["shift"])), dtype=I32)

    product = op("mul", cast(acc, I64), cast(value, I64))
    taken = op("select", op("gt", first, imm(0)), value, scaled(product), dtype=I32)
    step: list[Stmt] = [Store("acc", (), taken), Store("first", (), imm(0))]
    for k, var in reversed(inner.items()):
        step = [loop(var, x.shape[k], *step)]
    lo, hi = out.dtype.limits
    held = saturate(scaled(cast(acc, I64)), int(given["zp"]), lo, hi, str(out.dtype))
    body = over.around(
        Alloc(Buffer("acc", I32, (), "register")),
        Alloc(Buffer("first", I32, (), "register")),
        Store("acc", (), imm(0)),
        Store("first", (), imm(1)),
        *step,
        Store("o", over.index, held),
    )
    return function(name, [param("x", x), param("o", out, "write")], [body], over.rows)


_T = TensorType
_N: Dim = Var("n", 1, 6).expr
define(
    OpDef(
        "reduce_prod_q",
        ("x",),
        _infer,
        _ref,
        _loops,
        samples=(
            sample(_T(I8, (_N, 5)), axes=(1,), zero=-3, mult=1347483648, shift=-5, zp=4),
            sample(_T(I8, (2, 3, 4)), axes=(0, 2), zero=10, mult=1747483648, shift=-6, zp=-7),
            sample(_T(I16, (4, _N)), axes=(0,), zero=0, mult=1147483648, shift=-13, zp=0),
        ),
        kind=OPAQUE,
    )
)
