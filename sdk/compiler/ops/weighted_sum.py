"""A sum of two quantised tensors, each times a number, rounded at its end, halves to even, as runtimes on floats do."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import cast, imm, op
from sdk.compiler.ir.loops import ValueExpr
from sdk.compiler.ir.types import I8, I16, I32, TensorType, dtype
from sdk.compiler.ops.build import map_elements
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.requantize import saturate
from sdk.compiler.ops.shapes import broadcast_shapes
from sdk.compiler.ops.traits import Elementwise
from sdk.compiler.sym import Var
from sdk.errors import BuildError

__all__: list[str] = []

Array = NDArray[Any]


def _infer(a: TensorType, b: TensorType, *, out: str, **_: Any) -> TensorType:
    if a.dtype not in (I8, I16) or b.dtype != a.dtype:
        raise BuildError(f"weighted_sum wants two i8 or two i16 tensors, got {a.dtype} and {b.dtype}")
    return TensorType(dtype(out), broadcast_shapes(a.shape, b.shape))


def _reference(
    a: Array, b: Array,
    *, a_offset: int, a_mult: int, b_offset: int, b_mult: int, left: int, right: int, out: str, zp: int, lo: int,
    hi: int,
) -> Array:  # fmt: skip
    sides = ((a, a_offset, a_mult), (b, b_offset, b_mult))
    high = sum(((x.astype(np.int64) + offset) << left) * mult >> 32 for x, offset, mult in sides)
    value = (high + ((high >> right) & 1) + (1 << (right - 1)) - 1) >> right
    return np.asarray(np.clip(value + zp, lo, hi)).astype(dtype(out).numpy)


def _loops(
    a: ValueExpr, b: ValueExpr,
    *, a_offset: int, a_mult: int, b_offset: int, b_mult: int, left: int, right: int, out: str, zp: int, lo: int,
    hi: int,
) -> ValueExpr:  # fmt: skip
    """round(((a + a_offset) * a_mult + (b + b_offset) * b_mult) * 2**(left - 32 - right)) + zp, where the operands
    leave ``left`` bits free, and 1 <= right <= 30. The upper words lack less than 2**(1 - right) of the products."""
    first = op("mac_high", _shifted(a, a_offset, left), imm(a_mult), imm(0))
    high = op("mac_high", _shifted(b, b_offset, left), imm(b_mult), first)
    odd = op("and", op("shr", high, imm(right)), imm(1))
    value = op("shr", op("add", op("add", high, imm((1 << (right - 1)) - 1)), odd), imm(right))
    return saturate(value, zp, lo, hi, out)


def _shifted(x: ValueExpr, offset: int, left: int) -> ValueExpr:
    value = op("shl", cast(x, I32), imm(left))
    return op("add", value, imm(offset << left)) if offset else value


_T = TensorType
_N = Var("n", 1, 9).expr
_I8: Any = {"out": "i8", "zp": -4, "lo": -128, "hi": 127, "left": 22, "right": 21}
_I16: Any = {"out": "i16", "zp": 0, "lo": -32768, "hi": 32767, "left": 15, "right": 14}
define(
    OpDef(
        "weighted_sum",
        ("a", "b"),
        _infer,
        _reference,
        map_elements(("a", "b"), _loops),
        samples=(
            sample(
                _T(I8, (1, _N, 4, 3)), _T(I8, (1, _N, 4, 3)), **_I8, a_offset=128, a_mult=1623821475, b_offset=-4,
                b_mult=1073741824,
            ),
            sample(_T(I8, (2, 3)), _T(I8, (1,)), **_I8, a_offset=0, a_mult=1 << 30, b_offset=-127, b_mult=-1098017566),
            sample(_T(I16, (_N, 5)), _T(I16, (_N, 5)), **_I16, a_offset=0, a_mult=1 << 29, b_offset=0, b_mult=-1 << 30),
        ),
        kind=Elementwise(),
    )
)  # fmt: skip
