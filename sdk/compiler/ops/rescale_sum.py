"""Sums of 32 bits to stored integers as TensorFlow Lite does it with sums of 64 bits: rounded once, halves up."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.loops import ValueExpr
from sdk.compiler.ir.types import I32, TensorType, dtype
from sdk.compiler.ops.build import map_elements
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.requantize import halves_up, saturate
from sdk.compiler.ops.traits import Elementwise
from sdk.errors import BuildError

__all__: list[str] = []

Array = NDArray[Any]


def _infer(acc: TensorType, mult: TensorType, right: TensorType, *, out: str, **_: Any) -> TensorType:
    if (acc.dtype, mult.dtype, right.dtype) != (I32, I32, I32) or mult.shape != right.shape:
        raise BuildError(f"rescale_sum wants an i32 accumulator and equal i32 mult and right, got {acc.dtype}")
    return TensorType(dtype(out), acc.shape)


def _reference(acc: Array, mult: Array, right: Array, *, out: str, spare: int, zp: int, lo: int, hi: int) -> Array:
    high = (acc.astype(np.int64) << spare) * mult.astype(np.int64) >> 32
    half = np.int64(1) << (right.astype(np.int64) - 1)
    return np.clip(((high + half) >> right) + zp, lo, hi).astype(dtype(out).numpy)


def _loops(
    acc: ValueExpr, mult: ValueExpr, right: ValueExpr, *, out: str, spare: int, zp: int, lo: int, hi: int
) -> ValueExpr:
    return saturate(halves_up(acc, mult, right, spare, zp), 0, lo, hi, out)


def _sums(shape: tuple[int, ...], bits: int) -> Any:
    return lambda rng: rng.integers(-(1 << bits) + 1, 1 << bits, shape)


def _factors(size: int) -> Any:
    return lambda rng: rng.integers(1 << 14, 1 << 15, size) << 16


def _shifts(size: int, lo: int, hi: int) -> Any:
    return lambda rng: rng.integers(lo, hi + 1, size)


_T = TensorType
define(
    OpDef(
        "rescale_sum",
        ("acc", "mult", "right"),
        _infer,
        _reference,
        map_elements(("acc", "mult", "right"), _loops),
        samples=(
            sample(
                _T(I32, (4, 6)), _T(I32, (6,)), _T(I32, (6,)),
                values={0: _sums((4, 6), 31), 1: _factors(6), 2: _shifts(6, 1, 31)},
                out="i16", zp=0, lo=-32768, hi=32767, spare=0,
            ),
            sample(
                _T(I32, (3, 2)), _T(I32, (1,)), _T(I32, (1,)),
                values={0: _sums((3, 2), 24), 1: _factors(1), 2: _shifts(1, 9, 22)},
                out="i8", zp=-4, lo=-128, hi=127, spare=7,
            ),
        ),
        kind=Elementwise(),
    )
)  # fmt: skip
