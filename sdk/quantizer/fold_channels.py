"""Scales and offsets of channels go into the weights before them: batch normalisation, arithmetic with constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from sdk.compiler.ir.types import F32, TensorType
from sdk.quantizer.net import Array, Net, attribute
from sdk.quantizer.sums import Sum, as_sum, set_bias

__all__ = ["fold_channels"]

_IMAGES = ("Conv", "ConvTranspose")


def fold_channels(net: Net, types: Mapping[str, TensorType]) -> None:
    """Folds every scale and offset that follows a sum of products alone into its weights and bias. A batch
    normalisation that follows something else becomes a convolution of single pixels, which has integer kernels.

    ``types`` are those of the tensors, by name.
    """
    for k, node in enumerate(net.nodes):  # a product of two matrices may have a bias as a Gemm
        one = as_sum(net, k)
        if one is not None and one.op == "MatMul" and one.x in types:
            if types[one.x].rank == 2:
                node.op_type = "Gemm"
            else:
                _spread_bias(net, one, types[one.x].rank)
    k = 0
    while k < len(net.nodes):
        k += not _fold(net, k, types)
    for k, node in enumerate(net.nodes):
        if node.op_type == "BatchNormalization":
            _as_convolution(net, k, types)


def _spread_bias(net: Net, one: Sum, rank: int) -> None:
    """Gives what is added to a product of several matrices their rank. (onnxruntime 1.31 makes a Gemm of a product
    with a bias of rank 1, and at opset 21 then fails on the types that it gives the quantised input.)"""
    out = net.nodes[one.node].output[0]
    after = net.alone(out, net.readers())
    node = None if after is None else net.nodes[after]
    if node is None or node.op_type != "Add":
        return
    for k, name in enumerate(node.input):
        bias = net.reals(name)
        if bias is not None and bias.shape == (one.channels(net.floats(one.weights)),):
            node.input[k] = net.const(name, bias.reshape(*[1] * (rank - 1), -1))


def _fold(net: Net, number: int, types: Mapping[str, TensorType]) -> bool:
    """Folds what follows a node into it; whether there was something."""
    one = as_sum(net, number)
    if one is None:
        return False
    out = net.nodes[number].output[0]
    after = net.alone(out, net.readers())
    found = None if after is None else _affine(net, after, out, one, types)
    if after is None or found is None:
        return False
    _scale(net, one, *found)
    result = net.nodes[after].output[0]
    net.nodes[number].output[0] = result
    net.drop([after])
    return True


def _affine(
    net: Net, number: int, out: str, one: Sum, types: Mapping[str, TensorType]
) -> tuple[Array, Array] | None:
    """What a node multiplies each channel of ``out`` by and then adds; None where it does something else."""
    node, weights = net.nodes[number], net.reals(one.weights)
    rank = types[out].rank if out in types else 0
    if weights is None or not rank or node.domain not in ("", "ai.onnx"):
        return None
    count = one.channels(weights)
    axis = 1 if one.op in _IMAGES else rank - 1
    if node.op_type == "BatchNormalization":
        return _normalisation(net, node, count) if axis == 1 else None
    if node.op_type not in ("Add", "Sub", "Mul", "Div") or list(node.input).count(out) != 1:
        return None
    first = node.input[0] == out
    data = net.reals(node.input[1 if first else 0])
    by_channel = None if data is None else _by_channel(data, rank, axis, count)
    if by_channel is None or (one.op == "MatMul" and node.op_type in ("Add", "Sub")):
        return None  # a MatMul has no bias: what is added stays beside it
    ones, zeros = np.ones(count), np.zeros(count)
    match node.op_type, first:
        case "Add", _:
            return ones, by_channel
        case "Sub", True:
            return ones, -by_channel
        case "Sub", False:
            return -ones, by_channel
        case "Mul", _:
            return by_channel, zeros
        case "Div", True if by_channel.all():
            return 1.0 / by_channel, zeros
    return None


def _by_channel(data: Array, rank: int, axis: int, count: int) -> Array | None:
    """A constant that broadcasts along one axis only, as a number for each index of that."""
    if data.ndim > rank:
        return None
    shape = (1,) * (rank - data.ndim) + data.shape
    if any(n != 1 for k, n in enumerate(shape) if k != axis) or shape[axis] not in (1, count):
        return None
    return np.broadcast_to(data.reshape(-1).astype(np.float64), count).copy()


def _normalisation(net: Net, node: onnx.NodeProto, count: int) -> tuple[Array, Array] | None:
    """The scale and offset of a batch normalisation with known statistics."""
    parts = [net.reals(name) for name in node.input[1:5]]
    if len(parts) < 4 or attribute(node, "training_mode", 0) or any(name for name in node.output[1:]):
        return None
    if any(p is None or p.shape != (count,) for p in parts):
        return None
    scale, bias, mean, variance = (p.astype(np.float64) for p in parts if p is not None)
    spread = variance + float(attribute(node, "epsilon", 1e-5))
    if not (spread > 0).all():
        return None
    factor = scale / np.sqrt(spread)
    return factor, bias - mean * factor


def _scale(net: Net, one: Sum, factor: Array, offset: Array) -> None:
    """Weights times a factor for each channel of the result, and an offset added to it."""
    weights = net.floats(one.weights)
    node = net.nodes[one.node]
    if one.op == "ConvTranspose":  # [inputs, outputs of a group, ..]: the inputs of a group are together
        grouped = weights.reshape(one.groups, -1, *weights.shape[1:])
        by = factor.reshape(one.groups, 1, -1, *[1] * (weights.ndim - 2))
        scaled = (grouped * by).reshape(weights.shape)
    else:
        shape = [1] * weights.ndim
        shape[one.outputs] = -1
        scaled = weights * factor.reshape(shape)
    node.input[1] = net.const(one.weights, scaled.astype(np.float32))
    if one.op == "MatMul":
        return
    bias = net.reals(one.bias) if one.bias is not None else None
    old = np.zeros(len(factor)) if bias is None else np.broadcast_to(bias.reshape(-1), len(factor)).astype(np.float64)
    if bias is not None or offset.any():
        set_bias(net, one, old * factor + offset)


def _as_convolution(net: Net, number: int, types: Mapping[str, TensorType]) -> None:
    """A batch normalisation of images as a depthwise convolution with one tap."""
    node = net.nodes[number]
    kind = types.get(node.input[0])
    if kind is None or kind.rank < 3 or kind.dtype != F32 or not isinstance(kind.shape[1], int):
        return
    found = _normalisation(net, node, kind.shape[1])
    if found is None:
        return
    count, axes = kind.shape[1], kind.rank - 2
    stem = node.name or node.output[0]
    weights = net.const(f"{stem}_scale", found[0].astype(np.float32).reshape(count, 1, *[1] * axes))
    bias = net.const(f"{stem}_offset", found[1].astype(np.float32))
    given: dict[str, Any] = {"group": count, "kernel_shape": [1] * axes}
    made = helper.make_node("Conv", [node.input[0], weights, bias], [node.output[0]], node.name, **given)
    net.nodes[number] = made
