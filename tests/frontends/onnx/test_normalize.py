"""Normalisations: every node case of ONNX, and symbolic sizes."""

from __future__ import annotations

import numpy as np
import pytest
from node_cases import cases_of, check
from onnx import TensorProto, helper

from sdk.compiler.interp.graph import run_graph
from sdk.frontends.onnx.importer import import_onnx

NORMALIZING = (
    "GroupNormalization InstanceNormalization LRN LayerNormalization LpNormalization MeanVarianceNormalization "
    "RMSNormalization"
)


@pytest.mark.parametrize("name", cases_of(*NORMALIZING.split()))
def test_node_case(name: str) -> None:
    check(name)


@pytest.mark.parametrize("wide", [False, True])
def test_layer_normalization_of_symbolic_sizes(wide: bool) -> None:
    """With one scale per element of a row, or one for all."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 5, 6)).astype(np.float32)
    scale, bias = (rng.standard_normal(6 if wide else 1).astype(np.float32) for _ in range(2))
    graph = helper.make_graph(
        [helper.make_node("LayerNormalization", ["x", "s", "b"], ["y"], axis=-1, epsilon=1e-3)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("b", "n", 6))],
        [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)],
        [helper.make_tensor(n, TensorProto.FLOAT, a.shape, a) for n, a in (("s", scale), ("b", bias))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    module = import_onnx(model, "m", dims={"b": (1, 4), "n": (1, 16)})
    down = x - x.mean(-1, keepdims=True)
    wanted = down / np.sqrt((down**2).mean(-1, keepdims=True) + 1e-3) * scale + bias
    np.testing.assert_allclose(run_graph(module, "main", {"x": x})["y"], wanted, rtol=1e-4, atol=1e-5)
