"""Sums, differences and products of quantised tensors, exactly as TensorFlow Lite rounds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import cast, imm, op
from sdk.compiler.ir.loops import ValueExpr
from sdk.compiler.ir.types import I8, I16, I32, TensorType, dtype
from sdk.compiler.ops.build import map_elements
from sdk.compiler.ops.fixed import multiply_quantized as multiply_quantized_ref
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.requantize import multiply_quantized_const, saturate
from sdk.compiler.ops.shapes import broadcast_shapes
from sdk.compiler.ops.traits import Elementwise
from sdk.compiler.sym import Var
from sdk.errors import BuildError

Array = NDArray[Any]


def _infer(a: TensorType, b: TensorType, *, out: str, **_: Any) -> TensorType:
    if a.dtype not in (I8, I16) or b.dtype != a.dtype:
        raise BuildError(f"quantised arithmetic wants two i8 or two i16 tensors, got {a.dtype} and {b.dtype}")
    return TensorType(dtype(out), broadcast_shapes(a.shape, b.shape))


def _offset(x: ValueExpr, offset: int) -> ValueExpr:
    return op("add", cast(x, I32), imm(offset)) if offset else cast(x, I32)


def _scaled(x: ValueExpr, offset: int, left_shift: int, mult: int, shift: int) -> ValueExpr:
    """An operand on the common scale of the sum, ``left_shift`` bits up."""
    bits = x.dtype.bits + 1 + left_shift
    return multiply_quantized_const(op("shl", _offset(x, offset), imm(left_shift)), mult, shift, bits)


def _sum(name: str) -> Callable[..., ValueExpr]:
    def value(
        a: ValueExpr, b: ValueExpr, *, a_offset: int, a_mult: int, a_shift: int, b_offset: int, b_mult: int,
        b_shift: int, left_shift: int, out_mult: int, out_shift: int, out: str, zp: int, lo: int, hi: int,
    ) -> ValueExpr:  # fmt: skip
        left = _scaled(a, a_offset, left_shift, a_mult, a_shift)
        right = _scaled(b, b_offset, left_shift, b_mult, b_shift)
        # each side is at most half of its bound, so the sum stays below 2**30
        total = multiply_quantized_const(op(name, left, right), out_mult, out_shift, 30)
        return saturate(total, zp, lo, hi, out)

    return value


def _sum_ref(sign: int) -> Callable[..., Array]:
    def run(
        a: Array, b: Array, *, a_offset: int, a_mult: int, a_shift: int, b_offset: int, b_mult: int,
        b_shift: int, left_shift: int, out_mult: int, out_shift: int, out: str, zp: int, lo: int, hi: int,
    ) -> Array:  # fmt: skip
        left = multiply_quantized_ref((a.astype(np.int32) + a_offset) << left_shift, a_mult, a_shift)
        right = multiply_quantized_ref((b.astype(np.int32) + b_offset) << left_shift, b_mult, b_shift)
        total = multiply_quantized_ref(left + sign * right, out_mult, out_shift)
        return np.clip(total.astype(np.int64) + zp, lo, hi).astype(dtype(out).numpy)

    return run


def _product(
    a: ValueExpr, b: ValueExpr, *, a_offset: int, b_offset: int, mult: int, shift: int,
    out: str, zp: int, lo: int, hi: int, left_shift: int = 0,
) -> ValueExpr:  # fmt: skip
    bits = 2 * (a.dtype.bits if not a_offset and not b_offset else a.dtype.bits + 1) - 1 + max(shift, 0) + left_shift
    value = op("mul", _offset(a, a_offset), _offset(b, b_offset))
    value = op("shl", value, imm(left_shift)) if left_shift else value
    return saturate(multiply_quantized_const(value, mult, shift, min(bits, 31)), zp, lo, hi, out)


def _product_ref(
    a: Array,
    b: Array,
    *,
    a_offset: int,
    b_offset: int,
    mult: int,
    shift: int,
    out: str,
    zp: int,
    lo: int,
    hi: int,
    left_shift: int = 0,
) -> Array:
    """``left_shift`` (TensorFlow Lite: 0) keeps bits of the product from the first of two roundings."""
    product = (a.astype(np.int32) + a_offset) * (b.astype(np.int32) + b_offset)
    value = multiply_quantized_ref(product << left_shift, mult, shift)
    return np.clip(value.astype(np.int64) + zp, lo, hi).astype(dtype(out).numpy)


_T = TensorType
_N = Var("n", 1, 9).expr
_I8: Any = {"out": "i8", "zp": -4, "lo": -128, "hi": 127}
_I16: Any = {"out": "i16", "zp": 0, "lo": -32768, "hi": 32767}
_SIDES: Any = {
    "a_mult": 1623821475, "a_shift": -1, "b_mult": 1073741824, "b_shift": 0,
    "out_mult": 1098017566, "out_shift": -18,
}  # fmt: skip
_SUM8: Any = {**_SIDES, **_I8, "a_offset": 128, "b_offset": -4, "left_shift": 20}
_SUM16: Any = {**_SIDES, **_I16, "out_shift": -13, "a_offset": 0, "b_offset": 0, "left_shift": 15}
_PAIRS = (
    (_T(I8, (1, _N, 4, 3)), _T(I8, (1, _N, 4, 3))),
    (_T(I8, (2, 3)), _T(I8, (1,))),
    (_T(I8, (1, 1, 5)), _T(I8, (1, _N, 1))),
)

for _name, _sign in (("add", 1), ("sub", -1)):
    define(
        OpDef(
            f"{_name}_q",
            ("a", "b"),
            _infer,
            _sum_ref(_sign),
            map_elements(("a", "b"), _sum(_name)),
            samples=(
                *(sample(*pair, **_SUM8) for pair in _PAIRS),
                sample(_T(I16, (_N, 5)), _T(I16, (_N, 5)), **_SUM16),
            ),
            kind=Elementwise(),
        )
    )
define(
    OpDef(
        "mul_q",
        ("a", "b"),
        _infer,
        _product_ref,
        map_elements(("a", "b"), _product),
        samples=(
            *(sample(*pair, **_I8, a_offset=128, b_offset=-4, mult=1098017566, shift=-7) for pair in _PAIRS),
            sample(_T(I16, (_N, 5)), _T(I16, (_N, 5)), **_I16, a_offset=0, b_offset=0, mult=1098017566, shift=-14),
            sample(*_PAIRS[0], **_I8, a_offset=128, b_offset=127, mult=1098017566, shift=-21, left_shift=14),
        ),
        kind=Elementwise(),
    )
)
