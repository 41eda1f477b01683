"""Qwen 2 and 2.5: Llama with biases on queries, keys and values, and windows in the upper layers where they are asked
for."""

from __future__ import annotations

from sdk.llm.architectures.base import Architecture, Given, common, kinds_of_layers, rope_of
from sdk.llm.config import Config, Layer

__all__ = ["ARCHITECTURE", "qwen_config"]


def qwen_config(given: Given, name: str) -> Config:
    """The numbers of the family."""
    config = common(given, name)
    if not given.choice("use_sliding_window", False):
        return config
    window, first = given.integer("sliding_window"), given.integer("max_window_layers", len(config.layers))
    kinds = kinds_of_layers(given, len(config.layers), lambda k: k >= first)
    rope = rope_of(given, config.head_dim)
    return common(given, name, layers=tuple(Layer(window if slides else None, rope) for slides in kinds))


ARCHITECTURE = Architecture("qwen2", ("Qwen2ForCausalLM",), lambda given: qwen_config(given, "qwen2"))
