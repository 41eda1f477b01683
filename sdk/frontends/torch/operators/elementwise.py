"""ATen operators on each element: arithmetic, comparisons, functions of one number, choices, conversions."""

from __future__ import annotations

import math
from typing import Any, Final

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import BOOL, F32, DType
from sdk.frontends.angles import angle
from sdk.frontends.torch.context import Number, TorchNode, aten

__all__: list[str] = []

# ATen's name of a function of one tensor, and ours; integers are converted to the floats of the result first
_UNARY: Final = {
    "abs": "abs", "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atan": "atan",
    "atanh": "atanh", "ceil": "ceil", "cos": "cos", "cosh": "cosh", "erf": "erf", "exp": "exp", "floor": "floor",
    "hardsigmoid": "hard_sigmoid", "hardswish": "hard_swish", "log": "log", "mish": "mish", "neg": "neg",
    "reciprocal": "reciprocal", "relu": "relu", "round": "round", "rsqrt": "rsqrt", "sigmoid": "sigmoid",
    "sign": "sign", "sin": "sin", "sinh": "sinh", "sqrt": "sqrt", "tan": "tan", "tanh": "tanh", "trunc": "trunc",
}  # fmt: skip
_WHOLE: Final = frozenset({"ceil", "floor", "round", "trunc"})  # of integers themselves
_BINARY: Final = {
    "mul.Tensor": "mul", "mul.Scalar": "mul", "div.Tensor": "div", "div.Scalar": "div", "maximum.default": "maximum",
    "minimum.default": "minimum", "fmod.Tensor": "fmod", "fmod.Scalar": "fmod", "bitwise_and.Tensor": "and",
    "bitwise_and.Scalar": "and", "bitwise_or.Tensor": "or", "bitwise_or.Scalar": "or", "bitwise_xor.Tensor": "xor",
    "bitwise_xor.Scalar": "xor", "bitwise_left_shift.Tensor": "shift_left",
    "bitwise_left_shift.Tensor_Scalar": "shift_left", "bitwise_right_shift.Tensor": "shift_right",
    "bitwise_right_shift.Tensor_Scalar": "shift_right",
    "__lshift__.Scalar": "shift_left", "__lshift__.Tensor": "shift_left", "__rshift__.Scalar": "shift_right",
    "__rshift__.Tensor": "shift_right", "remainder.Tensor": "mod", "remainder.Scalar": "mod",
}  # fmt: skip
_ON_BOOLS: Final = {"mul": "and", "maximum": "or", "minimum": "and", "add": "or"}
_COMPARE: Final = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip
_LOGICAL: Final = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}


@aten(*(f"{name}.default" for name in _UNARY))
def unary(node: TorchNode, x: Value) -> Value:
    """A function of one number."""
    name = node.target.split(".")[1]
    if not x.type.dtype.is_float and name in _WHOLE:
        return x
    x = node.cast(x, node.kind)
    if name == "hardsigmoid":
        return node.call("hard_sigmoid", x, alpha=1 / 6, beta=0.5)
    return node.call(_UNARY[name], x)


def _both(node: TorchNode, op: str, a: Number, b: Number, kind: DType) -> Value:
    """An op on two operands in one type."""
    op = _ON_BOOLS.get(op, op) if kind == BOOL else op
    return node.call(op, node.tensor(a, kind), node.tensor(b, kind))


@aten(*_BINARY)
def binary(node: TorchNode, a: Number, b: Number) -> Value:
    """Two operands in the type of the result."""
    return _both(node, _BINARY[node.target.removeprefix("aten.")], a, b, node.kind)


@aten("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar")
def add(node: TorchNode, a: Number, b: Number, alpha_at: Number = 1, *, alpha: Number = 1) -> Value:
    """a + alpha * b, or a - alpha * b."""
    factor = alpha if alpha_at == 1 else alpha_at
    if not (isinstance(factor, int) and factor == 1):
        b = _both(node, "mul", b, factor, node.kind)
    return _both(node, node.target.split(".")[1], a, b, node.kind)


@aten("rsub.Scalar", "rsub.Tensor")
def rsub(node: TorchNode, a: Number, b: Number, alpha_at: Number = 1, *, alpha: Number = 1) -> Value:
    """b - alpha * a."""
    factor = alpha if alpha_at == 1 else alpha_at
    if not (isinstance(factor, int) and factor == 1):
        a = _both(node, "mul", a, factor, node.kind)
    return _both(node, "sub", b, a, node.kind)


@aten("div.Tensor_mode", "div.Scalar_mode", "floor_divide.default", "floor_divide.Scalar")
def div_mode(node: TorchNode, a: Number, b: Number, *, rounding_mode: str | None = "floor") -> Value:
    """A quotient, as it is, cut off or rounded down."""
    if rounding_mode is None:
        return _both(node, "div", a, b, node.kind)
    x, y = node.tensor(a, node.kind), node.tensor(b, node.kind)
    if rounding_mode == "trunc":
        found = node.call("div", x, y)
        return node.call("trunc", found) if node.kind.is_float else found
    whole = node.call("div", node.call("sub", x, node.call("mod", x, y)), y)
    if not node.kind.is_float:
        return whole
    # the quotient of what is left is whole but for its rounding; by 0 it is infinite or NaN
    none = node.call("equal", y, node.scalar(0, node.kind))
    return node.call("where", none, node.call("div", x, y), node.call("round", whole))


@aten(*(f"{name}.{of}" for name in _COMPARE for of in ("Tensor", "Scalar")))
def compare(node: TorchNode, a: Number, b: Number) -> Value:
    """A comparison in the type that both are promoted to."""
    kind = node.common(a, b)
    op = _COMPARE[node.target.split(".")[1]]
    if kind != BOOL:
        return _both(node, op, a, b, kind)
    x, y = node.tensor(a, BOOL), node.tensor(b, BOOL)
    if op in ("equal", "not_equal"):
        found = node.call("xor", x, y)
        return found if op == "not_equal" else node.call("not", found)
    return _both(node, op, node.cast(x, F32), node.cast(y, F32), F32)


@aten(*(f"{name}.default" for name in _LOGICAL))
def logical(node: TorchNode, a: Value, b: Value) -> Value:
    """Of numbers, whether they are not 0."""
    return node.call(_LOGICAL[node.target.split(".")[1]], node.cast(a, BOOL), node.cast(b, BOOL))


@aten("logical_not.default")
def logical_not(node: TorchNode, x: Value) -> Value:
    """Whether an element is 0."""
    return node.call("not", node.cast(x, BOOL))


@aten("bitwise_not.default")
def bitwise_not(node: TorchNode, x: Value) -> Value:
    """Every bit the other way."""
    return node.call("not", x)


@aten("isnan.default")
def isnan(node: TorchNode, x: Value) -> Value:
    """Whether an element is no number."""
    return node.call("is_nan", x if x.type.dtype.is_float else node.cast(x, F32))


@aten("isinf.default")
def isinf(node: TorchNode, x: Value) -> Value:
    """Whether an element is infinite."""
    return node.call("is_inf", x if x.type.dtype.is_float else node.cast(x, F32), negative=True, positive=True)


# --- powers ----------------------------------------------------------------------------------------------------


@aten("pow.Tensor_Scalar")
def pow_scalar(node: TorchNode, x: Value, exponent: Number) -> Value:
    """A power; exponents that are small numbers become cheaper ops where these mean the same."""
    x = node.cast(x, node.kind)
    if node.kind.is_float and isinstance(exponent, (int, float)):
        match float(exponent):
            case 1.0:
                return x
            case 2.0:
                return node.call("mul", x, x)
            case 3.0:
                return node.call("mul", node.call("mul", x, x), x)
            case 0.5:
                return node.call("sqrt", x)
            case -0.5:
                return node.call("rsqrt", x)
            case -1.0:
                return node.call("reciprocal", x)
    return _both(node, "pow", x, exponent, node.kind)


@aten("pow.Tensor_Tensor", "pow.Scalar")
def pow_tensor(node: TorchNode, a: Number, b: Number) -> Value:
    """A power with exponents of its own for each element."""
    return _both(node, "pow", a, b, node.kind)


@aten("addcmul.default", "addcdiv.default")
def add_scaled(node: TorchNode, x: Value, a: Value, b: Value, value: Number = 1) -> Value:
    """x + value * a * b, or x + value * a / b."""
    x, scaled, b = (node.cast(v, node.kind) for v in (x, a, b))
    if value != 1:
        scaled = node.call("mul", scaled, node.tensor(value, node.kind))
    return node.call("add", x, node.call("mul" if "mul" in node.target else "div", scaled, b))


@aten("square.default")
def square(node: TorchNode, x: Value) -> Value:
    """x * x."""
    return node.call("mul", x, x)


@aten("expm1.default")
def expm1(node: TorchNode, x: Value) -> Value:
    """e**x - 1, which is what elu is below 0 and what is added to x above; there it is computed directly."""
    x = node.cast(x, node.kind)
    below = node.call("elu", x, alpha=1.0)
    above = node.call("sub", node.call("exp", x), node.scalar(1, node.kind))
    return node.call("where", node.call("less", x, node.scalar(0, node.kind)), below, above)


@aten("log1p.default")
def log1p(node: TorchNode, x: Value) -> Value:
    """log(1 + x): what rounding takes from 1 + x is a factor of the result."""
    x = node.cast(x, node.kind)
    one = node.scalar(1, node.kind)
    whole = node.call("add", x, one)
    kept = node.call("sub", whole, one)
    ratio = node.call("where", node.call("equal", kept, x), one, node.call("div", x, kept))
    found = node.call("mul", node.call("log", whole), ratio)
    return node.call("where", node.call("equal", kept, node.scalar(0, node.kind)), x, found)


@aten("erfc.default")
def erfc(node: TorchNode, x: Value) -> Value:
    """1 - erf(x), which is exact to the last bits of 1."""
    return node.call("sub", node.scalar(1, node.kind), node.call("erf", node.cast(x, node.kind)))


@aten("fmax.default", "fmin.default")
def known_extreme(node: TorchNode, a: Value, b: Value) -> Value:
    """The larger or smaller one; of a number and NaN the number."""
    x, y = node.cast(a, node.kind), node.cast(b, node.kind)
    found = node.call("maximum" if "fmax" in node.target else "minimum", x, y)
    if not node.kind.is_float:
        return found
    found = node.call("where", node.call("is_nan", x), y, found)
    return node.call("where", node.call("is_nan", y), x, found)


@aten("atan2.default")
def atan2(node: TorchNode, a: Value, b: Value) -> Value:
    """The angle of the point (b, a), from -pi to pi; a negative zero of b counts as zero."""
    return angle(node, node.cast(a, node.kind), node.cast(b, node.kind))


@aten("hypot.default")
def hypot(node: TorchNode, a: Value, b: Value) -> Value:
    """The length of the vector (a, b), whose square may be beyond the largest number."""
    x, y = (node.call("abs", node.cast(v, node.kind)) for v in (a, b))
    longer, shorter = node.call("maximum", x, y), node.call("minimum", x, y)
    one, zero = node.scalar(1, node.kind), node.scalar(0, node.kind)
    ratio = node.call("div", shorter, node.call("where", node.call("equal", longer, zero), one, longer))
    found = node.call("mul", longer, node.call("sqrt", node.call("add", node.call("mul", ratio, ratio), one)))
    endless = node.scalar(math.inf, node.kind)
    return node.call("where", node.call("equal", longer, endless), endless, found)


@aten("log2.default", "log10.default")
def log_base(node: TorchNode, x: Value) -> Value:
    """The logarithm to the base 2 or 10."""
    base = 2.0 if "log2" in node.target else 10.0
    return node.call("mul", node.call("log", node.cast(x, node.kind)), node.scalar(1 / math.log(base), node.kind))


@aten("exp2.default")
def exp2(node: TorchNode, x: Value) -> Value:
    """2**x."""
    return node.call("pow", node.scalar(2.0, node.kind), node.cast(x, node.kind))


# --- activations -----------------------------------------------------------------------------------------------


@aten("gelu.default")
def gelu(node: TorchNode, x: Value, *, approximate: str = "none") -> Value:
    """The Gaussian error linear unit."""
    return node.call("gelu", x, tanh=approximate == "tanh")


@aten("silu.default")
def silu(node: TorchNode, x: Value) -> Value:
    """x * sigmoid(x)."""
    return node.call("silu", x, alpha=1.0)


@aten("elu.default")
def elu(node: TorchNode, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    """scale * alpha * (e**(input_scale * x) - 1) below 0."""
    if input_scale != 1 and input_scale != 0:
        below = node.call("elu", node.call("mul", x, node.scalar(input_scale, node.kind)), alpha=float(alpha))
        x = node.call("where", node.call("less", x, node.scalar(0, node.kind)), below, x)
    else:
        x = node.call("elu", x, alpha=float(alpha))
    return x if scale == 1 else node.call("mul", x, node.scalar(scale, node.kind))


@aten("leaky_relu.default")
def leaky_relu(node: TorchNode, x: Value, slope: float = 0.01) -> Value:
    """A slope below 0."""
    return node.call("leaky_relu", x, alpha=float(slope))


@aten("prelu.default", "_prelu_kernel.default")
def prelu(node: TorchNode, x: Value, weight: Value) -> Value:
    """A slope of its own for each channel below 0."""
    if node.target == "aten.prelu.default" and weight.type.rank == 1 and x.type.rank > 1:
        shape = (weight.type.shape[0], *(1 for _ in range(x.type.rank - 2)))
        weight = node.call("reshape", weight, shape=shape)
    below = node.call("less", x, node.scalar(0, node.kind))
    return node.call("where", below, node.call("mul", x, weight), x)


@aten("softplus.default")
def softplus(node: TorchNode, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    """log(1 + e**(beta * x)) / beta; x itself where beta * x is above the threshold."""
    scaled = x if beta == 1 else node.call("mul", x, node.scalar(beta, node.kind))
    found = node.call("softplus", scaled)
    found = found if beta == 1 else node.call("mul", found, node.scalar(1 / beta, node.kind))
    return node.call("where", node.call("greater", scaled, node.scalar(threshold, node.kind)), x, found)


@aten("log_sigmoid.default")
def log_sigmoid(node: TorchNode, x: Value) -> Value:
    """-log(1 + e**-x)."""
    return node.call("neg", node.call("softplus", node.call("neg", x)))


# --- limits ----------------------------------------------------------------------------------------------------


@aten("clamp.default", "clamp.Tensor")
def clamp(node: TorchNode, x: Value, lo: Number | None = None, hi: Number | None = None) -> Value:
    """Held to limits, each of which may be missing."""
    x = node.cast(x, node.kind)
    if lo == 0 and hi is None and not isinstance(lo, Value):
        return node.call("relu", x)
    numbers = all(isinstance(v, (int, float)) for v in (lo, hi))
    if numbers and node.kind.is_float and lo <= hi:  # type: ignore[operator]
        return node.call("clip", x, lo=_rounded(node, lo), hi=_rounded(node, hi))
    for op, limit in (("maximum", lo), ("minimum", hi)):
        if limit is not None:
            x = node.call(op, x, node.tensor(limit, node.kind))
    return x


def _rounded(node: TorchNode, number: Any) -> float:
    """A number as the element type has it."""
    return float(node.kind.numpy.type(number))


@aten("clamp_min.default", "clamp_min.Tensor")
def clamp_min(node: TorchNode, x: Value, lo: Number) -> Value:
    """At least a limit."""
    return clamp(node, x, lo, None)


@aten("clamp_max.default", "clamp_max.Tensor")
def clamp_max(node: TorchNode, x: Value, hi: Number) -> Value:
    """At most a limit."""
    return clamp(node, x, None, hi)


@aten("hardtanh.default")
def hardtanh(node: TorchNode, x: Value, lo: float = -1, hi: float = 1) -> Value:
    """Held to two limits."""
    return clamp(node, x, lo, hi)


@aten("relu6.default")
def relu6(node: TorchNode, x: Value) -> Value:
    """Held to 0..6."""
    return clamp(node, x, 0, 6)


# --- choices and conversions -----------------------------------------------------------------------------------


@aten("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(node: TorchNode, condition: Value, a: Number, b: Number) -> Value:
    """One of two elements."""
    return node.call("where", node.cast(condition, BOOL), node.tensor(a, node.kind), node.tensor(b, node.kind))


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(node: TorchNode, x: Value, mask: Value, value: Number) -> Value:
    """A number where the mask is set."""
    return where(node, mask, value, x)


@aten("_to_copy.default", "to.dtype", "to.dtype_layout", "to.device", "to.other", "type_as.default")
def convert(node: TorchNode, x: Value, *_: Any, **__: Any) -> Value:
    """Another element type; floats outside of an integer type keep their low bits."""
    return node.cast(x, node.kind)


@aten(
    "clone.default", "detach.default", "detach_.default", "alias.default", "lift_fresh_copy.default",
    "contiguous.default", "view.dtype", "positive.default", "_assert_tensor_metadata.default",
)  # fmt: skip
def same(node: TorchNode, x: Value, *_: Any, **__: Any) -> Value:
    """The elements as they are."""
    if node.target == "aten.view.dtype" and x.type.dtype != node.kind:
        return node.call("bitcast", x, to=str(node.kind))
    return x


@aten("dropout.default", "feature_dropout.default", "alpha_dropout.default")
def dropout(node: TorchNode, x: Value, p: float, train: bool) -> Value:
    """Nothing at inference."""
    if train and p > 0:
        node.fail("it drops at random, as in training", hint="export module.eval()")
    return x


@aten("native_dropout.default")
def native_dropout(node: TorchNode, x: Value, p: float, train: bool | None) -> tuple[Value, ...]:
    """Nothing at inference; the mask is set everywhere."""
    return dropout(node, x, p, train is not False), node.call("full", shape=x.type.shape, value=1, dtype=str(BOOL))


@aten("scalar_tensor.default")
def scalar_tensor(node: TorchNode, number: Number, **_: Any) -> Value:
    """A number as a tensor."""
    return node.tensor(number, node.kind)


@aten("copysign.Tensor", "copysign.Scalar")
def copysign(node: TorchNode, a: Number, b: Number) -> Value:
    """The size of a with the sign of b, which a negative zero has too."""
    x, y = node.tensor(a, node.kind), node.tensor(b, node.kind)
    zero, size = node.scalar(0, node.kind), node.call("abs", x)
    signed = node.call("where", node.call("equal", y, zero), node.call("reciprocal", y), y)
    return node.call("where", node.call("less", signed, zero), node.call("neg", size), size)


@aten("ldexp.Tensor")
def ldexp(node: TorchNode, a: Value, b: Value) -> Value:
    """a * 2**b."""
    power = node.call("pow", node.scalar(2, node.kind), node.cast(b, node.kind))
    return node.call("mul", node.cast(a, node.kind), power)
