"""Convolutions, and the normalisation of their channels."""

from __future__ import annotations

from sdk.compiler.ir.graph import Value
from sdk.compiler.sym import Dim
from sdk.frontends.convolutions import convolved, normalized_channels, transposed_convolved, weight_shape
from sdk.frontends.onnx.context import OnnxNode, onnx_op
from sdk.frontends.onnx.images import window_of

__all__ = ["convolution"]


def convolution(node: OnnxNode, x: Value, w: int, b: Value | None) -> Value:
    """Emits the convolution of the float image ``x[n, c, ..]`` with the weights of input ``w``."""
    shape = weight_shape(node, node.raw(w))
    if len(shape) != x.type.rank or len(shape) < 3:
        node.fail(f"weights of rank {len(shape)} for an image of rank {x.type.rank}")
    kernel = node.ints("kernel_shape", shape[2:])
    if tuple(kernel) != shape[2:]:
        node.fail(f"the attribute kernel_shape {list(kernel)} is not that of the weights, {list(shape[2:])}")
    window = window_of(node, x.type.shape[2:], kernel)
    return convolved(node, x, node.raw(w), b, window, node.int("group", 1))


@onnx_op("Conv")
def conv(node: OnnxNode) -> Value:
    """Convolution over 1, 2 or 3 axes, in groups."""
    return convolution(node, node.x(0), 1, node.optional(2))


def _transposed_pads(node: OnnxNode, sizes: tuple[Dim, ...], kernel: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Rows cut off before and after, and rows added after, along each axis: the pads and the output padding."""
    axes = len(kernel)
    stride, dilation = node.ints("strides", (1,) * axes), node.ints("dilations", (1,) * axes)
    more = list(node.ints("output_padding", (0,) * axes))
    pads = list(node.ints("pads", (0,) * 2 * axes))
    auto = node.text("auto_pad", "NOTSET")
    wanted = node.ints("output_shape", None)
    if wanted is not None:
        wanted = wanted[-axes:]
    if auto == "VALID":
        pads = [0] * 2 * axes
    elif wanted is not None or auto != "NOTSET":
        for k in range(axes):
            target: Dim = wanted[k] if wanted is not None else sizes[k] * stride[k]
            total = (sizes[k] - 1) * stride[k] + more[k] + (kernel[k] - 1) * dilation[k] + 1 - target
            if not isinstance(total, int):
                node.fail(f"its padding {total} depends on the size of the image")
            more[k] += max(-total, 0)
            number = max(total, 0)
            before = number // 2 if auto == "SAME_UPPER" else number - number // 2
            pads[k], pads[k + axes] = before, number - before
    return pads, more


@onnx_op("ConvTranspose")
def conv_transpose(node: OnnxNode) -> Value:
    """Transposed convolution over 1, 2 or 3 axes, in groups: weights [c, o / groups, ..]."""
    x, shape = node.x(0), weight_shape(node, node.raw(1))
    kernel = shape[2:]
    axes = len(kernel)
    if axes != x.type.rank - 2:
        node.fail(f"weights of rank {len(shape)} for an image of rank {x.type.rank}")
    pads, more = _transposed_pads(node, x.type.shape[2:], kernel)
    stride, dilation = node.ints("strides", (1,) * axes), node.ints("dilations", (1,) * axes)
    return transposed_convolved(
        node, x, node.raw(1), node.optional(2), stride, dilation, pads, more, node.int("group", 1)
    )


@onnx_op("BatchNormalization")
def batch_normalization(node: OnnxNode) -> Value:
    """A scale and a shift per channel, as learnt."""
    if node.int("training_mode", 0) or node.outputs > 1:
        node.fail("batch normalisation in training mode is not supported", hint="export the model for inference")
    gamma, beta, mean, var = (node.x(k) for k in range(1, 5))
    return normalized_channels(node, node.x(0), gamma, beta, mean, var, node.float("epsilon", 1e-5))
