"""Language models on lavapipe and PoCL, Vulkan and OpenCL on the processor, beside the C of the same build."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_helpers import logits_of, saved

from sdk.driver import BuildOptions
from sdk.driver.choosing import Choice
from sdk.errors import UsageError
from sdk.llm import build
from sdk.llm.build import build_model
from sdk.llm.device import DeviceModel
from sdk.llm.embed import embed_chat
from tests.gpu.conftest import lavapipe, lying_vulkan, pocl  # noqa: F401
from tests.gpu.llm_work import chosen, compared

# norms of queries and keys, shared heads, one layer with a window of 6 in a ring of 16 and one without
SIZES = {
    "vocab_size": 61, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 64, "sliding_window": 6,
    "layer_types": ["sliding_attention", "full_attention"],
}  # fmt: skip
PARTS = [8, 1, 1, 5, *[1] * 16, 8]
RECORDINGS = 3  # of prompts of 8 and 5, and of one token, wherever it stands
# Of the largest logit: sums in another order; caches of 16 bits; activations on both sides of a rounding.
FLOATS, HALVES, ROUNDED = 2e-5, 1e-3, 2e-2


def _built(folder: Path, gpu: str, **options: Any) -> Path:
    if not (folder / "hf").exists():
        saved(folder / "hf", "Gemma3Text", **SIZES)
    build_model(folder / "hf", folder / gpu, context=64, chunk=8, name="m", gpu=gpu, force=True, **options)
    return folder / gpu


def _agree(found: dict[str, Any], bound: float) -> None:
    assert max(found["off"]) <= bound
    assert max(found["verified"], found["reset"]) <= bound
    assert found["restored"] == 0
    assert found["recorded"] == RECORDINGS
    assert found["notes"] == []


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _built(tmp_path_factory.mktemp("built"), "vulkan", quantize="q8_0", cache="f16")


def test_vulkan_gives_what_the_processor_gives(
    tmp_path: Path, built: Path, lavapipe: Callable[..., Any]  # noqa: F811
) -> None:
    folder = built
    _agree(lavapipe(compared, folder, tmp_path / "cache", PARTS), ROUNDED)
    with pytest.raises(UsageError, match="built for a GPU"):
        DeviceModel(folder, "tcp://127.0.0.1:1")
    (folder / "tokenizer.json").unlink(missing_ok=True)
    with pytest.raises(UsageError, match="built for a GPU"):
        embed_chat(folder)


def test_a_matrix_beyond_what_a_kernel_may_see(
    tmp_path: Path, built: Path, lying_vulkan: Callable[..., Any]  # noqa: F811
) -> None:
    """The embedding, 61 rows of 34 bytes, is larger than a binding: the processor does its steps, nothing is wrong."""
    found = lying_vulkan("range=2064", compared, built, tmp_path / "cache", [8, *[1] * 8])
    assert max(*found["off"], found["verified"], found["reset"]) <= ROUNDED
    assert found["restored"] == 0
    asked = [line for line in found["notes"] if "it asks for more than the device has" in line]
    assert any("lookup_groups" in line for line in asked)
    assert asked == found["notes"]


@pytest.mark.slow
@pytest.mark.parametrize("format", [None, "q8_0"])
def test_the_shape_of_smollm2(
    tmp_path: Path, lavapipe: Callable[..., Any], format: str | None  # noqa: F811
) -> None:
    """Floats are within the rounding of caches of 16 bits. Activations of 8 bits fall on either side of a rounding, and
    30 layers of random weights make more of each: the GPU is nearer to the processor than that is to floats."""
    model = saved(
        tmp_path / "hf", "Llama", vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
        num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=2048, tie_word_embeddings=True,
    )  # fmt: skip
    build_model(tmp_path / "hf", tmp_path / "built", context=512, quantize=format, cache="f16", name="m", gpu="vulkan")
    found = lavapipe(compared, tmp_path / "built", tmp_path / "cache", [60, *[1] * 32])
    floats = logits_of(model, found["ids"])[-1]
    rounded = float(np.abs(found["logits"] - floats).max() / np.abs(floats).max())
    assert rounded <= (0.25 if format else 0.01)
    assert max(*found["off"], found["verified"], found["reset"]) <= (rounded if format else HALVES)
    assert found["recorded"] == 2
    assert found["notes"] == []


@pytest.mark.slow
@pytest.mark.parametrize(("format", "cache"), [(None, "f32"), ("q4_0", "int8")])
def test_vulkan_with_other_weights(
    tmp_path: Path, lavapipe: Callable[..., Any], format: str | None, cache: str  # noqa: F811
) -> None:
    folder = _built(tmp_path, "vulkan", quantize=format, cache=cache)
    _agree(lavapipe(compared, folder, tmp_path / "cache", PARTS), ROUNDED if format else FLOATS)


@pytest.mark.slow
@pytest.mark.parametrize(("format", "cache"), [(None, "f32"), ("q4_0", "int8")])
def test_opencl_gives_what_the_processor_gives(
    tmp_path: Path, pocl: Callable[..., Any], format: str | None, cache: str  # noqa: F811
) -> None:
    folder = _built(tmp_path, "opencl", quantize=format, cache=cache)
    _agree(pocl(compared, folder, tmp_path / "cache", PARTS), ROUNDED if format else FLOATS)


def test_what_is_fastest_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build with --gpu auto is what was measured to be fastest, with what stays on the processor."""
    asked: list[BuildOptions] = []
    choices = iter((Choice(None, {}, {}), Choice("vulkan", {"vulkan": 1.0}, {}, frozenset({0, 3}))))

    def fastest(file: Any, board: Any, device: Any, options: BuildOptions) -> Choice:
        asked.append(options)
        return next(choices)

    monkeypatch.setattr(build, "fastest", fastest)
    saved(tmp_path / "hf", "Gemma3Text", **SIZES)
    given = {"context": 64, "chunk": 8, "name": "m", "gpu": "auto", "force": True}
    made = build_model(tmp_path / "hf", tmp_path / "built", **given)
    assert "gpu" not in made.info
    assert made.info["max_threads"] == 8
    made = build_model(tmp_path / "hf", tmp_path / "built", **given)
    assert made.info["gpu"] == "vulkan"
    assert made.choice is not None
    assert made.choice.on_processor == {0, 3}
    text = (tmp_path / "built" / "m.c").read_text()
    assert text.count("it is faster there") == 2
    assert [(one.gpu, one.io, one.threads) for one in asked] == [(None, None, 8)] * 2


@pytest.mark.slow
def test_what_is_fastest_is_measured(
    tmp_path: Path, lavapipe: Callable[..., Any]  # noqa: F811
) -> None:
    """Of a small model it is the processor, or a part of it is: the drivers here are processors too."""
    saved(tmp_path / "hf", "Gemma3Text", **SIZES)
    told = lavapipe(chosen, tmp_path / "hf", tmp_path / "built")
    assert "the processor" in told
    assert "vulkan" in told
