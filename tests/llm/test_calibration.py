"""Matrices that are quantised for a text: the model in floats stays the same, and what is lost by rounding is less."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_helpers import Interpreted, saved

from sdk.errors import UsageError
from sdk.llm import build_model
from sdk.llm.activation_aware import activation_aware, scaled
from sdk.llm.calibration import calibration_tokens, observed
from sdk.llm.checkpoint import Checkpoint, open_checkpoint
from sdk.llm.quantise import quantised
from sdk.llm.weights import Weight

SMALL = {"vocab_size": 99, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 64}  # fmt: skip
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", SMALL | {"attention_bias": True, "mlp_bias": True}),
    "qwen3": ("Qwen3", SMALL | {"head_dim": 32, "tie_word_embeddings": True}),
    "gemma2": ("Gemma2", SMALL | {"head_dim": 16, "sliding_window": 7}),
    "olmo2": ("Olmo2", SMALL),
    "phi3": ("Phi3", SMALL | {"pad_token_id": 0}),
    "gpt2": ("GPT2", {"vocab_size": 99, "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4}),
    "gptneox": ("GPTNeoX", {k: v for k, v in SMALL.items() if k != "num_key_value_heads"}),
}


@pytest.fixture(params=MODELS)
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Checkpoint:
    """A model some of whose channels are far larger than others, as those of trained models are."""
    name, sizes = MODELS[request.param]
    saved(tmp_path, name, **sizes)
    found, rng = open_checkpoint(tmp_path), np.random.default_rng(3)

    def uneven(weight: Weight) -> Weight:
        return weight.mapped(lambda x: x * np.exp(1.2 * rng.standard_normal(len(x))).astype(np.float32))

    channels = [n for n in found.weights if n.endswith(("attn_norm.weight", "ffn_norm.weight", "ffn_norm.bias"))]
    return replace(found, weights=found.weights | {name: uneven(found.weights[name]) for name in channels})


def logits(found: Checkpoint, weights: dict[str, Weight], ids: np.ndarray) -> np.ndarray:
    """Of every token, with all matrices as the floats that they stand for."""
    real = {name: Weight.from_floats(name, weight.floats()) for name, weight in weights.items()}
    session = Interpreted(replace(found, weights=real), 64, 8)
    return np.concatenate([session.run("verify", ids[at : at + 8]) for at in range(0, len(ids), 8)])


def test_the_model_stays_the_same_and_loses_less(small: Checkpoint) -> None:
    text, other = np.random.default_rng(1).integers(0, 99, (2, 512))
    inputs = observed(small.config, small.weights, text.tolist())
    matrices = {f"blk.{k}.{n}.weight" for k in (0, 1) for n in ("attn_q", "attn_output", "ffn_up", "ffn_down")}
    assert matrices <= set(inputs)
    assert all(held.count == 512 and held.rows.shape[0] == 128 for held in (inputs[name] for name in matrices))
    want = logits(small, dict(small.weights), other[:64])
    changed, _, _ = scaled(small.config, small.weights, inputs, "Q4_0")
    assert any(not np.array_equal(changed[name].data, weight.data) for name, weight in small.weights.items())
    np.testing.assert_allclose(logits(small, changed, other[:64]), want, atol=2e-4 * np.abs(want).max(), rtol=0)
    nearest = logits(small, quantised(small.weights, "Q4_0"), other[:64])
    aware = logits(small, activation_aware(small.config, small.weights, inputs, "Q4_0"), other[:64])
    most = 1.0 if small.config.architecture == "olmo2" else 0.8  # no norm there feeds a matrix, so hardly any is scaled
    assert np.square(aware - want).mean() < most * np.square(nearest - want).mean()


def test_inputs_are_those_of_the_whole_text_however_it_is_cut(tmp_path: Path) -> None:
    """Windows of a model for 64 positions, and the rest; mean and rows by hand for the first norm's outputs."""
    saved(tmp_path, "Llama", **SMALL)
    found = open_checkpoint(tmp_path)
    ids = np.random.default_rng(2).integers(0, 99, 150)
    held = observed(found.config, found.weights, ids.tolist())["blk.0.attn_q.weight"]
    rows = found.weights["token_embd.weight"].floats()[ids].astype(np.float64)
    rows *= found.weights["blk.0.attn_norm.weight"].floats()
    rows /= np.sqrt(np.square(found.weights["token_embd.weight"].floats()[ids]).mean(axis=1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(held.magnitude, np.abs(rows).mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(held.squares, np.square(rows).mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(held.rows, rows[::2], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("value", [0.0, 1e-30, 1e-7, -5e5])
def test_groups_of_one_number(value: float) -> None:
    """Zeros, and steps at the ends of what f16 holds."""
    weight = Weight.from_floats("w", np.full((3, 64), value, np.float32))
    for squares in (None, {"w": np.arange(64, dtype=np.float32)}):
        stored = quantised({"w": weight}, "Q4_0", squares)["w"].floats()
        np.testing.assert_allclose(stored, weight.floats(), rtol=1e-2, atol=3e-7)


@pytest.mark.parametrize("format", ["Q4_0", "Q8_0"])
@pytest.mark.parametrize("value", [1e7, np.inf, np.nan])
def test_weights_that_no_group_holds(value: float, format: str) -> None:
    weight = Weight.from_floats("blk.0.attn_q.weight", np.full((3, 64), value, np.float32))
    with pytest.raises(UsageError, match="attn_q"):
        quantised({"w": weight}, format)


def test_a_step_that_fits_squares_is_no_worse_than_the_nearest() -> None:
    rng = np.random.default_rng(4)
    values = (rng.standard_normal((64, 96)) * np.exp(rng.standard_normal((64, 1)))).astype(np.float32)
    squares = np.exp(2 * rng.standard_normal(96)).astype(np.float32)
    weight = Weight.from_floats("w", values)
    lost = [np.square(q["w"].floats() - values) @ squares
            for q in (quantised({"w": weight}, "Q4_0", {"w": squares}), quantised({"w": weight}, "Q4_0"))]  # fmt: skip
    assert lost[0].sum() < 0.8 * lost[1].sum()


def test_texts_that_cannot_be_used(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    from tokenizers import Tokenizer, models

    saved(tmp_path, "Llama", **SMALL)
    found = open_checkpoint(tmp_path)
    Tokenizer(models.WordLevel({"a": 0, "b": 500, "?": 1}, unk_token="?")).save(str(tmp_path / "tokenizer.json"))
    for content, said in ((b"", "it has no tokens"), (b"\xff", "invalid start byte"), (b"b", "has the token 500")):
        (tmp_path / "text").write_bytes(content)
        with pytest.raises(UsageError, match="text") as error:
            calibration_tokens(found, tmp_path / "text")
        assert said in str(error.value.why)
    with pytest.raises(UsageError, match="cannot read"):
        calibration_tokens(found, tmp_path / "none")
    (tmp_path / "text").write_bytes(b"a")
    assert calibration_tokens(found, tmp_path / "text") == [0]


def test_a_build_for_a_text(tmp_path: Path) -> None:
    """Other weights than without one, and an error where there is nothing to quantise."""
    pytest.importorskip("tokenizers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    saved(tmp_path / "hf", "Llama", **SMALL)
    words = Tokenizer(models.WordLevel({f"w{k}": k for k in range(99)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "hf" / "tokenizer.json"))
    text = tmp_path / "text"
    text.write_text(" ".join(f"w{k * k % 99}" for k in range(300)))
    made = []
    for given in (None, text):
        out = tmp_path / f"out-{given is None}"
        build_model(tmp_path / "hf", out, context=32, chunk=4, board="qemu-cortex-m4", quantize="q4_0", calibrate=given)
        made.append((out / "hf_weights.c").read_bytes())
    assert len(made[0]) > 10_000
    assert made[0] != made[1]
    saved(tmp_path / "narrow", "Llama", **SMALL | {"hidden_size": 16, "intermediate_size": 24})
    for name, format, why in (("hf", None, "nothing is quantised"), ("narrow", "q4_0", "no matrices of floats")):
        with pytest.raises(UsageError, match="nothing to calibrate") as error:
            build_model(tmp_path / name, tmp_path / "out", quantize=format, calibrate=text)
        assert why in str(error.value.why)
