"""Elementwise arithmetic, activations and softmax."""

from __future__ import annotations

import math

import numpy as np

from sdk.compiler.ir.types import I8, I16, U8, DType, Quant
from sdk.compiler.ops.fixed import quantize_multiplier
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.quantize import (
    activation_range,
    exp_table,
    logistic_table,
    real_table,
    stored,
    tanh_table,
)

__all__ = ["TABLE", "bounded_relu"]


def _smaller_than_one(ratio: float) -> tuple[int, int]:
    mult, shift = quantize_multiplier(ratio)
    if shift > 0:
        raise BuildError(f"the scale ratio {ratio} is not below one")
    return mult, shift


def _clamp(node: OpNode, kind: DType, quant: Quant) -> tuple[int, int]:
    return activation_range(int(node.option("FusedActivationFunction")), quant.scale, quant.zero_point, kind)


def _sum(node: OpNode, op: str) -> None:
    a, b = node.input(0, I8, I16), node.input(1, I8, I16)
    kind = node.out_dtype(a.type.dtype)
    qa, qb, qo = node.quant(node.tensor(0)), node.quant(node.tensor(1)), node.quant(node.output())
    left_shift = 15 if kind == I16 else 20
    twice = 2 * max(qa.scale, qb.scale)
    a_mult, a_shift = _smaller_than_one(qa.scale / twice)
    b_mult, b_shift = _smaller_than_one(qb.scale / twice)
    out_mult, out_shift = _smaller_than_one(twice / ((1 << left_shift) * qo.scale))
    lo, hi = _clamp(node, kind, qo)
    node.call(
        op, a, b, left_shift=left_shift, a_offset=-qa.zero_point, a_mult=a_mult, a_shift=a_shift,
        b_offset=-qb.zero_point, b_mult=b_mult, b_shift=b_shift, out_mult=out_mult, out_shift=out_shift,
        out=str(kind), zp=qo.zero_point, lo=lo, hi=hi,
    )  # fmt: skip


def add(node: OpNode) -> None:
    """ADD of quantised tensors."""
    _sum(node, "add_q")


def sub(node: OpNode) -> None:
    """SUB of quantised tensors."""
    _sum(node, "sub_q")


def mul(node: OpNode) -> None:
    """MUL of quantised tensors."""
    a, b = node.input(0, I8, I16), node.input(1, I8, I16)
    kind = node.out_dtype(a.type.dtype)
    qa, qb, qo = node.quant(node.tensor(0)), node.quant(node.tensor(1)), node.quant(node.output())
    mult, shift = quantize_multiplier(qa.scale * qb.scale / qo.scale)
    lo, hi = _clamp(node, kind, qo)
    node.call(
        "mul_q", a, b, a_offset=-qa.zero_point, b_offset=-qb.zero_point, mult=mult, shift=shift,
        out=str(kind), zp=qo.zero_point, lo=lo, hi=hi,
    )  # fmt: skip


def quantize(node: OpNode) -> None:
    """QUANTIZE from one integer type and scale to another."""
    node.input(0, I8, U8, I16)
    kind = node.out_dtype(I8, U8, I16)
    _rescale(node, kind, *kind.limits)


def _rescale(node: OpNode, kind: DType, lo: int, hi: int, single: bool = False) -> None:
    """The input on the scale of the output; ``single`` is the precision of the ratio."""
    source, target = node.quant(node.tensor(0)), node.quant(node.output())
    ratio = float(np.float32(source.scale) / np.float32(target.scale)) if single else source.scale / target.scale
    mult, shift = quantize_multiplier(ratio)
    node.call(
        "rescale", node.input(0), out=str(kind), in_zp=source.zero_point, mult=mult, shift=shift,
        zp=target.zero_point, lo=lo, hi=hi,
    )  # fmt: skip


def relu(node: OpNode) -> None:
    """RELU: a rescale that clamps below at the stored zero."""
    node.input(0, I8, I16)
    kind = node.out_dtype(I8, I16)
    lo = max(kind.limits[0], node.quant(node.output()).zero_point)
    _rescale(node, kind, lo, kind.limits[1], node.was_unsigned(node.tensor(0)))


def bounded_relu(node: OpNode, low: float, high: float) -> None:
    """A rescale that clamps to two reals, as they are stored in the output: as LiteRT does, for tflite-micro
    never rescales."""
    x = node.input(0, I8, I16)
    kind, quant = node.out_dtype(x.type.dtype), node.quant(node.output())
    at = [stored(real, quant.scale, quant.zero_point) for real in (low, high)]
    lo, hi = max(kind.limits[0], at[0]), min(kind.limits[1], at[1])
    if lo > hi:
        raise BuildError(f"no value at scale {quant.scale}, zero point {quant.zero_point} is in {low}..{high}")
    if quant == node.quant(node.tensor(0)):
        node.call("rescale", x, out=str(kind), in_zp=0, mult=1 << 30, shift=1, zp=0, lo=lo, hi=hi)
    else:
        _rescale(node, kind, lo, hi, single=True)


def relu6(node: OpNode) -> None:
    """RELU6: a clamp of the stored values, on another scale after a rescale."""
    bounded_relu(node, 0.0, 6.0)


def _stated_scale(node: OpNode, scale: float, zero_point: int) -> None:
    quant = node.quant(node.output())
    if quant != Quant(scale, zero_point):
        raise BuildError(f"the output must have scale {scale} and zero point {zero_point}, not {quant}")


def logistic(node: OpNode) -> None:
    """LOGISTIC of i8, as a table; of u8 in single precision, as LiteRT has it."""
    x, quant = node.input(0, I8), node.quant(node.tensor(0))
    _stated_scale(node, 1 / 256, -128)
    if node.was_unsigned(node.tensor(0)):
        table = real_table(_sigmoid, quant, node.quant(node.output()), I8)
    else:
        table = logistic_table(quant.scale, quant.zero_point)
    node.call("lookup", x, node.const("table", table))


def _sigmoid(x: float) -> float:
    """In single precision: results near halves depend on each of its roundings."""
    one, power = np.float32(1), np.float32(math.exp(min(-x, 80.0)))
    return float(one / (one + power))


def tanh(node: OpNode) -> None:
    """TANH of i8, as a table; of u8 in single precision."""
    x, quant = node.input(0, I8), node.quant(node.tensor(0))
    _stated_scale(node, 1 / 128, 0)
    if node.was_unsigned(node.tensor(0)):
        table = real_table(math.tanh, quant, node.quant(node.output()), I8)
    else:
        table = tanh_table(quant.scale, quant.zero_point)
    node.call("lookup", x, node.const("table", table))


def softmax(node: OpNode) -> None:
    """SOFTMAX of i8 over the last axis."""
    x, quant = node.input(0, I8), node.quant(node.tensor(0))
    node.out_dtype(I8)
    _stated_scale(node, 1 / 256, -128)
    node.call("softmax_q", x, node.const("exp", exp_table(quant.scale, float(node.option("Beta")))))


TABLE: Table = {
    "ADD": add,
    "SUB": sub,
    "MUL": mul,
    "QUANTIZE": quantize,
    "RELU": relu,
    "RELU6": relu6,
    "LOGISTIC": logistic,
    "TANH": tanh,
    "SOFTMAX": softmax,
}
