"""Whole models in groups as AArch64 code under QEMU: a prompt and 64 tokens one by one, beside this machine's build."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import test_compiled_architectures as compiled_tests
from llm_helpers import saved
from test_architectures import MODELS

from sdk.compiler.ops.group_formats import FORMATS
from sdk.compiler.ops.group_products import blocks_of
from sdk.llm.checkpoint import Checkpoint, open_checkpoint
from sdk.llm.quantise import is_matrix
from sdk.llm.weights import FORMATS as FILE_FORMATS
from sdk.llm.weights import Weight

WIDE = {"hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 2}
PARTS = [5, 3, *[1] * 64]
FEW = [5, 3, *[1] * 6]
CORES = ("aarch64-linux-neon", "aarch64-linux", "aarch64-linux-i8mm")
# architecture, weights, caches, and how far logits may be apart, of the largest: sums are in another order, so that now
# and then an activation, or a number of a cache, lies on the other side of a rounding
CASES = (
    ("llama", "Q4_0", "f16", 2e-2), ("qwen3", "Q8_0", "f32", 2e-2), ("gemma2", "Q4_K", "f16", 2e-2),
    ("phi3", "Q6_K", "f32", 2e-2), ("mistral", "Q4_K", "int8", 3e-2), ("smollm3", "Q8_0", "int8", 3e-2),
    ("olmo2", "F32", "f16", 2e-3), ("llama3", "F32", "f32", 1e-4), ("qwen2", "Q6_K", "f16", 2e-2),
    ("gemma3", "Q4_0", "int8", 3e-2),
)  # fmt: skip


def in_groups(weight: Weight, format: str) -> Weight:
    """A matrix of random blocks, as large as what it takes the place of; others as they are."""
    if format == "F32" or not is_matrix(weight) or weight.shape[1] % FORMATS[format].size:
        return weight
    form, (rows, columns) = FORMATS[format], weight.shape
    blocks = blocks_of(format, rows, columns)(np.random.default_rng(len(weight.name) + rows))
    factor = weight.floats().std() / form.decode(blocks).std()
    cut = blocks.reshape(-1, form.nbytes)
    for first, count, unit in form.fields:
        if unit == 2:
            halves = np.ascontiguousarray(cut[:, first : first + 2 * count]).view("<f2") * factor
            cut[:, first : first + 2 * count] = halves.astype("<f2").view(np.uint8)
    return Weight.of(weight.name, FILE_FORMATS[format], weight.shape, cut.reshape(-1))


def random_model(name: str, format: str, folder: Path) -> Checkpoint:
    kind, sizes = MODELS[name]
    saved(folder, kind, **sizes | WIDE | {"max_position_embeddings": 128, "head_dim": 64})
    plain = open_checkpoint(folder)
    packed = replace(plain, weights={key: in_groups(w, format) for key, w in plain.weights.items()})
    assert format == "F32" or sum(w.format.name == format for w in packed.weights.values()) > 10
    return packed


def same_as_here(
    case: tuple[str, str, str, float], board: str, tmp_path: Path, patch: pytest.MonkeyPatch, parts: list[int]
) -> None:
    name, format, cache, bound = case
    model = random_model(name, format, tmp_path / "hf")
    patch.setattr("sdk.llm.build.open_checkpoint", lambda _: model)
    patch.setattr(compiled_tests, "PARTS", parts)
    ids = np.random.default_rng(1).integers(0, 99, sum(parts))
    here, there = (
        compiled_tests.compiled(tmp_path / "hf", tmp_path / one, one, ids, context=96, cache=cache)
        for one in ("host", board)
    )
    apart = np.abs(here - there).max(axis=1) / np.abs(here).max()
    assert apart.max() < bound, apart
    assert apart[0] < bound / 4, apart


@pytest.mark.emulator
def test_a_model_in_four_bits(tmp_path: Path, need_tool: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    need_tool("qemu-aarch64")
    same_as_here(CASES[0], "aarch64-linux", tmp_path, monkeypatch, FEW)


@pytest.mark.slow
@pytest.mark.emulator
@pytest.mark.parametrize("board", CORES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case[:3]))
def test_models(
    case: tuple[str, str, str, float], board: str, tmp_path: Path, need_tool: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    need_tool("qemu-aarch64")
    same_as_here(case, board, tmp_path, monkeypatch, PARTS)
