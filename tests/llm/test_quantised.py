"""Weights in groups: made of floats, and used in the bits of the checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from llm_helpers import Interpreted, saved

import sdk.llm
from sdk.errors import UsageError
from sdk.llm.checkpoint import open_checkpoint
from sdk.llm.quantise import MADE, quantised
from sdk.llm.weights import Weight

STEPS = {"Q8_0": 127, "Q4_0": 8}


@pytest.mark.parametrize("format", MADE)
def test_numbers_are_rounded(format: str) -> None:
    values = np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32)
    values[2, :32] = 0
    made = quantised({"w": Weight.from_floats("w", values)}, format)["w"]
    assert made.format.name == format
    error = np.abs(made.floats() - values).reshape(-1, 32).max(axis=1)
    largest = np.abs(values).reshape(-1, 32).max(axis=1)
    # half a step, or a whole one for what would need one more; and the step itself is rounded to f16
    assert (error <= largest / STEPS[format] * (0.51 if format == "Q8_0" else 1.01) + 1e-3 * largest).all()


@pytest.mark.parametrize("format", MADE)
def test_a_model_in_groups(format: str, tmp_path: Path) -> None:
    """Its logits are those of the same bits as floats, but for activations in 8 bits; the bits are the checkpoint's."""
    saved(
        tmp_path, "Qwen3", vocab_size=99, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=64,
    )  # fmt: skip
    checkpoint = open_checkpoint(tmp_path)
    packed = quantised(checkpoint.weights, format)
    plain = {name: Weight.from_floats(name, weight.floats()) for name, weight in packed.items()}
    ids = np.random.default_rng(1).integers(0, 99, 8)
    session = Interpreted(replace(checkpoint, weights=packed), 32, 8)
    found, want = (s.run("verify", ids) for s in (session, Interpreted(replace(checkpoint, weights=plain), 32, 8)))
    assert np.abs(found - want).max() < 0.03 * np.abs(want).max()
    names = [f"blk.0.attn_{one}.weight" for one in "qkv"]  # in one product
    (held, *_) = session.module.stacks["_".join(names)].arrays
    np.testing.assert_array_equal(held, np.concatenate([packed[name].data for name in names]))
    assert "blk.0.attn_output.weight" in session.module.stacks


def test_another_format() -> None:
    with pytest.raises(UsageError, match="weights cannot be quantised to 'Q2_K'"):
        quantised({}, "Q2_K")


def test_threads_share_runs(tmp_path: Path) -> None:
    """A build wide enough for two threads: from two come the numbers that come from one, about those interpreted."""
    saved(
        tmp_path / "hf", "Llama", vocab_size=99, hidden_size=64, intermediate_size=1024, num_hidden_layers=1,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
    )  # fmt: skip
    sdk.llm.build_model(tmp_path / "hf", tmp_path / "out", context=64, chunk=16, quantize="q8_0", threads=2)
    checkpoint = open_checkpoint(tmp_path / "hf")
    ids = np.random.default_rng(2).integers(0, 99, 40)
    session = Interpreted(replace(checkpoint, weights=quantised(checkpoint.weights, "Q8_0")), 64, 16)
    wanted = session.by_parts(ids, (16, 16, 7, 1))[39]
    with sdk.llm.load(tmp_path / "out", threads=1) as one, sdk.llm.load(tmp_path / "out", threads=99) as two:
        copy = two.another()
        assert (one.threads, two.threads, copy.threads) == (1, 2, 2)
        for _ in range(5):
            logits = one.feed(ids)
            np.testing.assert_allclose(logits, wanted, atol=0.02 * np.abs(wanted).max())
            for shared in (two, copy):
                np.testing.assert_array_equal(shared.feed(ids), logits)
                shared.reset()
            one.reset()
        copy.close()
