"""Bias correction: what rounded weights add to each channel on average is taken off the bias.

Nagel et al., as for equalisation; the mean input of a layer is that of the samples, at each of its places, so that
borders count as they are.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from sdk import steps
from sdk.quantizer.data import Samples
from sdk.quantizer.engine import Engine
from sdk.quantizer.net import Array, Net
from sdk.quantizer.place import Layer, Placement
from sdk.quantizer.sums import Sum, set_bias
from sdk.quantizer.write import WEIGHT_LIMIT, Steps, bias_of, weight_scales

__all__ = ["correct_biases"]


def correct_biases(net: Net, placement: Placement, stored: Steps, samples: Samples, wide: bool) -> int:
    """Corrects the biases of all layers with weights in 8 bits, in place; how many.

    Args:
        net: the float net.
        placement: its layers on integers.
        stored: scale and zero point of each group of tensors.
        samples: what the means are taken over.
        wide: whether activations have 16 bits.
    """
    sums = [one for one in placement.layers if one.sum is not None]
    layers = [one for one in sums if one.op != "MatMul" or one.bias_of is not None]
    if not layers:
        return 0
    means = _means(net, sorted({one.sum.x for one in layers if one.sum is not None}), samples)
    with steps.step("correcting biases"):
        for one in layers:
            assert one.sum is not None
            x_scale = stored[placement.groups[one.sum.x]][0]
            _correct(net, one, one.sum, means[one.sum.x], x_scale, wide)
    return len(layers)


def _means(net: Net, names: list[str], samples: Samples) -> dict[str, Array]:
    """The mean of tensors over the samples: their first axis has one element."""
    engine = Engine(net.proto(), samples.shapes, names)
    total: dict[str, Array] = {}
    with steps.step("averaging inputs of layers"):
        for inputs in samples.runs():
            for name, array in engine.run(inputs).items():
                total[name] = total.get(name, 0.0) + array.astype(np.float64).mean(axis=0, keepdims=True)
    return {name: sums / samples.run_count() for name, sums in total.items()}


def _correct(net: Net, layer: Layer, one: Sum, mean: Array, x_scale: float, wide: bool) -> None:
    weights, bias = net.reals(one.weights), bias_of(net, layer)
    assert weights is not None
    scales = weight_scales(weights, one.outputs, None if wide else bias, x_scale).astype(np.float64)
    shape = [1] * weights.ndim
    shape[one.outputs] = -1
    by = scales.reshape(shape)
    error = np.clip(np.rint(weights / by), -WEIGHT_LIMIT, WEIGHT_LIMIT) * by - weights
    moved = _applied(net, one, error, mean)
    old = np.zeros_like(moved) if bias is None else np.broadcast_to(bias.reshape(-1), moved.shape)
    if layer.bias_of is None:
        set_bias(net, one, old - moved)
        return
    added = net.nodes[layer.bias_of]
    k = next(k for k, name in enumerate(added.input) if name in net.tensors)
    corrected = (old - moved).astype(np.float32).reshape(net.floats(added.input[k]).shape)
    added.input[k] = net.const(added.input[k], corrected)


def _applied(net: Net, one: Sum, error: Array, mean: Array) -> Array:
    """The mean of each channel that a layer makes with these weights, without bias, of the mean input."""
    node = onnx.NodeProto()
    node.CopyFrom(net.nodes[one.node])
    del node.input[:]
    del node.output[:]
    node.input.extend(["x", "w"])
    node.output.extend(["y"])
    graph = helper.make_graph(
        [node], "error", [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(mean.shape))],
        [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(error.astype(np.float32), "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=list(net.model.opset_import), ir_version=net.model.ir_version)
    found = Engine(model, {"x": mean.shape}).run({"x": mean.astype(np.float32)})["y"].astype(np.float64)
    axis = 1 if one.op == "Conv" else found.ndim - 1
    total: Array = found.mean(axis=tuple(k for k in range(found.ndim) if k != axis))
    return total
