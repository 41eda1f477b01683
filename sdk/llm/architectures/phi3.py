"""Phi 3 and Phi 4 mini: Llama with joined matrices, a part of each head that turns, and positions for long texts."""

from __future__ import annotations

from collections.abc import Iterable

from sdk.llm.architectures.base import LLAMA_NAMES, Architecture, Given, common, rope_of, split_qkv, split_rows
from sdk.llm.config import Config, Layer
from sdk.llm.weights import Weight

__all__ = ["ARCHITECTURE"]


def _config(given: Given) -> Config:
    config = common(given, "phi3")
    window = given.optional("sliding_window")
    if window is None:
        return config
    rope = rope_of(given, config.head_dim)
    return common(given, "phi3", layers=(Layer(int(window), rope),) * len(config.layers))


def _apart(weight: Weight, config: Config) -> Iterable[Weight]:
    if ".attn_qkv." in weight.name:
        return split_qkv(weight, config)
    if ".ffn_up." in weight.name:
        gate, inner = weight.name.replace("ffn_up", "ffn_gate"), config.intermediate_size
        return split_rows(weight, ((gate, inner), (weight.name, inner)))
    return (weight,)


_NAMES = {
    **LLAMA_NAMES,
    "model.layers.{}.self_attn.qkv_proj": "blk.{}.attn_qkv", "model.layers.{}.mlp.gate_up_proj": "blk.{}.ffn_up",
}  # fmt: skip

ARCHITECTURE = Architecture("phi3", ("Phi3ForCausalLM",), _config, _NAMES, _apart, _apart)
