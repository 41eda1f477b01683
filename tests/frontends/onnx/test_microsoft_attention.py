"""Attention operators of com.microsoft, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import Array, fused, one_node, run, weights_of

RNG = np.random.default_rng(11)
KEEP = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)


def reals(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def bytes_of(kind: str, *shape: int) -> Array:
    info = np.iinfo(kind)
    return RNG.integers(info.min, info.max + 1, shape).astype(kind)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize(
    "mask", [None, KEEP, np.array([2, 5], np.int32), np.tril(np.ones((2, 5, 5), np.int32))], ids=str
)
def test_attention(mask: Array | None, causal: int) -> None:
    inputs = {"x": reals(2, 5, 8), "w": reals(8, 24), "b": reals(24)}
    inputs |= {} if mask is None else {"m": mask}
    fused("Attention", inputs, constants=["w"], num_heads=2, unidirectional=causal)


def test_attention_after_earlier_steps() -> None:
    inputs = {"x": reals(2, 3, 8), "w": reals(8, 24), "b": reals(24), "p": reals(2, 2, 2, 4, 4)}
    order = ["x", "w", "b", "", "p"]
    fused("Attention", inputs, order=order, outputs=["y", "present"], num_heads=2, unidirectional=1)
    mask = {"m": (RNG.random((2, 7)) > 0.3).astype(np.int32)}
    fused("Attention", {**inputs, **mask}, order=["x", "w", "b", "m", "p"], outputs=["y", "present"], num_heads=2)


def test_attention_of_other_sizes() -> None:
    inputs = {"x": reals(2, 5, 6), "w": reals(6, 28), "b": reals(28), "r": reals(2, 2, 5, 5)}
    order = ["x", "w", "b", "", "", "r"]
    fused("Attention", inputs, order=order, num_heads=2, qkv_hidden_sizes=[8, 8, 12], scale=0.3)


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_quantised_attention(kind: str) -> None:
    inputs: dict[str, Array] = {
        "x": bytes_of("uint8", 2, 5, 8), "w": weights_of(RNG, kind, 8, 24), "b": reals(24),
        "xs": np.array(0.02, np.float32),
        "ws": np.array(0.01, np.float32), "m": KEEP, "xz": np.array(120, np.uint8), "wz": np.array(3, kind),
    }  # fmt: skip
    fused("QAttention", inputs, constants=["w", "b", "xs", "ws", "xz", "wz"], num_heads=2)


@pytest.mark.parametrize("how", ["plain", "bias", "keys", "added", "causal", "past", "lengths"])
def test_multi_head_attention(how: str) -> None:
    inputs = {"q": reals(2, 3, 8), "k": reals(2, 5, 8), "v": reals(2, 5, 12)}
    order, given = ["q", "k", "v", "", "", "", "", ""], {"num_heads": 2}
    extra: dict[str, dict[str, Any]] = {
        "bias": {"b": (3, reals(28))}, "keys": {"m": (4, KEEP)}, "added": {"r": (5, reals(2, 2, 3, 5))},
        "lengths": {"m": (4, np.array([2, 4], np.int32))},
        "past": {"pk": (6, reals(2, 2, 4, 4)), "pv": (7, reals(2, 2, 4, 6))},
    }  # fmt: skip
    for name, (at, value) in extra.get(how, {}).items():
        inputs[name], order[at] = value, name
    if how == "past":
        inputs["v"], inputs["pv"] = reals(2, 5, 8), reals(2, 2, 4, 4)
    if how == "causal":
        inputs |= {"q": reals(2, 5, 8)}
        given["unidirectional"] = 1
    outputs = ["y", "present_k", "present_v"] if how == "past" else ["y"]
    while not order[-1]:
        order.pop()
    fused("MultiHeadAttention", inputs, order=order, outputs=outputs, **given)


def test_packed_heads() -> None:
    packed = reals(2, 5, 2, 3, 4)  # which onnxruntime has on other processors only
    q, k, v = (packed[:, :, :, j].reshape(2, 5, 8) for j in range(3))
    found = []
    for inputs in ({"q": packed}, {"q": q, "k": packed[:, :, :, 1:]}, {"q": q, "k": k, "v": v}):
        model = one_node("MultiHeadAttention", inputs, domain="com.microsoft", num_heads=2)
        found.append(run(model, inputs)[1]["y"])
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_array_equal(found[1], found[2])
    inputs = {"q": reals(2, 5, 8), "k": reals(2, 2, 4, 4), "v": reals(2, 2, 4, 4)}
    fused("MultiHeadAttention", inputs, num_heads=2)


@pytest.mark.parametrize("pairs", [0, 1])
@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("place", ["one", "all"])
def test_rotary_embedding(pairs: int, rank: int, place: str) -> None:
    places = np.array([3]) if place == "one" else RNG.integers(0, 16, (2, 5))
    inputs = {"x": reals(2, 5, 24) if rank == 3 else reals(2, 3, 5, 8), "p": places, "c": reals(16, 4),
              "s": reals(16, 4)}  # fmt: skip
    fused("RotaryEmbedding", inputs, interleaved=pairs)


def test_rotary_embedding_of_a_part() -> None:
    inputs = {"x": reals(2, 5, 24), "p": np.array([0]), "c": reals(16, 2), "s": reals(16, 2)}
    fused("RotaryEmbedding", inputs, num_heads=3, rotary_embedding_dim=4)
