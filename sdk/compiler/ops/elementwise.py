"""Elementwise arithmetic on tensors of one type, broadcast as in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import imm, op
from sdk.compiler.ir.loops import ValueExpr
from sdk.compiler.ir.types import F32, I32, TensorType
from sdk.compiler.ops.build import map_elements
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.shapes import broadcast_shapes
from sdk.compiler.sym import Var
from sdk.errors import BuildError

Array = NDArray[Any]


def _infer(a: TensorType, b: TensorType) -> TensorType:
    if a.dtype != b.dtype:
        raise BuildError(f"elementwise arithmetic wants two tensors of one type, got {a.dtype} and {b.dtype}")
    return TensorType(a.dtype, broadcast_shapes(a.shape, b.shape))


def _binary(name: str) -> Callable[[ValueExpr, ValueExpr], ValueExpr]:
    return lambda a, b: op(name, a, b)


_T = TensorType
_N = Var("n", 1, 9).expr
_SAMPLES = (
    sample(_T(F32, (_N, 3)), _T(F32, (_N, 3))),
    sample(_T(F32, (1, _N, 4)), _T(F32, (2, 1, 4))),
    sample(_T(I32, (5, 3)), _T(I32, (3,))),
    sample(_T(F32, ()), _T(F32, ())),
)
_BINARY: tuple[tuple[str, str, Callable[[Array, Array], Array]], ...] = (
    ("add", "add", np.add),
    ("sub", "sub", np.subtract),
    ("mul", "mul", np.multiply),
    ("maximum", "max", np.maximum),
)
for _name, _row, _fn in _BINARY:
    define(OpDef(_name, ("a", "b"), _infer, _fn, map_elements(("a", "b"), _binary(_row)), _SAMPLES))

define(
    OpDef(
        "relu",
        ("x",),
        lambda x: x,
        lambda x: np.maximum(x, 0),
        map_elements(("x",), lambda x: op("max", x, imm(0.0 if x.dtype.is_float else 0, x.dtype))),
        samples=(sample(_T(F32, (_N, 3))), sample(_T(I32, (4, 5)))),
    )
)
