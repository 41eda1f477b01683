"""Scales and shifts per channel after a sum of products move into its weights and bias: batch normalisation is free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Call, Node, Value
from sdk.compiler.ir.module import Module
from sdk.compiler.passes.edit import GraphEdit, edit_graphs

__all__ = ["FoldScale"]

Array = NDArray[Any]
# ops that sum products and add a bias, and the axis of their weights that is the output channel
SUMS: Final = {
    "conv2d": 0, "conv3d": 0, "depthwise_conv2d": -1, "conv_transpose2d": 0, "conv_transpose3d": 0,
}  # fmt: skip


@dataclass(frozen=True)
class FoldScale:
    """``conv(x, w, b) * k`` is ``conv(x, w * k, b * k)`` and ``conv(x, w, b) + k`` is ``conv(x, w, b + k)`` where the
    weights are constant and ``k`` too, one number per channel; likewise ``matmul(x, w) * k``. Only floats, where the
    sum has no other use. The new weights are computed in double precision.
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
        total = edit.made_by(node.args[k], *SUMS, "matmul")
        factor = edit.data(node.args[other])
        if total is None or factor is None or total.out.type != node.out.type:
            continue
        if edit.uses[total.out.name] == 1:
            channels = _per_channel(factor, total)
            if channels is not None and _fold(edit, node, total, channels):
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


def _fold(edit: GraphEdit, node: Call, total: Call, k: Array) -> bool:
    weights = edit.data(total.args[1])
    if total.callee == "matmul":
        axis = -2 if dict(total.attrs).get("trans_b", False) else -1
        if node.callee not in ("mul", "div") or weights is None or weights.ndim < 2:
            return False
        w = _const(edit, total.args[1], _along(weights, axis, _factor(node, k)))
        edit.into(node, "matmul", (total.args[0], w), **dict(total.attrs))
        return True
    bias = edit.data(total.args[2])
    if weights is None or bias is None:
        return False
    x, w, b = total.args
    if node.callee in ("mul", "div"):
        w = _const(edit, w, _along(weights, SUMS[total.callee], _factor(node, k)))
        b = _const(edit, b, bias.astype(np.float64) * _factor(node, k))
    else:
        b = _const(edit, b, bias.astype(np.float64) + (k if node.callee == "add" else -k))
    edit.into(node, total.callee, (x, w, b), **dict(total.attrs))
    return True


def _factor(node: Call, k: Array) -> Array:
    return k if node.callee == "mul" else np.asarray(1.0 / k)


def _along(weights: Array, axis: int, k: Array) -> Array:
    shape = [1] * weights.ndim
    shape[axis] = -1
    return np.asarray(weights.astype(np.float64) * k.reshape(shape))


def _const(edit: GraphEdit, old: Value, data: Array) -> Value:
    return edit.const(f"{old.name}_scaled", data.astype(old.type.dtype.numpy), None, old.type)
