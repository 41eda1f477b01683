"""Convolutions on integers: exact accumulators in the type of the bias, no requantisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr
from sdk.compiler.ir.intrinsics import cast, imm, op
from sdk.compiler.ir.loops import Alloc, Buffer, Load, Loops, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import I8, I16, I32, I64, U8, DType, TensorType
from sdk.compiler.ops.build import function, loop, nest, param, read, variable
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.shapes import require_equal, window_extent
from sdk.compiler.sym import Dim, Var, floordiv
from sdk.errors import BuildError

__all__ = ["shifted", "windows"]

Array = NDArray[Any]


def shifted(value: ValueExpr, offset: int, acc: DType) -> ValueExpr:
    """``value + offset`` as an accumulator; an offset of 128 makes i8 a u8, which dot instructions want."""
    if offset == 0:
        return cast(value, acc)
    if offset == 128 and value.dtype == I8:
        return cast(op("add", cast(value, U8), imm(128, U8)), acc)
    return op("add", cast(value, acc), imm(offset, acc))


def windows(x: Array, kernel: tuple[int, int], stride: Any, dilation: Any, pad: Any, fill: int) -> Array:
    """Every window of ``x[n, h, w, c]`` padded with ``fill``: [n, oh, ow, kh, kw, c]."""
    top, left, bottom, right = pad
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    reach = ((kernel[0] - 1) * dilation[0] + 1, (kernel[1] - 1) * dilation[1] + 1)
    view = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(1, 2))
    view = view[:, :: stride[0], :: stride[1], :, :: dilation[0], :: dilation[1]]
    return np.ascontiguousarray(view.transpose(0, 1, 2, 4, 5, 3))


def _spatial(x: TensorType, kernel: tuple[Dim, Dim], stride: Any, dilation: Any, pad: Any) -> tuple[Dim, Dim]:
    return (
        window_extent(x.shape[1], kernel[0], stride[0], dilation[0], pad[0], pad[2]),
        window_extent(x.shape[2], kernel[1], stride[1], dilation[1], pad[1], pad[3]),
    )


def _accumulates(b: TensorType, channels: Dim) -> None:
    if b.dtype not in (I32, I64) or b.rank != 1:
        raise BuildError(f"a bias is i32[channels] or i64[channels], not {b.dtype} of rank {b.rank}")
    require_equal("channels of weights and bias", channels, b.shape[0])


def _conv_infer(
    x: TensorType, w: TensorType, b: TensorType, *, stride: Any, dilation: Any, pad: Any, **_: Any
) -> TensorType:
    if x.rank != 4 or w.rank != 4:
        raise BuildError(f"conv2d wants x[n,h,w,c] and weights[o,kh,kw,c], got ranks {x.rank} and {w.rank}")
    require_equal("input channels of conv2d and its weights", x.shape[3], w.shape[3])
    _accumulates(b, w.shape[0])
    rows, cols = _spatial(x, (w.shape[1], w.shape[2]), stride, dilation, pad)
    return TensorType(b.dtype, (x.shape[0], rows, cols, w.shape[0]))


def _conv_ref(
    x: Array, w: Array, b: Array, *, stride: Any, dilation: Any, pad: Any, x_offset: int, pad_value: int
) -> Array:
    taps = windows(x, (w.shape[1], w.shape[2]), stride, dilation, pad, pad_value)
    flat = taps.reshape(*taps.shape[:3], -1).astype(np.int64) + x_offset
    return (_exact_matmul(flat, w.reshape(w.shape[0], -1).T) + b).astype(b.dtype)


def _exact_matmul(a: Array, b: Array) -> Array:
    """The integer product; through doubles, which are exact and far faster, where sums stay below 2**53."""
    limit = int(np.abs(a).max(initial=0)) * int(np.abs(b.astype(np.int64)).max(initial=0)) * a.shape[-1]
    if limit < 1 << 53:
        return np.asarray(a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)
    return np.asarray(a.astype(np.int64) @ b.astype(np.int64))


def _depthwise_infer(
    x: TensorType,
    w: TensorType,
    b: TensorType,
    *,
    stride: Any,
    dilation: Any,
    pad: Any,
    multiplier: int,
    **_: Any,
) -> TensorType:
    if x.rank != 4 or w.rank != 3 or multiplier < 1:
        raise BuildError(f"depthwise_conv2d wants x[n,h,w,c] and weights[kh,kw,c*m], got ranks {x.rank}, {w.rank}")
    require_equal("channels of depthwise_conv2d and its weights", x.shape[3] * multiplier, w.shape[2])
    _accumulates(b, w.shape[2])
    rows, cols = _spatial(x, (w.shape[0], w.shape[1]), stride, dilation, pad)
    return TensorType(b.dtype, (x.shape[0], rows, cols, w.shape[2]))


def _depthwise_ref(
    x: Array,
    w: Array,
    b: Array,
    *,
    stride: Any,
    dilation: Any,
    pad: Any,
    multiplier: int,
    x_offset: int,
    pad_value: int,
) -> Array:
    taps = windows(x, (w.shape[0], w.shape[1]), stride, dilation, pad, pad_value)
    taps = np.repeat(taps, multiplier, axis=5).astype(np.int64) + x_offset
    return np.asarray((taps * w.astype(np.int64)).sum(axis=(3, 4)) + b).astype(b.dtype)


def _window_loops(
    name: str, types: Sequence[TensorType], out: TensorType, given: Mapping[str, Any], depthwise: bool
) -> Loops:
    """rows oh { ow { oc { acc = b; kh { kw { [ic] { acc += (x + offset) * w }}} o = acc }}} per image."""
    x, w, b, o = param("x", types[0]), param("w", types[1]), param("b", types[2]), param("o", out, "write")
    over = nest(out.shape, names=("n_", "oh", "ow", "oc"))
    image, oh, ow, oc = over.index
    sizes = types[1].shape[:2] if depthwise else types[1].shape[1:3]
    kh, kw, ic = variable("kh", sizes[0]), variable("kw", sizes[1]), variable("ic", types[0].shape[3])
    stride, dilation, pad = given["stride"], given["dilation"], given["pad"]
    row = oh * stride[0] + kh.expr * dilation[0] - pad[0]
    col = ow * stride[1] + kw.expr * dilation[1] - pad[1]
    channel = floordiv(oc, given["multiplier"]) if depthwise else ic.expr
    tap = read(x, (image, row, col, channel), outside=given["pad_value"] if any(pad) else None)
    w_at = (kh.expr, kw.expr, oc) if depthwise else (oc, kh.expr, kw.expr, ic.expr)
    acc = Load("acc", (), out.dtype)
    weight = cast(Load("w", w_at, types[1].dtype), out.dtype)
    mac: Stmt = Store("acc", (), op("add", acc, op("mul", shifted(tap, given["x_offset"], out.dtype), weight)))
    if not depthwise:
        mac = loop(ic, types[0].shape[3], mac)
    body = over.around(
        Alloc(Buffer("acc", out.dtype, (), "register")),
        Store("acc", (), Load("b", (oc,), types[2].dtype)),
        loop(kh, sizes[0], loop(kw, sizes[1], mac)),
        Store("o", over.index, acc),
    )
    return function(name, [x, w, b, o], [body], over.rows)


def _conv_loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Attr]) -> Loops:
    return _window_loops(name, types, outs[0], given, depthwise=False)


def _depthwise_loops(
    name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Attr]
) -> Loops:
    return _window_loops(name, types, outs[0], given, depthwise=True)


def _i8(*shape: Dim) -> TensorType:
    return TensorType(I8, shape)


def _i16(*shape: Dim) -> TensorType:
    return TensorType(I16, shape)


def _i32(*shape: Dim) -> TensorType:
    return TensorType(I32, shape)


def _i64(*shape: Dim) -> TensorType:
    return TensorType(I64, shape)


def _bias(rng: np.random.Generator) -> Array:
    return rng.integers(-1000, 1000, 5)


def _bias6(rng: np.random.Generator) -> Array:
    return rng.integers(-1000, 1000, 6)


_H: Dim = Var("h", 3, 9).expr
_ONE: Any = {"stride": (1, 1), "dilation": (1, 1)}
_SAME: Any = {**_ONE, "pad": (1, 1, 1, 1)}
_NONE: Any = {**_ONE, "pad": (0, 0, 0, 0)}
_ODD: Any = {"stride": (2, 2), "dilation": (1, 2), "pad": (0, 0, 1, 0)}
_B: Any = {2: _bias}
_B6: Any = {2: _bias6}

define(
    OpDef(
        "conv2d",
        ("x", "w", "b"),
        _conv_infer,
        _conv_ref,
        _conv_loops,
        samples=(
            sample(_i8(1, 7, 6, 3), _i8(5, 3, 3, 3), _i32(5), values=_B, **_SAME, x_offset=7, pad_value=-7),
            sample(_i8(1, 9, 8, 4), _i8(5, 3, 2, 4), _i32(5), values=_B, **_ODD, x_offset=0, pad_value=3),
            sample(_i8(2, _H, 5, 4), _i8(5, 1, 1, 4), _i32(5), values=_B, **_NONE, x_offset=128, pad_value=0),
            sample(_i16(1, _H, 5, 4), _i8(5, 3, 3, 4), _i64(5), values=_B, **_SAME, x_offset=0, pad_value=0),
        ),
    )
)
define(
    OpDef(
        "depthwise_conv2d",
        ("x", "w", "b"),
        _depthwise_infer,
        _depthwise_ref,
        _depthwise_loops,
        samples=(
            sample(
                _i8(1, 7, 6, 5),
                _i8(3, 3, 5),
                _i32(5),
                values=_B,
                **_SAME,
                multiplier=1,
                x_offset=128,
                pad_value=-128,
            ),
            sample(
                _i8(1, 9, 8, 3),
                _i8(3, 2, 6),
                _i32(6),
                values=_B6,
                **_ODD,
                multiplier=2,
                x_offset=-3,
                pad_value=3,
            ),
            sample(
                _i16(2, _H, 5, 1),
                _i8(3, 1, 6),
                _i64(6),
                values=_B6,
                **_NONE,
                multiplier=6,
                x_offset=0,
                pad_value=0,
            ),
        ),
    )
)
