"""Convolutions and dense products on integers: exact accumulators, no requantisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr
from sdk.compiler.ir.intrinsics import cast, imm, op
from sdk.compiler.ir.loops import Alloc, Buffer, Load, Loops, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import I8, I16, I32, I64, U8, DType, TensorType
from sdk.compiler.ops.build import function, loop, param, read, row_vars, variable
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.sym import Dim, Var, floordiv
from sdk.errors import BuildError

Array = NDArray[Any]


def accumulator(x: TensorType) -> DType:
    """Accumulators are i64 for 16-bit activations, i32 for 8-bit ones."""
    return I64 if x.dtype == I16 else I32


def out_extent(size: Dim, kernel: Dim, stride: int, dilation: int, before: int, after: int) -> Dim:
    """Output rows or columns of a window op on ``size`` padded by ``before`` and ``after``."""
    return floordiv(size + (before + after) - (kernel - 1) * dilation - 1, stride) + 1


def shifted(value: ValueExpr, offset: int, acc: DType) -> ValueExpr:
    """``value + offset`` as an accumulator; an offset of 128 makes an i8 a u8, which dot instructions want."""
    if offset == 0:
        return cast(value, acc)
    if offset == 128 and value.dtype == I8:
        return cast(op("add", cast(value, U8), imm(128, U8)), acc)
    return op("add", cast(value, acc), imm(offset, acc))


def _windows(x: Array, kh: int, kw: int, stride: Any, dilation: Any, pad: Any, fill: int) -> Array:
    """[n, oh, ow, kh, kw, c] of the padded input."""
    top, left, bottom, right = pad
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    view = np.lib.stride_tricks.sliding_window_view(
        padded, ((kh - 1) * dilation[0] + 1, (kw - 1) * dilation[1] + 1), axis=(1, 2)
    )
    view = view[:, :: stride[0], :: stride[1], :, :: dilation[0], :: dilation[1]]
    return np.ascontiguousarray(view.transpose(0, 1, 2, 4, 5, 3))


def _conv_infer(x: TensorType, w: TensorType, b: TensorType, *, stride: Any, dilation: Any, pad: Any, x_offset: int, pad_value: int) -> TensorType:
    if x.rank != 4 or w.rank != 4 or x.shape[3] is not w.shape[3] and x.shape[3] != w.shape[3]:
        raise BuildError(f"conv2d wants x[n,h,w,c] and w[o,kh,kw,c], got {x.shape} and {w.shape}")
    (n, h, wd, _), (oc, kh, kw, _) = x.shape, w.shape
    oh = out_extent(h, kh, stride[0], dilation[0], pad[0], pad[2])
    ow = out_extent(wd, kw, stride[1], dilation[1], pad[1], pad[3])
    return TensorType(accumulator(x), (n, oh, ow, oc))


def _conv_ref(x: Array, w: Array, b: Array, *, stride: Any, dilation: Any, pad: Any, x_offset: int, pad_value: int) -> Array:
    windows = _windows(x, w.shape[1], w.shape[2], stride, dilation, pad, pad_value).astype(np.int64) + x_offset
    flat = windows.reshape(*windows.shape[:3], -1) @ w.reshape(w.shape[0], -1).astype(np.int64).T
    return (flat + b).astype(np.int64 if x.dtype == np.int16 else np.int32)


def _window_loops(
    name: str, types: Sequence[TensorType], out: TensorType, given: Mapping[str, Any], depthwise: bool
) -> Loops:
    """rows oh { ow { oc { acc = b; kh { kw { [ic] { acc += (x + offset) * w }}} o = acc }}} for every image n."""
    x, w, b, o = param("x", types[0]), param("w", types[1]), param("b", types[2]), param("o", out, "write")
    n, oh_size, ow_size, oc_size = out.shape
    kh_size, kw_size = (types[1].shape[0], types[1].shape[1]) if depthwise else (types[1].shape[1], types[1].shape[2])
    acc_type = out.dtype
    rows = row_vars(oh_size)
    v = {k: variable(k, d) for k, d in (("oh", oh_size), ("ow", ow_size), ("oc", oc_size), ("kh", kh_size), ("kw", kw_size))}
    ic = variable("ic", types[0].shape[3])
    image, image_loops = _image(n)
    stride, dilation, pad = given["stride"], given["dilation"], given["pad"]
    row = v["oh"].expr * stride[0] + v["kh"].expr * dilation[0] - pad[0]
    col = v["ow"].expr * stride[1] + v["kw"].expr * dilation[1] - pad[1]
    channel = floordiv(v["oc"].expr, given["multiplier"]) if depthwise else ic.expr
    tap = read(x, (image, row, col, channel), outside=given["pad_value"] if any(pad) else None)
    w_at = (v["kh"].expr, v["kw"].expr, v["oc"].expr) if depthwise else (v["oc"].expr, v["kh"].expr, v["kw"].expr, ic.expr)
    acc = Load("acc", (), acc_type)
    weight = cast(Load("w", w_at, types[1].dtype), acc_type)
    mac: Stmt = Store("acc", (), op("add", acc, op("mul", shifted(tap, given["x_offset"], acc_type), weight)))
    if not depthwise:
        mac = loop(ic, types[0].shape[3], mac)
    taps = loop(v["kh"], kh_size, loop(v["kw"], kw_size, mac))
    body: Stmt = loop(
        v["oc"], oc_size,
        Alloc(Buffer("acc", acc_type, (), "register")),
        Store("acc", (), Load("b", (v["oc"].expr,), types[2].dtype)),
        taps,
        Store("o", (image, v["oh"].expr, v["ow"].expr, v["oc"].expr), acc),
    )
    body = loop(v["oh"], rows.hi.expr, loop(v["ow"], ow_size, body), lo=rows.lo.expr)
    for var in image_loops:
        body = loop(var, n, body)
    return function(name, [x, w, b, o], [body], rows)


def _image(n: Dim) -> tuple[Dim, list[Var]]:
    """The index of the image and its loop; a batch of one has neither."""
    if n == 1:
        return 0, []
    var = variable("n_", n)
    return var.expr, [var]


def _conv_loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Attr]) -> Loops:
    return _window_loops(name, types, outs[0], given, depthwise=False)


def _i8(*shape: Dim) -> TensorType:
    return TensorType(I8, shape)


def _i32(*shape: Dim) -> TensorType:
    return TensorType(I32, shape)


def _small_bias(rng: np.random.Generator) -> Array:
    return rng.integers(-1000, 1000, 5).astype(np.int32)


_H: Dim = Var("h", 3, 9).expr
define(
    OpDef(
        "conv2d",
        ("x", "w", "b"),
        _conv_infer,
        _conv_ref,
        _conv_loops,
        samples=(
            sample(_i8(1, 7, 6, 3), _i8(5, 3, 3, 3), _i32(5), stride=(1, 1), dilation=(1, 1), pad=(1, 1, 1, 1), x_offset=7, pad_value=-7),
            sample(_i8(1, 9, 8, 4), _i8(5, 3, 2, 4), _i32(5), stride=(2, 2), dilation=(1, 2), pad=(0, 0, 1, 0), x_offset=0, pad_value=3),
            sample(_i8(2, _H, 5, 4), _i8(5, 1, 1, 4), _i32(5), stride=(1, 1), dilation=(1, 1), pad=(0, 0, 0, 0), x_offset=128, pad_value=0),
        ),
    )
)
