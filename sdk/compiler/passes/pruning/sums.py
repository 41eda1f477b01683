"""Sums of products in one form: weights by output channel, tap and input channel, and what their bias can absorb."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Call, Value
from sdk.compiler.ops.registry import kind_of
from sdk.compiler.ops.traits import SumOfProducts
from sdk.compiler.passes.pruning.bounds import Bounds, full

__all__ = ["Data", "Sums", "sums_of"]

Array = NDArray[Any]
Flags = NDArray[np.bool_]
Data = Callable[[Value], Array | None]  # the elements of a constant; None for anything else


@dataclass(frozen=True)
class Sums:
    """``bias[o] + sum over taps and inputs of (x + offset) * (weights[o, tap, in] + w_offset)``.

    ``outside`` is what taps beyond the image read, None where there are none. With a ``multiplier`` output ``o`` reads
    the one input ``o // multiplier`` and the weights have one input; else it is 0.
    """

    node: Call
    weights: Array
    bias: Array
    offset: int = 0
    w_offset: int = 0
    outside: float | None = None
    multiplier: int = 0

    @property
    def is_float(self) -> bool:
        """Whether the sum is one of floats, whose order matters."""
        return self.node.args[0].type.dtype.is_float

    @cached_property
    def uses(self) -> Flags:
        """Which inputs an output channel multiplies with something other than zero: [out, in]."""
        return np.asarray((self.weights != -self.w_offset).any(axis=1))

    def bounds(self, x: Bounds) -> Bounds:
        """The values of each output channel, from those of each input channel."""
        return self._float_bounds(x) if self.is_float else self._integer_bounds(x)

    def absorbs(self, x: Bounds) -> Flags:
        """The input channels that the bias can stand for, were they taken out: the same value at every tap, and no sum
        in any order beyond its type. Of floats only zeros: another bias would be rounded elsewhere."""
        if self.multiplier:
            return np.zeros(x.lo.shape, np.bool_)
        constant = x.constant
        if self.outside is not None:
            constant = constant & (x.lo == self.outside)
        if self.is_float:
            constant = constant & (x.lo == 0)
        if not constant.any():
            return np.asarray(constant)
        fits = np.isfinite(self.weights).all(axis=(0, 1)) if self.is_float else self._fits(x)
        return np.asarray(constant & fits)

    def may_shrink(self) -> bool:
        """Whether inputs that add zeros may go: not where a bias is -0.0, which zeros turn into 0.0."""
        return not (self.is_float and bool(((self.bias == 0) & np.signbit(self.bias)).any()))

    def absorbed(self, x: Bounds, gone: Flags) -> Array:
        """The bias without the inputs ``gone``."""
        if self.is_float or self.multiplier or not gone.any():
            return self.bias
        factors = self.weights[..., gone].sum(axis=1, dtype=np.int64) + self.w_offset * self.weights.shape[1]
        return np.asarray(self.bias + factors @ (x.lo[gone].astype(np.int64) + self.offset))

    def _fits(self, x: Bounds) -> bool:
        """Whether the magnitudes of everything added stay inside the type of the sum."""
        lo, hi = self._read(x)
        reach = np.maximum(np.abs(lo), np.abs(hi)).astype(np.float64)
        sizes = np.abs(self.weights.astype(np.float64) + self.w_offset).sum(axis=1)
        maximum = np.abs(self.bias.astype(np.float64)) + sizes @ reach
        # doubles count exactly to 2**53
        return bool(maximum.max(initial=0) <= min(self.node.out.type.dtype.limits[1], 1 << 53))

    def _read(self, x: Bounds) -> tuple[Array, Array]:
        """The least and the most that a tap reads, raised by the offset."""
        lo, hi = x.lo, x.hi
        if self.outside is not None:
            lo, hi = np.minimum(lo, self.outside), np.maximum(hi, self.outside)
        return lo + self.offset, hi + self.offset

    def _integer_bounds(self, x: Bounds) -> Bounds:
        lo, hi = (v.astype(np.int64) for v in self._read(x))
        factors = self.weights.astype(np.int64) + self.w_offset if self.w_offset else self.weights
        positive = np.maximum(factors, 0).sum(axis=1, dtype=np.int64)
        negative = np.minimum(factors, 0).sum(axis=1, dtype=np.int64)
        minimum = self.bias + self._apply(positive, lo) + self._apply(negative, hi)
        maximum = self.bias + self._apply(positive, hi) + self._apply(negative, lo)
        whole = full(self.node.out.type.dtype, len(self.bias))
        wraps = (minimum < whole.lo) | (maximum > whole.hi)
        return Bounds(np.where(wraps, whole.lo, minimum), np.where(wraps, whole.hi, maximum))

    def _apply(self, factors: Array, x: Array) -> Array:
        if self.multiplier:
            return np.asarray(factors[:, 0] * np.repeat(x, self.multiplier))
        return np.asarray(factors @ x)

    def _float_bounds(self, x: Bounds) -> Bounds:
        """Known only where nothing but zeros is added to the bias."""
        zero = (x.lo == 0) & (x.hi == 0) & (self.outside in (None, 0))
        zero = np.repeat(zero, self.multiplier)[:, None] if self.multiplier else zero[None, :]
        still = ~(self.uses & ~zero).any(axis=1)
        if still.any():
            still &= np.isfinite(self.weights).all(axis=(1, 2))
        bias = self.bias.astype(np.float64)
        return Bounds(np.where(still, bias, -np.inf), np.where(still, bias, np.inf))


def sums_of(node: Call, data: Data) -> Sums | None:
    """What a call sums; None where it is no sum of a tensor with constant weights, or one in groups."""
    kind, given = kind_of(node), dict[str, Any](node.attrs)
    if not isinstance(kind, SumOfProducts) or kind.partial or node.args[0].const or given.get("groups", 1) != 1:
        return None
    weights = data(node.args[1])
    if weights is None:
        return None
    rows = np.moveaxis(weights, kind.output_axis(given), 0)
    plain = rows.ndim == 2 and not given.get(kind.trans_x, False) and node.out.type.dtype.is_float
    # a product of floats with a constant matrix is a sum with a bias of zeros
    bias = data(node.args[2]) if kind.bias else np.zeros(len(rows), rows.dtype) if plain else None
    if bias is None:
        return None
    rows = rows.reshape(len(rows), -1, 1 if kind.depthwise else rows.shape[-1])
    outside = given.get("pad_value", 0) if any(given.get("pad", ())) else None
    multiplier = given["multiplier"] if kind.depthwise else 0
    return Sums(node, rows, bias, given.get("x_offset", 0), given.get("w_offset", 0), outside, multiplier)
