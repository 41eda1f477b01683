"""Fixed-point rescaling as TensorFlow Lite does it: from accumulators or stored integers to stored integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr
from sdk.compiler.ir.intrinsics import INTRINSICS, cast, imm, op, rdbpot, srdhm
from sdk.compiler.ir.loops import Loops, ValueExpr
from sdk.compiler.ir.types import I8, I32, TensorType, dtype
from sdk.compiler.ops.build import map_elements
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.sym import Var

Array = NDArray[Any]


def multiply_quantized(x: ValueExpr, mult: ValueExpr, shift: ValueExpr, shift_lo: int, shift_hi: int, acc_bits: int) -> ValueExpr:
    """MultiplyByQuantizedMultiplier(x, mult, shift) where shift_lo <= shift <= shift_hi (positive = left) and
    |x| < 2**acc_bits after the left shift: the bounds choose the cheapest exact form."""
    if shift_hi > 0:
        x = op("shl", x, op("max", shift, imm(0)))
    high = op("srdhm30" if acc_bits <= 30 else "srdhm", x, mult)
    if shift_lo >= 0:
        return high
    right = op("max", op("neg", shift), imm(0)) if shift_hi > 0 else op("neg", shift)
    return op("rdbpot1" if shift_hi < 0 else "rdbpot", high, right)


def multiply_quantized_ref(x: Array, mult: Array, shift: Array) -> Array:
    """The same on int32 arrays, for any shift in -31..30."""
    left = np.maximum(shift, 0).astype(np.int64)
    wide = (x.astype(np.int64) << left).astype(np.int32)
    return rdbpot(srdhm(wide, mult), np.maximum(-shift, 0))


def _infer(acc: TensorType, mult: TensorType, shift: TensorType, *, out: str, **_: Any) -> TensorType:
    return TensorType(dtype(out), acc.shape)


def _ref(acc: Array, mult: Array, shift: Array, *, out: str, zp: int, lo: int, hi: int, **_: Any) -> Array:
    if acc.dtype == np.int64:
        value = INTRINSICS["mulq64"].fn([acc, mult, shift], I32)
    else:
        value = multiply_quantized_ref(acc, mult, shift)
    return np.clip(value.astype(np.int64) + zp, lo, hi).astype(dtype(out).numpy)


def _value(acc: ValueExpr, mult: ValueExpr, shift: ValueExpr, *, out: str, zp: int, lo: int, hi: int, shift_lo: int, shift_hi: int, acc_bits: int) -> ValueExpr:
    if acc.dtype.bits == 64:
        scaled: ValueExpr = op("mulq64", acc, mult, shift, dtype=I32)
    else:
        scaled = multiply_quantized(acc, mult, shift, shift_lo, shift_hi, acc_bits)
    if zp:
        scaled = op("add", scaled, imm(zp))
    return cast(op("min", op("max", scaled, imm(lo)), imm(hi)), dtype(out))


_map = map_elements(_value)


def _loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Attr]) -> Loops:
    return _map(name, types, outs, given, ("acc", "mult", "shift"))


def _mult(size: int) -> Any:
    return lambda rng: rng.integers(1 << 30, (1 << 31) - 1, size).astype(np.int32)


def _shift(size: int, lo: int, hi: int) -> Any:
    return lambda rng: rng.integers(lo, hi + 1, size).astype(np.int32)


def _acc(shape: tuple[int, ...], bits: int) -> Any:
    return lambda rng: rng.integers(-(1 << bits) + 1, 1 << bits, shape).astype(np.int32)


_T = TensorType
define(
    OpDef(
        "requantize",
        ("acc", "mult", "shift"),
        _infer,
        _ref,
        _loops,
        samples=(
            sample(_T(I32, (4, 6)), _T(I32, (6,)), _T(I32, (6,)), values={0: _acc((4, 6), 20), 1: _mult(6), 2: _shift(6, -12, -1)}, out="i8", zp=-4, lo=-128, hi=127, shift_lo=-12, shift_hi=-1, acc_bits=20),
            sample(_T(I32, (4, 6)), _T(I32, (1,)), _T(I32, (1,)), values={0: _acc((4, 6), 31), 1: _mult(1), 2: _shift(1, -8, 0)}, out="i16", zp=0, lo=-32768, hi=32767, shift_lo=-8, shift_hi=0, acc_bits=31),
            sample(_T(I32, (3, 6)), _T(I32, (6,)), _T(I32, (6,)), values={0: _acc((3, 6), 12), 1: _mult(6), 2: _shift(6, -3, 4)}, out="u8", zp=9, lo=0, hi=200, shift_lo=-3, shift_hi=4, acc_bits=16),
        ),
    )
)
