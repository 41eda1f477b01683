"""Reductions over axes."""

from __future__ import annotations

import math

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I8, I16
from sdk.compiler.ops.fixed import quantize_multiplier
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode, Table

__all__ = ["TABLE"]


def _axes(node: OpNode, rank: int) -> tuple[int, ...]:
    axes = node.integers(1)
    if any(not -rank <= a < rank for a in axes):
        raise BuildError(f"axes {list(axes)} of a tensor of rank {rank}")
    return tuple(sorted({a % rank for a in axes}))


def mean(node: OpNode) -> None:
    """MEAN over fixed axes."""
    _rescaled_sum(node, mean=True)


def total(node: OpNode) -> None:
    """SUM over fixed axes."""
    _rescaled_sum(node, mean=False)


def _rescaled_sum(node: OpNode, mean: bool) -> None:
    """A sum, then one fixed-point multiplication by the ratio of scales, of a mean over the count."""
    x, kind = node.input(0, I8, I16), node.out_dtype(I8, I16)
    axes = _axes(node, x.type.rank)
    extents = [x.type.shape[k] for k in axes]
    if not all(isinstance(d, int) for d in extents) or kind != x.type.dtype:
        raise BuildError("a sum or mean over an open extent, or to another type, is not supported")
    count = math.prod(node.tensor(0).shape[k] for k in axes)
    if count == 0 and mean:
        raise BuildError("a mean of no elements is no number")
    source, target = node.quant(node.tensor(0)), node.quant(node.output())
    mult, shift = quantize_multiplier(source.scale / target.scale)
    if mean:
        mult, shift = _over_count(mult, shift, count)
    total = node.call("reduce_sum", x, to="sum", axes=axes, x_offset=-source.zero_point)
    maximum = count * max(abs(bound - source.zero_point) for bound in kind.limits)
    lo, hi = kind.limits
    kept = len(node.output().shape) == x.type.rank
    result = node.call(
        "requantize", total, node.const("mult", np.asarray([mult], np.int32)),
        node.const("shift", np.asarray([shift], np.int32)), to=0 if kept else "kept",
        out=str(kind), zp=target.zero_point, lo=lo, hi=hi, shift_lo=shift, shift_hi=shift,
        acc_bits=min((maximum << max(shift, 0)).bit_length(), 31),
    )  # fmt: skip
    if not kept:
        _dropped(node, result, axes)


def product(node: OpNode) -> None:
    """REDUCE_PROD over fixed axes: a product is rescaled after each factor."""
    x, kind = node.input(0, I8, I16), node.out_dtype(I8, I16)
    axes = _axes(node, x.type.rank)
    extents = [x.type.shape[k] for k in axes]
    if not all(isinstance(d, int) for d in extents) or kind != x.type.dtype or not axes:
        raise BuildError("a product over an open extent, over no axes, or to another type, is not supported")
    if node.was_unsigned(node.tensor(0)) or node.was_unsigned(node.output()):
        raise BuildError(f"input 0 ({node.tensor(0).title}) has type UINT8, supported: i8 or i16")
    count = math.prod(node.tensor(0).shape[k] for k in axes)
    if count == 0:
        raise BuildError("a product of no elements is not supported")
    source, target = node.quant(node.tensor(0)), node.quant(node.output())
    mult, shift = quantize_multiplier(source.scale / math.pow(target.scale, 1.0 / count))
    if shift > 7:
        raise BuildError(f"the scales {source.scale} and {target.scale} are too far apart for products")
    if kind == I16 and (source.zero_point or target.zero_point):
        raise BuildError("i16 must have the zero point 0")
    given = {"zero": source.zero_point, "mult": mult, "shift": shift, "zp": target.zero_point}
    kept = len(node.output().shape) == x.type.rank
    result = node.call("reduce_prod_q", x, to=0 if kept else "kept", axes=axes, **given)
    if not kept:
        _dropped(node, result, axes)


def _dropped(node: OpNode, value: Value, axes: tuple[int, ...]) -> None:
    """The result without the axes that were reduced."""
    left = [d if isinstance(d, int) else -1 for k, d in enumerate(value.type.shape) if k not in axes]
    node.call("reshape", value, shape=tuple(left))


def _over_count(mult: int, shift: int, count: int) -> tuple[int, int]:
    """The multiplier divided by ``count``, rounded down, with as many bits as 64-bit arithmetic keeps."""
    bits = min(count.bit_length() - 1, 32, 31 + shift)
    return (mult << bits) // count, shift - bits


TABLE: Table = {"MEAN": mean, "REDUCE_PROD": product, "SUM": total}
