"""Sums of products in a net: the nodes with constant weights, as what all that works on weights wants to know."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx

from sdk.quantizer.net import Array, Net, attribute

__all__ = ["Sum", "as_sum", "set_bias", "sum_at"]

_WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})


@dataclass(frozen=True)
class Sum:
    """A node with constant weights of single floats.

    Attributes:
        node: its number.
        op: its operator.
        x: the tensor that it multiplies.
        weights: the constant.
        outputs: the axis of the weights that counts channels of the result; with ``groups`` of a ConvTranspose those of
            one group.
        inputs: the axis of the weights that counts channels of ``x`` (of one group).
        groups: of a convolution.
        bias: the constant that is added to each channel, None without.
    """

    node: int
    op: str
    x: str
    weights: str
    outputs: int
    inputs: int
    groups: int
    bias: str | None

    @property
    def depthwise(self) -> bool:
        """Whether each channel of the result is made of one channel alone."""
        return self.groups > 1

    def channels(self, data: Array) -> int:
        """Channels of the result, from the weights."""
        return int(data.shape[self.outputs]) * (self.groups if self.op == "ConvTranspose" else 1)


def as_sum(net: Net, number: int) -> Sum | None:
    """The node as a sum of products; None for what is none, or whose weights or bias are not known."""
    node = net.nodes[number]
    if node.op_type not in _WEIGHTED or node.domain not in ("", "ai.onnx") or len(node.input) < 2:
        return None
    data = net.reals(node.input[1])
    x, bias = node.input[0], node.input[2] if len(node.input) > 2 and node.input[2] else None
    if data is None or data.size == 0 or x in net.tensors or (bias is not None and net.reals(bias) is None):
        return None
    axes = _axes(node, data)
    if axes is None:
        return None
    found = Sum(number, node.op_type, x, node.input[1], *axes, bias)
    return found if bias is None or _bias_fits(net, found, data) else None


def sum_at(net: Net, number: int) -> Sum:
    """A node that is known to be a sum of products."""
    found = as_sum(net, number)
    assert found is not None, number
    return found


def _axes(node: onnx.NodeProto, data: Array) -> tuple[int, int, int] | None:
    """The axes of outputs and inputs, and the groups."""
    groups = attribute(node, "group", 1)
    match node.op_type:
        case "Conv" if data.ndim >= 3 and groups >= 1 and data.shape[0] % groups == 0:
            return 0, 1, groups
        case "ConvTranspose" if data.ndim >= 3 and groups >= 1 and data.shape[0] % groups == 0:
            return 1, 0, groups
        case "Gemm" if data.ndim == 2 and not attribute(node, "transA", 0):
            return (0, 1, 1) if attribute(node, "transB", 0) else (1, 0, 1)
        case "MatMul" if data.ndim == 2:
            return 1, 0, 1
    return None


def _bias_fits(net: Net, one: Sum, data: Array) -> bool:
    """Whether the bias has a number for each channel; of Gemm it may have one for all."""
    bias = net.reals(one.bias) if one.bias is not None else None
    if bias is None:
        return False
    count = one.channels(data)
    if one.op == "Gemm":
        return bias.size in (1, count) and bias.shape[-1:] in ((), (1,), (count,)) and bias.ndim <= 2
    return bias.shape == (count,)


def set_bias(net: Net, one: Sum, bias: Array) -> None:
    """Gives a Conv, ConvTranspose or Gemm this bias, a number for each channel."""
    node = net.nodes[one.node]
    name = net.const(one.bias or f"{node.name or node.output[0]}_bias", bias.astype(np.float32))
    inputs = [*node.input[:2], name]
    del node.input[:]
    node.input.extend(inputs)
