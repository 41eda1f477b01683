"""ONNX operators on each element: arithmetic, functions of one number, activations, bits."""

from __future__ import annotations

import math
from functools import reduce
from typing import Final

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F64, I64, DType
from sdk.compiler.ops.shapes import same_extent
from sdk.frontends.onnx.context import OnnxNode, onnx_op

__all__: list[str] = []

# ONNX's name of an operator that is one of our ops on the same inputs
_SAME: Final = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Add": "add", "And": "and", "Asin": "asin", "Asinh": "asinh",
    "Atan": "atan", "Atanh": "atanh", "BitwiseAnd": "and", "BitwiseNot": "not", "BitwiseOr": "or",
    "BitwiseXor": "xor", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Div": "div", "Erf": "erf", "Exp": "exp",
    "Floor": "floor", "HardSwish": "hard_swish", "Log": "log", "Mish": "mish", "Mul": "mul", "Neg": "neg",
    "Not": "not", "Or": "or", "Reciprocal": "reciprocal", "Relu": "relu", "Round": "round", "Sigmoid": "sigmoid",
    "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Softplus": "softplus", "Softsign": "softsign", "Sqrt": "sqrt",
    "Sub": "sub", "Tan": "tan", "Tanh": "tanh", "Xor": "xor",
}  # fmt: skip


@onnx_op(*_SAME)
def same(node: OnnxNode) -> Value:
    """An operator that is one of our ops."""
    return node.call(_SAME[node.op], *(node.x(k) for k in range(node.count)))


@onnx_op("Max", "Min", "Sum", "Mean")
def fold(node: OnnxNode) -> Value:
    """Any number of tensors, two at a time."""
    op = {"Max": "maximum", "Min": "minimum"}.get(node.op, "add")
    total = reduce(lambda a, b: node.call(op, a, b), (node.x(k) for k in range(node.count)))
    if node.op != "Mean" or node.count == 1:
        return total
    return node.call("div", total, node.scalar(node.count, total.type))


@onnx_op("Mod")
def modulo(node: OnnxNode) -> Value:
    """The rest of a division, with the sign of the divisor, or of the dividend with ``fmod``."""
    return node.call("fmod" if node.int("fmod", 0) else "mod", node.x(0), node.x(1))


@onnx_op("BitShift")
def shift(node: OnnxNode) -> Value:
    """A shift by as many bits as the second input says."""
    direction = node.text("direction")
    if direction not in ("LEFT", "RIGHT"):
        node.fail(f"a shift in the direction {direction}")
    return node.call("shift_left" if direction == "LEFT" else "shift_right", node.x(0), node.x(1))


# --- powers ----------------------------------------------------------------------------------------------------


@onnx_op("Pow")
def power(node: OnnxNode) -> Value:
    """A power; exponents known at import become cheaper ops where these mean the same."""
    base, exponent = node.x(0), node.data(1)
    if base.type.dtype.is_float and exponent is not None and exponent.size == 1:
        small = _known_power(node, base, float(exponent.reshape(-1)[0]))
        if small is not None and exponent.ndim <= base.type.rank:
            return small
    other = node.x(1)
    if base.type.dtype == other.type.dtype:
        return node.call("pow", base, other)
    if not base.type.dtype.is_float:
        return _integer_power(node, base, other)
    # whether a large exponent is odd decides the sign: an f32 no longer tells above 2**24
    known = exponent is not None and float(np.abs(exponent, dtype=np.float64).max(initial=0)) <= 1 << 24
    exact = known or other.type.dtype.is_float or other.type.dtype.bits < 32
    wide = base.type.dtype if exact else F64
    return _as(node, node.call("pow", _as(node, base, wide), _as(node, other, wide)), base.type.dtype)


def _as(node: OnnxNode, value: Value, kind: DType) -> Value:
    """``value`` in another element type."""
    return value if value.type.dtype == kind else node.call("cast", value, to=str(kind))


def _integer_power(node: OnnxNode, base: Value, exponent: Value) -> Value:
    """An integer to the power of another type: what the power in f64, rounded correctly, is cut off to."""
    kind, wide = base.type.dtype, _as(node, base, I64)
    if not exponent.type.dtype.is_float:
        return _as(node, node.call("pow", wide, _as(node, exponent, I64)), kind)
    exponent = _as(node, exponent, F64)
    power = node.call("pow", _as(node, base, F64), exponent)
    # of a whole exponent the integers know it exactly; of others, what is a whole number but for the error of pow
    whole = node.call("equal", node.call("trunc", exponent), exponent)
    small = node.call("less", node.call("abs", power), node.scalar(2.0**62, F64))
    exact = _as(node, node.call("pow", wide, _as(node, exponent, I64)), F64)
    near = node.call("round", power)
    slack = node.call("mul", node.call("abs", power), node.scalar(2.0**-44, F64))
    close = node.call("less_equal", node.call("abs", node.call("sub", power, near)), slack)
    rounded = node.call("where", close, near, power)
    found = node.call("where", node.call("and", whole, small), exact, rounded)
    return node.call("cast", found, to=str(kind), wraps=True)


def _known_power(node: OnnxNode, base: Value, exponent: float) -> Value | None:
    if exponent == 1:
        return base
    if exponent == 2:
        return node.call("mul", base, base)
    if exponent == 3:
        return node.call("mul", node.call("mul", base, base), base)
    if exponent == 0.5:
        return node.call("sqrt", base)
    if exponent == -0.5:
        return node.call("rsqrt", base)
    return node.call("reciprocal", base) if exponent == -1 else None


# --- activations -----------------------------------------------------------------------------------------------


@onnx_op("LeakyRelu")
def leaky_relu(node: OnnxNode) -> Value:
    """A slope of ``alpha`` below 0."""
    return node.call("leaky_relu", node.x(0), alpha=node.float("alpha", 0.01))


@onnx_op("Elu")
def elu(node: OnnxNode) -> Value:
    """alpha * (e**x - 1) below 0."""
    return node.call("elu", node.x(0), alpha=node.float("alpha", 1.0))


@onnx_op("Selu")
def selu(node: OnnxNode) -> Value:
    """An exponential linear unit, times ``gamma``."""
    x = node.call("elu", node.x(0), alpha=node.float("alpha", 1.6732632423543772))
    return node.call("mul", x, node.scalar(node.float("gamma", 1.0507009873554805), x.type))


@onnx_op("Celu")
def celu(node: OnnxNode) -> Value:
    """alpha * elu(x / alpha)."""
    x, alpha = node.x(0), node.float("alpha", 1.0)
    if alpha == 1:
        return node.call("elu", x, alpha=1.0)
    factor = node.scalar(alpha, x.type)
    return node.call("mul", node.call("elu", node.call("div", x, factor), alpha=1.0), factor)


@onnx_op("Gelu")
def gelu(node: OnnxNode) -> Value:
    """The Gaussian error linear unit."""
    approximation = node.text("approximate", "none")
    if approximation not in ("none", "tanh"):
        node.fail(f"Gelu approximated by {approximation}")
    return node.call("gelu", node.x(0), tanh=approximation == "tanh")


@onnx_op("Swish")
def swish(node: OnnxNode) -> Value:
    """x * sigmoid(alpha * x)."""
    return node.call("silu", node.x(0), alpha=node.float("alpha", 1.0))


@onnx_op("HardSigmoid")
def hard_sigmoid(node: OnnxNode) -> Value:
    """A line held to 0..1."""
    return node.call("hard_sigmoid", node.x(0), alpha=node.float("alpha", 0.2), beta=node.float("beta", 0.5))


@onnx_op("PRelu")
def prelu(node: OnnxNode) -> Value:
    """A slope of its own for each element below 0."""
    x, slope = node.x(0), node.data(1)
    if slope is not None and slope.size == 1 and slope.ndim <= x.type.rank and x.type.dtype.is_float:
        return node.call("leaky_relu", x, alpha=float(slope.reshape(-1)[0]))
    below = node.call("less", x, node.scalar(0, x.type))
    return node.call("where", below, node.call("mul", x, node.x(1)), x)


@onnx_op("ThresholdedRelu")
def thresholded_relu(node: OnnxNode) -> Value:
    """0 up to ``alpha``."""
    x = node.x(0)
    above = node.call("greater", x, node.scalar(node.float("alpha", 1.0), x.type))
    return node.call("where", above, x, node.scalar(0, x.type))


@onnx_op("Shrink")
def shrink(node: OnnxNode) -> Value:
    """0 within ``lambd`` of 0, ``bias`` closer to it outside."""
    x, lambd, bias = node.x(0), node.float("lambd", 0.5), node.float("bias", 0.0)
    if not x.type.dtype.is_float and not (float(lambd).is_integer() and float(bias).is_integer()):
        node.fail(f"lambd {lambd} and bias {bias} are no integers of {x.type.dtype}")
    high, step = (node.scalar(v, x.type) for v in (lambd, bias))
    inner = node.call("where", node.call("greater", x, high), node.call("sub", x, step), node.scalar(0, x.type))
    if x.type.dtype.kind == "u":
        return inner  # nothing is below -lambd
    low = node.scalar(-lambd, x.type)
    return node.call("where", node.call("less", x, low), node.call("add", x, step), inner)


@onnx_op("Clip")
def clip(node: OnnxNode) -> Value:
    """Held to limits, each of which may be missing."""
    x = node.x(0)
    if node.opset < 11:
        return _clipped(node, x, node.float("min", -math.inf), node.float("max", math.inf))
    lo, hi = (_limit(node, 1, -math.inf), _limit(node, 2, math.inf))
    if lo is not None and hi is not None:
        return _clipped(node, x, lo, hi)
    for k, op in ((1, "maximum"), (2, "minimum")):
        if node.given_input(k):
            x = node.call(op, x, node.x(k))
    return x


def _limit(node: OnnxNode, k: int, missing: float) -> float | None:
    """A limit known at import, ``missing`` where there is none, None where it is only known at run time."""
    if not node.given_input(k):
        return missing
    kind, limit = node.type(0).dtype, node.type(k)
    if limit.dtype != kind or not same_extent(limit.size, 1):
        node.fail(f"its limits must be single numbers of {kind}, not {list(limit.shape)} of {limit.dtype}")
    data = node.data(k)
    found: float | None = None if data is None else data.item()
    return found


def _clipped(node: OnnxNode, x: Value, lo: float, hi: float) -> Value:
    kind = x.type.dtype
    if lo == 0 and hi == math.inf:
        return node.call("relu", x)
    if not kind.is_float:
        minimum, maximum = kind.limits
        return node.call("clip", x, lo=max(minimum, lo), hi=min(maximum, hi))
    if lo == -math.inf and hi == math.inf:
        return x
    if lo == -math.inf or hi == math.inf:
        op, limit = ("minimum", hi) if lo == -math.inf else ("maximum", lo)
        return node.call(op, x, node.scalar(limit, x.type))
    return node.call("clip", x, lo=float(np.asarray(lo, kind.numpy)), hi=float(np.asarray(hi, kind.numpy)))
