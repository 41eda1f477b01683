"""Mixtures of experts and streams, group normalisation and crops of com.microsoft, against onnxruntime, or PyTorch
where that has kernels for GPUs only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from harness import agree, fused, one_node, run
from torch.nn import functional as F

from sdk.errors import BuildError

rng = np.random.default_rng(5)
DOMAIN = "com.microsoft"


def f32(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def told(op: str, inputs: dict[str, np.ndarray], wanted: list[Any], **how: Any) -> None:
    """Compares with what a test says the results are."""
    names = ["y", "z"][: len(wanted)]
    _, got = run(one_node(op, inputs, domain=DOMAIN, outputs=names, **how), inputs, how.pop("dims", None))
    for name, want in zip(names, wanted, strict=True):
        agree(got[name], np.asarray(want))


def experts(count: int = 4, hidden: int = 5, width: int = 3, wide: int = 1) -> dict[str, np.ndarray]:
    return {
        "x": f32(6, width), "rated": f32(6, count), "w1": f32(count, wide * hidden, width),
        "b1": f32(count, wide * hidden), "w2": f32(count, width, hidden), "b2": f32(count, width),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["relu", "silu", "gelu", "identity"])
def test_experts(name: str) -> None:
    inputs = experts()
    fused("MoE", inputs, k=2, activation_type=name, normalize_routing_weights=1, constants=("w1", "b1", "w2", "b2"))
    order = ["x", "rated", "w1", "", "w2"]
    bare = {k: inputs[k] for k in ("x", "rated", "w1", "w2")}
    fused("MoE", bare, order=order, activation_type=name)


def test_experts_of_batches_and_gates() -> None:
    inputs = experts()
    inputs["x"] = f32(2, 3, 3)
    fused("MoE", inputs, k=4, shapes={"x": ["n", 3, 3], "rated": ["3*n", 4]}, dims={"n": (1, 4)})
    given = {"activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.7, "activation_beta": 1.0}
    fused("MoE", experts(wide=2), k=3, **given)
    fused("MoE", experts(wide=2), k=1, swiglu_limit=0.4, **given)


def test_gates_in_halves_and_apart() -> None:
    """onnxruntime computes these on GPUs: the same numbers, ordered otherwise."""
    inputs, given = experts(wide=2), {"activation_type": "swiglu", "activation_beta": 0.5, "k": 2}
    _, wanted = run(one_node("MoE", inputs, domain=DOMAIN, swiglu_fusion=1, **given), inputs)
    halves = {k: np.concatenate([v[:, ::2], v[:, 1::2]], 1) if k in ("w1", "b1") else v for k, v in inputs.items()}
    told("MoE", halves, [wanted["y"]], swiglu_fusion=2, **given)
    apart = {**inputs, "w1": inputs["w1"][:, ::2], "b1": inputs["b1"][:, ::2]}
    apart |= {"w3": inputs["w1"][:, 1::2], "b3": inputs["b1"][:, 1::2]}
    told("MoE", {k: np.ascontiguousarray(v) for k, v in apart.items()}, [wanted["y"]], **given)


def test_experts_that_are_refused() -> None:
    for given, why in (({"k": 5}, "the best 5 of 4 experts"), ({"use_sparse_mixer": 1}, "sparse mixer"),
                       ({"activation_type": "mish"}, "activation mish")):  # fmt: skip
        with pytest.raises(BuildError) as caught:
            run(one_node("MoE", experts(), domain=DOMAIN, **given), experts())
        assert why in str(caught.value.where)


def test_streams() -> None:
    for gates in (f32(2, 3, 4), f32(2, 3, 4, 1), f32(2, 3, 4, 5)):
        fused("HyperConnectionPreMix", {"x": f32(2, 3, 4, 5), "g": gates}, reduction_scale=0.5)
        inputs = {"x": f32(2, 3, 4, 5), "made": f32(2, 3, 5), "g": gates, "mix": f32(2, 3, 4, 4)}
        fused("HyperConnectionPostMix", inputs)
        fused("HyperConnectionPostMix", {k: inputs[k] for k in ("x", "made", "g")})
    fused("HyperConnectionPreMix", {"x": f32(2, 3, 20), "g": f32(2, 3, 20)}, num_branches=4)


def test_gates_of_linear_attention() -> None:
    inputs = {"a": f32(2, 3, 4), "bias": f32(4), "scale": -np.exp(f32(4)), "b": f32(2, 3, 4)}
    fused("LinearAttentionGate", inputs, outputs=("y", "z"))
    fused("LinearAttentionGate", {k: inputs[k] for k in ("a", "bias", "scale")})


@pytest.mark.parametrize("last", [0, 1])
def test_group_normalisation(last: int) -> None:
    x, gamma, beta, skip, bias = f32(2, 6, 3, 4), f32(6), f32(6), f32(2, 6), f32(6)

    def laid(image: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(image.transpose(0, 2, 3, 1)) if last else image

    def normal(image: np.ndarray) -> np.ndarray:
        return F.group_norm(torch.tensor(image), 3, torch.tensor(gamma), torch.tensor(beta), 1e-3).numpy()

    given = {"groups": 3, "epsilon": 1e-3, "channels_last": last}
    told("GroupNorm", {"x": laid(x), "gamma": gamma, "beta": beta}, [laid(normal(x))], activation=0, **given)
    total = x + skip[:, :, None, None] + bias[:, None, None]
    wanted = F.silu(torch.tensor(normal(total))).numpy()
    inputs = {"x": laid(x), "gamma": gamma, "beta": beta, "skip": skip, "bias": bias}
    told("SkipGroupNorm", inputs, [laid(wanted), laid(total)], activation=1, **given)


def test_fused_activations_and_convolutions() -> None:
    x, bias = f32(2, 3, 8), f32(8)
    a, b = np.split(x + bias, 2, axis=-1)
    told("BiasSplitGelu", {"x": x, "b": bias}, [a * F.gelu(torch.tensor(b)).numpy()])
    w = f32(8, 5)
    wanted = F.gelu(torch.tensor(x @ w + bias[:5]), approximate="tanh").numpy()
    told("GemmFastGelu", {"x": x, "w": w, "b": bias[:5]}, [wanted])
    image, weights = f32(1, 5, 6, 3), f32(4, 3, 3, 3)
    made = F.conv2d(torch.tensor(image.transpose(0, 3, 1, 2)), torch.tensor(weights), padding=1)
    inputs = {"x": image, "w": weights}
    told("NhwcConv", inputs, [made.numpy().transpose(0, 2, 3, 1)], constants=("w",), pads=[1, 1, 1, 1])


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(3, 4), (1, 2), (5, 1)])
def test_crops(mode: str, size: tuple[int, int]) -> None:
    regions = np.array([[0, 0, 1, 1], [0.13, 0.9, 0.7, 0.2], [-0.2, 0.3, 0.5, 1.4], [0.5, 0.5, 0.5, 0.5]], np.float32)
    inputs = {"x": f32(2, 3, 6, 7), "r": regions, "b": np.array([0, 1, 1, 0], np.int32), "s": np.array(size, np.int32)}
    fused("CropAndResize", inputs, constants=("s",), mode=mode, extrapolation_value=-2.5)
    shapes = {"x": ["n", 3, "h", 7], "r": ["k", 4], "b": ["k"]}
    dims = {"n": (1, 4), "h": (2, 9), "k": (1, 5)}
    fused("CropAndResize", inputs, constants=("s",), mode=mode, shapes=shapes, dims=dims)
