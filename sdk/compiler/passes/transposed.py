"""A transposed convolution as an ordinary one: every phase of its stride is a convolution of the same image."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Call
from sdk.compiler.passes.edit import GraphEdit

__all__ = ["as_convolution"]

Array = NDArray[Any]


def as_convolution(edit: GraphEdit, node: Call) -> bool:
    """rewrite: ``conv_transpose2d(x, w, b)`` --> ``slice(depth_to_space(conv2d(x, w', b')))``.

    Output row ``s*q + r`` sums ``x[q - j] * w[r + s*j]`` over j: for each r a convolution, all of them one with s*s
    times the channels. Weights past the end of the window are zero.
    """
    weights, bias = edit.data(node.args[1]), edit.data(node.args[2])
    given: dict[str, Any] = dict(node.attrs)
    if weights is None or bias is None or max(given["dilation"]) > 1 or given.get("groups", 1) > 1:
        return False
    x, out = node.args[0], node.out.type.shape
    kernel, stride, pad, more = weights.shape[1:3], given["stride"], given["pad"], given["more"]
    taps = [-(-k // s) for k, s in zip(kernel, stride, strict=True)]
    after = [max(-(-(kernel[k] + more[k] - pad[k + 2]) // stride[k]) - 1, 0) for k in (0, 1)]
    w = edit.const(f"{node.args[1].name}_phases", _phases(weights, stride, taps), None, node.args[1].type)
    b = edit.const(f"{node.args[2].name}_phases", np.tile(bias, stride[0] * stride[1]), None, node.args[2].type)
    window = {"stride": (1, 1), "dilation": (1, 1), "pad": (taps[0] - 1, taps[1] - 1, after[0], after[1])}
    spread = tuple(stride) != (1, 1)
    sizes = tuple((x.type.shape[k + 1] + after[k]) * stride[k] for k in (0, 1))
    whole = not any(pad[:2]) and all(isinstance(d, int) and d == 0 for d in (sizes[0] - out[1], sizes[1] - out[2]))
    if whole and not spread:
        edit.into(node, "conv2d", (x, w, b), **window)
        return True
    y = edit.call("conv2d", (x, w, b), node, f"{node.out.name}_phases", **window)
    if whole:
        edit.into(node, "depth_to_space", (y,), block=tuple(stride))
        return True
    if spread:
        y = edit.call("depth_to_space", (y,), node, f"{node.out.name}_whole", block=tuple(stride))
    edit.into(node, "slice", (y,), begin=(0, pad[0], pad[1], 0), size=out, strides=(1, 1, 1, 1))
    return True


def _phases(weights: Array, stride: Any, taps: list[int]) -> Array:
    """Weights [o, kh, kw, c] as [sh * sw * o, taps, taps, c], the taps turned round."""
    (sh, sw), (o, kh, kw, c) = stride, weights.shape
    full = np.zeros((o, taps[0] * sh, taps[1] * sw, c), weights.dtype)
    full[:, :kh, :kw] = weights
    split = full.reshape(o, taps[0], sh, taps[1], sw, c)[:, ::-1, :, ::-1]
    return np.ascontiguousarray(split.transpose(2, 4, 0, 1, 3, 5)).reshape(sh * sw * o, taps[0], taps[1], c)
