"""Pooling over windows of channels-last images: averages and sums over the taps, and maxima.

A window may hang over the border: ``pad`` gives all the rows before, then all those after, and with ``ceil`` a last
window that starts inside counts although it ends outside. Averages count the taps inside the image, with
``include_pad`` also those in ``pad``. ``lo`` and ``hi`` clamp quantised results. Averages of integers are rounded,
halves away from ``-x_offset``: 128 rounds i8 as the u8 that they stand for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr, attrs
from sdk.compiler.ir.intrinsics import cast, idx, imm, op
from sdk.compiler.ir.loops import Alloc, Buffer, Let, Load, Loops, Ref, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import F16, F32, F64, I8, I16, I32, DType, TensorType
from sdk.compiler.ops.build import function, loop, nest, param, read, variable
from sdk.compiler.ops.conv import SPATIAL, TAPS, windows
from sdk.compiler.ops.numerics import compute_type, number
from sdk.compiler.ops.registry import OpDef, Sample, define, sample
from sdk.compiler.ops.shapes import window_extent
from sdk.compiler.ops.traits import OPAQUE, Combine, Reduction
from sdk.compiler.sym import Dim, Var, ceildiv, dmax, dmin, max_value, product
from sdk.errors import BuildError

__all__ = ["clamped", "lowest", "pool_extent", "quotient"]

Array = NDArray[Any]


def pool_extent(size: Dim, kernel: int, stride: int, dilation: int, before: int, after: int, ceil: bool) -> Dim:
    """Windows along an axis of ``size``; with ``ceil`` also one that only starts inside the padded axis, unless it
    starts in the padding after it.

    Raises:
        BuildError: the numbers are out of range, or no window fits.
    """
    if not ceil:
        return window_extent(size, kernel, stride, dilation, before, after)
    if stride < 1 or dilation < 1 or before < 0 or after < 0:
        raise BuildError(f"stride {stride}, dilation {dilation}, pads {before}, {after} are out of range")
    whole = ceildiv(size + (before + after) - (kernel - 1) * dilation - 1, stride) + 1
    if isinstance(whole, int) and whole < 1:
        raise BuildError(f"a window of {kernel} does not fit into {size} padded by {before} and {after}")
    return dmax(dmin(whole, ceildiv(size + before, stride)), 1)


def _infer(
    x: TensorType,
    *,
    kernel: Any,
    stride: Any,
    pad: Any,
    dilation: Any = (),
    ceil: bool = False,
    include_pad: bool = False,
    x_offset: int = 0,
    lo: int | None = None,
    hi: int | None = None,
) -> TensorType:
    axes, steps = len(kernel), dilation or (1,) * len(kernel)
    if axes not in SPATIAL or x.rank != axes + 2 or min(kernel) < 1:
        raise BuildError(f"pooling wants images x[n,..,c] and a window, got rank {x.rank} and {kernel}")
    if x.dtype not in (I8, I16, F16, F32, F64) or (x.dtype.is_float and (lo, hi) != (None, None)):
        raise BuildError(f"pooling wants i8, i16 or float images, these unclamped, got {x.dtype}")
    if x_offset and x.dtype.is_float:
        raise BuildError(f"pooling raises only integers, not {x.dtype}")
    if not len(stride) == len(steps) == axes or len(pad) != 2 * axes:
        raise BuildError(f"strides {stride}, dilations {steps}, pads {pad} for {axes} axes of an image")
    extents = (
        pool_extent(x.shape[1 + k], kernel[k], stride[k], steps[k], pad[k], pad[k + axes], ceil) for k in range(axes)
    )
    return TensorType(x.dtype, (x.shape[0], *extents, x.shape[-1]))


def _reach(shape: Sequence[int], kernel: Any, stride: Any, pad: Any, dilation: Any, ceil: bool) -> tuple[int, ...]:
    """The rows after the image that the last windows take in."""
    axes, after = len(kernel), list(pad[len(kernel) :])
    for k in range(axes):
        size: Any = pool_extent(shape[1 + k], kernel[k], stride[k], dilation[k], pad[k], after[k], ceil)
        last = (size - 1) * stride[k] + (kernel[k] - 1) * dilation[k] + 1
        after[k] = max(after[k], last - shape[1 + k] - pad[k])
    return tuple(after)


def _taps(x: Array, fill: float, kernel: Any, stride: Any, pad: Any, dilation: Any = (), ceil: bool = False) -> Array:
    """The windows, over the border as far as ``ceil`` wants: [n, image.., taps.., c]."""
    steps = dilation or (1,) * len(kernel)
    after = _reach(x.shape, kernel, stride, pad, steps, ceil)
    return windows(x, kernel, stride, steps, (*pad[: len(kernel)], *after), fill)


def _count(
    x: Array, include_pad: bool, kernel: Any, stride: Any, pad: Any, dilation: Any = (), ceil: bool = False
) -> Array:
    """How many taps of each window count."""
    axes, steps = len(kernel), dilation or (1,) * len(kernel)
    after = _reach(x.shape, kernel, stride, pad, steps, ceil)
    border = [(0, 0), *zip(pad[:axes], pad[axes:], strict=True), (0, 0)]
    beyond = [(0, 0), *((0, a - p) for a, p in zip(after, pad[axes:], strict=True)), (0, 0)]
    inside = np.pad(np.ones((1, *x.shape[1:-1], 1), np.int64), border, constant_values=int(include_pad))
    taps = windows(np.pad(inside, beyond), kernel, stride, steps, (0,) * 2 * axes, 0)
    return np.asarray(taps.sum(axis=tuple(range(1 + axes, 1 + 2 * axes))))


def _sum(x: Array, kernel: Any, **window: Any) -> Array:
    wide = x.astype(np.float64 if x.dtype.kind == "f" else np.int64)
    axes = len(kernel)
    return np.asarray(_taps(wide, 0, kernel, **window).sum(axis=tuple(range(1 + axes, 1 + 2 * axes))))


def _clipped(value: Array, lo: int | None, hi: int | None, kind: np.dtype[Any]) -> Array:
    return np.asarray(value if lo is None and hi is None else np.clip(value, lo, hi)).astype(kind)


def _average_ref(
    x: Array,
    *,
    include_pad: bool = False,
    x_offset: int = 0,
    lo: int | None = None,
    hi: int | None = None,
    **window: Any,
) -> Array:
    total, count = _sum(x, **window), _count(x, include_pad, **window)
    if x.dtype.kind == "f":
        return np.asarray(total / count).astype(x.dtype)
    total = total + x_offset * count
    half = np.where(total > 0, count // 2, -(count // 2))
    return _clipped(np.trunc((total + half) / count).astype(np.int64) - x_offset, lo, hi, x.dtype)


def _sum_ref(x: Array, *, lo: int | None = None, hi: int | None = None, **window: Any) -> Array:
    return _clipped(_sum(x, **window), lo, hi, x.dtype)


def lowest(kind: DType) -> float:
    """What every value of ``kind`` reaches."""
    return -math.inf if kind.is_float else kind.limits[0]


def _max_ref(x: Array, *, lo: int | None = None, hi: int | None = None, kernel: Any, **window: Any) -> Array:
    minimum = -np.inf if x.dtype.kind == "f" else int(np.iinfo(x.dtype).min)
    axes = len(kernel)
    maximum = _taps(x, minimum, kernel, **window).max(axis=tuple(range(1 + axes, 1 + 2 * axes)))
    return _clipped(maximum, lo, hi, x.dtype)


def clamped(value: ValueExpr, lo: int | None, hi: int | None, kind: DType) -> ValueExpr:
    """``value`` as ``kind``: integers held to ``lo..hi`` before."""
    if kind.is_float:
        return cast(value, kind)
    at_least = value if lo is None or lo <= kind.limits[0] else op("max", value, imm(lo, value.dtype))
    return cast(at_least if hi is None or hi >= kind.limits[1] else op("min", at_least, imm(hi, value.dtype)), kind)


def _inside(at: Dim, kernel: int, dilation: int, first: int, end: Dim) -> Dim:
    """How many taps of a window that starts at ``at`` are inside ``first..end``."""
    return dmin(ceildiv(end - at, dilation), kernel) - dmax(ceildiv(first - at, dilation), 0)


def _pool_loops(
    name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any], kind: str
) -> Loops:
    """rows oh { ow { oc { acc = start; kh { kw { acc = acc + or max x }} o = acc }}} for every image."""
    x, o = param("x", types[0]), param("o", outs[0], "write")
    stored_type = types[0].dtype
    kernel, stride, pad = given["kernel"], given["stride"], given["pad"]
    axes = len(kernel)
    dilation = given.get("dilation") or (1,) * axes
    over = nest(outs[0].shape, names=("n_", *SPATIAL[axes], "oc"))
    image, *spatial, oc = over.index
    taps = [variable(n, k) for n, k in zip(TAPS[axes], kernel, strict=True)]
    starts = [i * stride[k] - pad[k] for k, i in enumerate(spatial)]
    float_type = compute_type(stored_type) if stored_type.is_float else None
    acc_type = float_type or (stored_type if kind == "max" else I32)
    start = lowest(stored_type) if kind == "max" else 0
    at = [s + t.expr * d for s, t, d in zip(starts, taps, dilation, strict=True)]
    overhangs = any(pad) or given.get("ceil", False)
    outside = float(start) if stored_type.is_float else start
    tap = cast(read(x, (image, *at, oc), outside=outside if overhangs else None), acc_type)
    acc = Load("acc", (), acc_type)
    step: Stmt = Store("acc", (), op("max" if kind == "max" else "add", acc, tap))
    for var, size in reversed(list(zip(taps, kernel, strict=True))):
        step = loop(var, size, step)
    finish: list[Stmt] = []
    result: ValueExpr = acc
    if kind == "average":
        whole = given.get("include_pad", False)
        count = product(
            tuple(
                _inside(
                    starts[k], kernel[k], dilation[k],
                    -pad[k] if whole else 0, types[0].shape[1 + k] + (pad[k + axes] if whole else 0),
                )
                for k in range(axes)
            )
        )  # fmt: skip
        full = not overhangs or (whole and not given.get("ceil", False))
        finish, result = quotient(acc, product(tuple(kernel)) if full else count, given.get("x_offset", 0))
    body = over.around(
        Alloc(Buffer("acc", acc_type, (), "register")),
        Store("acc", (), number(start, acc_type) if math.isfinite(start) else imm(start, acc_type)),
        step,
        *finish,
        Store("o", over.index, clamped(result, given.get("lo"), given.get("hi"), stored_type)),
    )
    return function(name, [x, o], [body], over.rows)


def quotient(acc: ValueExpr, count: Dim, offset: int = 0) -> tuple[list[Stmt], ValueExpr]:
    """acc / count, of integers to nearest, halves away from ``-offset``; first what is named where the count is no
    number."""
    divisor: ValueExpr = imm(count) if isinstance(count, int) else Ref("count", I32)
    names: list[Stmt] = [] if isinstance(count, int) else [Let("count", idx(count))]
    if acc.dtype.is_float:
        if isinstance(count, int):
            return [], op("mul", acc, imm(1.0 / count, acc.dtype))
        return names, op("tdiv", acc, cast(divisor, acc.dtype))
    half = imm(count // 2) if isinstance(count, int) else op("shr", divisor, imm(1))
    if offset:
        acc = op("add", acc, imm(offset * count) if isinstance(count, int) else op("mul", divisor, imm(offset)))
    signed = op("select", op("gt", acc, imm(0)), half, op("neg", half), dtype=I32)
    found = op("tdiv", op("add", acc, signed), divisor)
    return names, op("add", found, imm(-offset)) if offset else found


def _loops_of(kind: str) -> Any:
    def build(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Attr]) -> Loops:
        return _pool_loops(name, types, outs, given, kind)

    return build


# --- the place of the maximum -------------------------------------------------------------------------------------


def _argmax_infer(x: TensorType, **window: Any) -> tuple[TensorType, TensorType]:
    values = _infer(x, **window)
    if len(window["kernel"]) != 2 or max_value(x.size) is None:
        raise BuildError("the place of a maximum is told of images of two axes")
    return values, TensorType(I32, values.shape)


def _argmax_ref(x: Array, **window: Any) -> tuple[Array, Array]:
    minimum = -np.inf if x.dtype.kind == "f" else int(np.iinfo(x.dtype).min)
    values = _taps(x, minimum, **window)
    at = np.arange(x.shape[1] * x.shape[2], dtype=np.int64).reshape(1, x.shape[1], x.shape[2], 1)
    places = np.broadcast_to(_taps(at, -1, **window), values.shape)
    flat = (*values.shape[:3], -1, values.shape[-1])
    values, places = values.reshape(flat), places.reshape(flat)
    pick = np.argmax(np.where(places < 0, -np.inf, values.astype(np.float64)), axis=3)[:, :, :, None]
    found = np.take_along_axis(places, pick, 3)[:, :, :, 0]
    return np.take_along_axis(values, pick, 3)[:, :, :, 0].astype(x.dtype), found.astype(np.int32)


def _argmax_loops(
    name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]
) -> Loops:
    """rows oh { ow { oc { best = lowest; kh { kw { where x > best: best = x, place = its position }} }}}."""
    x, kind = param("x", types[0]), types[0].dtype
    kernel, stride, pad = given["kernel"], given["stride"], given["pad"]
    dilation = given.get("dilation") or (1, 1)
    over = nest(outs[0].shape, names=("n_", "oh", "ow", "oc"))
    image, oh, ow, oc = over.index
    kh, kw = variable("kh", kernel[0]), variable("kw", kernel[1])
    row = oh * stride[0] + kh.expr * dilation[0] - pad[0]
    col = ow * stride[1] + kw.expr * dilation[1] - pad[1]
    wide = compute_type(kind)
    minimum = imm(lowest(kind), wide)
    overhangs = any(pad) or given.get("ceil", False)
    tap = cast(read(x, (image, row, col, oc), outside=lowest(kind) if overhangs else None), wide)
    best, place = Load("best", (), wide), Load("place", (), I32)
    better = Ref("better", tap.dtype)
    wins = op("gt", better, best)
    body = over.around(
        Alloc(Buffer("best", wide, (), "register")),
        Alloc(Buffer("place", I32, (), "register")),
        Store("best", (), minimum),
        Store("place", (), imm(0)),
        loop(
            kh,
            kernel[0],
            loop(
                kw,
                kernel[1],
                Let("better", tap),
                Store("place", (), op("select", wins, idx(row * types[0].shape[2] + col), place, dtype=I32)),
                Store("best", (), op("max", best, better)),
            ),
        ),
        Store("o0", over.index, cast(best, kind)),
        Store("o1", over.index, place),
    )
    return function(name, [x, param("o0", outs[0], "write"), param("o1", outs[1], "write")], [body], over.rows)


_T = TensorType
_H = Var("h", 3, 9).expr
_E = Var("e", 4, 12, 4).expr
_WHOLE: Any = {"kernel": (5, 4), "stride": (1, 1), "pad": (0, 0, 0, 0)}
_SAME: Any = {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1, 1, 1)}
_PAIR: Any = {"kernel": (2, 2), "stride": (2, 2), "pad": (0, 0, 0, 1)}
_HALVES: Any = {"kernel": (2, 2), "stride": (2, 2), "pad": (0, 0, 0, 0)}
_FAR: Any = {"kernel": (2, 3), "stride": (2, 1), "pad": (1, 0, 0, 1), "dilation": (2, 2)}
_OVER: Any = {"kernel": (3, 2), "stride": (2, 3), "pad": (1, 0, 1, 1), "ceil": True}
_CUBE: Any = {"kernel": (2, 3, 2), "stride": (1, 2, 2), "pad": (1, 0, 0, 0, 1, 1)}
_QUANTISED = (
    sample(_T(I8, (1, 5, 4, 6)), **_WHOLE, lo=-128, hi=127),
    sample(_T(I8, (1, 7, 8, 3)), **_SAME, lo=-100, hi=90),
    sample(_T(I8, (2, _H, 5, 2)), **_PAIR, lo=-128, hi=127),
    sample(_T(I16, (1, _H, 4, 2)), **_SAME, lo=-32768, hi=32767),
)
_FLOATS = (
    sample(_T(F32, (2, _E, _E, 3)), **_HALVES),
    sample(_T(F32, (1, 7, 8, 3)), **_SAME),
    sample(_T(F32, (1, _H, 6, 3)), **_OVER),
    sample(_T(F32, (1, _H, 7, 2)), **_FAR),
    sample(_T(F16, (1, 7, 8, 3)), **_SAME),
    sample(_T(F64, (1, 7, 8, 3)), **_SAME),
)
_CUBES = (
    sample(_T(F32, (1, 3, _H, 4, 3)), **_CUBE),
    sample(_T(F32, (1, 4, 6, 5, 2)), **_CUBE, ceil=True, dilation=(1, 1, 2)),
)


def _padded(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    return tuple(Sample(s.inputs, attrs(**dict(s.attrs), include_pad=True)) for s in samples)


for _kind, _ref, _combine in (
    ("average", _average_ref, Combine.MEAN),
    ("max", _max_ref, Combine.MAX),
    ("sum", _sum_ref, Combine.SUM),
):
    _stem = {"average": "avg"}.get(_kind, _kind)
    _plain = (*(_QUANTISED if _kind != "sum" else ()), *_FLOATS)
    _raised = tuple(Sample(s.inputs, attrs(**dict(s.attrs), x_offset=128)) for s in _QUANTISED[:3])
    _more = (*_padded(_FLOATS[:4]), *_raised) if _kind == "average" else ()
    _traits = Reduction(_combine, windowed=True)
    define(OpDef(f"{_stem}_pool2d", ("x",), _infer, _ref, _loops_of(_kind), (*_plain, *_more), kind=_traits))
    _cubes = (*_CUBES, *(_padded(_CUBES) if _kind == "average" else ()))
    define(OpDef(f"{_stem}_pool3d", ("x",), _infer, _ref, _loops_of(_kind), _cubes, kind=_traits))
_places = (*_FLOATS, sample(_T(I8, (1, 7, 8, 3)), **_SAME))
define(OpDef("argmax_pool2d", ("x",), _argmax_infer, _argmax_ref, _argmax_loops, _places, kind=OPAQUE))
