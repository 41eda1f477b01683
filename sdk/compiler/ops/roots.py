"""Rows of stored integers brought to length 1, in fixed point as TensorFlow Lite does it: ``l2_normalize_q``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import cast, imm, op
from sdk.compiler.ir.loops import Alloc, Buffer, Let, Load, Loops, Ref, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import I8, I32, TensorType
from sdk.compiler.ops.build import function, loop, nest, param, variable
from sdk.compiler.ops.fixed import HALF_SQRT_2, INT32_MAX, inverse_root
from sdk.compiler.ops.fixed import multiply_quantized as multiply_quantized_ref
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.requantize import multiply_quantized
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

__all__ = ["ROOT_SHIFTS", "inverse_root_steps"]

Array = NDArray[Any]
ROOT_SHIFTS: Final = (0, 13)  # to the right, of what ``inverse_root`` gives
_SHIFTS = (-6, 7)  # of a product with an inverse root, to steps of 1/128


def _infer(x: TensorType, *, zero: int, early: bool) -> TensorType:
    if x.dtype != I8 or x.rank < 1:
        raise BuildError(f"l2_normalize_q wants i8 rows, got {x.dtype} of rank {x.rank}")
    return x


def _ref(x: Array, *, zero: int, early: bool) -> Array:
    """``early``: differences are shifted left before the product, as of u8."""
    wide = x.astype(np.int32) - np.int32(zero)
    mult, right = inverse_root((wide.astype(np.int64) ** 2).sum(axis=-1, keepdims=True))
    mult, right = (np.broadcast_to(v, wide.shape) for v in (mult, right))
    taken, shift = (wide << 7, -right) if early else (wide, 7 - right)
    value = multiply_quantized_ref(taken, mult, shift)
    return np.asarray(np.clip(value, -128, 127)).astype(np.int8)


def _loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]) -> Loops:
    """For each row: the sum of its squares, the inverse root of that, the products."""
    x, zero, early = types[0], int(given["zero"]), bool(given["early"])
    over = nest(x.shape, inner=1)
    j, k = variable("j", x.shape[-1]), variable("k", x.shape[-1])
    total = Load("total", (), I32)

    def value(at: Dim) -> ValueExpr:
        wide = cast(Load("x", (*over.index, at), I8), I32)
        return op("sub", wide, imm(zero)) if zero else wide

    right = Ref("right", I32)
    if early:
        part = op("shl", value(k.expr), imm(7))
        scaled = multiply_quantized(part, Ref("mult", I32), op("neg", right), _SHIFTS[0] - 7, 0, 16)
    else:
        scaled = multiply_quantized(value(k.expr), Ref("mult", I32), op("sub", imm(7), right), *_SHIFTS, 16)
    held = cast(op("min", op("max", scaled, imm(-128)), imm(127)), I8)
    body = over.around(
        Alloc(Buffer("total", I32, (), "register")),
        Store("total", (), imm(0)),
        loop(j, x.shape[-1], Store("total", (), op("add", total, op("mul", value(j.expr), value(j.expr))))),
        *inverse_root_steps(total),
        loop(k, x.shape[-1], Store("o", (*over.index, k.expr), held)),
    )
    return function(name, [param("x", x), param("o", outs[0], "write")], [body], over.rows)


def inverse_root_steps(x: ValueExpr, tag: str = "") -> list[Stmt]:
    """Names ``mult`` and ``right``, with a tag behind, as ``inverse_root`` of ``fixed`` gives them for an i32 ``x``."""
    lets: list[Stmt] = []

    def let(name: str, value: ValueExpr) -> Ref:
        lets.append(Let(f"{name}{tag}", value))
        return Ref(f"{name}{tag}", I32)

    large = let("large", op("select", op("gt", x, imm((1 << 29) - 1)), imm(1), imm(0), dtype=I32))
    inside = let("inside", op("max", op("shr", x, op("add", large, large)), imm(2)))
    pairs = let("pairs", op("sub", op("shr", op("sub", op("clz", inside), imm(1)), imm(1)), imm(1)))
    places = let("places", op("sub", op("add", large, imm(11)), pairs))
    value = let("value", op("shr", op("shl", inside, op("add", pairs, pairs)), imm(1)))
    half = let("half", op("rdbpot", value, imm(1)))
    root: ValueExpr = imm(1 << 28)
    for n in range(5):
        cube = let(f"cube{n}", _shifted_up(op("srdhm", op("srdhm", root, root), root), 6))
        step = op("sub", op("srdhm", imm((1 << 28) + (1 << 27)), root), op("srdhm", half, cube))
        root = let(f"root{n}", _shifted_up(let(f"step{n}", step), 3))
    last = let("last", op("shl", op("srdhm", root, imm(HALF_SQRT_2)), op("max", op("neg", places), imm(0))))
    tiny = op("lt", x, imm(2))
    let("mult", op("select", tiny, imm(INT32_MAX), last, dtype=I32))
    let("right", op("select", tiny, imm(0), op("max", places, imm(0)), dtype=I32))
    return lets


def _shifted_up(x: ValueExpr, bits: int) -> ValueExpr:
    """x * 2**bits, saturated."""
    maximum = INT32_MAX >> bits
    shifted = op("shl", op("max", op("min", x, imm(maximum)), imm(-maximum - 1)), imm(bits))
    return op("select", op("gt", x, imm(maximum)), imm(INT32_MAX), shifted, dtype=I32)


_T = TensorType
_N: Dim = Var("n", 1, 9).expr
define(
    OpDef(
        "l2_normalize_q",
        ("x",),
        _infer,
        _ref,
        _loops,
        samples=(
            sample(_T(I8, (1, 12)), zero=-5, early=False),
            sample(_T(I8, (_N, 5)), zero=127, early=True),
            sample(_T(I8, (2, 3, _N)), zero=0, early=False),
            sample(_T(I8, (40, 1)), zero=3, early=True),
        ),
        kind=OPAQUE,
    )
)
