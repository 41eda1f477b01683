"""Functions that the gates of recurrent layers apply: each as a value expression, and in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import op
from sdk.compiler.ir.loops import ValueExpr
from sdk.compiler.ops.numerics import number

__all__ = ["ACTIVATIONS", "Activation", "activate", "activated", "limited"]

Array = NDArray[Any]
Activation = tuple[str, float, float]  # name, alpha, beta
Function = Callable[[ValueExpr, float, float], ValueExpr]


def limited(x: ValueExpr, lo: float, hi: float) -> ValueExpr:
    """``x`` held between two numbers."""
    return op("min", op("max", x, number(lo, x.dtype)), number(hi, x.dtype))


def _affine(x: ValueExpr, alpha: float, beta: float) -> ValueExpr:
    return op("add", op("mul", number(alpha, x.dtype), x), number(beta, x.dtype))


def _where(cond: ValueExpr, yes: ValueExpr, no: ValueExpr) -> ValueExpr:
    return op("select", cond, yes, no, dtype=yes.dtype)


def _positive(x: ValueExpr) -> ValueExpr:
    return op("gt", x, number(0, x.dtype))


def _elu(x: ValueExpr, alpha: float) -> ValueExpr:
    low = op("min", x, number(0, x.dtype))
    return _where(_positive(x), x, op("mul", number(alpha, x.dtype), op("sub", op("exp", low), number(1, x.dtype))))


def _softplus(x: ValueExpr) -> ValueExpr:
    small = op("exp", op("neg", op("abs", x)))
    return op("add", op("max", x, number(0, x.dtype)), op("log", op("add", small, number(1, x.dtype))))


def _softsign(x: ValueExpr) -> ValueExpr:
    return op("tdiv", x, op("add", op("abs", x), number(1, x.dtype)))


ACTIVATIONS: Mapping[str, tuple[Function, Callable[[Array, float, float], Any]]] = {
    "affine": (_affine, lambda x, a, b: a * x + b),
    "clip": (
        lambda x, a, b: limited(x, a, b),
        lambda x, a, b: np.minimum(np.maximum(x, x.dtype.type(a)), x.dtype.type(b)),
    ),
    "elu": (lambda x, a, b: _elu(x, a), lambda x, a, b: np.where(x > 0, x, a * np.expm1(np.minimum(x, 0)))),
    "hard_sigmoid": (
        lambda x, a, b: limited(_affine(x, a, b), 0, 1),
        lambda x, a, b: np.clip(a * x + b, 0, 1),
    ),
    "leaky_relu": (
        lambda x, a, b: _where(_positive(x), x, op("mul", number(a, x.dtype), x)),
        lambda x, a, b: np.where(x > 0, x, a * x),
    ),
    "relu": (lambda x, a, b: op("max", x, number(0, x.dtype)), lambda x, a, b: np.maximum(x, 0)),
    "scaled_tanh": (
        lambda x, a, b: op("mul", number(a, x.dtype), op("tanh", op("mul", number(b, x.dtype), x))),
        lambda x, a, b: a * np.tanh(b * x),
    ),
    "sigmoid": (lambda x, a, b: op("sigmoid", x), lambda x, a, b: 1 / (1 + np.exp(-x))),
    "softplus": (lambda x, a, b: _softplus(x), lambda x, a, b: np.logaddexp(x, 0)),
    "softsign": (lambda x, a, b: _softsign(x), lambda x, a, b: x / (1 + np.abs(x))),
    "tanh": (lambda x, a, b: op("tanh", x), lambda x, a, b: np.tanh(x)),
    "thresholded_relu": (
        lambda x, a, b: _where(op("gt", x, number(a, x.dtype)), x, number(0, x.dtype)),
        lambda x, a, b: np.where(x > a, x, 0),
    ),
}


def activate(given: Activation, x: ValueExpr) -> ValueExpr:
    """The function applied to a value."""
    name, alpha, beta = given
    return ACTIVATIONS[name][0](x, alpha, beta)


def activated(given: Activation, x: Array) -> Array:
    """The function applied to an array."""
    name, alpha, beta = given
    return np.asarray(ACTIVATIONS[name][1](x, alpha, beta)).astype(x.dtype)
