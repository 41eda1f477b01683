"""OLMo 2: norms after each part instead of before it, and on all queries and keys of a token together."""

from __future__ import annotations

from sdk.llm.architectures.base import LLAMA_NAMES, Architecture, common

__all__ = ["ARCHITECTURE"]

_NAMES = {
    **{theirs: ours for theirs, ours in LLAMA_NAMES.items() if not theirs.endswith("layernorm")},
    "model.layers.{}.post_attention_layernorm": "blk.{}.post_attention_norm",
    "model.layers.{}.post_feedforward_layernorm": "blk.{}.post_ffw_norm",
}

ARCHITECTURE = Architecture("olmo2", ("Olmo2ForCausalLM",), lambda given: common(given, "olmo2"), _NAMES)
