"""Reals to stored integers and back, as ONNX defines them: ``real = scale * (stored - zero)``.

Scales and zero points broadcast to the tensor, so that one scale and one per channel are the same op. A real becomes
the nearest integer, halves to even, held to the limits of its type; NaN is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import cast, op
from sdk.compiler.ir.loops import ValueExpr
from sdk.compiler.ir.types import F16, F32, I8, I16, I32, U8, U16, TensorType, dtype
from sdk.compiler.ops.build import map_elements
from sdk.compiler.ops.numerics import compute_type, single
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.shapes import broadcast_shapes, same_extent
from sdk.compiler.ops.traits import Elementwise
from sdk.compiler.sym import Var
from sdk.errors import BuildError

__all__: list[str] = []

Array = NDArray[Any]


def _broadcasts(name: str, x: TensorType, *others: TensorType) -> None:
    found = broadcast_shapes(x.shape, *(t.shape for t in others))
    if len(found) != x.rank or not all(map(same_extent, found, x.shape)):
        raise BuildError(f"scales and zero points of {name} do not broadcast to the shape {x.shape}")


def _quantize_infer(x: TensorType, scale: TensorType, zero: TensorType, *, out: str) -> TensorType:
    kind = dtype(out)
    if not x.dtype.is_float or not scale.dtype.is_float or kind not in (I8, U8, I16, U16) or zero.dtype != kind:
        raise BuildError(f"quantize makes 8 or 16-bit integers of floats, not {out} of {x.dtype} at {zero.dtype}")
    _broadcasts("quantize", x, scale, zero)
    return TensorType(kind, x.shape)


def _quantize_ref(x: Array, scale: Array, zero: Array, *, out: str) -> Array:
    kind = dtype(out)
    wide = np.promote_types(np.promote_types(x.dtype, scale.dtype), np.float32)
    value = np.rint(x.astype(wide) / scale.astype(wide)) + zero.astype(wide)
    return np.asarray(np.nan_to_num(np.clip(value, *kind.limits), nan=0.0)).astype(kind.numpy)


def _quantize(x: ValueExpr, scale: ValueExpr, zero: ValueExpr, *, out: str) -> ValueExpr:
    kind = dtype(out)
    wide = x.dtype if x.dtype.bits >= scale.dtype.bits else scale.dtype
    value: ValueExpr = op("round", op("tdiv", cast(x, wide), cast(scale, wide)))
    value = op("add", value, cast(cast(zero, I32), wide))
    return cast(value, kind)  # a cast of a float holds it to the limits


def _dequantize_infer(x: TensorType, scale: TensorType, zero: TensorType) -> TensorType:
    if x.dtype.kind not in "iu" or x.dtype.bits > 32 or not scale.dtype.is_float or zero.dtype != x.dtype:
        raise BuildError(f"dequantize makes floats of integers of up to 32 bits, not of {x.dtype} at {zero.dtype}")
    _broadcasts("dequantize", x, scale, zero)
    return TensorType(scale.dtype, x.shape)


def _dequantize_ref(x: Array, scale: Array, zero: Array) -> Array:
    wide = np.promote_types(scale.dtype, np.float32)
    steps = (x.astype(np.int32) - zero.astype(np.int32)).astype(wide)
    return np.asarray(steps * scale.astype(wide)).astype(scale.dtype)


def _dequantize(x: ValueExpr, scale: ValueExpr, zero: ValueExpr) -> ValueExpr:
    steps = op("sub", cast(x, I32), cast(zero, I32))
    return op("mul", cast(steps, compute_type(scale.dtype)), scale)


def _positive(shape: tuple[int, ...]) -> Any:
    return lambda rng: rng.random(shape) + 0.02


_T = TensorType
_N = Var("n", 1, 9).expr
define(
    OpDef(
        "quantize",
        ("x", "scale", "zero"),
        _quantize_infer,
        single(_quantize_ref),
        map_elements(("x", "scale", "zero"), _quantize),
        samples=(
            sample(_T(F32, (_N, 3)), _T(F32, ()), _T(I8, ()), values={1: _positive(())}, out="i8"),
            sample(_T(F32, (2, 3, _N)), _T(F32, (3, 1)), _T(U8, (3, 1)), values={1: _positive((3, 1))}, out="u8"),
            sample(_T(F16, (4, _N)), _T(F16, ()), _T(I8, ()), values={1: _positive(())}, out="i8"),
            sample(_T(F32, (4, _N)), _T(F32, (1,)), _T(I16, (1,)), values={1: _positive((1,))}, out="i16"),
            sample(_T(F32, (4, _N)), _T(F32, (1,)), _T(U16, (1,)), values={1: _positive((1,))}, out="u16"),
        ),
        kind=Elementwise(),
    )
)
define(
    OpDef(
        "dequantize",
        ("x", "scale", "zero"),
        _dequantize_infer,
        single(_dequantize_ref),
        map_elements(("x", "scale", "zero"), _dequantize),
        samples=(
            sample(_T(I8, (_N, 3)), _T(F32, ()), _T(I8, ())),
            sample(_T(U8, (2, 3, _N)), _T(F32, (3, 1)), _T(U8, (3, 1))),
            sample(_T(I8, (4, _N)), _T(F16, ()), _T(I8, ()), values={1: _positive(())}),
            sample(_T(I32, (4, 3)), _T(F32, (3,)), _T(I32, (3,))),
        ),
        kind=Elementwise(),
    )
)
