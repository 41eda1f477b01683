"""Gemma 2: Gemma with norms before and after each part, bent scores, and a window in every other layer."""

from __future__ import annotations

import math

from sdk.llm.architectures.base import LLAMA_NAMES, Architecture, Given, kinds_of_layers, rope_of
from sdk.llm.architectures.gemma import gemma_config, plus_one
from sdk.llm.config import Config, Layer

__all__ = ["ARCHITECTURE", "GEMMA_NAMES", "score_scale"]

GEMMA_NAMES = {
    **LLAMA_NAMES,
    "model.layers.{}.post_attention_layernorm": "blk.{}.post_attention_norm",
    "model.layers.{}.pre_feedforward_layernorm": "blk.{}.ffn_norm",
    "model.layers.{}.post_feedforward_layernorm": "blk.{}.post_ffw_norm",
}


def score_scale(given: Given, config: Config, large: int) -> float:
    """What scores are multiplied by: GGUF files do not say, and only the largest of the family, known by its number of
    layers, does not go by the size of a head."""
    usual = config.hidden_size / config.heads if len(config.layers) == large else config.head_dim
    return 1 / math.sqrt(max(given.number("query_pre_attn_scalar", usual), 1e-6))


def _config(given: Given) -> Config:
    config = gemma_config(given, "gemma2")
    kinds = kinds_of_layers(given, len(config.layers), lambda k: k % 2 == 0)
    window, rope = given.integer("sliding_window", 4096), rope_of(given, config.head_dim)
    return gemma_config(
        given, "gemma2", layers=tuple(Layer(window if slides else None, rope) for slides in kinds),
        attention_scale=score_scale(given, config, 46),
        attention_softcap=given.optional("attn_logit_softcapping"),
        logit_softcap=given.optional("final_logit_softcapping"),
    )  # fmt: skip


ARCHITECTURE = Architecture("gemma2", ("Gemma2ForCausalLM",), _config, GEMMA_NAMES, plus_one, tied=True)
