"""SmolLM 3: Llama with every fourth layer without positions."""

from __future__ import annotations

from sdk.llm.architectures.base import Architecture, Given, common, rope_of
from sdk.llm.architectures.llama import halves
from sdk.llm.config import Config, Layer

__all__ = ["ARCHITECTURE"]


def _config(given: Given) -> Config:
    count = given.integer("num_hidden_layers")
    config = common(given, "smollm3")
    interval = given.integer("no_rope_layer_interval", 4)
    turning = given.listed("no_rope_layers", count)  # 1 where positions turn, whatever the name says
    if turning is None:
        turning = [int((k + 1) % max(interval, 1) != 0) for k in range(count)]
    window = given.integer("sliding_window") if given.choice("use_sliding_window", False) else None
    rope = rope_of(given, config.head_dim)
    return common(given, "smollm3", layers=tuple(Layer(window, rope if turns else None) for turns in turning))


ARCHITECTURE = Architecture("smollm3", ("SmolLM3ForCausalLM",), _config, convert_gguf=halves, tied=True)
