"""Parts of a tensor: ``slice`` with a begin, a count and a step per axis, each begin and count a number or a dim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.loops import Loops, Store
from sdk.compiler.ir.types import F32, I8, I16, TensorType
from sdk.compiler.ops.build import function, nest, param
from sdk.compiler.ops.positions import known, read_inside
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.traits import AxisRole, Movement
from sdk.compiler.sym import Dim, Var, ceildiv, dmax, dmin, floordiv
from sdk.errors import BuildError

__all__ = ["clamped"]

Array = NDArray[Any]


def clamped(size: Dim, start: Dim, stop: Dim, step: int, inside: bool = False) -> tuple[Dim, Dim]:
    """Begin and count of ``start:stop:step`` on an axis of ``size`` by Python's rule: negative positions count from the
    end, then both are clamped. ``step`` is not 0. ``inside``: a start below the first element is that element for
    negative steps too, as in ONNX, where Python has nothing."""
    low, high = (0, size) if step > 0 else (-1, size - 1)
    first = dmin(dmax(_from_end(size, start), 0 if inside else low), high)
    last = dmin(dmax(_from_end(size, stop), low), high)
    count = ceildiv(last - first, step) if step > 0 else ceildiv(first - last, -step)
    return first, dmax(count, 0)


def _from_end(size: Dim, at: Dim) -> Dim:
    """``at``, or ``at + size`` where it is negative."""
    return at + size * dmin(1, dmax(0, -at))


def _extent(size: Dim, begin: Dim, count: Dim, stride: int) -> Dim:
    if stride == 0 or (isinstance(count, int) and count < -1):
        raise BuildError(f"a slice with stride {stride} of {count} elements")
    extent = count
    if isinstance(count, int) and count == -1:
        extent = ceildiv(size - begin, stride) if stride > 0 else floordiv(begin, -stride) + 1
    last = begin + (extent - 1) * stride
    ends = [k for k in (begin, last) if isinstance(k, int)]
    if isinstance(size, int) and len(ends) == 2 and extent != 0 and not all(0 <= k < size for k in ends):
        raise BuildError(f"a slice from {begin} by {stride} of {extent} elements leaves an axis of {size}")
    return extent


def _infer(x: TensorType, *, begin: Any, size: Any, strides: Any) -> TensorType:
    if not len(begin) == len(size) == len(strides) == x.rank:
        raise BuildError(f"a slice of rank {len(begin)} of a tensor of rank {x.rank}")
    return TensorType(x.dtype, tuple(map(_extent, x.shape, begin, size, strides)))


def _ref(x: Array, *, begin: Any, size: Any, strides: Any) -> Array:
    parts = []
    for extent, first, count, step in zip(x.shape, begin, size, strides, strict=True):
        total: Any = _extent(extent, first, count, step)
        stop = first + total * step
        parts.append(slice(first, stop if stop >= 0 else None, step) if total > 0 else slice(0, 0))
    return np.ascontiguousarray(x[tuple(parts)]) if x.ndim else x.copy()


def _loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]) -> Loops:
    """o[i] = x[begin + stride * i]."""
    over = nest(outs[0].shape)
    source = tuple(b + s * i for b, s, i in zip(given["begin"], given["strides"], over.index, strict=True))
    body = over.around(Store("o", over.index, read_inside("x", types[0], source, known(over))))
    return function(name, [param("x", types[0]), param("o", outs[0], "write")], [body], over.rows)


_T = TensorType
_N: Dim = Var("n", 1, 6).expr
_M: Dim = Var("m", 2, 4).expr
_L: Dim = Var("l", 0, 500).expr
_K: Dim = Var("k", 0, 9).expr
_PART = clamped(_N, _K, 100, 1)
_BACK = clamped(_N, -1, -100, -2)

define(
    OpDef(
        "slice",
        ("x",),
        _infer,
        _ref,
        _loops,
        samples=(
            sample(_T(I8, (1, 5, 1, 4)), begin=(0, 3, 0, 0), size=(1, 2, 1, 4), strides=(1, 1, 1, 1)),
            sample(_T(I16, (7, 6)), begin=(6, 1), size=(3, -1), strides=(-2, 3)),
            sample(_T(I8, (_N, _M, 3)), begin=(0, 1, 1), size=(-1, -1, 2), strides=(1, 1, 1)),
            sample(_T(F32, (_N, 3)), begin=(_PART[0], 2), size=(_PART[1], 3), strides=(1, -1)),
            sample(_T(F32, (2, _N)), begin=(0, _BACK[0]), size=(2, _BACK[1]), strides=(1, -2)),
            sample(_T(F32, (512, 2)), begin=(_L, 0), size=(_M, 2), strides=(1, 1)),
        ),
        kind=Movement(),
        axes={"begin": AxisRole.EACH, "size": AxisRole.EACH, "strides": AxisRole.EACH},
    )
)
