"""Convolutions on channels-last images: integers with exact accumulators and no requantisation, and floats.

``conv2d`` and ``conv3d`` take weights [o, taps.., c / groups], ``depthwise_conv2d`` [taps.., c * multiplier]. Strides
and dilations have one number per axis of the image, ``pad`` all the rows before and then all those after. Integers
give the type of the bias; floats their own type, half floats through single ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr
from sdk.compiler.ir.intrinsics import cast, imm, op
from sdk.compiler.ir.loops import Alloc, Buffer, Load, Loops, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import F16, F32, F64, I8, I16, I32, I64, U8, DType, TensorType
from sdk.compiler.ops.build import function, loop, nest, param, read, variable
from sdk.compiler.ops.numerics import compute_type, exact_matmul
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.shapes import require_equal, window_extent
from sdk.compiler.ops.traits import SumOfProducts
from sdk.compiler.sym import Dim, Var, floordiv
from sdk.errors import BuildError

__all__ = ["SPATIAL", "TAPS", "require_bias", "require_weights", "shifted", "spatial_extents", "windows"]

Array = NDArray[Any]
SPATIAL = {2: ("oh", "ow"), 3: ("od", "oh", "ow")}
TAPS = {2: ("kh", "kw"), 3: ("kd", "kh", "kw")}


def shifted(value: ValueExpr, offset: int, acc: DType) -> ValueExpr:
    """``value + offset`` as an accumulator; an offset of 128 makes i8 a u8, which dot instructions want."""
    if offset == 0:
        return cast(value, acc)
    if offset == 128 and value.dtype == I8:
        return cast(op("add", cast(value, U8), imm(128, U8)), acc)
    return op("add", cast(value, acc), imm(offset, acc))


def windows(x: Array, kernel: Sequence[int], stride: Any, dilation: Any, pad: Any, fill: float) -> Array:
    """Every window of ``x[n, h, w, c]`` padded with ``fill``: [n, oh, ow, kh, kw, c]; likewise with more axes."""
    axes = len(kernel)
    border = [(0, 0), *zip(pad[:axes], pad[axes:], strict=True), (0, 0)]
    padded = np.pad(x, border, constant_values=fill)
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    view = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=tuple(range(1, axes + 1)))
    steps = (slice(None), *(slice(None, None, s) for s in stride), slice(None))
    view = view[(*steps, *(slice(None, None, d) for d in dilation))]
    return np.ascontiguousarray(np.moveaxis(view, axes + 1, -1))


def spatial_extents(x: TensorType, kernel: Sequence[Dim], stride: Any, dilation: Any, pad: Any) -> tuple[Dim, ...]:
    """Extents of the output image of a window op.

    Raises:
        BuildError: the attributes do not fit, or no window fits.
    """
    axes = len(kernel)
    if not len(stride) == len(dilation) == axes or len(pad) != 2 * axes:
        raise BuildError(f"strides {stride}, dilations {dilation}, pads {pad} for {axes} axes of an image")
    return tuple(
        window_extent(x.shape[1 + k], kernel[k], stride[k], dilation[k], pad[k], pad[k + axes]) for k in range(axes)
    )


def require_weights(name: str, axes: int, x: TensorType, w: TensorType, groups: int) -> None:
    """Checks that weights [o, taps.., c / groups] fit images with ``axes`` axes, and that groups divide ``o``.

    Raises:
        BuildError: another rank or number of channels.
    """
    if x.rank != axes + 2 or w.rank != axes + 2 or groups < 1:
        raise BuildError(f"{name} wants x[n,..,c] and weights[o,..,c/groups], got ranks {x.rank} and {w.rank}")
    require_equal(f"input channels of {name} and its weights", x.shape[-1], w.shape[-1] * groups)
    out = w.shape[0]
    if isinstance(out, int) and out % groups:
        raise BuildError(f"{out} output channels of {name} in {groups} groups")


def require_bias(name: str, b: TensorType, channels: Dim) -> None:
    """Checks that a bias has one element per output channel of the weights.

    Raises:
        BuildError: another rank or number of channels.
    """
    if b.rank != 1:
        raise BuildError(f"the bias of {name} has rank {b.rank} instead of 1")
    require_equal(f"channels of weights and bias of {name}", channels, b.shape[0])


def _result(name: str, x: TensorType, w: TensorType, b: TensorType, channels: Dim) -> DType:
    """The element type of the result."""
    require_bias(name, b, channels)
    if x.dtype.is_float:
        if x.dtype != w.dtype or x.dtype != b.dtype:
            raise BuildError(f"{name} wants tensors of one float type, got {x.dtype}, {w.dtype} and {b.dtype}")
    elif b.dtype not in (I32, I64) or w.dtype.is_float:
        raise BuildError(f"{name} of integers wants an i32 or i64 bias, got {b.dtype}")
    return b.dtype


def _conv_infer(name: str, axes: int) -> Callable[..., TensorType]:
    def infer(
        x: TensorType,
        w: TensorType,
        b: TensorType,
        *,
        stride: Any,
        dilation: Any,
        pad: Any,
        groups: int = 1,
        x_offset: int = 0,
        pad_value: int = 0,
    ) -> TensorType:
        require_weights(name, axes, x, w, groups)
        out = w.shape[0]
        kind = _result(name, x, w, b, out)
        return TensorType(kind, (x.shape[0], *spatial_extents(x, w.shape[1:-1], stride, dilation, pad), out))

    return infer


def _wide(kind: np.dtype[Any]) -> Any:
    """The type that a reference sums in."""
    return np.float64 if kind.kind == "f" else np.int64


def _conv_ref(
    x: Array,
    w: Array,
    b: Array,
    *,
    stride: Any,
    dilation: Any,
    pad: Any,
    groups: int = 1,
    x_offset: int = 0,
    pad_value: float = 0,
) -> Array:
    taps = windows(x, w.shape[1:-1], stride, dilation, pad, pad_value).astype(_wide(x.dtype)) + x_offset
    lead = x.ndim - 1
    out = []
    size, count = w.shape[-1], w.shape[0] // groups
    for g in range(groups):
        flat = taps[..., g * size : (g + 1) * size].reshape(*taps.shape[:lead], -1)
        weights = w[g * count : (g + 1) * count].reshape(count, -1).T
        out.append(exact_matmul(flat, weights))
    return np.asarray(np.concatenate(out, axis=-1) + b).astype(b.dtype)


def _depthwise_infer(
    x: TensorType,
    w: TensorType,
    b: TensorType,
    *,
    stride: Any,
    dilation: Any,
    pad: Any,
    multiplier: int,
    x_offset: int = 0,
    pad_value: int = 0,
) -> TensorType:
    if x.rank != 4 or w.rank != 3 or multiplier < 1:
        raise BuildError(f"depthwise_conv2d wants x[n,h,w,c] and weights[kh,kw,c*m], got ranks {x.rank}, {w.rank}")
    require_equal("channels of depthwise_conv2d and its weights", x.shape[3] * multiplier, w.shape[2])
    kind = _result("depthwise_conv2d", x, w, b, w.shape[2])
    return TensorType(kind, (x.shape[0], *spatial_extents(x, w.shape[:2], stride, dilation, pad), w.shape[2]))


def _depthwise_ref(
    x: Array,
    w: Array,
    b: Array,
    *,
    stride: Any,
    dilation: Any,
    pad: Any,
    multiplier: int,
    x_offset: int = 0,
    pad_value: float = 0,
) -> Array:
    taps = windows(x, (w.shape[0], w.shape[1]), stride, dilation, pad, pad_value)
    wide = _wide(x.dtype)
    taps = np.repeat(taps, multiplier, axis=5).astype(wide) + x_offset
    return np.asarray((taps * w.astype(wide)).sum(axis=(3, 4)) + b).astype(b.dtype)


def _window_loops(
    name: str, types: Sequence[TensorType], out: TensorType, given: Mapping[str, Any], depthwise: bool
) -> Loops:
    """rows oh { ow { oc { acc = b; kh { kw { [ic] { acc += (x + offset) * w }}} o = acc }}} per image."""
    x, w, b, o = param("x", types[0]), param("w", types[1]), param("b", types[2]), param("o", out, "write")
    axes = out.rank - 2
    over = nest(out.shape, names=("n_", *SPATIAL[axes], "oc"))
    image, *spatial, oc = over.index
    sizes = types[1].shape[:axes] if depthwise else types[1].shape[1:-1]
    taps = [variable(n, d) for n, d in zip(TAPS[axes], sizes, strict=True)]
    depth = types[1].shape[-1]
    ic = variable("ic", depth)
    stride, dilation, pad = given["stride"], given["dilation"], given["pad"]
    at = [i * stride[k] + taps[k].expr * dilation[k] - pad[k] for k, i in enumerate(spatial)]
    groups = given.get("groups", 1)
    group = 0 if groups == 1 else floordiv(oc, floordiv(out.shape[-1], groups)) * depth
    channel = floordiv(oc, given["multiplier"]) if depthwise else ic.expr + group
    kind = compute_type(out.dtype)
    outside = given.get("pad_value", 0) if not kind.is_float else float(given.get("pad_value", 0.0))
    tap = read(x, (image, *at, channel), outside=outside if any(pad) else None)
    where = tuple(t.expr for t in taps)
    w_at = (*where, oc) if depthwise else (oc, *where, ic.expr)
    acc = Load("acc", (), kind)
    weight = cast(Load("w", w_at, types[1].dtype), kind)
    mac: Stmt = Store("acc", (), op("add", acc, op("mul", shifted(tap, given.get("x_offset", 0), kind), weight)))
    if not depthwise:
        mac = loop(ic, depth, mac)
    for var, size in reversed(list(zip(taps, sizes, strict=True))):
        mac = loop(var, size, mac)
    body = over.around(
        Alloc(Buffer("acc", kind, (), "register")),
        Store("acc", (), cast(Load("b", (oc,), types[2].dtype), kind)),
        mac,
        Store("o", over.index, cast(acc, out.dtype)),
    )
    return function(name, [x, w, b, o], [body], over.rows)


def _conv_loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Attr]) -> Loops:
    return _window_loops(name, types, outs[0], given, depthwise=False)


def _depthwise_loops(
    name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Attr]
) -> Loops:
    return _window_loops(name, types, outs[0], given, depthwise=True)


def _bias(rng: np.random.Generator) -> Array:
    return rng.integers(-1000, 1000, 5)


def _bias6(rng: np.random.Generator) -> Array:
    return rng.integers(-1000, 1000, 6)


_T = TensorType
_H: Dim = Var("h", 3, 9).expr
_N: Dim = Var("n", 1, 3).expr
_EVEN: Dim = Var("e", 4, 12, 4).expr
_ONE: Any = {"stride": (1, 1), "dilation": (1, 1)}
_SAME: Any = {**_ONE, "pad": (1, 1, 1, 1)}
_NONE: Any = {**_ONE, "pad": (0, 0, 0, 0)}
_ODD: Any = {"stride": (2, 2), "dilation": (1, 2), "pad": (0, 0, 1, 0)}
_HALF: Any = {"stride": (2, 2), "dilation": (1, 1), "pad": (1, 1, 1, 1)}
_WIDE: Any = {"stride": (1, 2), "dilation": (2, 1), "pad": (2, 0, 2, 3)}
_CUBE: Any = {"stride": (1, 2, 1), "dilation": (1, 1, 2), "pad": (1, 0, 1, 0, 1, 2)}
_B: Any = {2: _bias}
_B6: Any = {2: _bias6}

define(
    OpDef(
        "conv2d",
        ("x", "w", "b"),
        _conv_infer("conv2d", 2),
        _conv_ref,
        _conv_loops,
        samples=(
            sample(
                _T(I8, (1, 7, 6, 3)), _T(I8, (5, 3, 3, 3)), _T(I32, (5,)), values=_B, **_SAME, x_offset=7, pad_value=-7
            ),
            sample(
                _T(I8, (1, 9, 8, 4)), _T(I8, (5, 3, 2, 4)), _T(I32, (5,)), values=_B, **_ODD, x_offset=0, pad_value=3
            ),
            sample(
                _T(I8, (2, _H, 5, 4)),
                _T(I8, (5, 1, 1, 4)),
                _T(I32, (5,)),
                values=_B,
                **_NONE,
                x_offset=128,
                pad_value=0,
            ),
            sample(
                _T(I16, (1, _H, 5, 4)), _T(I8, (5, 3, 3, 4)), _T(I64, (5,)), values=_B, **_SAME, x_offset=0, pad_value=0
            ),
            sample(
                _T(I8, (1, _H, 5, 4)),
                _T(I8, (6, 3, 3, 2)),
                _T(I32, (6,)),
                values=_B6,
                **_SAME,
                groups=2,
                x_offset=3,
                pad_value=-3,
            ),
            sample(_T(F32, (1, 7, 6, 3)), _T(F32, (5, 3, 3, 3)), _T(F32, (5,)), **_SAME),
            sample(_T(F32, (_N, _EVEN, _EVEN, 4)), _T(F32, (5, 3, 3, 4)), _T(F32, (5,)), **_HALF),
            sample(_T(F32, (1, _H, 5, 4)), _T(F32, (6, 3, 2, 2)), _T(F32, (6,)), **_WIDE, groups=2),
            sample(_T(F16, (1, 5, 4, 4)), _T(F16, (5, 3, 3, 4)), _T(F16, (5,)), **_SAME),
            sample(_T(F64, (1, 5, 4, 4)), _T(F64, (5, 1, 1, 4)), _T(F64, (5,)), **_NONE),
        ),
        kind=SumOfProducts(window=True),
    )
)
define(
    OpDef(
        "conv3d",
        ("x", "w", "b"),
        _conv_infer("conv3d", 3),
        _conv_ref,
        _conv_loops,
        samples=(
            sample(_T(F32, (1, 4, _H, 6, 4)), _T(F32, (6, 2, 3, 2, 2)), _T(F32, (6,)), **_CUBE, groups=2),
            sample(_T(F32, (2, 3, 4, 5, 3)), _T(F32, (5, 1, 1, 2, 3)), _T(F32, (5,)), **_CUBE),
            sample(
                _T(I8, (1, 3, _H, 5, 3)), _T(I8, (5, 2, 3, 2, 3)), _T(I32, (5,)), values=_B, **_CUBE,
                x_offset=7, pad_value=-7,
            ),
        ),
        kind=SumOfProducts(window=True),
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
                _T(I8, (1, 7, 6, 5)), _T(I8, (3, 3, 5)), _T(I32, (5,)), values=_B, **_SAME,
                multiplier=1, x_offset=128, pad_value=-128,
            ),
            sample(
                _T(I8, (1, 9, 8, 3)), _T(I8, (3, 2, 6)), _T(I32, (6,)), values=_B6, **_ODD,
                multiplier=2, x_offset=-3, pad_value=3,
            ),
            sample(
                _T(I16, (2, _H, 5, 1)), _T(I8, (3, 1, 6)), _T(I64, (6,)), values=_B6, **_NONE,
                multiplier=6, x_offset=0, pad_value=0,
            ),
            sample(_T(F32, (1, 7, 6, 5)), _T(F32, (3, 3, 5)), _T(F32, (5,)), **_SAME, multiplier=1),
            sample(_T(F32, (_N, _EVEN, _EVEN, 4)), _T(F32, (3, 3, 4)), _T(F32, (4,)), **_HALF, multiplier=1),
            sample(_T(F32, (1, _H, 5, 2)), _T(F32, (3, 2, 6)), _T(F32, (6,)), **_WIDE, multiplier=3),
            sample(_T(F16, (1, 5, 4, 3)), _T(F16, (3, 3, 3)), _T(F16, (3,)), **_SAME, multiplier=1),
        ),
        kind=SumOfProducts(channel=-1, window=True, depthwise=True),
    )
)  # fmt: skip
