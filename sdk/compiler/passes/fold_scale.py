"""Scales and shifts per channel after a sum of products move into its weights and bias: batch normalisation is free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Call, Node, Value
from sdk.compiler.ir.module import Module
from sdk.compiler.ops.registry import kind_of
from sdk.compiler.ops.traits import SumOfProducts
from sdk.compiler.passes.edit import GraphEdit, edit_graphs

__all__ = ["FoldScale"]

Array = NDArray[Any]


@dataclass(frozen=True)
class FoldScale:
    """``conv(x, w, b) * k`` is ``conv(x, w * k, b * k)`` and ``conv(x, w, b) + k`` is ``conv(x, w, b + k)`` where the
    weights are constant and ``k`` too, one number per channel; likewise ``matmul(x, w) * k`` and any sum of products.
    Only floats, where the sum has no other use. The new weights are computed in double precision.
    """

    name = "fold-scale"

    def run(self, module: Module) -> Module:
        """The module with scales and shifts folded until none is left."""
        while (new := edit_graphs(module, _rule)) is not module:
            module = new
        return module


def _rule(edit: GraphEdit, node: Node) -> bool:
    if not isinstance(node, Call) or node.kind != "op" or node.callee not in ("mul", "add", "sub", "div"):
        return False
    if not node.out.type.dtype.is_float:
        return False
    orders = ((0, 1), (1, 0)) if node.callee in ("mul", "add") else ((0, 1),)
    for k, other in orders:
        total, factor = edit.made_by(node.args[k]), edit.data(node.args[other])
        kind = None if total is None else kind_of(total)
        if total is None or factor is None or not isinstance(kind, SumOfProducts) or total.out.type != node.out.type:
            continue
        if edit.uses[total.out.name] == 1:
            channels = _per_channel(factor, total)
            if channels is not None and _fold(edit, node, total, kind, channels):
                return True
    return False


def _per_channel(factor: Array, total: Call) -> Array | None:
    """A constant as one number per output channel; None where it varies along another axis."""
    channels = total.out.type.shape[-1]
    if not isinstance(channels, int) or factor.size not in (1, channels) or factor.ndim > total.out.type.rank:
        return None
    if factor.size > 1 and factor.shape[-1] != channels:
        return None
    return np.broadcast_to(factor.astype(np.float64).reshape(-1), (channels,))


def _fold(edit: GraphEdit, node: Call, total: Call, kind: SumOfProducts, k: Array) -> bool:
    args, scales = list(total.args), node.callee in ("mul", "div")
    weights, bias = edit.data(args[1]), edit.data(args[2]) if kind.bias else None
    if weights is None or weights.ndim < 2 or (bias is None and (kind.bias or not scales)):
        return False
    if scales:
        axis = kind.output_axis(dict(total.attrs))
        args[1] = _const(edit, args[1], _along(weights, axis, _factor(node, k)))
    if bias is not None:
        args[2] = _const(edit, args[2], _moved(node, bias.astype(np.float64), k))
    edit.into(node, total.callee, args, **dict(total.attrs))
    return True


def _moved(node: Call, bias: Array, k: Array) -> Array:
    """The bias of the sum that ``node`` scales or shifts."""
    match node.callee:
        case "add":
            return np.asarray(bias + k)
        case "sub":
            return np.asarray(bias - k)
        case _:
            return np.asarray(bias * _factor(node, k))


def _factor(node: Call, k: Array) -> Array:
    return k if node.callee == "mul" else np.asarray(1.0 / k)


def _along(weights: Array, axis: int, k: Array) -> Array:
    shape = [1] * weights.ndim
    shape[axis] = -1
    return np.asarray(weights.astype(np.float64) * k.reshape(shape))


def _const(edit: GraphEdit, old: Value, data: Array) -> Value:
    return edit.const(f"{old.name}_scaled", data.astype(old.type.dtype.numpy), None, old.type)
