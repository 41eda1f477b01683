"""Caches in f16 and in 8 bits: how far results are from those with caches in f32, and that builds take the option."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from llm_helpers import Interpreted, saved

import sdk.llm
from sdk.cli import run_command
from sdk.compiler.ops import OPS
from sdk.errors import UsageError
from sdk.llm.build import build_model
from sdk.llm.checkpoint import open_checkpoint
from sdk.llm.decoder import Sizes
from sdk.llm.fitting import needs

SIZES = {
    "vocab_size": 61, "hidden_size": 24, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 12, "max_position_embeddings": 40, "sliding_window": 6,
}  # fmt: skip
PARTS = [4, 3, *[1] * 12, 4, *[1] * 5]  # windows of 6 in rings of 16 wrap
APART = {"f32": 0.0, "f16": 2e-3, "int8": 3e-2}  # of the largest logit


def test_numbers_are_as_far_off_as_is_stated() -> None:
    """f16: 1/2048 of the number; 8 bits: 1/254 of the largest of the head. From that follows a bound of results."""
    rng = np.random.default_rng(0)
    kv, size, slots, block = 2, 48, 32, 8
    q, rows, values = (rng.standard_normal(s) * 3 for s in ((3, 4, size), (kv, slots, size), (kv, slots, size)))
    q *= 0.1

    def blocked(keys: np.ndarray) -> np.ndarray:
        return keys.reshape(kv, slots // block, block, size).transpose(0, 1, 3, 2)

    keys = blocked(rows)
    given = {"start": slots - 3, "window": 0, "ring": False, "scale": size**-0.5, "cap": 0.0}
    exact = OPS["attend"].reference(q, keys, values, **given)

    def in_bytes(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        flat = rows.reshape(-1, size).astype(np.float32)
        whole, scale, _ = OPS["quantize_groups"].reference(flat, run=size, zero=0, group=size)
        off = np.abs(whole * scale.astype(np.float64) - flat)
        assert (off <= np.abs(flat).max(axis=1, keepdims=True) / 253.99).all()
        return whole.reshape(rows.shape), scale.reshape(rows.shape[:2])

    whole, scale = in_bytes(rows)
    more, more_scale = in_bytes(values)
    found = OPS["attend_bytes"].reference(q, blocked(whole), more, scale, more_scale, **given)
    largest = np.abs(rows).max(axis=2)  # of each head of a slot
    moved = given["scale"] * np.abs(q).sum(axis=2).max() * largest.max() / 254  # a score at most
    assert np.abs(found - exact).max() <= (np.expm1(2 * moved) + 1 / 254) * np.abs(values).max() * 1.001
    halves = [a.astype(np.float16) for a in (keys, values)]
    found = OPS["attend"].reference(q, *halves, **given)
    moved = given["scale"] * np.abs(q).sum(axis=2).max() * largest.max() / 2048
    assert np.abs(found - exact).max() <= (np.expm1(2 * moved) + 1 / 2048) * np.abs(values).max() * 1.001


def test_models_with_each(tmp_path: Path) -> None:
    model = saved(tmp_path / "hf", "Mistral", **SIZES)
    checkpoint = open_checkpoint(tmp_path / "hf")
    ids = np.random.default_rng(3).integers(0, 61, sum(PARTS))
    exact = Interpreted(checkpoint, 32, 4).by_parts(ids, PARTS)
    largest = max(np.abs(row).max() for row in exact.values())
    for cache, bound in APART.items():
        session = Interpreted(checkpoint, 32, 4, cache)
        found = session.by_parts(ids, PARTS)
        apart = max(np.abs(found[at] - row).max() for at, row in exact.items()) / largest
        assert apart <= bound, (cache, apart)
        assert (apart == 0) == (cache == "f32")
        held = sum(state.iterations * state.type.nbytes for state in session.module.states.values())
        assert 0 <= needs(checkpoint.config, checkpoint.weights, Sizes(32, 4, cache)).caches - held < 64 * 8
    with pytest.raises(UsageError, match="no caches of 'f64'"):
        build_model(tmp_path / "hf", tmp_path / "out", cache="f64")
    model.model.layers[0].self_attn.v_proj.weight.data *= 1e6  # beyond what f16 holds
    model.save_pretrained(tmp_path / "large")
    found = Interpreted(open_checkpoint(tmp_path / "large"), 32, 4, "f16").run("prefill", ids[:3])
    assert np.isfinite(found).all()


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["f16", "int8"])
def test_as_compiled(cache: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(tmp_path / "hf", "Mistral", **SIZES)
    command = ["llm", "build", str(tmp_path / "hf"), "-o", str(tmp_path / "out"), "--context", "32", "--chunk", "4"]
    assert run_command([*command, "--cache", cache, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cache"] == cache
    ids = np.random.default_rng(3).integers(0, 61, sum(PARTS))
    wanted = Interpreted(open_checkpoint(tmp_path / "hf"), 32, 4, cache).by_parts(ids, PARTS)
    largest = max(np.abs(row).max() for row in wanted.values())
    with sdk.llm.load(tmp_path / "out") as model:
        model._state[:] = 0xFF
        ends = np.cumsum(PARTS)
        for part, end in zip(PARTS, ends, strict=True):
            row = model.feed(ids[end - part : end])
            assert np.abs(row - wanted[end - 1]).max() < 0.3 * APART[cache] * largest  # a number may round otherwise
