"""The zero point of an input moves into the bias; the bounds of the accumulator follow from the weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Call, Node, attrs
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import I8, I32, TensorType
from sdk.compiler.ops.registry import kind_of, sum_of_products
from sdk.compiler.ops.traits import OPAQUE, SumOfProducts
from sdk.compiler.passes.edit import GraphEdit, edit_graphs

__all__ = ["FoldOffset", "channels_first", "is_whole_sum", "sum_bounds"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class FoldOffset:
    """``b + sum((x + old) * w)`` is ``b' + sum((x + new) * w)`` with ``b' = b + (old - new) * sum(w)``.

    The new offset is 0, so that kernels multiply what is stored, or ``x_offset`` = 128 for dot instructions
    that want one factor unsigned. Taps outside the image read a stored value, so the sum runs over all
    weights. A bias or a sum that could leave 32 bits keeps its offset. Then ``acc_bits`` of the one
    ``requantize`` that uses the sum is what these weights need.
    """

    x_offset: int = 0
    name = "fold-offset"

    def run(self, module: Module) -> Module:
        """The module with offsets folded and accumulators bounded."""
        return edit_graphs(module, self._rule)

    def _rule(self, edit: GraphEdit, node: Node) -> bool:
        if not isinstance(node, Call) or node.kind != "op":
            return False
        if node.callee == "requantize":
            return _bound(edit, node)
        if not is_whole_sum(node) or _is_float(node) or _int(node, "x_offset") == self._target(node):
            return False
        weights, bias = _weights(edit, node), edit.data(node.args[2])
        if weights is None or bias is None:
            return False
        old, new = _int(node, "x_offset"), self._target(node)
        moved = bias.astype(np.int64) + (old - new) * (weights.positive + weights.negative)
        low, high = _sums(moved, weights, node.args[0].type, new)
        worst = np.maximum(np.abs(moved) + _steps(weights, node.args[0].type, new), np.maximum(-low, high))
        if worst.max(initial=0) > node.args[2].type.dtype.limits[1]:
            return False
        b = edit.const(f"{node.args[2].name}_at_{new}", moved, node.args[2].type.quant, node.args[2].type)
        given = {**dict(node.attrs), "x_offset": new}
        edit.into(node, node.callee, (*node.args[:2], b), **given)
        return True

    def _target(self, node: Call) -> int:
        """A depthwise sum has no dot instruction to please."""
        dot = node.args[0].type.dtype == I8 and not sum_of_products(node.callee).depthwise
        return self.x_offset if dot else 0


def is_whole_sum(node: Call | None) -> TypeGuard[Call]:
    """Whether each element of what a call gives is a bias and a sum over all of the weights of its channel."""
    kind = OPAQUE if node is None else kind_of(node)
    return isinstance(kind, SumOfProducts) and kind.bias and not kind.partial


def channels_first(node: Call, weights: NDArray[Any]) -> NDArray[Any]:
    """The weights of a sum of products, or numbers of their shape, with the channel of the result as axis 0: a view."""
    return np.moveaxis(weights, sum_of_products(node.callee).output_axis(dict(node.attrs)), 0)


def _is_float(node: Call) -> bool:
    return node.args[0].type.dtype.is_float


def _int(node: Call, name: str) -> int:
    value: Any = dict(node.attrs).get(name, 0)
    return int(value)


@dataclass(frozen=True)
class _Factors:
    """For each output channel, the sum of its positive factors and that of its negative ones."""

    positive: Ints
    negative: Ints


def _weights(edit: GraphEdit, node: Call) -> _Factors | None:
    """The factors of a sum of products."""
    data = edit.data(node.args[1])
    if data is None:
        return None
    rows = channels_first(node, data)
    rows = rows.reshape(rows.shape[0], -1)
    offset = _int(node, "w_offset")
    shifted = rows.astype(np.int64) + offset if offset else rows
    return _Factors(_total(np.maximum(shifted, 0)), _total(np.minimum(shifted, 0)))


def _total(rows: NDArray[Any]) -> Ints:
    return np.asarray(rows.sum(axis=1, dtype=np.int64))


def _limits(x: TensorType, offset: int) -> tuple[int, int]:
    lo, hi = x.dtype.limits
    return lo + offset, hi + offset


def _sums(bias: Ints, weights: _Factors, x: TensorType, offset: int) -> tuple[Ints, Ints]:
    """Smallest and largest sum of each channel over all inputs."""
    lo, hi = _limits(x, offset)
    positive, negative = weights.positive, weights.negative
    return bias + positive * lo + negative * hi, bias + positive * hi + negative * lo


def sum_bounds(edit: GraphEdit, node: Call) -> tuple[Ints, Ints] | None:
    """The smallest and the largest sum of each channel of a whole sum over all inputs; None where its weights or its
    bias are known only at run time."""
    weights, bias = _weights(edit, node), edit.data(node.args[2])
    if _is_float(node) or weights is None or bias is None:
        return None
    return _sums(bias.astype(np.int64), weights, node.args[0].type, _int(node, "x_offset"))


def _steps(weights: _Factors, x: TensorType, offset: int) -> Ints:
    """The farthest that partial sums in any order may go."""
    farthest: Ints = (weights.positive - weights.negative) * max(map(abs, _limits(x, offset)))
    return farthest


def _bound(edit: GraphEdit, node: Call) -> bool:
    """Tightens ``acc_bits`` of a requantize from the weights of the sum it alone uses."""
    total = edit.made_by(node.args[0])
    if not is_whole_sum(total) or edit.uses[node.args[0].name] != 1 or node.args[0].type.dtype != I32:
        return False
    bounds, shift = sum_bounds(edit, total), edit.data(node.args[2])
    if bounds is None or shift is None:
        return False
    low, high = bounds
    spare: Any = dict(node.attrs).get("spare", 0)
    reach = np.maximum(-low, high) << (spare or np.maximum(shift.astype(np.int64), 0))
    bits = max(int(reach.max(initial=0)).bit_length(), 1)
    if bits >= _int(node, "acc_bits"):
        return False
    edit.keep(replace(node, attrs=attrs(**{**dict(node.attrs), "acc_bits": bits})))
    return True
