"""Weights alone as integers: products of matrices by blocks of their inputs, convolutions by channel; activations stay
floats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from sdk.quantizer.net import Array, Net
from sdk.quantizer.place import layer_name
from sdk.quantizer.sums import Sum, as_sum

__all__ = ["weight_layers", "write_weights"]

_TYPES = {4: TensorProto.INT4, 8: TensorProto.INT8}


def weight_layers(net: Net, skipped: Iterable[str] = ()) -> list[Sum]:
    """The layers whose weights can be stored as integers."""
    gone = set(skipped)
    sums = [as_sum(net, k) for k in range(len(net.nodes))]
    return [one for one in sums if one is not None and layer_name(net.nodes[one.node]) not in gone]


def bits_of(one: Sum, bits: int) -> int:
    """Bits of the weights of a layer: those of convolutions, few and used often, are never below 8."""
    return bits if one.op in ("Gemm", "MatMul") else 8


def write_weights(net: Net, layers: Iterable[Sum], bits: int, group: int) -> onnx.ModelProto:
    """The model with the weights of these layers as integers.

    Args:
        net: the float net; left as it is.
        layers: of ``weight_layers``.
        bits: of a weight of a product, 8 or 4.
        group: inputs of a product that share a scale, for each output.
    """
    made = net.copy()
    nodes: list[onnx.NodeProto] = []
    stored: dict[tuple[str, int], str] = {}
    by_node = {one.node: one for one in layers}
    for k, node in enumerate(made.nodes):
        one = by_node.get(k)
        if one is not None:
            axis = one.inputs if one.op in ("Gemm", "MatMul") else one.outputs
            if (one.weights, axis) not in stored:
                dequantised, name = _dequantised(made, one, bits_of(one, bits), group)
                nodes.append(dequantised)
                stored[one.weights, axis] = name
            node.input[1] = stored[one.weights, axis]
        nodes.append(node)
    made.nodes = nodes
    return made.proto()


def _dequantised(net: Net, one: Sum, bits: int, group: int) -> tuple[onnx.NodeProto, str]:
    """The node that gives the weights of a layer back as reals, and what it makes."""
    data = net.floats(one.weights)
    reals = net.fresh(f"{one.weights}_dequantized")
    if one.op in ("Gemm", "MatMul"):
        integers, scales = _blocks(data, one.inputs, bits, group)
        given: dict[str, Any] = {"axis": one.inputs, "block_size": group}
    else:
        integers, scales = _channels(data, one.outputs)
        given = {"axis": one.outputs}
    names = [
        net.const(f"{one.weights}_quantized", integers, _TYPES[bits] if bits < 8 else None),
        net.const(f"{one.weights}_scale", scales),
    ]
    made = helper.make_node("DequantizeLinear", names, [reals], f"{one.weights}_dequantize", **given)
    return made, reals


def _rounded(data: Array, scales: Array, limit: int) -> Array:
    return np.clip(np.rint(data.astype(np.float64) / scales), -limit - 1, limit).astype(np.int8)


def _steps(exact: Array) -> Array:
    """Scales as they are stored; what is all zeros has any."""
    scales = exact.astype(np.float32)
    return np.where(scales > np.finfo(np.float32).tiny, scales, np.float32(1.0))


def _channels(data: Array, axis: int) -> tuple[Array, Array]:
    """Integers of 8 bits, and a scale for each index of an axis."""
    others = tuple(k for k in range(data.ndim) if k != axis)
    scales = _steps(np.abs(data).max(axis=others).astype(np.float64) / 127)
    shape = [1] * data.ndim
    shape[axis] = -1
    return np.maximum(_rounded(data, scales.reshape(shape).astype(np.float64), 127), np.int8(-127)), scales


def _blocks(data: Array, axis: int, bits: int, group: int) -> tuple[Array, Array]:
    """Integers of some bits, and a scale for each block along an axis, the last of which may be short. The largest
    weight of a block becomes the end of the integers on its side: of 4 bits, -8 or 7."""
    limit = (1 << (bits - 1)) - 1
    rows = np.moveaxis(data, axis, -1)
    blocks = -(-rows.shape[-1] // group)
    padded = np.zeros((*rows.shape[:-1], blocks * group), np.float32)
    padded[..., : rows.shape[-1]] = rows
    parts = padded.reshape(*rows.shape[:-1], blocks, group)
    above, below = parts.max(axis=-1).astype(np.float64), -parts.min(axis=-1).astype(np.float64)
    scales = _steps(np.maximum(above / limit, below / (limit + 1)))
    exact = _rounded(parts, scales[..., None].astype(np.float64), limit)
    exact = exact.reshape(*rows.shape[:-1], -1)[..., : rows.shape[-1]]
    return np.ascontiguousarray(np.moveaxis(exact, -1, axis)), np.ascontiguousarray(np.moveaxis(scales, -1, axis))
