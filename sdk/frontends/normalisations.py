"""Rows and channels without their mean, by their deviation."""

from __future__ import annotations

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.sym import product
from sdk.frontends.emit import Emitter
from sdk.frontends.moves import reshaped

__all__ = ["normalized", "per_channel", "rows"]


def per_channel(node: Emitter, x: Value, scale: Value, bias: Value) -> Value:
    """x * scale + bias with one number each per channel, which is axis 1."""
    shape = (scale.type.shape[0], *(1,) * (x.type.rank - 2))
    down = node.call("mul", x, reshaped(node, scale, shape))
    return node.call("add", down, reshaped(node, bias, shape))


def normalized(node: Emitter, x: Value, epsilon: float) -> Value:
    """Each row without its mean, by its deviation."""
    one, zero = (node.const(np.full(1, k, dtype=x.type.dtype.numpy)) for k in (1, 0))
    return node.call("layer_norm", x, one, zero, epsilon=epsilon)


def rows(
    node: Emitter, op: str, x: Value, axis: int, epsilon: float, scale: Value, bias: Value | None
) -> Value:
    """``op`` on the rows that all axes from ``axis`` on make; scale and bias after it where they are broadcast."""
    rest = x.type.shape[axis:]
    flat = reshaped(node, x, (*x.type.shape[:axis], product(rest)))
    given = [v for v in (scale, bias) if v is not None]
    inside = all(product(v.type.shape) == product(rest) for v in given)
    if inside:
        lines = [reshaped(node, v, (product(rest),)) for v in given]
    else:
        lines = [node.const(np.ones(1, dtype=x.type.dtype.numpy))]
    if op == "layer_norm" and len(lines) == 1:
        lines.append(node.const(np.zeros(1, dtype=x.type.dtype.numpy)))
    y = reshaped(node, node.call(op, flat, *lines, epsilon=epsilon), x.type.shape)
    if inside:
        return y
    y = node.call("mul", y, scale)
    return y if bias is None else node.call("add", y, bias)
