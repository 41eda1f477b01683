"""A quantised net as a plain ONNX model: QuantizeLinear and DequantizeLinear around what is computed on integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper

from sdk.compiler.ir.graph import fresh_name
from sdk.quantizer.net import Array, Net
from sdk.quantizer.place import Layer, Placement
from sdk.quantizer.sums import Sum

__all__ = ["WEIGHT_LIMIT", "Steps", "bias_of", "weight_scales", "write"]

Steps = Mapping[str, tuple[float, int]]  # scale and zero point of each stored tensor
WEIGHT_LIMIT: Final = 127  # -128 stays unused, so that weights are symmetric
_BIAS_LIMIT: Final = float(1 << 30)


def weight_scales(data: Array, axis: int, bias: Array | None, x_scale: float) -> Array:
    """A scale for each channel along an axis of weights: all of the channel fits into -127..127, and so does its bias
    into 32 bits of steps of ``x_scale`` times the scale."""
    peak = np.abs(data).max(axis=tuple(k for k in range(data.ndim) if k != axis)).astype(np.float64)
    scales = peak / WEIGHT_LIMIT
    if bias is not None:
        scales = np.maximum(scales, np.abs(bias.astype(np.float64)) / (x_scale * _BIAS_LIMIT))
    usual = float(scales.max(initial=0.0)) or 1.0
    scales = np.where(scales > usual * 1e-7, scales, usual)  # channels of zeros
    return scales.astype(np.float32)


def bias_of(net: Net, layer: Layer) -> Array | None:
    """The bias of a layer, in its node or in the one that adds it, as a row of numbers; None without."""
    if layer.sum is not None and layer.sum.bias is not None:
        return net.floats(layer.sum.bias).reshape(-1)
    if layer.bias_of is None:
        return None
    return next((net.floats(n).reshape(-1) for n in net.nodes[layer.bias_of].input if n in net.tensors), None)


@dataclass
class _Writer:
    net: Net  # a copy, whose nodes are written anew
    placement: Placement
    steps: Steps
    kind: np.dtype
    integer_io: bool
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    made: set[str] = field(default_factory=set)  # tensors that layers on integers make
    real: dict[str, str] = field(default_factory=dict)  # each stored tensor dequantised
    weights: dict[tuple[str, int, bytes], str] = field(default_factory=dict)

    def run(self) -> onnx.ModelProto:
        """The model."""
        nodes, self.taken = self.net.nodes, self.net.names()
        layers = self.placement.layers
        self.made = {name for one in layers for name in one.outputs}
        inside = {k for one in layers for k in (one.node, *one.folded)}
        of_node = {one.node: one for one in layers}
        biases = {one.bias_of: one for one in layers if one.bias_of is not None}
        stored = set(self.placement.stored)
        for name in self.net.inputs:
            if name in stored:
                self.store_input(name)
        for k, node in enumerate(nodes):
            constants = self.constants(of_node[k]) if k in of_node else {}
            if k in biases:
                constants = self.added(biases[k])
            inputs = [constants.get(name) or self.read(name, k in inside) for name in node.input]
            del node.input[:]
            node.input.extend(inputs)
            renamed = {name: self.name(f"{name}_real") for name in node.output if self.is_result(name, stored)}
            outputs = [renamed.get(name, name) for name in node.output]
            names = list(node.output)
            del node.output[:]
            node.output.extend(outputs)
            self.nodes.append(node)
            for name, source in zip(names, outputs, strict=True):
                if name in stored:
                    self.store(name, source)
        self.net.nodes = self.nodes
        return self.net.proto()

    def is_result(self, name: str, stored: set[str]) -> bool:
        """Whether a tensor is an output that takes its value from the integers."""
        return name in stored and name in self.net.outputs and (name in self.made or self.integer_io)

    def read(self, name: str, inside: bool) -> str:
        """What a node reads for a tensor: what the integers stand for, where it or what makes the tensor computes on
        them."""
        return self.real.get(name, name) if inside or name in self.made or self.integer_io else name

    def name(self, stem: str) -> str:
        """A name that nothing has."""
        return fresh_name(stem, self.taken)

    def store_input(self, name: str) -> None:
        """An input is stored first; or given so."""
        if not self.integer_io:
            self.store(name, name)
            return
        proto = next(p for p in self.net.model.graph.input if p.name == name)
        proto.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(self.kind)
        self.dequantize(name, name, self.name(f"{name}_real"))

    def store(self, name: str, source: str) -> None:
        """The pair of nodes that stores a tensor, ``source`` being its reals."""
        result = name in self.net.outputs and source != name
        quantised = name if result and self.integer_io else self.name(f"{name}_quantized")
        reals = name if result and not self.integer_io else self.name(f"{name}_dequantized")
        scale, zero = self.parameters(name)
        self.nodes.append(helper.make_node("QuantizeLinear", [source, scale, zero], [quantised], f"{name}_quantize"))
        if quantised == name:
            proto = next(p for p in self.net.model.graph.output if p.name == name)
            proto.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(self.kind)
        self.dequantize(name, quantised, reals)

    def dequantize(self, name: str, quantised: str, reals: str) -> None:
        """The reals that the integers of a tensor stand for."""
        inputs = [quantised, *self.parameters(name)]
        self.nodes.append(helper.make_node("DequantizeLinear", inputs, [reals], f"{name}_dequantize"))
        self.real[name] = reals

    def parameters(self, name: str) -> tuple[str, str]:
        """Constants with scale and zero point of a tensor: one pair for a group."""
        leader = self.placement.groups[name]
        scale, zero = self.steps[leader]
        return (
            self.shared(f"{leader}_scale", np.asarray(scale, np.float32)),
            self.shared(f"{leader}_zero_point", np.asarray(zero, self.kind)),
        )

    def shared(self, stem: str, data: Array) -> str:
        """A constant that is made once for a stem."""
        key = (stem, -1, b"")
        if key not in self.weights:
            self.weights[key] = self.const(stem, data)
        return self.weights[key]

    def const(self, stem: str, data: Array) -> str:
        name = self.name(stem)
        self.net.tensors[name] = onnx.numpy_helper.from_array(np.ascontiguousarray(data).reshape(data.shape), name)
        return name

    def constants(self, layer: Layer) -> dict[str, str]:
        """The constants of a layer, each with what the node reads in its place."""
        if layer.sum is not None:
            return self.summed(layer.sum, layer)
        if layer.constant is None or layer.role != "two":
            return {}
        data = self.net.floats(layer.constant)
        peak = float(np.abs(data).max())
        scale = np.asarray([peak / WEIGHT_LIMIT if peak else 1.0], np.float32)
        return {layer.constant: self.integers(layer.constant, data, 0, scale, np.int8)}

    def summed(self, one: Sum, layer: Layer) -> dict[str, str]:
        """Weights in 8 bits, a scale for each channel; the bias in 32 bits of their steps beside int8."""
        data, bias = self.net.reals(one.weights), bias_of(self.net, layer)
        assert data is not None
        scales = self.scales(one, layer)
        found = {one.weights: self.integers(one.weights, data, one.outputs, scales, np.int8)}
        if one.bias is not None and bias is not None and self.kind == np.int8:
            found[one.bias] = self.stored_bias(one.bias, bias, scales, one.x)
        return found

    def added(self, layer: Layer) -> dict[str, str]:
        """The constant that is added to a product of matrices."""
        assert layer.bias_of is not None
        assert layer.sum is not None
        name = next(n for n in self.net.nodes[layer.bias_of].input if n in self.net.tensors)
        bias = self.net.reals(name)
        if bias is None or self.kind != np.int8:
            return {}
        return {name: self.stored_bias(name, bias, self.scales(layer.sum, layer), layer.sum.x)}

    def scales(self, one: Sum, layer: Layer) -> Array:
        data = self.net.floats(one.weights)
        wide = self.kind != np.int8
        return weight_scales(data, one.outputs, None if wide else bias_of(self.net, layer), self.x_scale(one.x))

    def x_scale(self, name: str) -> float:
        return self.steps[self.placement.groups[name]][0]

    def stored_bias(self, name: str, bias: Array, scales: Array, x: str) -> str:
        """A bias in steps of the sums."""
        by = (scales.astype(np.float64) * self.x_scale(x)).astype(np.float32)
        whole = bias if bias.size == by.size else np.broadcast_to(bias.reshape(-1), by.shape)
        return self.integers(name, whole, whole.ndim - 1, by, np.int32)

    def integers(self, name: str, data: Array, axis: int, scales: Array, kind: type[np.signedinteger]) -> str:
        """A constant stored as integers, symmetric around 0, with the node that dequantises it; scales for each index
        of an axis, or one."""
        key = (name, axis, scales.tobytes())
        if key not in self.weights:
            limit = WEIGHT_LIMIT if kind == np.int8 else np.iinfo(kind).max
            shape = [1] * data.ndim
            if len(scales) > 1:
                shape[axis] = -1
            exact = np.rint(data.astype(np.float64) / scales.astype(np.float64).reshape(shape))
            stored = self.const(f"{name}_quantized", np.clip(exact, -limit, limit).astype(kind))
            one = len(scales) == 1 and (data.ndim == 0 or data.shape[axis] != 1)
            scale = self.const(f"{name}_scale", scales.reshape(()) if one else scales)
            reals = self.name(f"{name}_dequantized")
            given: dict[str, Any] = {} if one else {"axis": axis}
            made = helper.make_node("DequantizeLinear", [stored, scale], [reals], f"{name}_dequantize", **given)
            self.nodes.append(made)
            self.weights[key] = reals
        return self.weights[key]


def write(
    net: Net, placement: Placement, steps: Steps, kind: np.dtype | type = np.int8, integer_io: bool = False
) -> onnx.ModelProto:
    """The model of a net with the layers of a placement on integers.

    Args:
        net: the float net; left as it is.
        placement: what is computed on integers.
        steps: scale and zero point of each group of tensors, by its first.
        kind: the type of activations, int8 or int16.
        integer_io: whether inputs and outputs are integers, where they are stored as such.
    """
    return _Writer(net.copy(), placement, steps, np.dtype(kind), integer_io).run()
