"""Functions of one quantised element: of i8 (and u8) as tables of 256, of i16 in fixed point."""

from __future__ import annotations

from collections.abc import Callable

from sdk.compiler.ir.types import I8, I16
from sdk.errors import BuildError
from sdk.frontends.tflite.context import Importer, OpNode, Table
from sdk.frontends.tflite.functions import (
    REAL_FUNCTIONS,
    hard_swish_table,
    leaky_relu_multipliers,
    leaky_relu_table,
)
from sdk.frontends.tflite.operators.arithmetic import bounded_relu
from sdk.frontends.tflite.quantize import real_table

__all__ = ["TABLE"]


def _function(name: str) -> Importer:
    """A function of i8 (or u8) that LiteRT computes in single precision."""

    def run(node: OpNode) -> None:
        x = node.input(0, I8)
        node.out_dtype(I8)
        quants = node.quant(node.tensor(0)), node.quant(node.output())
        node.call("lookup", x, node.const("table", real_table(REAL_FUNCTIONS[name], *quants, I8)))

    return run


def gelu(node: OpNode) -> None:
    """GELU of i8, by the error function or by a tanh."""
    _function("GELU_BY_TANH" if node.option("Approximate") else "GELU")(node)


def leaky_relu(node: OpNode) -> None:
    """LEAKY_RELU: a slope below the stored zero; where i16 is not below it, that part is 0, and the sum has both."""
    x, alpha = node.input(0, I8, I16), float(node.option("Alpha"))
    kind, source, target = node.out_dtype(x.type.dtype), node.quant(node.tensor(0)), node.quant(node.output())
    if kind == I8:
        single = node.was_unsigned(node.tensor(0))
        node.call("lookup", x, node.const("table", leaky_relu_table(alpha, source, target, kind, single)))
        return
    if source.zero_point or target.zero_point:
        raise BuildError("i16 must have the zero point 0")
    lo, hi = kind.limits
    below, above = leaky_relu_multipliers(alpha, source, target, single=False)
    parts = []
    for (mult, shift), least, most, name in ((below, lo, 0, "below"), (above, 0, hi, "above")):
        part = node.call("clip", x, to=name, lo=least, hi=most)
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
    **{name: _function(name) for name in ("ELU", "EXP", "LOG")},
    "GELU": gelu,
    "HARD_SWISH": hard_swish,
    "LEAKY_RELU": leaky_relu,
    "RELU_N1_TO_1": _clamp(-1.0, 1.0),
    "RELU_0_TO_1": _clamp(0.0, 1.0),
}
