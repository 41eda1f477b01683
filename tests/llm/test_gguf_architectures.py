"""GGUF files of each architecture, laid out as llama.cpp's converters do: what ``transformers`` computes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf_files import floats, gguf
from llm_helpers import Interpreted, logits_of, saved

from sdk.llm.checkpoint import open_checkpoint

SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 56, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 64}  # fmt: skip
SIX = {"num_hidden_layers": 6, "head_dim": 16, "sliding_window": 7}
# Names of tensors in a layer: in transformers, in GGUF files.
USUAL = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "self_attn.qkv_proj": "attn_qkv",
    "mlp.gate_up_proj": "ffn_up",
}  # fmt: skip
AFTER = {
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}  # fmt: skip
GPT2 = {
    "ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm",
    "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
}  # fmt: skip
NEOX = {
    "input_layernorm": "attn_norm", "attention.query_key_value": "attn_qkv", "attention.dense": "attn_output",
    "post_attention_layernorm": "ffn_norm", "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down",
}  # fmt: skip
WHOLE = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "transformer.wte": "token_embd",
    "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm", "gpt_neox.embed_in": "token_embd",
    "gpt_neox.final_layer_norm": "output_norm", "embed_out": "output",
}  # fmt: skip
Change = Callable[[str, np.ndarray, Any], np.ndarray]


def same(name: str, values: np.ndarray, config: Any) -> np.ndarray:
    return values


def pairs(name: str, values: np.ndarray, config: Any) -> np.ndarray:
    """Queries and keys with the numbers that turn together side by side."""
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}.get(name.split(".")[-2])
    return values.reshape(heads, 2, -1, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape) if heads else values


def plus_one(name: str, values: np.ndarray, config: Any) -> np.ndarray:
    return values + np.float32(1) if "norm" in name else values


def transposed(name: str, values: np.ndarray, config: Any) -> np.ndarray:
    return values.T.copy() if values.ndim == 2 and name.startswith("blk") else values


def apart(name: str, values: np.ndarray, config: Any) -> np.ndarray:
    """All queries, then all keys, then all values, where they stand by heads."""
    if "attn_qkv" not in name:
        return values
    by_heads = values.reshape(config.num_attention_heads, 3, -1, *values.shape[1:])
    return by_heads.swapaxes(0, 1).reshape(values.shape).copy()


FILES: dict[str, tuple[str, dict[str, Any], dict[str, str], Change, dict[str, Any]]] = {
    "qwen2": ("Qwen2", SIZES, USUAL, same, {}),
    "qwen3": ("Qwen3", SIZES | {"head_dim": 16}, USUAL, same, {}),
    "gemma": ("Gemma", SIZES | {"head_dim": 16}, USUAL, plus_one, {}),
    "gemma2": ("Gemma2", SIZES | {"head_dim": 16, "sliding_window": 7, "query_pre_attn_scalar": 16,
                                  "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0},
               USUAL | AFTER, plus_one, {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}),
    "gemma3": ("Gemma3Text", SIZES | SIX | {"query_pre_attn_scalar": 16}, USUAL | AFTER, plus_one,
               {"rope.freq_base": 1e6}),
    "phi3": ("Phi3", SIZES | {"pad_token_id": 0, "partial_rotary_factor": 0.5}, USUAL, same,
             {"rope.dimension_count": 4}),
    "olmo2": ("Olmo2", SIZES, USUAL | AFTER, same, {}),
    "smollm3": ("SmolLM3", SIZES | {"num_hidden_layers": 4, "pad_token_id": 0}, USUAL, pairs, {"rope.freq_base": 2e6}),
    "gpt2": ("GPT2", {"vocab_size": 99, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}, GPT2, transposed,
             {"feed_forward_length": 128}),
    "gptneox": ("GPTNeoX", {key: value for key, value in SIZES.items() if key != "num_key_value_heads"}, NEOX, apart,
                {"rope.dimension_count": 2, "use_parallel_residual": True}),
}  # fmt: skip


def written(model: Any, name: str) -> bytes:
    """A model of ``transformers`` as a file."""
    _, _, layer, change, more = FILES[name]
    config, tensors = model.config, {}
    for theirs, tensor in model.state_dict().items():
        stem, _, kind = theirs.rpartition(".")
        place = re.match(r"(?:model\.layers|transformer\.h|gpt_neox\.layers)\.(\d+)\.(.*)", stem)
        found = f"blk.{place[1]}.{layer[place[2]]}" if place and place[2] in layer else WHOLE.get(stem)
        if found is None or (found == "output" and getattr(config, "tie_word_embeddings", False)):
            assert "rotary" in theirs or "attn.bias" in theirs or "masked" in theirs or found, theirs
            continue
        tensors[f"{found}.{kind}"] = floats(np.ascontiguousarray(change(f"{found}.{kind}", tensor.numpy(), config)))
    heads = config.num_attention_heads
    numbers = {
        "context_length": 64, "embedding_length": config.hidden_size, "block_count": config.num_hidden_layers,
        "feed_forward_length": getattr(config, "intermediate_size", None), "attention.head_count": heads,
        "attention.head_count_kv": getattr(config, "num_key_value_heads", heads),
        "attention.key_length": getattr(config, "head_dim", None), "attention.sliding_window":
        getattr(config, "sliding_window", None), "attention.layer_norm_rms_epsilon":
        getattr(config, "rms_norm_eps", None),
        "attention.layer_norm_epsilon":
        getattr(config, "layer_norm_epsilon", None) or getattr(config, "layer_norm_eps", None),
        "rope.freq_base": 10000.0, **more,
    }  # fmt: skip
    metadata = {f"{name}.{key}": value for key, value in numbers.items() if value is not None}
    return gguf({"general.architecture": name, **metadata}, tensors)


@pytest.mark.parametrize("name", FILES)
def test_files_of_architectures(name: str, tmp_path: Path) -> None:
    kind, sizes, *_ = FILES[name]
    model = saved(tmp_path / "hf", kind, **sizes)
    (tmp_path / "m.gguf").write_bytes(written(model, name))
    ids = np.random.default_rng(1).integers(0, 99, 28)
    session = Interpreted(open_checkpoint(tmp_path / "m.gguf"), 48, 9)
    want = logits_of(model, ids)
    for position, found in session.by_parts(ids, [9, 9, 1, 8, 1]).items():
        np.testing.assert_allclose(found, want[position], atol=1e-4, rtol=0, err_msg=f"after {position}")
