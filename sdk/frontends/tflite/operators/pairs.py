"""Two quantised tensors: larger and smaller ones, comparisons, squared differences, slopes for each element."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I8, I16, I32, DType, Quant
from sdk.compiler.ops.fixed import multiply_quantized, quantize_multiplier
from sdk.errors import BuildError
from sdk.frontends.tflite.context import Importer, OpNode, Table

__all__ = ["TABLE"]


_COMPARISONS: Final = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")


def _one_scale(node: OpNode, *kinds: DType) -> tuple[Value, Value]:
    """Both inputs, whose stored values mean the same as those of the output do where that has the type of theirs."""
    a, b = node.input(0, *kinds), node.input(1, *kinds)
    tensors = [node.tensor(0), node.tensor(1)]
    tensors += [node.output()] if node.output().dtype == a.type.dtype else []
    if len({node.quant(t) for t in tensors}) > 1:
        raise BuildError("the inputs and the output must share one scale and zero point")
    return a, b


def _extreme(op: str) -> Importer:
    def run(node: OpNode) -> None:
        node.call(op, *_one_scale(node, I8, I16))

    return run


def _scaled_table(node: OpNode, k: int, left_shift: int, mult: int, shift: int) -> Value:
    """Input ``k`` of i8 less its zero point, ``left_shift`` bits up, times a multiplier: i32 from a table."""
    steps = (np.arange(-128, 128) - node.quant(node.tensor(k)).zero_point).astype(np.int32) << left_shift
    table = multiply_quantized(steps, mult, shift).astype(np.int32)
    return node.call("lookup", node.input(k, I8), node.const(f"table{k}", table), to=f"scaled{k}")


def _scaled_words(node: OpNode, k: int, left_shift: int, mult: int, shift: int) -> Value:
    """The same of i16, computed."""
    wide = node.cast(node.input(k, I16), I32, f"wide{k}")
    zero = node.quant(node.tensor(k)).zero_point
    if zero:
        wide = node.call("sub", wide, node.scalar(zero, wide), to=f"centred{k}")
    fine = node.call("mul", wide, node.scalar(1 << left_shift, wide), to=f"fine{k}")
    factors = [node.const(f"{n}{k}", np.asarray([v], np.int32)) for n, v in (("mult", mult), ("shift", shift))]
    lo, hi = I32.limits
    return node.call(
        "requantize", fine, *factors, to=f"scaled{k}", out="i32", zp=0, lo=lo, hi=hi, shift_lo=shift, shift_hi=shift,
        acc_bits=17 + left_shift,
    )  # fmt: skip


def _comparison(op: str) -> Importer:
    """A comparison on a common scale, 8 bits up and rounded as TensorFlow Lite does, which makes some of i16 equal that
    are not; those of i16 that ask for an order are of what is stored, as it is without scales."""

    def run(node: OpNode) -> None:
        wide = node.input(0, I8, I16).type.dtype == I16
        if wide and not node.tensor(0).scales and not node.tensor(1).scales and op != "not_equal":
            node.call(op, node.input(0), node.input(1, I16))
            return
        if wide and op not in ("equal", "not_equal"):
            node.call(op, *_one_scale(node, I16))
            return
        sides = []
        for k in (0, 1):
            scale = node.quant(node.tensor(k)).scale
            mult, shift = quantize_multiplier(scale)
            if shift > 0:
                raise BuildError(f"input {k} of a comparison must have a scale below 1, it has {scale}")
            sides.append((_scaled_words if wide else _scaled_table)(node, k, 8, mult, shift))
        node.call(op, *sides)

    return run


def squared_difference(node: OpNode) -> None:
    """SQUARED_DIFFERENCE of i8: the difference on a common scale, 7 bits up, then its square rescaled."""
    node.input(0, I8), node.input(1, I8), node.out_dtype(I8)
    quants = [node.quant(node.tensor(k)) for k in (0, 1)]
    target, twice = node.quant(node.output()), 2 * max(q.scale for q in quants)
    sides = [_scaled_table(node, k, 7, *quantize_multiplier(q.scale / twice)) for k, q in enumerate(quants)]
    mult, shift = quantize_multiplier(twice * twice / ((1 << 14) * target.scale))
    if shift > 0:
        raise BuildError(f"the output's scale {target.scale} is too small for a squared difference")
    gap = node.call("sub", *sides, to="gap")
    square = node.call("mul", gap, gap, to="square")
    factors = [node.const(n, np.asarray([v], np.int32)) for n, v in (("mult", mult), ("shift", shift))]
    node.call(
        "requantize", square, *factors, out="i8", zp=target.zero_point, lo=-128, hi=127,
        shift_lo=shift, shift_hi=shift, acc_bits=30,
    )  # fmt: skip


def prelu(node: OpNode) -> None:
    """PRELU: below the stored zero a product with the slope, else a rescale; ratios of u8 in single precision."""
    x, alpha = node.input(0, I8, I16), node.input(1, I8)
    kind = node.out_dtype(x.type.dtype)
    source, slope, target = (node.quant(t) for t in (node.tensor(0), node.tensor(1), node.output()))
    if kind == I16:
        if source.zero_point or target.zero_point or node.was_unsigned(node.tensor(1)):
            raise BuildError("i16 must have the zero point 0, and slopes of int8")
        alpha = node.cast(alpha, I16, "slopes")
    single = node.was_unsigned(node.tensor(0)) or kind == I16
    above, below = _ratio(source, None, target, single), _ratio(source, slope, target, single)
    lo, hi = kind.limits
    given: dict[str, Any] = {"out": str(kind), "zp": target.zero_point, "lo": lo, "hi": hi}
    zero = source.zero_point
    product = node.call(
        "mul_q", node.call("clip", x, to="below", lo=lo, hi=zero), alpha, to="product", a_offset=-zero,
        b_offset=-slope.zero_point, mult=below[0], shift=below[1], **given,
    )  # fmt: skip
    rest = node.call("rescale", x, to="above", in_zp=zero, mult=above[0], shift=above[1], **given)
    negative = node.call("less", x, node.const("zero", np.asarray([zero], kind.numpy)), to="negative")
    node.call("where", negative, product, rest)


def _ratio(source: Quant, slope: Quant | None, target: Quant, single: bool) -> tuple[int, int]:
    """The multiplier of a ratio of scales, computed in double or in ``single`` precision."""
    kind = np.float32 if single else np.float64
    return quantize_multiplier(float(kind(source.scale) * kind(slope.scale if slope else 1.0) / kind(target.scale)))


TABLE: Table = {
    "MAXIMUM": _extreme("maximum"),
    "MINIMUM": _extreme("minimum"),
    **{name.upper(): _comparison(name) for name in _COMPARISONS},
    "SQUARED_DIFFERENCE": squared_difference,
    "PRELU": prelu,
}
