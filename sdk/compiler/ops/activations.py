"""Activation functions with parameters, or that use their argument more than once: each one expression."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr, attrs
from sdk.compiler.ir.intrinsics import INTRINSICS, op
from sdk.compiler.ir.loops import ValueExpr
from sdk.compiler.ir.types import F16, F32, F64, I8, I32, DType, TensorType
from sdk.compiler.ops.build import map_elements
from sdk.compiler.ops.numerics import number, require_float, single
from sdk.compiler.ops.registry import OpDef, Sample, define, sample
from sdk.compiler.ops.traits import Elementwise
from sdk.compiler.sym import Var
from sdk.errors import BuildError

Array = NDArray[Any]


def _real(name: str, x: Array) -> Array:
    kind = F64 if x.dtype == np.float64 else F32
    return np.asarray(INTRINSICS[name].fn([x[..., None]], kind)[..., 0])


def _scaled(x: ValueExpr, factor: float) -> ValueExpr:
    return op("mul", x, number(factor, x.dtype))


def _plus(x: ValueExpr, term: float) -> ValueExpr:
    return op("add", x, number(term, x.dtype))


def _where(cond: ValueExpr, yes: ValueExpr, no: ValueExpr) -> ValueExpr:
    return op("select", cond, yes, no, dtype=yes.dtype)


# --- parts of a range ------------------------------------------------------------------------------------------


def _clip(x: ValueExpr, *, lo: float, hi: float) -> ValueExpr:
    """min(max(x, lo), hi); NaN stays."""
    return op("min", op("max", x, number(lo, x.dtype)), number(hi, x.dtype))


def _clip_ref(x: Array, *, lo: float, hi: float) -> Array:
    return np.asarray(np.minimum(np.maximum(x, x.dtype.type(lo)), x.dtype.type(hi)))


def _is_element(limit: float, kind: DType) -> bool:
    """Whether an integer type has this number."""
    return math.isfinite(limit) and limit == int(limit) and kind.limits[0] <= limit <= kind.limits[1]


def _clip_infer(x: TensorType, *, lo: float, hi: float) -> TensorType:
    inside = x.dtype.is_float or all(_is_element(limit, x.dtype) for limit in (lo, hi))
    if x.dtype.kind not in "fiu" or not inside:
        raise BuildError(f"clip to {lo}..{hi} is not defined on {x.dtype}")
    return x


def _leaky_relu(x: ValueExpr, *, alpha: float) -> ValueExpr:
    return _where(op("lt", x, number(0, x.dtype)), _scaled(x, alpha), x)


def _leaky_relu_ref(x: Array, *, alpha: float) -> Array:
    return np.where(x < 0, x * x.dtype.type(alpha), x)


def _elu(x: ValueExpr, *, alpha: float) -> ValueExpr:
    """alpha * (e**x - 1) below 0; the exponential only ever sees what is not above 0."""
    zero = number(0, x.dtype)
    below = _scaled(_plus(op("exp", op("min", x, zero)), -1), alpha)
    return _where(op("lt", x, zero), below, x)


def _elu_ref(x: Array, *, alpha: float) -> Array:
    return np.where(x < 0, x.dtype.type(alpha) * (np.exp(np.minimum(x, 0)) - 1), x).astype(x.dtype)


def _hard_sigmoid(x: ValueExpr, *, alpha: float, beta: float) -> ValueExpr:
    return _clip(_plus(_scaled(x, alpha), beta), lo=0, hi=1)


def _hard_sigmoid_ref(x: Array, *, alpha: float, beta: float) -> Array:
    return np.asarray(np.clip(x * x.dtype.type(alpha) + x.dtype.type(beta), 0, 1)).astype(x.dtype)


def _hard_swish(x: ValueExpr) -> ValueExpr:
    return op("mul", x, _hard_sigmoid(x, alpha=1 / 6, beta=0.5))


# --- smooth ones -----------------------------------------------------------------------------------------------


def _silu(x: ValueExpr, *, alpha: float) -> ValueExpr:
    """x * sigmoid(alpha * x), also called swish."""
    return op("mul", x, op("sigmoid", x if alpha == 1 else _scaled(x, alpha)))


def _silu_ref(x: Array, *, alpha: float) -> Array:
    return np.asarray(x * _real("sigmoid", x * x.dtype.type(alpha)))


def _gelu(x: ValueExpr, *, tanh: bool) -> ValueExpr:
    """x * P(normal < x): by the error function, or its usual approximation by a tanh."""
    if not tanh:
        return op("mul", _scaled(x, 0.5), _plus(op("erf", _scaled(x, math.sqrt(0.5))), 1))
    # 0.5 * (1 + tanh(u)) is sigmoid(2 * u)
    cube = _plus(_scaled(op("mul", x, x), 0.044715), 1)
    return op("mul", x, op("sigmoid", op("mul", _scaled(x, 2 * math.sqrt(2 / math.pi)), cube)))


def _gelu_ref(x: Array, *, tanh: bool) -> Array:
    wide = x.astype(np.float64)
    if tanh:
        phi = 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
    else:
        phi = 0.5 * (1 + _real("erf", wide * math.sqrt(0.5)))
    return np.asarray(wide * phi).astype(x.dtype)


def _log1p_exp(x: ValueExpr) -> ValueExpr:
    """log(1 + e**x) without overflow: max(x, 0) + log(1 + e**-|x|)."""
    small = op("exp", op("neg", op("abs", x)))
    return op("add", op("max", x, number(0, x.dtype)), op("log", _plus(small, 1)))


def _softplus_ref(x: Array) -> Array:
    return np.asarray(np.logaddexp(x, x.dtype.type(0)))


def _mish(x: ValueExpr) -> ValueExpr:
    """x * tanh(softplus(x))."""
    return op("mul", x, op("tanh", _log1p_exp(x)))


def _softsign(x: ValueExpr) -> ValueExpr:
    return op("tdiv", x, _plus(op("abs", x), 1))


_T = TensorType
_N = Var("n", 1, 9).expr
Rule = tuple[str, Callable[..., ValueExpr], Callable[..., Array], tuple[Mapping[str, Attr], ...], Elementwise]
_SMOOTH: tuple[Rule, ...] = (
    ("leaky_relu", _leaky_relu, _leaky_relu_ref, ({"alpha": 0.01},), Elementwise(exact=True)),
    ("elu", _elu, _elu_ref, ({"alpha": 1.0}, {"alpha": 1.5}), Elementwise()),
    ("hard_sigmoid", _hard_sigmoid, _hard_sigmoid_ref, ({"alpha": 0.2, "beta": 0.5},), Elementwise()),
    ("hard_swish", _hard_swish, lambda x: x * _hard_sigmoid_ref(x, alpha=1 / 6, beta=0.5), ({},), Elementwise()),
    ("silu", _silu, _silu_ref, ({"alpha": 1.0}, {"alpha": 1.7}), Elementwise()),
    ("gelu", _gelu, _gelu_ref, ({"tanh": False}, {"tanh": True}), Elementwise()),
    ("softplus", _log1p_exp, _softplus_ref, ({},), Elementwise()),
    ("mish", _mish, lambda x: x * np.tanh(_softplus_ref(x)), ({},), Elementwise()),
    ("softsign", _softsign, lambda x: x / (1 + np.abs(x)), ({},), Elementwise()),
)


def _float_infer(name: str) -> Callable[..., TensorType]:
    def infer(x: TensorType, **_: Attr) -> TensorType:
        require_float(name, x)
        return x

    return infer


def _spread(rng: np.random.Generator) -> Array:
    return rng.uniform(-30, 30, 40)


for _name, _value, _fn, _attrs, _kind in _SMOOTH:
    define(
        OpDef(
            _name,
            ("x",),
            _float_infer(_name),
            single(_fn),
            map_elements(("x",), _value),
            (
                *(Sample((_T(F32, (2, _N, 3)),), attrs(**a)) for a in _attrs),
                *(Sample((_T(F32, (40,)),), attrs(**a), {0: _spread}) for a in _attrs),
                Sample((_T(F16, (_N, 2)),), attrs(**_attrs[0])),
            ),
            kind=_kind,
        )
    )
define(
    OpDef(
        "clip",
        ("x",),
        _clip_infer,
        single(_clip_ref),
        map_elements(("x",), _clip),
        samples=(
            sample(_T(F32, (2, _N, 3)), lo=-0.5, hi=0.75),
            sample(_T(F32, (6,)), lo=0.0, hi=math.inf),
            sample(_T(I8, (40,)), lo=-3, hi=100),
            sample(_T(I32, (_N,)), lo=-300, hi=100),
            sample(_T(F16, (9,)), lo=-1.0, hi=1.0),
        ),
        kind=Elementwise(monotone=True, exact=True),
    )
)
