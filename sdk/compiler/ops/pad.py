"""A border around a tensor: ``pad`` with a value, or with what the tensor repeats or mirrors there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import imm, op
from sdk.compiler.ir.loops import Load, Loops, Store, ValueExpr
from sdk.compiler.ir.types import F32, I8, I32, TensorType
from sdk.compiler.ops.build import function, nest, param
from sdk.compiler.ops.positions import known, read_inside, unproved
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.traits import AxisRole, Movement
from sdk.compiler.sym import Dim, Var, dmax, dmin, mod, prove_ge
from sdk.errors import BuildError

Array = NDArray[Any]
MODES = ("constant", "edge", "reflect", "wrap")


def _infer(x: TensorType, *, pads: Any, value: Any, mode: str = "constant") -> TensorType:
    if len(pads) != x.rank or mode not in MODES:
        raise BuildError(f"pads {pads} of mode {mode} do not fit a tensor of rank {x.rank}")
    if mode != "constant" and any(isinstance(p, int) and p < 0 for pair in pads for p in pair):
        raise BuildError(f"a pad of mode {mode} does not cut: {pads}")
    shape = tuple(d + (a + b) for d, (a, b) in zip(x.shape, pads, strict=True))
    if any(isinstance(d, int) and d < 0 for d in shape):
        raise BuildError(f"pads {pads} leave less than nothing of a tensor {x.shape}")
    return TensorType(x.dtype, shape)


def _ref(x: Array, *, pads: Any, value: Any, mode: str = "constant") -> Array:
    cut = tuple(slice(max(-a, 0), d - max(-b, 0)) for d, (a, b) in zip(x.shape, pads, strict=True))
    border = [(max(a, 0), max(b, 0)) for a, b in pads]
    if mode == "constant":
        return np.pad(x[cut], border, constant_values=value)
    if x.size == 0:  # there is nothing to repeat
        return np.zeros([d + a + b for d, (a, b) in zip(x.shape, pads, strict=True)], x.dtype)
    modes: Any = mode
    return np.pad(x, border, mode=modes)


def _source(at: Dim, extent: Dim, before: Dim, after: Dim, mode: str) -> Dim:
    """Where the element at ``at`` of an axis comes from; outside for a constant border."""
    place = at - before
    if mode == "constant" or (isinstance(before, int) and before == 0 and isinstance(after, int) and after == 0):
        return place
    if mode == "edge":
        return dmin(dmax(place, 0), extent - 1)
    if mode == "wrap":
        return mod(place, dmax(extent, 1))
    last = extent - 1
    if prove_ge(last, before) is True and prove_ge(last, after) is True:
        mirrored = dmax(place, -place)
        return dmin(mirrored, 2 * last - mirrored)
    around = mod(place, dmax(2 * last, 1))
    return dmin(around, 2 * last - around)


def _loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]) -> Loops:
    """o[i] = x[i - before], or what the mode has where that is outside."""
    x = types[0]
    mode = given.get("mode", "constant")
    over = nest(outs[0].shape)
    source = tuple(
        _source(i, extent, before, after, mode)
        for i, extent, (before, after) in zip(over.index, x.shape, given["pads"], strict=True)
    )
    conditions = known(over)
    value: ValueExpr
    if mode == "constant":
        cond = unproved(list(zip(source, x.shape, strict=True)), conditions)
        value = Load("x", source, x.dtype)
        if cond is not None:
            value = op("select", cond, value, imm(given["value"], x.dtype), dtype=x.dtype)
    else:
        value = read_inside("x", x, source, conditions)
    body = over.around(Store("o", over.index, value))
    return function(name, [param("x", x), param("o", outs[0], "write")], [body], over.rows)


_T = TensorType
_N: Dim = Var("n", 1, 6).expr
_M: Dim = Var("m", 3, 5).expr
_E: Dim = Var("e", 0, 3).expr
define(
    OpDef(
        "pad",
        ("x",),
        _infer,
        _ref,
        _loops,
        samples=(
            sample(_T(I8, (1, 5, 3, 2)), pads=((0, 0), (1, 2), (1, 0), (0, 0)), value=-7),
            sample(_T(F32, (_N, 3)), pads=((1, 0), (0, 2)), value=0.5),
            sample(_T(F32, (4, 5)), pads=((-1, 2), (1, -2)), value=1.5),
            sample(_T(I32, (_M, 2)), pads=((_N, 0), (0, _M - 1)), value=3),
            sample(_T(F32, (_N, 3)), pads=((2, 1), (0, 4)), value=0.0, mode="edge"),
            sample(_T(F32, (4, _M)), pads=((3, 0), (2, 2)), value=0.0, mode="reflect"),
            sample(_T(F32, (_N, 3)), pads=((4, 0), (0, 7)), value=0.0, mode="reflect"),
            sample(_T(I8, (_N, 3)), pads=((2, 9), (0, 1)), value=0, mode="wrap"),
            sample(_T(I8, (_E, 2)), pads=((2, 1), (0, 1)), value=0, mode="wrap"),
            sample(_T(F32, (2, _E)), pads=((0, 1), (1, 2)), value=0.0, mode="edge"),
            sample(_T(F32, (_E, 2)), pads=((1, 1), (2, 0)), value=0.0, mode="reflect"),
        ),
        kind=Movement(fill="value"),
        axes={"pads": AxisRole.EACH},
    )
)
