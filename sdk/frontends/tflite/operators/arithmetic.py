"""Elementwise arithmetic, activations and softmax."""

from __future__ import annotations

import math

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I8, I16, I32, U8, DType, Quant
from sdk.compiler.ops.div_q import MAX_LEFT
from sdk.compiler.ops.fixed import INT32_MAX, quantize_multiplier
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.curves import EXP, INVERSE, sigmoid_scale, sigmoid_table
from sdk.frontends.tflite.quantize import (
    activation_range,
    difference_table,
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


def _product_ratio(a: Quant, b: Quant, out: Quant, single: bool) -> float:
    """What products are multiplied by, computed in double or in ``single`` precision."""
    if single:
        return float(np.float32(a.scale) * np.float32(b.scale) / np.float32(out.scale))
    return a.scale * b.scale / out.scale


def _held(ratio: float) -> tuple[int, int]:
    """A multiplier, of ratios beyond all the largest: with it LiteRT multiplies what is always 0, or wraps."""
    return (INT32_MAX, 30) if 2.0**30 < ratio < math.inf else quantize_multiplier(ratio)


def mul(node: OpNode) -> None:
    """MUL of quantised tensors."""
    a, b = node.input(0, I8, I16), node.input(1, I8, I16)
    kind = node.out_dtype(a.type.dtype)
    qa, qb, qo = node.quant(node.tensor(0)), node.quant(node.tensor(1)), node.quant(node.output())
    mult, shift = _held(_product_ratio(qa, qb, qo, node.was_unsigned(node.output())))
    lo, hi = _clamp(node, kind, qo)
    node.call(
        "mul_q", a, b, a_offset=-qa.zero_point, b_offset=-qb.zero_point, mult=mult, shift=shift,
        out=str(kind), zp=qo.zero_point, lo=lo, hi=hi,
    )  # fmt: skip


def div(node: OpNode) -> None:
    """DIV of quantised tensors; a quotient by 0 is 0, so is one that LiteRT shifts by 32 bits or more."""
    a, b = node.input(0, I8, I16), node.input(1, I8, I16)
    kind = node.out_dtype(a.type.dtype)
    qa, qb, qo = node.quant(node.tensor(0)), node.quant(node.tensor(1)), node.quant(node.output())
    ratio = np.float32(qa.scale) / (np.float32(qb.scale) * np.float32(qo.scale))
    mult, shift = quantize_multiplier(float(ratio))
    if shift > MAX_LEFT[kind]:
        raise BuildError(f"the scale ratio {float(ratio)} is too large for quotients of {kind}")
    lo, hi = _clamp(node, kind, qo)
    node.call(
        "div_q", a, b, a_offset=-qa.zero_point, b_offset=-qb.zero_point, mult=mult, shift=shift, zp=qo.zero_point,
        lo=lo, hi=hi,
    )  # fmt: skip


def quantize(node: OpNode) -> None:
    """QUANTIZE from one integer type and scale to another."""
    x = node.input(0, I8, U8, I16, I32)
    kind = node.out_dtype(I8, U8, I16, I32)
    taken = {I32: (I8, I16), I16: (I8, U8, I16, I32)}.get(x.type.dtype, (I8, U8, I16))
    if kind not in taken:
        raise BuildError(f"QUANTIZE of {x.type.dtype} to {kind} is not supported")
    if x.type.dtype == I32:
        _rescale_words(node, x, kind)
    else:
        _rescale(node, kind, *kind.limits)


def _rescale_words(node: OpNode, x: Value, kind: DType) -> None:
    """Numbers of 32 bits on the scale of the output."""
    source, target = node.quant(node.tensor(0)), node.quant(node.output())
    mult, shift = quantize_multiplier(source.scale / target.scale)
    if source.zero_point:
        x = node.call("sub", x, node.scalar(source.zero_point, x), to="centred")
    lo, hi = kind.limits
    factors = [node.const(n, np.asarray([v], np.int32)) for n, v in (("mult", mult), ("shift", shift))]
    node.call(
        "requantize", x, *factors, out=str(kind), zp=target.zero_point, lo=lo, hi=hi, shift_lo=shift, shift_hi=shift,
        acc_bits=31,
    )  # fmt: skip


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


def _stated_scale(node: OpNode, scale: float, zero_point: int, off: float = 0.0) -> None:
    """Checks the output's meaning; its scale may be ``off`` by that part of it."""
    quant = node.quant(node.output())
    if abs(quant.scale - scale) > off * scale or quant.zero_point != zero_point:
        raise BuildError(f"the output must have scale {scale} and zero point {zero_point}, not {quant}")


def logistic(node: OpNode) -> None:
    """LOGISTIC of i8, as a table; of u8 in single precision, as LiteRT has it."""
    x, quant = node.input(0, I8, I16), node.quant(node.tensor(0))
    if x.type.dtype == I16:
        _curve(node, x, quant, tanh=False)
        return
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


def _curve(node: OpNode, x: Value, quant: Quant, tanh: bool) -> None:
    """LOGISTIC or TANH of i16, between entries of one table of both."""
    _stated_scale(node, 1 / 32768, 0)
    if quant.zero_point:
        raise BuildError("i16 must have the zero point 0")
    scaled = sigmoid_scale(quant.scale, 1 if tanh else 0)
    table = node.const("curve", sigmoid_table())
    node.call("sigmoid16", x, table, mult=scaled.mult, shift=scaled.shift, tanh=tanh)


def tanh(node: OpNode) -> None:
    """TANH of i8, as a table; of u8 in single precision."""
    x, quant = node.input(0, I8, I16), node.quant(node.tensor(0))
    if x.type.dtype == I16:
        _curve(node, x, quant, tanh=True)
        return
    _stated_scale(node, 1 / 128, 0)
    if node.was_unsigned(node.tensor(0)):
        table = real_table(math.tanh, quant, node.quant(node.output()), I8)
    else:
        table = tanh_table(quant.scale, quant.zero_point)
    node.call("lookup", x, node.const("table", table))


def softmax(node: OpNode) -> None:
    """SOFTMAX over the last axis: of i8 (or u8) to i8 (u8) or i16, of i16 to i16."""
    x, quant, beta = node.input(0, I8, I16), node.quant(node.tensor(0)), float(node.option("Beta"))
    kind = node.out_dtype(I8, I16)
    if x.type.dtype == I8:
        if node.was_unsigned(node.tensor(0)) and kind == I8 and not node.was_unsigned(node.output()):
            raise BuildError("SOFTMAX of uint8 to int8 is not supported")
        lowest = kind.limits[0]
        # of i16 models have 1 / 65535 too, which tflite-micro takes for the same
        _stated_scale(node, *((1 / 256, lowest) if kind == I8 else (1 / 65536, lowest)), off=1e-3)
        given = {} if kind == I8 else {"out": str(kind)}
        node.call("softmax_q", x, node.const("exp", exp_table(quant.scale, beta)), **given)
        return
    node.out_dtype(I16)
    _stated_scale(node, 1 / 32768, 0, off=1e-3)
    if quant.zero_point:
        raise BuildError("i16 must have the zero point 0")
    mult, shift = quantize_multiplier(float(np.float32(quant.scale) * np.float32(beta)) / (10.0 / 65535.0))
    node.call("softmax16", x, node.const("exp", EXP), node.const("inverse", INVERSE), mult=mult, shift=shift)


def log_softmax(node: OpNode) -> None:
    """LOG_SOFTMAX over the last axis, to steps of 1/16 below 0."""
    x, quant = node.input(0, I8), node.quant(node.tensor(0))
    node.out_dtype(I8)
    if node.was_unsigned(node.tensor(0)) != node.was_unsigned(node.output()):
        raise BuildError("LOG_SOFTMAX between uint8 and int8 is not supported")
    _stated_scale(node, 1 / 16, 127)
    tables = node.const("exp", exp_table(quant.scale, 1.0)), node.const("steps", difference_table(quant.scale))
    node.call("log_softmax_q", x, *tables)


def l2_normalization(node: OpNode) -> None:
    """L2_NORMALIZATION over the last axis, to steps of 1/128."""
    x, unsigned = node.input(0, I8), node.was_unsigned(node.tensor(0))
    if int(node.option("FusedActivationFunction")) != 0:
        raise BuildError("a fused activation is not supported here")
    node.out_dtype(I8)
    _stated_scale(node, 1 / 128, 0)
    node.call("l2_normalize_q", x, zero=node.quant(node.tensor(0)).zero_point, early=unsigned)


TABLE: Table = {
    "L2_NORMALIZATION": l2_normalization,
    "ADD": add,
    "SUB": sub,
    "MUL": mul,
    "DIV": div,
    "QUANTIZE": quantize,
    "RELU": relu,
    "RELU6": relu6,
    "LOGISTIC": logistic,
    "LOG_SOFTMAX": log_softmax,
    "TANH": tanh,
    "SOFTMAX": softmax,
}
