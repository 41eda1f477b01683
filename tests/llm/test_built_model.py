"""A checkpoint built, loaded and spoken with: what compiled code computes is what ``transformers`` does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from llm_helpers import logits_of, saved

import sdk.llm
from sdk.cli import run_command
from sdk.errors import UsageError
from sdk.llm.checkpoint import open_checkpoint
from sdk.llm.decoder import Sizes
from sdk.llm.fitting import needs


def test_conversation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of a conversation with one build, since that is what takes time: parts, verification, going back, saving."""
    model = saved(
        tmp_path / "hf", "Mistral", vocab_size=61, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=40, sliding_window=6,
    )  # fmt: skip
    out = tmp_path / "out"
    command = ["llm", "build", str(tmp_path / "hf"), "-o", str(out), "--context", "32", "--chunk", "4", "--json"]
    assert run_command(command) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["architecture"], told["context"], told["name"]) == ("llama", 32, "hf")
    assert told["special_tokens"]["eos"] == [2]
    checkpoint = open_checkpoint(tmp_path / "hf")
    planned, real = needs(checkpoint.config, checkpoint.weights, Sizes(32, 4)), told["report"]
    assert 0 <= planned.caches - real["state_bytes"] < 64
    assert abs(planned.weights / (out / "hf_weights.bin").stat().st_size - 1) < 0.1
    assert 0.5 < planned.arena / real["arena_bytes"] < 2  # of so small a model
    ids = np.random.default_rng(3).integers(0, 61, 32)
    want = logits_of(model, ids)

    def same(found: np.ndarray, position: int) -> None:
        np.testing.assert_allclose(found, want[position], atol=1e-4, rtol=0)

    with sdk.llm.load(out) as session:
        session._state[:] = 0xFF  # NaN: caches are not cleared, and what nobody wrote does not matter
        assert (session.context, session.vocabulary_size, session.length) == (32, 61, 0)
        same(session.feed(ids[:11]), 10)
        for k, row in enumerate(session.verify(ids[11:15])):
            same(row, 11 + k)
        kept = session.save()
        same(session.feed(ids[15:16]), 15)
        assert session.truncate(13)  # three back: within what a ring has beside its window
        same(session.feed(ids[13:14]), 13)
        assert not session.truncate(5)
        assert session.length == 14
        session.restore(kept)
        same(session.feed(ids[15:32]), 31)
        with pytest.raises(UsageError, match="out of context: 32 of 32"):
            session.feed([1])
        other = session.another()
        same(other.feed(ids[:2]), 1)
        assert (other.length, session.length) == (2, 32)
        shared = sdk.llm.load(out, threads=99)  # no more than some kernel is worth
        assert shared.threads == 1
        same(shared.feed(ids[:12]), 11)
        same(shared.feed(ids[12:13]), 12)
        shared.close()
        with pytest.raises(UsageError, match="0 threads"):
            sdk.llm.load(out, threads=0)
        session.reset()
        for wrong in ([], [61], [-1], [0.5], [[1]]):
            with pytest.raises(UsageError, match=r"no tokens to take|is not in the vocabulary"):
                session.feed(wrong)
        with pytest.raises(UsageError, match="9 tokens to verify"):
            session.verify([1] * 9)
        same(session.feed(ids[:1]), 0)
    with pytest.raises(UsageError, match="the conversation was closed"):
        session.feed([1])
    weights = out / "hf_weights.bin"
    whole = weights.read_bytes()
    for wrong in (whole[:-1], whole[:16] + bytes(32) + whole[48:]):
        weights.unlink()
        weights.write_bytes(wrong)
        with pytest.raises(UsageError, match=r"hf_weights\.bin is not of this build"):
            sdk.llm.load(out)
    weights.unlink()
    with pytest.raises(UsageError, match="cannot read"):
        sdk.llm.load(out)
    with pytest.raises(UsageError, match="no language model"):
        sdk.llm.load(tmp_path)
