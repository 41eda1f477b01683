"""Pooling over windows of quantised images: averages over the taps inside, and maxima."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr
from sdk.compiler.ir.intrinsics import cast, idx, imm, op
from sdk.compiler.ir.loops import Alloc, Buffer, Let, Load, Loops, Ref, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import I8, I16, I32, DType, TensorType
from sdk.compiler.ops.build import function, loop, nest, param, read, variable
from sdk.compiler.ops.conv import windows
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.shapes import window_extent
from sdk.compiler.sym import Dim, Var, dmax, dmin
from sdk.errors import BuildError

Array = NDArray[Any]


def _infer(x: TensorType, *, kernel: Any, stride: Any, pad: Any, **_: Any) -> TensorType:
    if x.rank != 4 or x.dtype not in (I8, I16) or min(kernel) < 1:
        raise BuildError(f"pooling wants i8 or i16 images x[n,h,w,c] and a window, got {x.dtype} of rank {x.rank}")
    rows = window_extent(x.shape[1], kernel[0], stride[0], 1, pad[0], pad[2])
    cols = window_extent(x.shape[2], kernel[1], stride[1], 1, pad[1], pad[3])
    return TensorType(x.dtype, (x.shape[0], rows, cols, x.shape[3]))


def _average_ref(x: Array, *, kernel: Any, stride: Any, pad: Any, lo: int, hi: int) -> Array:
    total = windows(x, kernel, stride, (1, 1), pad, 0).astype(np.int64).sum(axis=(3, 4))
    count = windows(np.ones_like(x), kernel, stride, (1, 1), pad, 0).astype(np.int64).sum(axis=(3, 4))
    half = np.where(total > 0, count // 2, -(count // 2))
    rounded = np.trunc((total + half) / count).astype(np.int64)
    return np.asarray(np.clip(rounded, lo, hi).astype(x.dtype))


def _max_ref(x: Array, *, kernel: Any, stride: Any, pad: Any, lo: int, hi: int) -> Array:
    lowest = int(np.iinfo(x.dtype).min)
    most = windows(x, kernel, stride, (1, 1), pad, lowest).max(axis=(3, 4))
    return np.asarray(np.clip(most, lo, hi).astype(x.dtype))


def _clamped(value: ValueExpr, lo: int, hi: int, kind: DType) -> ValueExpr:
    at_least = value if lo <= kind.limits[0] else op("max", value, imm(lo, value.dtype))
    return cast(at_least if hi >= kind.limits[1] else op("min", at_least, imm(hi, value.dtype)), kind)


def _inside(at: Dim, kernel: int, size: Dim) -> Dim:
    """How many taps of a window that starts at ``at`` are inside ``0..size``."""
    return dmin(at + kernel, size) - dmax(at, 0)


def _pool_loops(
    name: str,
    types: Sequence[TensorType],
    outs: Sequence[TensorType],
    given: Mapping[str, Any],
    average: bool,
) -> Loops:
    """rows oh { ow { oc { acc = start; kh { kw { acc = acc + or max x }} o = acc }}} for every image."""
    x, o = param("x", types[0]), param("o", outs[0], "write")
    kind = types[0].dtype
    kernel, stride, pad = given["kernel"], given["stride"], given["pad"]
    over = nest(outs[0].shape, names=("n_", "oh", "ow", "oc"))
    image, oh, ow, oc = over.index
    kh, kw = variable("kh", kernel[0]), variable("kw", kernel[1])
    top, left = oh * stride[0] - pad[0], ow * stride[1] - pad[1]
    acc_type = I32 if average else kind
    start = 0 if average else kind.limits[0]
    tap = read(x, (image, top + kh.expr, left + kw.expr, oc), outside=start if any(pad) else None)
    acc = Load("acc", (), acc_type)
    step = op("add", acc, cast(tap, I32)) if average else op("max", acc, tap)
    finish: list[Stmt] = []
    result: ValueExpr = acc
    if average:
        count = _inside(top, kernel[0], types[0].shape[1]) * _inside(left, kernel[1], types[0].shape[2])
        finish, result = _rounded_quotient(acc, kernel[0] * kernel[1] if not any(pad) else count)
    body = over.around(
        Alloc(Buffer("acc", acc_type, (), "register")),
        Store("acc", (), imm(start, acc_type)),
        loop(kh, kernel[0], loop(kw, kernel[1], Store("acc", (), step))),
        *finish,
        Store("o", over.index, _clamped(result, given["lo"], given["hi"], kind)),
    )
    return function(name, [x, o], [body], over.rows)


def _rounded_quotient(acc: Load, count: Dim) -> tuple[list[Stmt], ValueExpr]:
    """acc / count to nearest, halves away from zero."""
    if isinstance(count, int):
        half: ValueExpr = imm(count // 2)
        divisor: ValueExpr = imm(count)
        names: list[Stmt] = []
    else:
        names = [Let("count", idx(count))]
        divisor = Ref("count", I32)
        half = op("shr", divisor, imm(1))
    signed = op("select", op("gt", acc, imm(0)), half, op("neg", half), dtype=I32)
    return names, op("tdiv", op("add", acc, signed), divisor)


def _average_loops(
    name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Attr]
) -> Loops:
    return _pool_loops(name, types, outs, given, average=True)


def _max_loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Attr]) -> Loops:
    return _pool_loops(name, types, outs, given, average=False)


_T = TensorType
_H = Var("h", 3, 9).expr
_WHOLE: Any = {"kernel": (5, 4), "stride": (1, 1), "pad": (0, 0, 0, 0)}
_SAME: Any = {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1, 1, 1)}
_PAIR: Any = {"kernel": (2, 2), "stride": (2, 2), "pad": (0, 0, 0, 1)}
_SAMPLES = (
    sample(_T(I8, (1, 5, 4, 6)), **_WHOLE, lo=-128, hi=127),
    sample(_T(I8, (1, 7, 8, 3)), **_SAME, lo=-100, hi=90),
    sample(_T(I8, (2, _H, 5, 2)), **_PAIR, lo=-128, hi=127),
    sample(_T(I16, (1, _H, 4, 2)), **_SAME, lo=-32768, hi=32767),
)

define(OpDef("avg_pool2d", ("x",), _infer, _average_ref, _average_loops, _SAMPLES))
define(OpDef("max_pool2d", ("x",), _infer, _max_ref, _max_loops, _SAMPLES))
