"""How ops compute in the types they are given: half floats as single ones, literals, references in single precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import cast, idx, imm
from sdk.compiler.ir.loops import Imm, ValueExpr
from sdk.compiler.ir.types import F16, F32, DType, TensorType
from sdk.compiler.sym import Dim
from sdk.errors import BuildError

__all__ = ["compute_type", "count", "exact_matmul", "number", "require_float", "single", "stored", "widened"]

Array = NDArray[Any]


def compute_type(kind: DType) -> DType:
    """The type that values stored as ``kind`` are computed in: f32 for f16, else their own."""
    return F32.with_lanes(kind.lanes) if kind.scalar == F16 else kind


def widened(value: ValueExpr) -> ValueExpr:
    """``value`` in the type it is computed in."""
    return cast(value, compute_type(value.dtype))


def stored(value: ValueExpr, kind: DType) -> ValueExpr:
    """``value`` as it is stored in a tensor of ``kind``: only half floats differ from what was computed."""
    return cast(value, kind) if kind.scalar == F16 and value.dtype == compute_type(kind) else value


def number(value: float, kind: DType) -> Imm:
    """A literal of ``kind``."""
    return imm(float(value) if kind.is_float else int(value), kind)


def count(extent: Dim, kind: DType) -> ValueExpr:
    """An extent as a value of ``kind``."""
    return number(extent, kind) if isinstance(extent, int) else cast(idx(extent), kind)


def single(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A reference that computes half floats in single precision, as the loops do."""

    @wraps(fn)
    def run(*arrays: Array, **given: Any) -> Array:
        half = any(a.dtype == np.float16 for a in arrays)
        wide = (a.astype(np.float32) if a.dtype == np.float16 else a for a in arrays)
        found = np.asarray(fn(*wide, **given))
        return found.astype(np.float16) if half and found.dtype == np.float32 else found

    return run


def require_float(name: str, *types: TensorType) -> None:
    """Checks that an op has tensors of one float type.

    Raises:
        BuildError: it has not.
    """
    if any(t.dtype != types[0].dtype or not t.dtype.is_float for t in types):
        raise BuildError(f"{name} wants tensors of one float type, got {', '.join(str(t.dtype) for t in types)}")


def exact_matmul(a: Array, b: Array) -> Array:
    """The product with a matrix, in the type of ``a``; of integers through doubles, which are exact and far faster,
    where sums stay below 2**53."""
    kind = wide = a.dtype if a.dtype.kind == "f" else np.dtype(np.int64)
    if kind.kind == "i":
        limit = int(np.abs(a).max(initial=0)) * int(np.abs(b.astype(np.int64)).max(initial=0)) * a.shape[-1]
        wide = np.dtype(np.float64) if limit < 1 << 53 else kind
    # of two matrices: where there are more axes, NumPy makes many products of a few rows each
    rows = a.reshape(math.prod(a.shape[:-1]), a.shape[-1])
    product = (rows.astype(wide) @ b.astype(wide)).astype(kind)
    return np.asarray(product.reshape(*a.shape[:-1], b.shape[-1]))
