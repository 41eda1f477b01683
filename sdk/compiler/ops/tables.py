"""Functions of one byte as tables: ``lookup`` for any of them, ``softmax_q`` with its exponential in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr
from sdk.compiler.ir.intrinsics import cast, imm, op, rdbpot, srdhm
from sdk.compiler.ir.loops import Alloc, Buffer, Let, Load, Loops, Ref, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import I8, I16, I32, U8, DType, TensorType, dtype
from sdk.compiler.ops.build import byte_position, function, loop, nest, param, table_read, variable
from sdk.compiler.ops.fixed import (
    INT32_MAX,
    NEG_32_OVER_17,
    RECIPROCAL_START,
    exp_on_negative,
    reciprocal_one_plus,
)
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.traits import OPAQUE, Elementwise
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

Array = NDArray[Any]


def _lookup_infer(x: TensorType, table: TensorType) -> TensorType:
    if x.dtype not in (I8, U8) or table.shape != (256,):
        raise BuildError(f"lookup wants i8 or u8 values and a table of 256, got {x.dtype} and {table.shape}")
    return TensorType(table.dtype, x.shape)


def _lookup_ref(x: Array, table: Array) -> Array:
    return np.asarray(table[x.astype(np.int64) - int(np.iinfo(x.dtype).min)])


def _lookup_loops(
    name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Attr]
) -> Loops:
    """o = table[x - lowest] at each element."""
    table = param("table", types[1])
    over = nest(outs[0].shape)
    at, entry = table_read("t", table, byte_position(Load("x", over.index, types[0].dtype)))
    body = over.around(at, Store("o", over.index, entry))
    return function(name, [param("x", types[0]), table, param("o", outs[0], "write")], [body], over.rows)


def _softmax_infer(x: TensorType, table: TensorType, *, out: str = "i8") -> TensorType:
    if x.dtype != I8 or x.rank < 1 or table.shape != (256,) or table.dtype != I32:
        raise BuildError(f"softmax_q wants i8 values and an i32 table of 256, got {x.dtype} and {table.dtype}")
    if dtype(out) not in (I8, I16):
        raise BuildError(f"softmax_q makes i8 or i16, not {out}")
    return TensorType(dtype(out), x.shape)


def _softmax_ref(x: Array, table: Array, *, out: str = "i8") -> Array:
    wide = x.astype(np.int64)
    exp = table[wide.max(axis=-1, keepdims=True, initial=-128) - wide].astype(np.int32)
    total = rdbpot(exp, np.full_like(exp, 12)).astype(np.int64).sum(axis=-1, keepdims=True)
    zeros = np.asarray([32 - int(t).bit_length() for t in total.reshape(-1)], np.int64).reshape(total.shape)
    fraction = ((total << zeros) & INT32_MAX).astype(np.int32)
    scale = np.broadcast_to(reciprocal_one_plus(fraction), exp.shape)
    kind = dtype(out)
    value = rdbpot(srdhm(scale, exp), np.minimum(43 - kind.bits - zeros, 31))
    return np.asarray(np.minimum(value + kind.limits[0], kind.limits[1])).astype(kind.numpy)


def _softmax_loops(
    name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Attr]
) -> Loops:
    """For each row: its maximum, the sum of table[max - x], one fixed-point reciprocal, the products."""
    x, table = types[0], param("table", types[1])
    over = nest(x.shape, inner=1)
    j = {k: variable(k, x.shape[-1]) for k in ("j", "k", "l")}

    def value(axis: str) -> ValueExpr:
        return cast(Load("x", (*over.index, j[axis].expr), I8), I32)

    top, total = Load("top", (), I32), Load("total", (), I32)
    sum_at, sum_entry = table_read("d", table, cast(op("sub", top, value("k")), U8))
    out_at, out_entry = table_read("e", table, cast(op("sub", top, value("l")), U8))
    result = op("rdbpot", op("srdhm", Ref("scale", I32), out_entry), Ref("right", I32))
    stored = _lowest_at_zero(result, outs[0].dtype)
    body = over.around(
        Alloc(Buffer("top", I32, (), "register")),
        Store("top", (), imm(-128)),
        loop(j["j"], x.shape[-1], Store("top", (), op("max", top, value("j")))),
        Alloc(Buffer("total", I32, (), "register")),
        Store("total", (), imm(0)),
        loop(
            j["k"],
            x.shape[-1],
            sum_at,
            Store("total", (), op("add", total, op("rdbpot1", sum_entry, imm(12)))),
        ),
        *reciprocal(total, 43 - outs[0].dtype.bits),
        loop(j["l"], x.shape[-1], out_at, Store("o", (*over.index, j["l"].expr), stored)),
    )
    return function(name, [param("x", x), table, param("o", outs[0], "write")], [body], over.rows)


def _lowest_at_zero(value: ValueExpr, kind: DType) -> ValueExpr:
    lo, hi = kind.limits
    return cast(op("min", op("add", value, imm(lo)), imm(hi)), kind)


def reciprocal(total: ValueExpr, bits: int) -> list[Stmt]:
    """Names ``scale`` and ``right`` with ``e / total = rdbpot(srdhm(scale, e), right)`` to 43 - ``bits`` bits.

    The leading one of ``total`` (12 integer bits) is shifted out; Newton steps give 2 / (1 + fraction).
    """
    zeros = Ref("zeros", I32)
    fraction = op("and", op("shl", total, zeros), imm(INT32_MAX))
    out: list[Stmt] = [
        Let("zeros", op("clz", total)),
        *one_over_one_plus(fraction),
        Let("right", op("min", op("sub", imm(bits), zeros), imm(31))),
    ]
    return out


def one_over_one_plus(fraction: ValueExpr) -> list[Stmt]:
    """Names ``scale`` as 1 / (1 + fraction), both without integer bits: three Newton steps."""
    half = Ref("half", I32)
    out: list[Stmt] = [
        Let("half", op("add", op("shr", fraction, imm(1)), imm(1 << 30))),
        Let("r0", op("add", imm(RECIPROCAL_START), op("srdhm", half, imm(NEG_32_OVER_17)))),
    ]
    for k in range(3):
        r = Ref(f"r{k}", I32)
        error = op("sub", imm(1 << 29), op("srdhm", half, r))
        out.append(Let(f"r{k + 1}", op("add", r, op("shl", op("srdhm", r, error), imm(2)))))
    last = Ref("r3", I32)
    full = op("gt", last, imm((1 << 30) - 1))
    out.append(Let("scale", op("select", full, imm(INT32_MAX), op("shl", last, imm(1)), dtype=I32)))
    return out


def _exp_table(rng: np.random.Generator) -> Array:
    """e**-(d * step) for differences d of 0..255, zero where it leaves the fixed-point range."""
    step = int(rng.integers(1 << 20, 1 << 26))
    raw = -np.minimum(np.arange(256) * step, INT32_MAX)
    return np.where(np.arange(256) * step > INT32_MAX, 0, exp_on_negative(raw, 5))


def _bytes(rng: np.random.Generator) -> Array:
    return rng.integers(-128, 128, 256)


_T = TensorType
_N: Dim = Var("n", 1, 9).expr
_TABLE = _T(I32, (256,))
define(
    OpDef(
        "lookup",
        ("x", "table"),
        _lookup_infer,
        _lookup_ref,
        _lookup_loops,
        samples=(
            sample(_T(I8, (1, _N, 3)), _T(I8, (256,)), values={1: _bytes}),
            sample(_T(U8, (5,)), _T(I8, (256,)), values={1: _bytes}),
            sample(_T(I8, (_N, 2)), _T(I16, (256,)), values={1: _bytes}),
        ),
        kind=Elementwise(tables=1),
    )
)
define(
    OpDef(
        "softmax_q",
        ("x", "table"),
        _softmax_infer,
        _softmax_ref,
        _softmax_loops,
        samples=(
            sample(_T(I8, (1, 12)), _TABLE, values={1: _exp_table}),
            sample(_T(I8, (_N, 5)), _TABLE, values={1: _exp_table}),
            sample(_T(I8, (2, 3, _N)), _TABLE, values={1: _exp_table}),
            sample(_T(I8, (2, _N)), _TABLE, values={1: _exp_table}, out="i16"),
        ),
        kind=OPAQUE,
    )
)
