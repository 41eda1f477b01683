"""The example that trains a tiny model: it writes English, in each of the formats that it is built in."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sdk.llm
from sdk.llm.build import build_model

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "stories"
STEPS, WRITTEN, MAX = 400, 10, 200


def test_stories_are_told_from_other_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    from stories import is_story, story  # type: ignore[import-not-found]

    rng = random.Random(3)
    told = [story(rng) for _ in range(200)]
    assert all(map(is_story, told))
    assert len(set(told)) == len(told)
    for text in told[:20]:
        words = text.split()
        assert not is_story(" ".join(words[:-1]))
        assert not is_story(text.replace(" the ", " teh ", 1))
        assert not is_story(" ".join([*words[:20], *words[19:]]))
        assert not is_story(" ".join(words[::-1]))


@pytest.mark.slow
def test_a_model_that_was_trained_here_writes_stories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    from stories import is_story

    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    command = [sys.executable, str(EXAMPLE / "train.py"), str(tmp_path / "model"), "--steps", str(STEPS)]
    subprocess.run(command, check=True)
    tokens = tokenizers.Tokenizer.from_file(str(tmp_path / "model" / "tokenizer.json"))
    for format in (None, "q8_0", "q4_0"):
        out = tmp_path / f"out-{format}"
        build_model(tmp_path / "model", out, quantize=format, name="stories")
        with sdk.llm.load(out, threads=1) as model:
            told = [tokens.decode(written(model, seed)) for seed in range(WRITTEN)]
        right = sum(map(is_story, told))
        assert right >= WRITTEN - 2, (format, told)
        assert len(set(told)) == WRITTEN


def written(model: sdk.llm.LanguageModel, seed: int) -> list[int]:
    """What a model writes at a temperature of 0.5, up to the token 0 that ends a story."""
    rng = np.random.default_rng(seed)
    model.reset()
    found: list[int] = []
    logits = model.feed([0])
    while len(found) < MAX:
        odds = np.exp((logits - logits.max()) / 0.5)
        token = int(rng.choice(len(odds), p=odds / odds.sum()))
        if token == 0:
            break
        found.append(token)
        logits = model.feed([token])
    return found
