"""Checkpoints of AWQ and GPTQ: each number by the definition of its format, and what is not read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_helpers import Interpreted, saved
from safetensors.numpy import load_file, save_file

from sdk.errors import SdkError
from sdk.llm.checkpoint import open_checkpoint
from sdk.llm.weights import Weight

Packed = tuple[dict[str, np.ndarray], np.ndarray]
AWQ_PLACES = [0, 2, 4, 6, 1, 3, 5, 7]  # the column whose bits are the lowest of a word, and so on


def words(rows: np.ndarray, bits: int, places: list[int]) -> np.ndarray:
    """Rows of numbers as words: of each of ``32 / bits`` numbers the one at ``places[k]`` has the k-th bits."""
    per = 32 // bits
    found = np.zeros((rows.shape[0], rows.shape[1] // per), np.uint32)
    for row in range(rows.shape[0]):
        for word in range(found.shape[1]):
            for k, place in enumerate(places):
                found[row, word] |= np.uint32(int(rows[row, word * per + place]) << (bits * k))
    return found.view(np.int32)


def awq(rng: np.random.Generator, outputs: int, inputs: int, group: int) -> Packed:
    numbers = rng.integers(0, 16, (inputs, outputs))
    zeros, scales = rng.integers(0, 16, (inputs // group, outputs)), scales_of(rng, inputs // group, outputs)
    wide = np.repeat(np.arange(inputs // group), group)
    floats = scales.astype(np.float32)[wide] * (numbers - zeros[wide]).astype(np.float32)
    parts = {"qweight": words(numbers, 4, AWQ_PLACES), "qzeros": words(zeros, 4, AWQ_PLACES), "scales": scales}
    return parts, floats.T


def gptq(rng: np.random.Generator, outputs: int, inputs: int, group: int, bits: int = 4, less: int = 1) -> Packed:
    per, count = 32 // bits, inputs // group
    numbers = rng.integers(0, 1 << bits, (inputs, outputs))
    zeros = rng.integers(less, (1 << bits) + less, (count, outputs)) if bits == 4 else np.full((count, outputs), 128)
    scales, places = scales_of(rng, count, outputs) / np.float16(bits * bits / 16), list(range(per))
    wide = np.repeat(np.arange(count), group)
    floats = scales.astype(np.float32)[wide] * (numbers - zeros[wide]).astype(np.float32)
    parts = {
        "qweight": words(numbers.T, bits, places).T.copy(), "qzeros": words(zeros - less, bits, places),
        "scales": scales, "g_idx": wide.astype(np.int32),
    }  # fmt: skip
    return parts, floats.T


def scales_of(rng: np.random.Generator, groups: int, outputs: int) -> np.ndarray:
    return (rng.uniform(0.001, 0.02, (groups, outputs))).astype(np.float16)


MADE: dict[str, tuple[Callable[..., Packed], dict[str, Any]]] = {
    "awq": (awq, {"quant_method": "awq", "bits": 4, "version": "gemm", "group_size": 32}),
    "gptq": (gptq, {"quant_method": "gptq", "bits": 4, "desc_act": False, "group_size": 32}),
    "gptq_v2": (
        lambda *args: gptq(*args, less=0),
        {"quant_method": "gptq", "bits": 4, "checkpoint_format": "gptq_v2", "group_size": 64},
    ),
    "gptq of 8 bits": (lambda *args: gptq(*args, bits=8), {"quant_method": "gptq", "bits": 8, "group_size": 64}),
    "gptq of rows": (lambda rng, o, i, _: gptq(rng, o, i, i), {"quant_method": "gptq", "bits": 4, "group_size": -1}),
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hf")
    saved(
        folder, "Llama", vocab_size=50, hidden_size=64, intermediate_size=128, num_hidden_layers=1,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
    )  # fmt: skip
    return folder


def packed(plain: Path, folder: Path, kind: str) -> dict[str, np.ndarray]:
    """Writes a checkpoint whose matrices are packed; the numbers of these by their names."""
    make, told = MADE[kind]
    rng, tensors, floats = np.random.default_rng(4), load_file(plain / "model.safetensors"), {}
    for name in [name for name in tensors if name.endswith("_proj.weight")]:
        stem = name.removesuffix(".weight")
        parts, floats[stem] = make(rng, *tensors.pop(name).shape, told["group_size"])
        tensors |= {f"{stem}.{part}": np.ascontiguousarray(values) for part, values in parts.items()}
        if kind == "gptq":
            tensors[f"{stem}.bias"] = np.zeros(len(floats[stem]), np.float16)
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    config = json.loads((plain / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": told}))
    return floats


@pytest.mark.parametrize("kind", MADE)
def test_numbers_and_logits(kind: str, plain: Path, tmp_path: Path) -> None:
    floats = packed(plain, tmp_path / "packed", kind)
    checkpoint = open_checkpoint(tmp_path / "packed")
    names = {"self_attn.q_proj": "attn_q", "self_attn.o_proj": "attn_output", "mlp.down_proj": "ffn_down"}
    for theirs, ours in names.items():
        weight = checkpoint.weights[f"blk.0.{ours}.weight"]
        assert weight.format.name == ("Q8_0" if kind == "gptq of 8 bits" else "Q4_Z")
        np.testing.assert_array_equal(weight.floats(), floats[f"model.layers.0.{theirs}"])
    assert not any(name.endswith("bias") for name in checkpoint.weights)
    ids = np.random.default_rng(1).integers(0, 50, 8)
    wide = {name: Weight.from_floats(name, weight.floats()) for name, weight in checkpoint.weights.items()}
    found, want = (
        Interpreted(one, 32, 8).run("verify", ids) for one in (checkpoint, replace(checkpoint, weights=wide))
    )
    assert np.abs(found - want).max() < 0.03 * np.abs(want).max()  # activations are of 8 bits


Q = "model.layers.0.self_attn.q_proj"


@pytest.mark.parametrize(
    ("kind", "told", "change", "why"),
    [
        ("gptq", {}, lambda t: t.update({f"{Q}.g_idx": t[f"{Q}.g_idx"][::-1].copy()}), "not of inputs that follow"),
        ("gptq", {}, lambda t: t.pop(f"{Q}.scales"), "a packed matrix has no scales"),
        ("gptq", {}, lambda t: t.update({f"{Q}.scales": t[f"{Q}.scales"][:1]}), "do not fit"),
        ("gptq", {}, lambda t: t.update({f"{Q}.qzeros": t[f"{Q}.qzeros"].ravel()}), "do not fit"),
        ("gptq", {}, lambda t: t.update({f"{Q}.qweight": t[f"{Q}.qweight"].astype(np.float32)}), "instead of I32"),
        ("gptq", {}, lambda t: t.update({f"{Q}.scales": np.full_like(t[f"{Q}.scales"], 1, np.float32) / 3}), "of f16"),
        ("gptq", {"bits": 3}, None, "packed by gptq with 3 bits"),
        ("gptq", {"group_size": 48}, None, "groups of 48"),
        ("gptq", {"group_size": 64}, None, "do not fit"),
        ("gptq of 8 bits", {"checkpoint_format": "gptq_v2"}, None, "zero points other than 128"),
        ("awq", {"version": "gemv"}, None, "packed by awq with 4 bits, gemv"),
        ("awq", {"bits": "four"}, None, "bits is no whole number"),
        ("awq", {}, lambda t: t.update({f"{Q}.qweight": t[f"{Q}.qweight"][:, :4].copy()}), "do not fit"),
        ("awq", {}, lambda t: t.update({"other.qweight": t[f"{Q}.qweight"]}), "has no qzeros"),
    ],
)
def test_what_is_not_read(
    kind: str, told: dict[str, Any], change: Callable[[dict[str, np.ndarray]], object] | None, why: str,
    plain: Path, tmp_path: Path,
) -> None:  # fmt: skip
    folder = tmp_path / "packed"
    packed(plain, folder, kind)
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] |= told
    (folder / "config.json").write_text(json.dumps(config))
    if change is not None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors")
    with pytest.raises(SdkError, match=why):
        open_checkpoint(folder)
