"""ONNX operators that put windows back into images: Col2Im, MaxUnpool."""

from __future__ import annotations

from sdk.compiler.ir.graph import Value
from sdk.compiler.sym import Dim, product
from sdk.frontends.onnx.context import OnnxNode, onnx_op
from sdk.frontends.refolding import refolded

__all__: list[str] = []


@onnx_op("Col2Im")
def col2im(node: OnnxNode) -> Value:
    """The sum of the blocks at their places in an image: a scatter to places known when the model is built."""
    x = node.x(0)
    image, block = _numbers(node, 1), _numbers(node, 2)
    rank = len(image)
    strides, dilations = node.ints("strides", (1,) * rank), node.ints("dilations", (1,) * rank)
    return refolded(node, x, image, block, strides, dilations, node.ints("pads", (0,) * (2 * rank)))


def _numbers(node: OnnxNode, k: int) -> list[int]:
    found = [d for d in node.dims(k) if isinstance(d, int)]
    if len(found) != len(node.dims(k)):
        node.fail(f"input {k} must be numbers")
    return found


@onnx_op("MaxUnpool")
def max_unpool(node: OnnxNode) -> Value:
    """Values at the places that a pool found them at, 0 elsewhere; a larger image gets more zeros at its ends."""
    x, places = node.x(0), node.x(1)
    kernel = node.ints("kernel_shape")
    rank = len(kernel)
    strides, pads = node.ints("strides", (1,) * rank), node.ints("pads", (0,) * (2 * rank))
    own: list[Dim] = list(x.type.shape[:2])
    for k, size in enumerate(x.type.shape[2:]):
        own.append((size - 1) * strides[k] + kernel[k] - pads[k] - pads[k + rank])
    zeros = node.call("full", shape=(product(tuple(own)),), value=0.0, dtype=str(x.type.dtype))
    values, at = (node.call("reshape", v, shape=(product(x.type.shape),)) for v in (x, places))
    found = node.call("scatter_elements", zeros, at, values, axis=0, reduction="none")
    out = node.call("reshape", found, shape=tuple(own))
    if not node.given_input(2):
        return out
    wanted = node.dims(2)
    border = tuple((0, b - a) for a, b in zip(own, wanted, strict=True))
    return out if all(after == 0 for _, after in border) else node.call("pad", out, pads=border, value=0.0)
