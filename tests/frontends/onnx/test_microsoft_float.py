"""Operators of com.microsoft on reals, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import Array, compare, fused, one_node
from onnx import TensorProto

RNG = np.random.default_rng(5)


def reals(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def test_fused_products() -> None:
    fused("FusedMatMul", {"a": reals(3, 4), "b": reals(5, 4)}, transB=1, alpha=0.5)
    fused("FusedMatMul", {"a": reals(2, 4, 3), "b": reals(2, 4, 5)}, transA=1)
    fused("FusedMatMul", {"a": reals(4, 2, 3), "b": reals(4, 2, 5)}, transBatchA=1, transBatchB=1, transA=1)
    fused("FusedMatMul", {"a": reals(3, 4), "b": reals(4, 5)}, shapes={"a": ["n", 4]}, dims={"n": (1, 5)})
    gemm = {"a": reals(3, 4), "b": reals(5, 4), "c": reals(5)}
    fused("FusedGemm", gemm, transB=1, alpha=2.0, activation="LeakyRelu", activation_alpha=0.3)
    fused("FusedGemm", gemm, transB=1, activation="Relu")


@pytest.mark.parametrize(
    ("activation", "params"),
    [("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.7]),
     ("HardSigmoid", [0.3, 0.4])],
)  # fmt: skip
def test_fused_convolutions(activation: str, params: list[float]) -> None:
    inputs = {"x": reals(1, 3, 5, 6), "w": reals(4, 3, 3, 3), "b": reals(4), "z": reals(1, 4, 5, 6)}
    how: dict[str, Any] = {"activation": activation, "pads": [1, 1, 1, 1]}
    how |= {"activation_params": params} if params else {}
    fused("FusedConv", inputs, constants=["w", "b"], **how)
    del inputs["z"]
    fused("FusedConv", inputs, constants=["w", "b"], **how)


@pytest.mark.parametrize("op", ["Gelu", "BiasGelu", "FastGelu", "QuickGelu"])
def test_gelus(op: str) -> None:
    if op in ("BiasGelu", "FastGelu"):
        fused(op, {"x": reals(2, 3, 8), "b": reals(8)})
    if op != "BiasGelu":
        fused(op, {"x": reals(2, 3, 8) * 3})


def test_simplified_layer_normalization() -> None:
    for axis in (-1, 1):
        x = reals(2, 3, 4)
        scale = reals(4) if axis == -1 else reals(3, 4)
        fused("SimplifiedLayerNormalization", {"x": x, "g": scale}, domain="", axis=axis)


@pytest.mark.parametrize("skip", [(2, 3, 8), (1, 3, 8), (3, 8)])
def test_skip_layer_normalization(skip: tuple[int, ...]) -> None:
    inputs = {"x": reals(2, 3, 8), "s": reals(*skip), "g": reals(8)}
    last = {"b": reals(8), "d": reals(8)}
    every = ["y", "", "", "t"]
    fused("SkipLayerNormalization", {**inputs, **last}, outputs=every[:1])
    fused("SkipLayerNormalization", {**inputs, "b": last["b"]}, epsilon=1e-5)
    fused("SkipSimplifiedLayerNormalization", inputs)
    fused("SkipSimplifiedLayerNormalization", {**inputs, "d": last["d"]})


def test_the_sum_of_skip_layer_normalization() -> None:
    from onnx import helper

    from sdk.compiler.interp.graph import run_graph
    from sdk.frontends.onnx.importer import import_onnx

    x, s, g = reals(2, 3, 8), reals(2, 3, 8), reals(8)
    for op in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"):
        model = one_node(op, {"x": x, "s": s, "g": g}, domain="com.microsoft")
        model.graph.node[0].output.extend(["", "", "t"])
        model.graph.output.append(helper.make_tensor_value_info("t", TensorProto.FLOAT, None))
        got = run_graph(import_onnx(model, "m"), "main", {"x": x, "s": s, "g": g})
        np.testing.assert_array_equal(got["t"], x + s)


def test_embed_layer_normalization() -> None:
    ids, segments = RNG.integers(0, 9, (2, 4)).astype(np.int32), RNG.integers(0, 2, (2, 4)).astype(np.int32)
    mask = np.array([[1, 1, 1, 0], [1, 0, 0, 0]], np.int32)
    inputs = {"i": ids, "s": segments, "w": reals(9, 8), "p": reals(6, 8), "t": reals(2, 8), "g": reals(8),
              "b": reals(8)}  # fmt: skip
    kinds = {"m": TensorProto.INT32}
    fused("EmbedLayerNormalization", inputs, outputs=["y", "m"], kinds=kinds)
    fused("EmbedLayerNormalization", {**inputs, "k": mask}, outputs=["y", "m"], kinds=kinds)
    order = ["i", "", "w", "p", "", "g", "b"]
    fused("EmbedLayerNormalization", {k: inputs[k] for k in order if k}, outputs=["y", "m"], order=order, kinds=kinds)


def test_batches_of_an_open_number() -> None:
    compare("Gelu", {"x": reals(3, 4)}, opset=20, shapes={"x": ["n", 4]}, dims={"n": (1, 4)})
    fused("QuickGelu", {"x": reals(3, 4)}, shapes={"x": ["n", 4]}, dims={"n": (1, 4)}, alpha=1.5)
