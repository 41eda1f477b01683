"""Operators of com.microsoft that single families of models bring, and regions of images, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import agree, compare, fused, one_node, run

from sdk.errors import BuildError

rng = np.random.default_rng(9)
DOMAIN = "com.microsoft"


def f32(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def refused(op: str, inputs: dict[str, np.ndarray], why: str, domain: str = DOMAIN, **given: Any) -> None:
    with pytest.raises(BuildError) as caught:
        run(one_node(op, inputs, domain=domain, **given), inputs)
    assert why in f"{caught.value.message} {caught.value.where}"


def test_inverses() -> None:
    for shape in ((1, 1), (3, 3), (2, 4, 4), (2, 3, 7, 7)):
        fused("Inverse", {"x": f32(*shape) + 2 * np.eye(shape[-1], dtype=np.float32)})
    x = f32(3, 2, 2)
    x[0] = [[0, 1], [1, 0]]  # whose first pivot is 0
    fused("Inverse", {"x": x}, shapes={"x": ["n", 2, 2]}, dims={"n": (1, 4)})
    _, found = run(one_node("Inverse", {"x": x}, domain=DOMAIN), {"x": np.zeros((3, 2, 2), np.float32)})
    assert not np.isfinite(found["y"]).any()
    refused("Inverse", {"x": f32(2, 3)}, "square")


def test_numbers_once() -> None:
    x = np.array([2, 1, 1, 3, 4, 3, 2], np.float32)
    model = one_node("Unique", {"x": x}, domain=DOMAIN, outputs=("y", "idx", "counts"))
    _, got = run(model, {"x": x})
    for name, want in (("y", [2, 1, 3, 4]), ("idx", [0, 1, 1, 2, 3, 2, 0]), ("counts", [2, 2, 2, 1])):
        np.testing.assert_array_equal(got[name], want)
    refused("Unique", {"x": f32(2, 2)}, "rank 1", outputs=("y", "idx", "counts"))


def test_products_of_small_integers() -> None:
    """onnxruntime has no kernel of it for processors."""
    a, b = (rng.integers(0, 256, (2, 3)).astype(np.uint8) for _ in range(2))
    inputs = {"a": a, "az": np.uint8(130), "b": b, "bz": np.uint8(7)}
    inputs = {k: np.asarray(v) for k, v in inputs.items()}
    _, got = run(one_node("MulInteger", inputs, domain=DOMAIN), inputs)
    agree(got["y"], (a.astype(np.int32) - 130) * (b.astype(np.int32) - 7))
    _, got = run(one_node("MulInteger", inputs, domain=DOMAIN, order=["a", "", "b"]), inputs)
    agree(got["y"], a.astype(np.int32) * b.astype(np.int32))


def test_products_with_an_activation() -> None:
    """onnxruntime has no kernel of it for processors."""
    inputs = {"a": f32(4, 3), "b": f32(5, 4)}
    product = 0.5 * (inputs["a"].T @ inputs["b"].T)
    for name, given, want in (
        ("Relu", {}, np.maximum(product, 0)),
        ("LeakyRelu", {"activation_alpha": 0.2}, np.where(product < 0, 0.2 * product, product)),
        ("Softmax", {"activation_axis": 0}, np.exp(product) / np.exp(product).sum(0, keepdims=True)),
    ):
        given = {"activation": name, "transA": 1, "transB": 1, "alpha": 0.5, **given}
        _, got = run(one_node("FusedMatMulActivation", inputs, domain=DOMAIN, **given), inputs)
        agree(got["y"], want.astype(np.float32))
    refused("FusedMatMulActivation", inputs, "activation Mish", activation="Mish", transA=1, transB=1)


def test_places_in_time_height_and_width() -> None:
    tables = {"cos": np.cos(f32(20, 6)), "sin": np.sin(f32(20, 6))}
    places = rng.integers(0, 20, (3, 2, 5)).astype(np.int64)
    for given in ({}, {"interleaved": 1}, {"mrope_layout": 1}, {"mrope_layout": 1, "interleaved": 1}):
        sections = [2, 2, 2] if given.get("mrope_layout") else [1, 3, 2]
        for x, more in ((f32(2, 4, 5, 12), {}), (f32(2, 5, 48), {"num_heads": 4, "rotary_embedding_dim": 12})):
            fused("MRotaryEmbedding", {"x": x, "places": places, **tables}, mrope_section=sections, **given, **more)
    wide = {"x": f32(2, 5, 4 * 16), "places": places, **tables}
    fused("MRotaryEmbedding", wide, mrope_section=[2, 2, 2], num_heads=4, rotary_embedding_dim=12)
    refused("MRotaryEmbedding", wide, "sections [1, 2, 2]", mrope_section=[1, 2, 2], num_heads=4)
    refused("MRotaryEmbedding", wide, "alternate", mrope_section=[0, 2, 4], num_heads=4, mrope_layout=1)


def quantised(experts: int, rows: int, depth: int, bits: int, block: int = 0) -> tuple[np.ndarray, np.ndarray]:
    packed = rng.integers(0, 256, (experts, rows, depth * bits // 8)).astype(np.uint8)
    scales = rng.uniform(0.01, 0.05, (experts, rows, depth // block) if block else (experts, rows))
    return packed, scales.astype(np.float32)


@pytest.mark.parametrize(("bits", "block"), [(4, 0), (8, 0), (4, 16), (2, 16)])
def test_quantised_experts(bits: int, block: int) -> None:
    hidden, width, count = 32, 64, 4
    inputs = {"x": f32(5, width), "rated": f32(5, count)}
    for k, (rows, depth) in enumerate(((hidden, width), (width, hidden)), 1):
        inputs[f"w{k}"], inputs[f"s{k}"] = quantised(count, rows, depth, bits, block)
    order = ["x", "rated", "w1", "s1", "", "w2", "s2"]
    given = {"k": 2, "expert_weight_bits": bits, "activation_type": "silu", "order": order}
    given |= {"block_size": block} if block else {}
    for normalised in (0, 1):
        fused("QMoE", inputs, constants=("w1", "s1", "w2", "s2"), normalize_routing_weights=normalised, **given)


def test_quantised_experts_that_are_refused() -> None:
    packed, scales = quantised(2, 4, 8, 4)
    inputs = {"x": f32(3, 8), "rated": f32(3, 2), "w1": packed, "s1": scales, "w2": packed, "s2": scales}
    order = ["x", "rated", "w1", "s1", "", "w2", "s2"]
    refused("QMoE", inputs, "must be constants", order=order)
    kept = {"order": order, "constants": ("w1", "s1", "w2", "s2")}
    refused("QMoE", inputs, "of 3 bits", expert_weight_bits=3, **kept)
    refused("QMoE", inputs, "in blocks of 4", block_size=4, **kept)
    refused("QMoE", inputs, "only weights of integers", quant_type="fp4", **kept)


def test_convolutions_and_attention_that_became_operators_of_onnx() -> None:
    inputs = {"x": f32(2, 3, 5), "w": f32(3, 1, 4), "b": f32(3), "past": f32(2, 3, 3)}
    fused("CausalConvWithState", inputs, outputs=("y", "z"), activation="silu")
    bare = {k: inputs[k] for k in ("x", "w")}
    fused("CausalConvWithState", bare, outputs=("y", "z"))
    refused("CausalConvWithState", bare, "dilation of 2", outputs=("y", "z"), dilation=2)
    q, k, v = f32(2, 3, 8), f32(2, 3, 8), f32(2, 3, 12)
    inputs = {"q": q, "k": k, "v": v, "past": f32(2, 2, 4, 6)}
    inputs |= {"decay": -np.abs(f32(2, 3, 2)), "beta": np.abs(f32(2, 3, 2))}
    heads = {"q_num_heads": 2, "kv_num_heads": 2, "outputs": ("y", "z")}
    fused("LinearAttention", inputs, update_rule="gated_delta", **heads)
    fused("LinearAttention", {n: inputs[n] for n in ("q", "k", "v")}, update_rule="linear", **heads)


def test_the_largest_in_regions() -> None:
    regions = np.array([[0, 1, 1, 6, 5], [1, 0, 0, 7, 9], [1, 3, 4, 3, 4], [0, -3, 2, 30, 30], [0, 20, 20, 30, 30]])
    inputs = {"x": f32(2, 3, 10, 8), "rois": regions.astype(np.float32)}
    for given in ({}, {"spatial_scale": 0.5}, {"spatial_scale": 0.7}):
        for cells in ([2, 3], [1, 1], [7, 7]):
            compare("MaxRoiPool", inputs, pooled_shape=cells, **given)
    compare("MaxRoiPool", inputs, pooled_shape=[2, 2], shapes={"x": ["n", 3, "h", "w"], "rois": ["r", 5]},
            dims={"n": (1, 3), "h": (1, 12), "w": (1, 12), "r": (1, 8)})  # fmt: skip
    refused("MaxRoiPool", inputs, "in [2] cells", domain="", pooled_shape=[2])
