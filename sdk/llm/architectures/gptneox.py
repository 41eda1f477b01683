"""GPT-NeoX and Pythia: layer norms, attention and feed-forward part side by side, a part of each head that turns."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sdk.llm.architectures.base import Architecture, Given, check_rows, common, rope_of, split_qkv
from sdk.llm.config import Config, Layer
from sdk.llm.weights import Weight

__all__ = ["ARCHITECTURE"]

_LAYER = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "attention.query_key_value": "attn_qkv",
    "attention.dense": "attn_output", "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down",
}  # fmt: skip


def _config(given: Given) -> Config:
    given = Given({"hidden_act": "gelu"} | dict(given.values))
    size = given.integer("hidden_size") // max(given.integer("num_attention_heads"), 1)
    part = given.number("rotary_pct", 0.25)
    rope = rope_of(
        Given({"partial_rotary_factor": part} | dict(given.values)), size, given.number("rotary_emb_base", 1e4)
    )
    return common(
        given, "gptneox", layers=(Layer(None, rope),) * min(max(given.integer("num_hidden_layers"), 0), 1025),
        norm="layer", norm_epsilon=given.number("layer_norm_eps", 1e-5),
        parallel=bool(given.choice("use_parallel_residual", True)),
    )  # fmt: skip


def _split(weight: Weight, config: Config) -> Iterable[Weight]:
    return split_qkv(weight, config) if ".attn_qkv." in weight.name else (weight,)


def _by_head(weight: Weight, config: Config) -> Iterable[Weight]:
    """In a folder the rows of each head's queries, keys and values follow each other."""
    if ".attn_qkv." in weight.name:
        rows = 3 * config.heads * config.head_dim
        check_rows(weight, rows)
        weight = weight.rows(np.arange(rows).reshape(config.heads, 3, -1).swapaxes(0, 1).reshape(-1))
    return _split(weight, config)


ARCHITECTURE = Architecture(
    "gptneox", ("GPTNeoXForCausalLM",), _config,
    {f"gpt_neox.layers.{{}}.{theirs}": f"blk.{{}}.{ours}" for theirs, ours in _LAYER.items()}
    | {"gpt_neox.embed_in": "token_embd", "gpt_neox.final_layer_norm": "output_norm", "embed_out": "output",
       "lm_head": "output"},
    _by_head, _split, ignored=(r".*\.rotary_emb\.inv_freq", r".*\.attention\.(masked_)?bias"),
)  # fmt: skip
