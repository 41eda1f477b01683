"""Functions of i16 between the entries of a table: ``lookup16`` for any of them, ``sigmoid16`` for the logistic curve
and tanh, ``softmax16`` with two tables in one.

As TensorFlow Lite computes them: 512 steps of equal width and a line between two, or 256 steps of one half of a curve
that is odd around its middle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr
from sdk.compiler.ir.intrinsics import cast, imm, op
from sdk.compiler.ir.loops import Alloc, Buffer, Let, Load, Loops, Ref, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import I16, I32, U8, TensorType
from sdk.compiler.ops.build import function, loop, nest, param, variable
from sdk.compiler.ops.fixed import multiply_quantized as multiply_quantized_ref
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.requantize import multiply_quantized_const
from sdk.compiler.ops.traits import OPAQUE, Elementwise
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

__all__ = ["ENTRIES", "HALF_ENTRIES", "half_curve", "half_curve_ref"]

Array = NDArray[Any]
ENTRIES: Final = 513  # of a table of ``lookup16``: both ends of 512 steps
HALF_ENTRIES: Final = 257  # of a table of ``sigmoid16``, of which it interpolates between the first 256


def _between(name: str, value: ValueExpr, table: str) -> tuple[list[Stmt], ValueExpr]:
    """``table`` at the i32 ``value`` in the range of i16: its upper 9 bits choose a step, the lower 7 a place in it.

    A position is a byte, the upper 8 bits; the ninth chooses one of the two steps there.
    """
    at = Var(f"{name}_at", *U8.limits).expr
    first, second, third = (cast(Load(table, (at * 2 + k,), I16), I32) for k in range(3))
    x, low, high, upper = (Ref(f"{name}_{part}", I32) for part in ("x", "low", "high", "upper"))
    place = op("and", x, imm(127))
    lets: list[Stmt] = [
        Let(x.name, value),
        Let(f"{name}_at", cast(op("add", op("shr", x, imm(8)), imm(128)), U8)),
        Let(upper.name, op("and", op("shr", x, imm(7)), imm(1))),
        Let(low.name, op("select", op("gt", upper, imm(0)), second, first, dtype=I32)),
        Let(high.name, op("select", op("gt", upper, imm(0)), third, second, dtype=I32)),
    ]
    slope = op("mul", op("sub", high, low), place)
    return lets, op("add", low, op("shr", op("add", slope, imm(64)), imm(7)))


def _between_ref(x: Array, table: Array) -> Array:
    wide, curve = x.astype(np.int32), table.astype(np.int32)
    at = 256 + (wide >> 7)
    return np.asarray(curve[at] + ((curve[at + 1] - curve[at]) * (wide & 127) + 64 >> 7))


def _lookup_infer(x: TensorType, table: TensorType) -> TensorType:
    if x.dtype != I16 or table.dtype != I16 or table.shape != (ENTRIES,):
        raise BuildError(f"lookup16 wants i16 values and an i16 table of {ENTRIES}, got {x.dtype} and {table.shape}")
    return x


def _lookup_ref(x: Array, table: Array) -> Array:
    return _between_ref(x, table).astype(np.int16)


def _lookup_loops(
    name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Attr]
) -> Loops:
    """o = table between its entries, at each element."""
    over = nest(outs[0].shape)
    lets, value = _between("t", cast(Load("x", over.index, I16), I32), "table")
    body = over.around(*lets, Store("o", over.index, cast(value, I16)))
    params = [param("x", types[0]), param("table", types[1]), param("o", outs[0], "write")]
    return function(name, params, [body], over.rows)


# --- the logistic curve and tanh -----------------------------------------------------------------------------------


def _sigmoid_infer(x: TensorType, table: TensorType, *, mult: int, shift: int, tanh: bool) -> TensorType:
    if x.dtype != I16 or table.dtype != I32 or table.shape != (HALF_ENTRIES,):
        raise BuildError(
            f"sigmoid16 wants i16 values and an i32 table of {HALF_ENTRIES}, got {x.dtype} and {table.shape}"
        )
    if not (0 <= mult < 1 << 16 and 0 <= shift < 32):
        raise BuildError(f"sigmoid16 wants a multiplier below 65536 and a shift below 32, got {mult} and {shift}")
    return x


def half_curve_ref(x: Array, table: Array, *, mult: int, shift: int, tanh: bool) -> Array:
    """``half_curve`` of an array, with its table."""
    bits = 8 if tanh else 9
    scaled = x.astype(np.int64) * mult + ((1 << shift) >> 1) >> shift
    size = np.abs(scaled)
    at = np.minimum(size >> bits, 255)
    curve = table.astype(np.int64)
    inside = (curve[at] << bits) + (size & (1 << bits) - 1) * (curve[at + 1] - curve[at])
    value = np.where(at == 255, _end(tanh), inside)
    if tanh:
        value = np.where(scaled >= 0, value - (1 << 23) + 128, (1 << 23) - value + 127)
    else:
        value = np.where(scaled >= 0, value + 512, (1 << 25) - value + 511)
    return np.asarray(value >> bits + (not tanh)).astype(np.int16)


def _end(tanh: bool) -> int:
    """What the curve is beyond its last step."""
    return 0xFFFF << 8 if tanh else 0x7FFF << 10


def half_curve(x: ValueExpr, mult: int, shift: int, tanh: bool, tag: str = "") -> tuple[list[Stmt], ValueExpr]:
    """The curve at the i16 ``x * mult / 2**shift``, by the buffer ``table``: its size chooses a step and a place in it,
    its sign mirrors the result. Gives statements that name things after ``tag``, and the value in i16."""
    bits = 8 if tanh else 9
    scaled = op("mul", cast(x, I32), imm(mult))
    if shift:
        scaled = op("shr", op("add", scaled, imm((1 << shift) >> 1)), imm(shift))
    by, size, step, curve = (Ref(f"{tag}{part}", I32) for part in ("scaled", "size", "step", "curve"))
    at = Var(f"{tag}at", *U8.limits).expr
    low, high = (Load("table", (at + k,), I32) for k in range(2))
    part = op("and", size, imm((1 << bits) - 1))
    inside = op("add", op("shl", low, imm(bits)), op("mul", part, op("sub", high, low)))
    middle, half = (1 << 23, 128) if tanh else (1 << 25, 512)
    above = op("add", curve, imm(half - middle if tanh else half))
    below = op("sub", imm(middle + half - 1), curve)
    value = op("select", op("lt", by, imm(0)), below, above, dtype=I32)
    lets: list[Stmt] = [
        Let(by.name, scaled),
        Let(size.name, op("max", by, op("neg", by))),
        Let(step.name, op("min", op("shr", size, imm(bits)), imm(255))),
        Let(f"{tag}at", cast(step, U8)),
        Let(curve.name, op("select", op("gt", step, imm(254)), imm(_end(tanh)), inside, dtype=I32)),
    ]
    return lets, cast(op("shr", value, imm(bits + (not tanh))), I16)


def _sigmoid_loops(
    name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]
) -> Loops:
    """o = the curve at each element."""
    over = nest(outs[0].shape)
    x = Load("x", over.index, I16)
    lets, value = half_curve(x, int(given["mult"]), int(given["shift"]), bool(given["tanh"]))
    body = over.around(*lets, Store("o", over.index, value))
    params = [param("x", types[0]), param("table", types[1]), param("o", outs[0], "write")]
    return function(name, params, [body], over.rows)


# --- softmax -------------------------------------------------------------------------------------------------------


def _softmax_infer(x: TensorType, exp: TensorType, inverse: TensorType, *, mult: int, shift: int) -> TensorType:
    if x.dtype != I16 or x.rank < 1 or any((t.dtype, t.shape) != (I16, (ENTRIES,)) for t in (exp, inverse)):
        raise BuildError(f"softmax16 wants i16 values and two i16 tables of {ENTRIES}, got {x.dtype}")
    if shift > 13:
        raise BuildError(f"softmax16 wants differences of 17 bits that stay in 31, got a shift of {shift}")
    return x


def _softmax_ref(x: Array, exp: Array, inverse: Array, *, mult: int, shift: int) -> Array:
    wide = x.astype(np.int32)
    gap = wide - wide.max(axis=-1, keepdims=True, initial=-32768)
    scaled = np.clip(multiply_quantized_ref(gap, mult, shift).astype(np.int64) + 32767, -32768, 32767)
    powers = _between_ref(scaled, exp).astype(np.int64)
    total = powers.sum(axis=-1, keepdims=True)
    bits = np.asarray([max(int(t).bit_length(), 1) for t in total.reshape(-1)], np.int64).reshape(total.shape)
    place = np.clip(((total << (31 - bits)) + (1 << 13) >> 14) - 98304, -32768, 32767)
    product = powers * _between_ref(place, inverse) + (np.int64(1) << bits - 2)
    return np.asarray(np.clip(product >> bits - 1, 0, 32767)).astype(np.int16)


def _softmax_loops(
    name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]
) -> Loops:
    """For each row: its maximum, the sum of exp[x - max], the inverse of that, the products."""
    x = types[0]
    over = nest(x.shape, inner=1)
    j = {k: variable(k, x.shape[-1]) for k in ("j", "k", "l")}
    top, total = Load("top", (), I32), Load("total", (), I32)

    def value(axis: str) -> ValueExpr:
        return cast(Load("x", (*over.index, j[axis].expr), I16), I32)

    def power(axis: str) -> tuple[list[Stmt], ValueExpr]:
        bits = 17 + max(int(given["shift"]), 0)
        gap = multiply_quantized_const(op("sub", value(axis), top), int(given["mult"]), int(given["shift"]), bits)
        return _between(f"e{axis}", op("max", op("add", gap, imm(32767)), imm(-32768)), "exp")

    sums, term = power("k")
    products, factor = power("l")
    inverse, found = _inverse(total)
    right = Ref("right", I32)
    half = op("shl", imm(1), op("sub", right, imm(1)))
    result = op("shr", op("add", op("mul", factor, Ref("scale", I32)), half), right)
    held = cast(op("min", op("max", result, imm(0)), imm(32767)), I16)
    body = over.around(
        Alloc(Buffer("top", I32, (), "register")),
        Store("top", (), imm(-32768)),
        loop(j["j"], x.shape[-1], Store("top", (), op("max", top, value("j")))),
        Alloc(Buffer("total", I32, (), "register")),
        Store("total", (), imm(0)),
        loop(j["k"], x.shape[-1], *sums, Store("total", (), op("add", total, term))),
        *inverse,
        Let("scale", found),
        loop(j["l"], x.shape[-1], *products, Store("o", (*over.index, j["l"].expr), held)),
    )
    params = [param("x", x), param("exp", types[1]), param("inverse", types[2]), param("o", outs[0], "write")]
    return function(name, params, [body], over.rows)


def _inverse(total: Load) -> tuple[list[Stmt], ValueExpr]:
    """1 / total in 15 bits, and ``right``, by how much products with it are too large."""
    bits, shifted = Ref("zeros", I32), Ref("shifted", I32)
    # of the shifted sum, 17 bits are left: the half that is added before cannot carry out of 32
    carry = op("and", op("shr", shifted, imm(13)), imm(1))
    place = op("sub", op("add", op("shr", shifted, imm(14)), carry), imm(98304))
    lets: list[Stmt] = [
        Let("zeros", op("clz", total)),
        Let("right", op("sub", imm(31), bits)),
        Let("shifted", op("shl", total, op("sub", bits, imm(1)))),
    ]
    more, found = _between("r", op("min", op("max", place, imm(-32768)), imm(32767)), "inverse")
    return lets + more, found


def _words(rng: np.random.Generator) -> Array:
    return rng.integers(-32768, 32768, ENTRIES)


def _half_curve(rng: np.random.Generator) -> Array:
    return np.sort(rng.integers(1 << 15, 1 << 16, HALF_ENTRIES))


def _exp_curve(rng: np.random.Generator) -> Array:
    return np.asarray(np.round(32768 * np.exp(np.arange(-512, 1) * (10 / 512))).clip(0, 32767))


def _inverse_curve(rng: np.random.Generator) -> Array:
    return np.asarray(np.round(32768 / (1 + np.arange(ENTRIES) / 512)).clip(0, 32767))


_T = TensorType
_N: Dim = Var("n", 1, 9).expr
_CURVE, _HALF = _T(I16, (ENTRIES,)), _T(I32, (HALF_ENTRIES,))
_TABLES: Any = {1: _exp_curve, 2: _inverse_curve}
define(
    OpDef(
        "lookup16",
        ("x", "table"),
        _lookup_infer,
        _lookup_ref,
        _lookup_loops,
        samples=(
            sample(_T(I16, (1, _N, 3)), _CURVE, values={1: _words}),
            sample(_T(I16, (40,)), _CURVE, values={1: _words}),
        ),
        kind=Elementwise(tables=1),
    )
)
define(
    OpDef(
        "sigmoid16",
        ("x", "table"),
        _sigmoid_infer,
        half_curve_ref,
        _sigmoid_loops,
        samples=(
            sample(_T(I16, (2, _N)), _HALF, values={1: _half_curve}, mult=3, shift=0, tanh=False),
            sample(_T(I16, (40,)), _HALF, values={1: _half_curve}, mult=23040, shift=12, tanh=False),
            sample(_T(I16, (40,)), _HALF, values={1: _half_curve}, mult=6, shift=0, tanh=True),
            sample(_T(I16, (_N, 5)), _HALF, values={1: _half_curve}, mult=20111, shift=13, tanh=True),
        ),
        kind=Elementwise(tables=1),
    )
)
define(
    OpDef(
        "softmax16",
        ("x", "exp", "inverse"),
        _softmax_infer,
        _softmax_ref,
        _softmax_loops,
        samples=(
            sample(_T(I16, (1, 12)), _CURVE, _CURVE, values=_TABLES, mult=1718013132, shift=2),
            sample(_T(I16, (_N, 5)), _CURVE, _CURVE, values=_TABLES, mult=1234567890, shift=-3),
            sample(_T(I16, (2, 3, _N)), _CURVE, _CURVE, values=_TABLES, mult=1234567890, shift=0),
        ),
        kind=OPAQUE,
    )
)
