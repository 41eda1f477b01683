"""Llama 2 and 3, and what computes the same: Mistral with a window in every layer, SmolLM2."""

from __future__ import annotations

from collections.abc import Iterable

from sdk.llm.architectures.base import Architecture, Given, common, interleaved_rows, rope_of
from sdk.llm.config import Config, Layer
from sdk.llm.weights import Weight

__all__ = ["ARCHITECTURE", "halves"]


def _config(given: Given) -> Config:
    config = common(given, "llama")
    window = given.optional("sliding_window")
    if window is None:
        return config
    rope = rope_of(given, config.head_dim)
    layers = (Layer(int(window), rope),) * len(config.layers)
    return common(given, "llama", layers=layers)


def halves(weight: Weight, config: Config) -> Iterable[Weight]:
    """GGUF files of the family have the turning pairs of queries and keys side by side."""
    for part, heads in ((".attn_q.", config.heads), (".attn_k.", config.kv_heads)):
        if part in weight.name:
            return (interleaved_rows(weight, heads, config.head_dim),)
    return (weight,)


ARCHITECTURE = Architecture(
    "llama", ("LlamaForCausalLM", "MistralForCausalLM"), _config, convert_gguf=halves, other_gguf=("mistral",)
)
