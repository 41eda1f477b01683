"""The trained network as a float ONNX model, for batches of any size."""

from __future__ import annotations

import numpy as np
import onnx
from network import CONV_LAYERS, KERNEL, Array, Params
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

__all__ = ["BATCH", "onnx_model"]

BATCH = "batch"  # the open dimension
OPSET, IR_VERSION = 17, 8
CLASSES = 10


def onnx_model(params: Params) -> onnx.ModelProto:
    """``image`` [batch, 1, 8, 8], ink from 0 to 1, to ``digit`` [batch, 10], probabilities."""
    nodes, weights, source = [], [], "image"
    for layer in CONV_LAYERS:
        name, (before, after) = layer.name, layer.padding
        weights += [
            _constant(f"{name}_weights", params[f"{name}.w"].transpose(0, 3, 1, 2)),
            _constant(f"{name}_bias", params[f"{name}.b"]),
        ]
        inputs = [source, f"{name}_weights", f"{name}_bias"]
        window = {"kernel_shape": [KERNEL, KERNEL], "strides": [layer.stride] * 2, "pads": [before] * 2 + [after] * 2}
        nodes += [
            helper.make_node("Conv", inputs, [f"{name}_sums"], name, **window),
            helper.make_node("Relu", [f"{name}_sums"], [name], f"{name}_relu"),
        ]
        source = name
    weights += [
        _constant("dense_weights", _channels_first(params["dense.w"])),
        _constant("dense_bias", params["dense.b"]),
    ]
    nodes += [
        helper.make_node("Flatten", [source], ["flat"], "flatten", axis=1),
        helper.make_node("Gemm", ["flat", "dense_weights", "dense_bias"], ["logits"], "dense", transB=1),
        helper.make_node("Softmax", ["logits"], ["digit"], "softmax", axis=1),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [BATCH, 1, 8, 8])
    digit = helper.make_tensor_value_info("digit", TensorProto.FLOAT, [BATCH, CLASSES])
    graph = helper.make_graph(nodes, "digits", [image], [digit], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    onnx.checker.check_model(model)
    return model


def _channels_first(dense: Array) -> Array:
    """Weights of rows, columns, channels as those of channels, rows, columns."""
    last = CONV_LAYERS[-1]
    by_pixel = dense.reshape(len(dense), last.out_size, last.out_size, last.outputs)
    return by_pixel.transpose(0, 3, 1, 2).reshape(len(dense), -1)


def _constant(name: str, values: NDArray[np.float64]) -> onnx.TensorProto:
    return numpy_helper.from_array(np.ascontiguousarray(values, np.float32), name)
