"""Functions of one quantised element: of i8 (and u8) as tables of 256, of i16 as tables with lines between entries, or
in fixed point."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from sdk.compiler.ir.types import F32, I8, I16, I32, DType, Quant
from sdk.errors import BuildError
from sdk.frontends.tflite.context import Importer, OpNode, Table
from sdk.frontends.tflite.curves import word_table
from sdk.frontends.tflite.functions import (
    REAL_FUNCTIONS,
    abs_table,
    hard_swish_table,
    leaky_relu_multipliers,
    leaky_relu_table,
    rsqrt_table,
    single_ratio,
    sqrt_table,
)
from sdk.frontends.tflite.operators.arithmetic import bounded_relu
from sdk.frontends.tflite.quantize import real_table

__all__ = ["TABLE", "symmetric"]


def _function(name: str, *wide: DType) -> Importer:
    """A function of i8 (or u8) that LiteRT computes in single precision, of i16 too where it is in ``wide``."""

    def run(node: OpNode) -> None:
        x = node.input(0, I8, *wide)
        kind = node.out_dtype(x.type.dtype)
        if kind == I16:
            _of_words(node, REAL_FUNCTIONS[name])
            return
        quants = node.quant(node.tensor(0)), node.quant(node.output())
        node.call("lookup", x, node.const("table", real_table(REAL_FUNCTIONS[name], *quants, I8)))

    return run


def symmetric(node: OpNode) -> None:
    """Refuses zero points of i16 other than 0."""
    if node.quant(node.tensor(0)).zero_point or node.quant(node.output()).zero_point:
        raise BuildError("i16 must have the zero point 0")


def log(node: OpNode) -> None:
    """LOG: at 0 and below the least that i16 holds."""
    if node.input(0, I8, I16).type.dtype == I8:
        _function("LOG")(node)
        return
    lowest = node.output().scales[0] * I16.limits[0]
    _of_words(node, lambda v: math.log(v) if v > 0 else lowest)


def rsqrt(node: OpNode) -> None:
    """RSQRT, the largest there is at 0 and below."""
    x = node.input(0, I8, I16)
    if x.type.dtype == I8:
        _byte_table(node, rsqrt_table)
        return
    node.quant(node.output())
    maximum = node.output().scales[0] * I16.limits[1]
    _of_words(node, lambda v: float(np.float32(1) / np.sqrt(np.float32(v))) if v > 0 else maximum)


def sqrt(node: OpNode) -> None:
    """SQRT, cut off to whole steps: of i16 in single precision."""
    x = node.input(0, I8, I16)
    if x.type.dtype == I8:
        _byte_table(node, sqrt_table)
        return
    kind, target = node.out_dtype(I16), node.quant(node.output())
    symmetric(node)
    above = node.call("maximum", x, node.const("zero", np.zeros(1, np.int16)), to="above")
    wide = node.cast(above, F32, "wide")
    scale = node.const("scale", np.asarray([node.quant(node.tensor(0)).scale], np.float32))
    root = node.call("sqrt", node.call("mul", wide, scale, to="reals"), to="root")
    steps = node.call("div", root, node.const("step", np.asarray([target.scale], np.float32)), to="steps")
    node.cast(steps, kind)  # which cuts off and holds to the type


def abs_(node: OpNode) -> None:
    """ABS, rescaled; of i16 without a scale the number itself."""
    x = node.input(0, I8, I16)
    kind = node.out_dtype(x.type.dtype)
    if kind == I8:
        _byte_table(node, abs_table)
        return
    wide = node.call("abs", node.cast(x, I32, "wide"), to="size")
    if not node.tensor(0).scales and not node.output().scales:
        node.cast(wide, kind)
        return
    symmetric(node)
    mult, shift = single_ratio(node.quant(node.tensor(0)), node.quant(node.output()))
    node.call(
        "requantize", wide, node.const("mult", np.asarray([mult], np.int32)),
        node.const("shift", np.asarray([shift], np.int32)), out=str(kind), zp=0, lo=kind.limits[0], hi=kind.limits[1],
        shift_lo=shift, shift_hi=shift, acc_bits=min(16 + max(shift, 0), 31),
    )  # fmt: skip


def neg(node: OpNode) -> None:
    """NEG of stored values, which LiteRT takes as they are: it means something where 0 is stored as 0."""
    x = node.input(0, I8, I16)
    scales = {(t.scales, t.zero_points) for t in (node.tensor(0), node.output())}
    if len(scales) > 1 or any(node.tensor(0).zero_points) or node.was_unsigned(node.tensor(0)):
        raise BuildError("NEG of quantised tensors wants one scale of input and output, and the zero point 0")
    node.call("neg", x)


def _byte_table(node: OpNode, table: Callable[[Quant, Quant, DType], np.ndarray]) -> None:
    node.out_dtype(I8)
    quants = node.quant(node.tensor(0)), node.quant(node.output())
    node.call("lookup", node.input(0), node.const("table", table(*quants, I8)))


def _of_words(node: OpNode, function: Callable[[float], float]) -> None:
    """A function of i16, that LiteRT interpolates between results in single precision."""
    node.out_dtype(I16)
    symmetric(node)
    quants = node.quant(node.tensor(0)), node.quant(node.output())
    node.call("lookup16", node.input(0, I16), node.const("table", word_table(function, *quants)))


def gelu(node: OpNode) -> None:
    """GELU, by the error function or by a tanh."""
    _function("GELU_BY_TANH" if node.option("Approximate") else "GELU", I16)(node)


def leaky_relu(node: OpNode) -> None:
    """LEAKY_RELU: a slope below the stored zero; where i16 is not below it, that part is 0, and the sum has both."""
    x, alpha = node.input(0, I8, I16), float(node.option("Alpha"))
    kind, source, target = node.out_dtype(x.type.dtype), node.quant(node.tensor(0)), node.quant(node.output())
    if kind == I8:
        single = node.was_unsigned(node.tensor(0))
        node.call("lookup", x, node.const("table", leaky_relu_table(alpha, source, target, kind, single)))
        return
    symmetric(node)
    lo, hi = kind.limits
    below, above = leaky_relu_multipliers(alpha, source, target, single=False)
    parts = []
    for (mult, shift), minimum, maximum, name in ((below, lo, 0, "below"), (above, 0, hi, "above")):
        part = node.call("clip", x, to=name, lo=minimum, hi=maximum)
        parts.append(node.call(
            "rescale", part, to=f"{name}_scaled", out=str(kind), in_zp=0, mult=mult, shift=shift, zp=0, lo=lo, hi=hi
        ))  # fmt: skip
    node.call("add", *parts)


def hard_swish(node: OpNode) -> None:
    """HARD_SWISH of i8."""
    x, source, target = node.input(0, I8), node.quant(node.tensor(0)), node.quant(node.output())
    node.out_dtype(I8)
    node.call("lookup", x, node.const("table", hard_swish_table(source, target, I8)))


def _clamp(low: float, high: float) -> Callable[[OpNode], None]:
    return lambda node: bounded_relu(node, low, high)


TABLE: Table = {
    "ELU": _function("ELU"),
    "EXP": _function("EXP", I16),
    "LOG": log,
    "ABS": abs_,
    "NEG": neg,
    "SQRT": sqrt,
    "RSQRT": rsqrt,
    "GELU": gelu,
    "HARD_SWISH": hard_swish,
    "LEAKY_RELU": leaky_relu,
    "RELU_N1_TO_1": _clamp(-1.0, 1.0),
    "RELU_0_TO_1": _clamp(0.0, 1.0),
}
