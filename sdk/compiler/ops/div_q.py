"""Quotients of quantised tensors, in fixed point as TensorFlow Lite does it: ``div_q``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import cast, imm, op, rdbpot, srdhm
from sdk.compiler.ir.loops import Let, Load, Loops, Ref, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import I8, I16, I32, TensorType
from sdk.compiler.ops.build import broadcast_index, function, nest, param
from sdk.compiler.ops.fixed import INT32_MAX, reciprocal_one_plus
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.requantize import saturate
from sdk.compiler.ops.shapes import broadcast_shapes
from sdk.compiler.ops.tables import reciprocal
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

__all__ = ["MAX_LEFT"]

Array = NDArray[Any]
# Bits that numerators leave free of 31: ratios larger than that would shift quotients to the left.
MAX_LEFT: Final = {I8: 22, I16: 15}


def _infer(a: TensorType, b: TensorType, *, shift: int, **_: Any) -> TensorType:
    if a.dtype not in (I8, I16) or b.dtype != a.dtype:
        raise BuildError(f"div_q wants two i8 or two i16 tensors, got {a.dtype} and {b.dtype}")
    if shift > MAX_LEFT[a.dtype]:
        raise BuildError(f"div_q wants quotients of i32, got a shift of {shift}")
    return TensorType(a.dtype, broadcast_shapes(a.shape, b.shape))


def _bits(x: Array) -> Array:
    """How many bits a number from 0 on has."""
    return np.frexp(x.astype(np.float64))[1].astype(np.int64)


def _ref(
    a: Array, b: Array, *, a_offset: int, b_offset: int, mult: int, shift: int, zp: int, lo: int, hi: int
) -> Array:
    """A quotient that is shifted right by more than 31 bits is 0, and so is one by 0."""
    above, below = np.broadcast_arrays(a.astype(np.int64) + a_offset, b.astype(np.int64) + b_offset)
    sign = np.where(below < 0, -1, 1)
    above, below = above * sign, below * sign
    zeros = 32 - _bits(below)
    inverse = reciprocal_one_plus(((below << zeros) & INT32_MAX).astype(np.int32))
    room = 31 - _bits(np.where(above < 0, ~above, above))
    right = (31 - zeros) + room - shift
    whole = srdhm(srdhm((above << room).astype(np.int32), inverse), np.full(above.shape, mult, np.int32))
    value = np.where((right > 31) | (below == 0), 0, rdbpot(whole, np.clip(right, 0, 31)))
    return np.asarray(np.clip(value.astype(np.int64) + zp, lo, hi)).astype(a.dtype)


def _loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]) -> Loops:
    """o = zp + a * (mult / 2**31) * 2**shift / b, by a reciprocal of b and all bits that a leaves free."""
    over = nest(outs[0].shape)
    lets: list[Stmt] = []

    def let(name: str, value: ValueExpr) -> Ref:
        lets.append(Let(name, value))
        return Ref(name, I32)

    def side(operand: str, type: TensorType) -> Ref:
        value = cast(Load(operand, broadcast_index(type.shape, over.index), type.dtype), I32)
        return let(f"{operand}_steps", op("add", value, imm(int(given[f"{operand}_offset"]))))

    top, bottom = side("a", types[0]), side("b", types[1])
    down = op("lt", bottom, imm(0))
    above = let("above", op("select", down, op("neg", top), top, dtype=I32))
    below = let("below", op("max", bottom, op("neg", bottom)))
    lets.extend(reciprocal(below, 31))
    # the sign bits of a number: of a negative one those of its complement, which is one less than its opposite
    size = let("size", op("select", op("lt", above, imm(0)), op("sub", imm(-1), above), above, dtype=I32))
    room = let("room", op("sub", op("clz", size), imm(1)))
    places = let("places", op("add", op("sub", imm(31 - int(given["shift"])), Ref("zeros", I32)), room))
    quotient = op("srdhm", op("shl", above, room), Ref("scale", I32))
    whole = let("whole", op("srdhm", quotient, imm(int(given["mult"]))))
    value = op("rdbpot", whole, op("min", places, imm(31)))
    gone = op("or", op("gt", places, imm(31)), op("eq", below, imm(0)))
    held = let("held", op("select", gone, imm(0), value, dtype=I32))
    stored = saturate(held, given["zp"], given["lo"], given["hi"], str(outs[0].dtype))
    body = over.around(*lets, Store("o", over.index, stored))
    return function(name, [param("a", types[0]), param("b", types[1]), param("o", outs[0], "write")], [body], over.rows)


_T = TensorType
_N: Dim = Var("n", 1, 9).expr
_I8: Any = {"zp": -4, "lo": -128, "hi": 127}
_I16: Any = {"zp": 0, "lo": -32768, "hi": 32767}
define(
    OpDef(
        "div_q",
        ("a", "b"),
        _infer,
        _ref,
        _loops,
        samples=(
            sample(_T(I8, (_N, 12)), _T(I8, (12,)), a_offset=128, b_offset=-4, mult=1098017566, shift=7, **_I8),
            sample(_T(I8, (3, 40)), _T(I8, (3, 40)), a_offset=5, b_offset=129, mult=2047483648, shift=12, **_I8),
            sample(_T(I8, (1, 5)), _T(I8, (_N, 1)), a_offset=-3, b_offset=0, mult=1347483648, shift=-3, **_I8),
            sample(_T(I16, (_N, 9)), _T(I16, (9,)), a_offset=0, b_offset=0, mult=1098017566, shift=-2, **_I16),
        ),
        kind=OPAQUE,
    )
)
