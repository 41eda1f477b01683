"""Normalisations of each row (the last axis), and of each element by its neighbours along that axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import op
from sdk.compiler.ir.loops import Alloc, Buffer, Let, Load, Loops, Param, Ref, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import F16, F32, F64, DType, TensorType
from sdk.compiler.ops.build import Nest, broadcast_index, function, loop, nest, param, read, variable
from sdk.compiler.ops.numerics import compute_type, count, number, require_float, single, stored, widened
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.shapes import require_equal
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

Array = NDArray[Any]


def _infer(name: str, x: TensorType, *rest: TensorType) -> TensorType:
    """A tensor like ``x``; scale and bias hold one number per element of a row, or one for all."""
    require_float(name, x, *rest)
    if x.rank < 1 or any(t.rank != 1 for t in rest):
        raise BuildError(f"{name} wants rows, and scales of one axis")
    for t in rest:
        if t.shape[0] != 1:
            require_equal(f"the scale of {name}", t.shape[0], x.shape[-1])
    return x


def _layer_norm_infer(x: TensorType, scale: TensorType, bias: TensorType, *, epsilon: float) -> TensorType:
    return _infer("layer_norm", x, scale, bias)


def _layer_norm_ref(x: Array, scale: Array, bias: Array, *, epsilon: float) -> Array:
    wide = x.astype(np.float64)
    down = wide - wide.mean(axis=-1, keepdims=True)
    spread = np.square(down).mean(axis=-1, keepdims=True)
    return np.asarray(down / np.sqrt(spread + epsilon) * scale + bias).astype(x.dtype)


def _rms_norm_infer(x: TensorType, scale: TensorType, *, epsilon: float) -> TensorType:
    return _infer("rms_norm", x, scale)


def _rms_norm_ref(x: Array, scale: Array, *, epsilon: float) -> Array:
    wide = x.astype(np.float64)
    spread = np.square(wide).mean(axis=-1, keepdims=True)
    return np.asarray(wide / np.sqrt(spread + epsilon) * scale).astype(x.dtype)


def _mean(name: str, sum_name: str, var: Var, size: Dim, term: ValueExpr) -> list[Stmt]:
    """name = the mean of ``term`` over the row."""
    kind = term.dtype
    total = Load(sum_name, (), kind)
    return [
        Alloc(Buffer(sum_name, kind, (), "register")),
        Store(sum_name, (), number(0, kind)),
        loop(var, size, Store(sum_name, (), op("add", total, term))),
        Let(name, op("tdiv", total, count(size, kind))),
    ]


def _row(x: TensorType, over: Nest, var: Var) -> ValueExpr:
    return widened(Load("x", (*over.index, var.expr), x.dtype))


def _at(p: Param, var: Var) -> ValueExpr:
    """The scale or bias of the element at ``var``."""
    return widened(read(p, broadcast_index(p.buffer.shape, (var.expr,))))


def _norm_loops(
    name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]
) -> Loops:
    """For each row: its mean (layer_norm only), the mean of its squares, then every element scaled."""
    x, over, centred = types[0], nest(types[0].shape, inner=1), len(types) == 3
    kind, size = compute_type(x.dtype), x.shape[-1]
    rest = [param(n, t) for n, t in zip(("scale", "bias"), types[1:], strict=False)]
    j, k, i = variable("j", size), variable("k", size), variable("l", size)

    def value(var: Var) -> ValueExpr:
        return op("sub", _row(x, over, var), Ref("mean", kind)) if centred else _row(x, over, var)

    spread = op("add", Ref("variance", kind), number(given["epsilon"], kind))
    result = op("mul", op("mul", value(i), Ref("share", kind)), _at(rest[0], i))
    if centred:
        result = op("add", result, _at(rest[1], i))
    body = over.around(
        *(_mean("mean", "total", j, size, _row(x, over, j)) if centred else ()),
        *_mean("variance", "squares", k, size, op("mul", value(k), value(k))),
        Let("share", op("rsqrt", spread)),
        loop(i, size, Store("o", (*over.index, i.expr), stored(result, x.dtype))),
    )
    return function(name, [param("x", x), *rest, param("o", outs[0], "write")], [body], over.rows)


# --- local response --------------------------------------------------------------------------------------------


def _lrn_infer(x: TensorType, *, size: int, alpha: float, beta: float, bias: float) -> TensorType:
    require_float("lrn", x)
    if x.rank < 1 or size < 1:
        raise BuildError(f"lrn over {size} neighbours of a tensor of rank {x.rank}")
    return x


def _lrn_ref(x: Array, *, size: int, alpha: float, beta: float, bias: float) -> Array:
    wide = x.astype(np.float64)
    before = (size - 1) // 2
    pads = [(0, 0)] * (x.ndim - 1) + [(before, size - 1 - before)]
    padded = np.pad(np.square(wide), pads)
    squares = sum(padded[..., k : k + x.shape[-1]] for k in range(size))
    return np.asarray(wide / (bias + alpha / size * squares) ** beta).astype(x.dtype)


def _lrn_loops(
    name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]
) -> Loops:
    """Each element { squares = the sum of x * x over its neighbours; o = x * (bias + alpha/size*squares)**-beta }."""
    x, over, p = types[0], nest(types[0].shape), param("x", types[0])
    kind, size = compute_type(x.dtype), given["size"]
    w = variable("w", size)
    near = widened(read(p, (*over.index[:-1], over.index[-1] + w.expr - (size - 1) // 2), outside=0.0))
    squares = Load("squares", (), kind)
    base = op("add", op("mul", squares, number(given["alpha"] / size, kind)), number(given["bias"], kind))
    share = op("pow", base, number(-given["beta"], kind))
    body = over.around(
        Alloc(Buffer("squares", kind, (), "register")),
        Store("squares", (), number(0, kind)),
        loop(w, size, Let("near", near), Store("squares", (), _plus_square(squares, kind))),
        Store("o", over.index, stored(op("mul", widened(read(p, over.index)), share), x.dtype)),
    )
    return function(name, [p, param("o", outs[0], "write")], [body], over.rows)


def _plus_square(total: Load, kind: DType) -> ValueExpr:
    return op("add", total, op("mul", Ref("near", kind), Ref("near", kind)))


_T = TensorType
_N: Dim = Var("n", 1, 6).expr
_M: Dim = Var("m", 2, 7).expr


def _lines(kind: DType, count_: int) -> tuple[TensorType, ...]:
    return (_T(kind, (9,)),) * count_


for _name, _shape_rule, _fn, _scales in (
    ("layer_norm", _layer_norm_infer, _layer_norm_ref, 2),
    ("rms_norm", _rms_norm_infer, _rms_norm_ref, 1),
):
    define(
        OpDef(
            _name,
            ("x", "scale", "bias")[: _scales + 1],
            _shape_rule,
            single(_fn),
            _norm_loops,
            samples=(
                sample(_T(F32, (2, _N, 9)), *_lines(F32, _scales), epsilon=1e-5),
                sample(_T(F32, (3, _M)), *(_T(F32, (_M,)),) * _scales, epsilon=1e-3),
                sample(_T(F32, (3, _M)), *(_T(F32, (1,)),) * _scales, epsilon=1e-3),
                sample(_T(F64, (3, 9)), *_lines(F64, _scales), epsilon=1e-5),
                sample(_T(F16, (_N, 9)), *_lines(F16, _scales), epsilon=1e-5),
            ),
            kind=OPAQUE,
        )
    )
define(
    OpDef(
        "lrn",
        ("x",),
        _lrn_infer,
        single(_lrn_ref),
        _lrn_loops,
        samples=(
            sample(_T(F32, (1, _N, 2, 7)), size=5, alpha=0.1, beta=0.75, bias=1.0),
            sample(_T(F32, (2, _M)), size=4, alpha=0.1, beta=0.5, bias=2.0),
            sample(_T(F16, (2, 6)), size=3, alpha=0.1, beta=0.5, bias=2.0),
        ),
        kind=OPAQUE,
    )
)
