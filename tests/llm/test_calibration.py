"""Matrices that are quantised for a text: the model in floats stays the same, and what is lost by rounding is less."""

from __future__ import annotations

from collections.abc import Callable
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
    maximum = 1.0 if small.config.architecture == "olmo2" else 0.8  # no norm there feeds a matrix, so few are scaled
    assert np.square(aware - want).mean() < maximum * np.square(nearest - want).mean()


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


def changed(found: Checkpoint, names: tuple[str, ...], change: Callable[[np.ndarray], np.ndarray]) -> Checkpoint:
    return replace(found, weights=found.weights | {name: found.weights[name].mapped(change) for name in names})


def test_inputs_that_the_text_never_shows_keep_their_weights(tmp_path: Path) -> None:
    """A group of them and a single one; what they are multiplied by stays as near as with the nearest, about."""
    saved(tmp_path, "Llama", **SMALL)
    norms = tuple(f"blk.0.{name}_norm.weight" for name in ("attn", "ffn"))
    dead = np.r_[:32, 40]
    found = changed(open_checkpoint(tmp_path), norms, lambda x: np.where(np.isin(np.arange(64), dead), 0, x))
    ids = np.random.default_rng(5).integers(0, 99, 256).tolist()
    inputs = observed(found.config, found.weights, ids)
    assert not inputs["blk.0.attn_q.weight"].magnitude[dead].any()
    floats, _, squares = scaled(found.config, found.weights, inputs, "Q4_0")
    assert all(np.isfinite(held).all() and held.all() for held in squares.values())
    aware, nearest = quantised(floats, "Q4_0", squares), quantised(found.weights, "Q4_0")
    for name in ("attn_q", "attn_k", "attn_v", "ffn_up"):
        real = floats[f"blk.0.{name}.weight"].floats()
        scales = real[:, dead] / found.weights[f"blk.0.{name}.weight"].floats()[:, dead]  # of columns, and of rows in v
        off = aware[f"blk.0.{name}.weight"].floats()[:, dead] / scales - real[:, dead] / scales
        plain = nearest[f"blk.0.{name}.weight"].floats() - found.weights[f"blk.0.{name}.weight"].floats()
        assert np.square(off).mean() < 4 * np.square(plain[:, dead]).mean()


def test_matrices_that_begin_alike(tmp_path: Path) -> None:
    """Rows of zeros, as in models that were pruned, and a whole matrix: what each is given is still its own."""
    saved(tmp_path, "Llama", **SMALL)
    found = open_checkpoint(tmp_path)
    names = tuple(f"blk.{k}.attn_{x}.weight" for k in (0, 1) for x in "qv")
    ids = np.random.default_rng(6).integers(0, 99, 100).tolist()
    for last in (1, None):
        def without(x: np.ndarray, last: int | None = last) -> np.ndarray:
            return np.concatenate((np.zeros_like(x[:last]), x[len(x[:last]):]))

        now = changed(found, names, without)
        inputs = observed(now.config, now.weights, ids)
        assert set(names) <= set(inputs)
        assert all(inputs[name].count == len(ids) for name in names)
        aware = activation_aware(now.config, now.weights, inputs, "Q4_0")
        assert all(np.isfinite(weight.floats()).all() for weight in aware.values())
        np.testing.assert_array_equal(inputs[names[0]].magnitude, inputs["blk.0.attn_k.weight"].magnitude)
        np.testing.assert_array_equal(inputs[names[2]].magnitude, inputs["blk.1.attn_k.weight"].magnitude)
        assert not np.array_equal(inputs[names[0]].magnitude, inputs[names[2]].magnitude)


def test_weights_at_the_end_of_what_a_format_holds(tmp_path: Path) -> None:
    """No scale makes them larger than that."""
    saved(tmp_path, "Llama", **SMALL)
    names = tuple(f"blk.{k}.ffn_{x}.weight" for k in (0, 1) for x in ("up", "down"))
    found = changed(open_checkpoint(tmp_path), names, lambda x: x * np.float32(5e5) / np.abs(x).max())
    inputs = observed(found.config, found.weights, list(range(99)))
    aware = activation_aware(found.config, found.weights, inputs, "Q4_0")
    assert all(np.isfinite(weight.floats()).all() for weight in aware.values())


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_models_whose_inputs_are_no_numbers(tmp_path: Path, value: float) -> None:
    saved(tmp_path, "Llama", **SMALL)
    found = changed(open_checkpoint(tmp_path), ("blk.1.ffn_norm.weight",), lambda x: x * np.float32(value))
    with pytest.raises(UsageError, match=r"inputs of blk\.1\.ffn"):
        observed(found.config, found.weights, list(range(64)))


def words_of(folder: Path, count: int, **special: int) -> None:
    """A tokenizer of words w0, w1 ... that knows no others."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({f"w{k}": k for k in range(count)} | special, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.add_special_tokens(list(special))
    words.save(str(folder / "tokenizer.json"))


def test_texts_that_cannot_be_used(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    saved(tmp_path, "Llama", **SMALL)
    found = open_checkpoint(tmp_path)
    words_of(tmp_path, 98, s=98, more=500)
    text, pages = tmp_path / "text", b"w1 w2 w3 " * 30
    for content, said in (
        (b"", "it has 0 tokens"), (b" \n", "it has 0 tokens"), (b"w1 " * 63, "it has 63 tokens"),
        (pages + b"more", "has the token 500"), (b"s " * 99, "99 of its 99 tokens"),
        ("мир ".encode() * 70, "70 of its 70 tokens"),
    ):  # fmt: skip
        text.write_bytes(content)
        with pytest.raises(UsageError, match="text") as error:
            calibration_tokens(found, text)
        assert said in str(error.value.why), content[:9]
    for content, said in (
        (b"\xff", "invalid start byte at byte 0"), (b"w1 \xd0", "unexpected end of data at byte 3"),
        ("w1".encode("utf-16"), "invalid start byte"),
    ):  # fmt: skip
        text.write_bytes(content)
        with pytest.raises(UsageError, match="no text in UTF-8") as error:
            calibration_tokens(found, text)
        assert said in str(error.value.why)
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(UsageError, match="cannot read") as error:
            calibration_tokens(found, path)
        assert "--calibrate" in str(error.value.hint)
    for content in (pages, b"\xef\xbb\xbf" + pages, pages + "мир".encode()):
        text.write_bytes(content)
        assert calibration_tokens(found, text)[:90] == [1, 2, 3] * 30


def test_of_a_long_text_the_begin_is_read(tmp_path: Path) -> None:
    """Also where a character lies across the end of that, and all of it is one line."""
    pytest.importorskip("tokenizers")
    saved(tmp_path, "Llama", **SMALL)
    words_of(tmp_path, 98)
    text, found = tmp_path / "text", open_checkpoint(tmp_path)
    part = " ".join(f"w{k % 98}" for k in range(3000)).encode()
    text.write_bytes(part + b" " * ((1 << 20) - 1 - len(part)) + "é".encode())
    with text.open("ab") as file:
        file.truncate(5 << 30)  # of zeros, which are not read
    assert calibration_tokens(found, text) == [k % 98 for k in range(2048)]


def test_a_build_for_a_text(tmp_path: Path) -> None:
    """Other weights than without one, and an error where there is nothing to quantise."""
    pytest.importorskip("tokenizers")
    saved(tmp_path / "hf", "Llama", **SMALL)
    words_of(tmp_path / "hf", 99)
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
