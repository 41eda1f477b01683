"""Transposed convolutions on channels-last images of floats: each element spreads over a window of the result.

Weights are [o, taps.., c / groups], as those of a convolution. ``pad`` counts the rows of the result that are cut off
before, then those after, along each axis; ``more`` the rows added after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import cast, idx, imm, op
from sdk.compiler.ir.loops import Alloc, Buffer, Load, Loops, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import F16, F32, F64, TensorType
from sdk.compiler.ops.build import function, loop, nest, param, variable, within
from sdk.compiler.ops.conv import SPATIAL, TAPS, require_bias, require_weights
from sdk.compiler.ops.numerics import compute_type, require_float
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.traits import SumOfProducts
from sdk.compiler.sym import Dim, Var, floordiv, mod
from sdk.errors import BuildError

Array = NDArray[Any]


def _extent(size: Dim, taps: int, stride: int, dilation: int, cut: int, more: int) -> Dim:
    if stride < 1 or dilation < 1 or more < 0:
        raise BuildError(f"stride {stride}, dilation {dilation}, additional rows {more} are out of range")
    extent = (size - 1) * stride + (taps - 1) * dilation + 1 + (more - cut)
    if isinstance(extent, int) and extent < 1:
        raise BuildError(f"nothing is left of a transposed convolution of {size} rows with {cut} cut off")
    return extent


def _infer(name: str, axes: int) -> Callable[..., TensorType]:
    def infer(
        x: TensorType,
        w: TensorType,
        b: TensorType,
        *,
        stride: Any,
        dilation: Any,
        pad: Any,
        more: Any,
        groups: int = 1,
    ) -> TensorType:
        require_weights(name, axes, x, w, groups)
        require_bias(name, b, w.shape[0])
        if not len(stride) == len(dilation) == len(more) == axes or len(pad) != 2 * axes:
            raise BuildError(f"strides {stride}, dilations {dilation}, pads {pad}, {more} for {axes} axes of an image")
        require_float(name, x, w, b)
        out: list[Dim] = []
        for k in range(axes):
            taps = w.shape[1 + k]
            if not isinstance(taps, int):
                raise BuildError(f"the window of {name} has the open size {taps}")
            out.append(_extent(x.shape[1 + k], taps, stride[k], dilation[k], pad[k] + pad[k + axes], more[k]))
        return TensorType(x.dtype, (x.shape[0], *out, w.shape[0]))

    return infer


def _ref(x: Array, w: Array, b: Array, *, stride: Any, dilation: Any, pad: Any, more: Any, groups: int = 1) -> Array:
    axes = x.ndim - 2
    wide = np.float64
    taps = w.shape[1:-1]
    full = [
        max((x.shape[1 + k] - 1) * stride[k] + (taps[k] - 1) * dilation[k] + 1 + more[k], pad[k]) for k in range(axes)
    ]
    out = np.zeros((x.shape[0], *full, w.shape[0]), wide)
    count, size = w.shape[0] // groups, w.shape[-1]
    for at in np.ndindex(*taps):
        place = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(at, dilation, x.shape[1:-1], stride, strict=True)
        )
        for g in range(groups):
            own = slice(g * count, (g + 1) * count)
            part = x[..., g * size : (g + 1) * size].astype(wide)
            out[(slice(None), *place, own)] += part @ w[(own, *at)].T.astype(wide)
    cut = tuple(slice(pad[k], full[k] - pad[k + axes]) for k in range(axes))
    return np.asarray(out[(slice(None), *cut)] + b).astype(x.dtype)


def _loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]) -> Loops:
    """rows oh { ow { oc { acc = b; kh { kw { ic { acc += x * w where a tap meets an element }}} o = acc }}}."""
    x, w, b = (param(n, t) for n, t in zip("xwb", types, strict=True))
    out = outs[0]
    axes = out.rank - 2
    over = nest(out.shape, names=("n_", *SPATIAL[axes], "oc"))
    image, *spatial, oc = over.index
    sizes = types[1].shape[1:-1]
    taps = [variable(n, d) for n, d in zip(TAPS[axes], sizes, strict=True)]
    depth = types[1].shape[-1]
    ic = variable("ic", depth)
    kind = compute_type(out.dtype)
    source: list[Dim] = []
    meets: ValueExpr | None = None
    for k, i in enumerate(spatial):
        at = i + given["pad"][k] - taps[k].expr * given["dilation"][k]
        source.append(floordiv(at, given["stride"][k]))
        whole = op("eq", idx(mod(at, given["stride"][k])), imm(0)) if given["stride"][k] > 1 else None
        inside = within([(source[k], types[0].shape[1 + k])])
        for term in (whole, inside):
            if term is not None:
                meets = term if meets is None else op("and", meets, term)
    groups = given.get("groups", 1)
    group = 0 if groups == 1 else floordiv(oc, floordiv(out.shape[-1], groups)) * depth
    load: ValueExpr = Load("x", (image, *source, ic.expr + group), types[0].dtype)
    if meets is not None:
        load = op("select", meets, load, imm(0.0, types[0].dtype), dtype=types[0].dtype)
    acc = Load("acc", (), kind)
    weight = cast(Load("w", (oc, *(t.expr for t in taps), ic.expr), types[1].dtype), kind)
    mac: Stmt = loop(ic, depth, Store("acc", (), op("add", acc, op("mul", cast(load, kind), weight))))
    for var, size in reversed(list(zip(taps, sizes, strict=True))):
        mac = loop(var, size, mac)
    body = over.around(
        Alloc(Buffer("acc", kind, (), "register")),
        Store("acc", (), cast(Load("b", (oc,), types[2].dtype), kind)),
        mac,
        Store("o", over.index, cast(acc, out.dtype)),
    )
    return function(name, [x, w, b, param("o", out, "write")], [body], over.rows)


_T = TensorType
_H = Var("h", 2, 7).expr
_TWICE: Any = {"stride": (2, 2), "dilation": (1, 1), "pad": (0, 0, 0, 0), "more": (0, 0)}
_ODD: Any = {"stride": (2, 3), "dilation": (2, 1), "pad": (1, 0, 2, 1), "more": (1, 2)}
_ONE: Any = {"stride": (1, 1), "dilation": (1, 1), "pad": (1, 1, 1, 1), "more": (0, 0)}
_CUBE: Any = {"stride": (1, 2, 1), "dilation": (1, 1, 1), "pad": (0, 1, 0, 1, 0, 0), "more": (0, 1, 0)}
define(
    OpDef(
        "conv_transpose2d",
        ("x", "w", "b"),
        _infer("conv_transpose2d", 2),
        _ref,
        _loops,
        samples=(
            sample(_T(F32, (1, _H, 4, 3)), _T(F32, (5, 2, 2, 3)), _T(F32, (5,)), **_TWICE),
            sample(_T(F32, (2, _H, 4, 4)), _T(F32, (6, 3, 2, 2)), _T(F32, (6,)), **_ODD, groups=2),
            sample(_T(F32, (1, 5, 4, 3)), _T(F32, (2, 3, 3, 3)), _T(F32, (2,)), **_ONE),
            sample(_T(F16, (1, 3, 4, 2)), _T(F16, (2, 3, 3, 2)), _T(F16, (2,)), **_TWICE),
            sample(_T(F64, (1, 3, 4, 2)), _T(F64, (2, 3, 3, 2)), _T(F64, (2,)), **_TWICE),
        ),
        kind=SumOfProducts(window=True, partial=True),
    )
)
define(
    OpDef(
        "conv_transpose3d",
        ("x", "w", "b"),
        _infer("conv_transpose3d", 3),
        _ref,
        _loops,
        samples=(
            sample(_T(F32, (1, 3, _H, 4, 2)), _T(F32, (3, 2, 3, 2, 2)), _T(F32, (3,)), **_CUBE),
            sample(_T(F32, (1, 2, 3, 4, 4)), _T(F32, (2, 2, 2, 1, 2)), _T(F32, (2,)), **_CUBE, groups=2),
        ),
        kind=SumOfProducts(window=True, partial=True),
    )
)
