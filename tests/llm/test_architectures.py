"""Each architecture computes what ``transformers`` does, over prompts in parts, single tokens and full windows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_helpers import Interpreted, class_of, logits_of, saved

from sdk.errors import SdkError
from sdk.llm.architectures import architecture_of
from sdk.llm.architectures.base import Given
from sdk.llm.checkpoint import open_checkpoint
from sdk.llm.rope import rates

SMALL = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 56, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 64}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32, "rope_theta": 5e3}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 1e4}
LONG = {"rope_type": "longrope", "rope_theta": 1e4, "partial_rotary_factor": 1.0, "short_factor": [1.0, 1.1, 1.3, 1.7],
        "long_factor": [1.0, 2.0, 4.0, 8.0]}  # fmt: skip
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", SMALL | {"attention_bias": True, "mlp_bias": True}),
    "llama3": ("Llama", SMALL | {"rope_parameters": LLAMA3, "tie_word_embeddings": True, "head_dim": 16}),
    "linear": ("Llama", SMALL | {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}}),
    "yarn": ("Llama", SMALL | {"rope_parameters": YARN}),
    "mistral": ("Mistral", SMALL | {"sliding_window": 7, "head_dim": 8}),
    "qwen2": ("Qwen2", SMALL | {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1}),
    "qwen3": ("Qwen3", SMALL | {"head_dim": 16}),
    "smollm3": ("SmolLM3", SMALL | {"num_hidden_layers": 4, "pad_token_id": 0}),
    "olmo2": ("Olmo2", SMALL),
    "gemma": ("Gemma", SMALL | {"head_dim": 16}),
    "gemma2": ("Gemma2", SMALL | {"head_dim": 16, "sliding_window": 7, "query_pre_attn_scalar": 24,
                                  "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}),
    "gemma3": ("Gemma3Text", SMALL | {"head_dim": 16, "sliding_window": 7, "num_hidden_layers": 3,
                                      "sliding_window_pattern": 3, "query_pre_attn_scalar": 24}),
    "phi3": ("Phi3", SMALL | {"sliding_window": 7, "pad_token_id": 0, "partial_rotary_factor": 0.5}),
    "phi4": ("Phi3", SMALL | {"pad_token_id": 0, "original_max_position_embeddings": 48, "rope_parameters": LONG}),
    "gpt2": ("GPT2", {"vocab_size": 99, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}),
    "gptneox": ("GPTNeoX", {k: v for k, v in SMALL.items() if k != "num_key_value_heads"}),
    "gptneox-serial": ("GPTNeoX", {k: v for k, v in SMALL.items() if k != "num_key_value_heads"}
                       | {"use_parallel_residual": False, "rotary_pct": 1.0}),
}  # fmt: skip


@pytest.fixture(params=MODELS)
def small(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Path]:
    name, sizes = MODELS[request.param]
    return saved(tmp_path, name, **sizes), tmp_path


def check(model: Any, folder: Path, context: int, chunk: int, parts: list[int]) -> None:
    ids = np.random.default_rng(1).integers(0, 99, sum(parts))
    want = logits_of(model, ids)
    session = Interpreted(open_checkpoint(folder), context, chunk)
    for position, found in session.by_parts(ids, parts).items():
        np.testing.assert_allclose(found, want[position], atol=1e-4, rtol=0, err_msg=f"after {position}")


@pytest.mark.some(9)
def test_prompt_in_parts_and_tokens(small: tuple[Any, Path]) -> None:
    """Windows of 7 with parts of up to 5 lie in rings of 11: these wrap four times."""
    check(*small, 48, 5, [5, 3, *[1] * 9, 5, 5, 2, *[1] * 12])


STRANGE: list[Any] = [
    None, "x", [], {}, -1, 0, 1, 3, 1e300, True, float("nan"), float("inf"), 1 << 70, -1.5, [1], ["full_attention"] * 2,
    {"full_attention": 3}, {"rope_type": ["x"]},
    {"type": "linear", "factor": "a"}, {"rope_type": "yarn", "factor": 0.0},
    {"rope_type": "llama3", "factor": 0, "low_freq_factor": 1, "high_freq_factor": 1}, {"rope_type": "longrope"},
    {"rope_type": "dynamic", "factor": -5, "original_max_position_embeddings": 4},
    {"rope_type": "longrope", "short_factor": "abc", "long_factor": None},
    {"rope_type": "yarn", "factor": 4, "beta_fast": -1, "rope_theta": 1.0},
]  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_strange_numbers(name: str) -> None:
    """Whatever a configuration says, it is understood or refused with an error of ours."""
    import transformers

    kind, sizes = MODELS[name]
    whole = getattr(transformers, f"{kind}Config")(**sizes).to_dict()
    architecture, rng, refused = architecture_of(class_of(kind)), random.Random(name), 0
    more = ("rope_scaling", "sliding_window_pattern", "rope_local_base_freq", "partial_rotary_factor", "rotary_pct",
            "original_max_position_embeddings", "no_rope_layer_interval", "rotary_emb_base")  # fmt: skip
    for _ in range(200):
        keys = rng.sample([*whole, *more], rng.randint(1, 3))
        try:
            config = architecture.config(Given(whole | {key: rng.choice(STRANGE) for key in keys}))
            for rope in {repr(layer.rope): layer.rope for layer in config.layers if layer.rope}.values():
                rates(rope, 64)
        except SdkError:
            refused += 1
    assert 10 < refused < 190


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 7, 128, 511])
@pytest.mark.parametrize("name", MODELS)
def test_lengths(name: str, length: int, tmp_path: Path) -> None:
    kind, sizes = MODELS[name]
    model = saved(tmp_path, kind, **sizes | {"max_position_embeddings": 600})
    rest = length % 64
    check(model, tmp_path, 600, 64, [64] * (length // 64) + [rest] * (rest > 0) + [1] * 64)
