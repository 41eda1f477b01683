"""Small float networks for the quantiser's tests, and onnxruntime to run what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from sdk.frontends.onnx.engine import session_options

DIGITS = Path(__file__).resolve().parent.parent.parent / "examples" / "digits"


def digits() -> tuple[np.ndarray, np.ndarray]:
    """The images that the bundled network did not see, as it takes them, and their labels."""
    held = np.load(DIGITS / "holdout.npz")
    ink = (held["images"].astype(np.float32) + 128) / 255
    return np.ascontiguousarray(ink.transpose(0, 3, 1, 2)), held["labels"].astype(np.int64)


def net(
    nodes: Sequence[onnx.NodeProto], shape: Sequence[int | str], outputs: Sequence[str], opset: int = 17,
    **constants: Any,
) -> onnx.ModelProto:  # fmt: skip
    """A model of one input ``x``."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    made = [onnx.ValueInfoProto(name=name) for name in outputs]
    for value in made:
        value.type.tensor_type.elem_type = TensorProto.FLOAT
    tensors = [numpy_helper.from_array(np.asarray(data), name) for name, data in constants.items()]
    graph = helper.make_graph(list(nodes), "net", [x], made, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def node(op: str, inputs: str, outputs: str, **given: Any) -> onnx.NodeProto:
    """A node, its tensors by names with spaces between, called after what it makes."""
    return helper.make_node(op, inputs.split(), outputs.split(), outputs.split()[0], **given)


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """onnxruntime without its optimisations, on a model."""
    return onnxruntime.InferenceSession(model.SerializeToString(), session_options(onnxruntime))


def run(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What onnxruntime computes."""
    opened = session(model)
    names = [o.name for o in opened.get_outputs()]
    return dict(zip(names, opened.run(None, dict(inputs)), strict=True))


def sqnr(want: np.ndarray, got: np.ndarray) -> float:
    """The signal to noise ratio in dB."""
    noise = float(np.sum((got.astype(np.float64) - want) ** 2))
    return float(10 * np.log10(np.sum(want.astype(np.float64) ** 2) / noise)) if noise else np.inf
