"""Gemma 3, its text part: Gemma 2 with norms on heads in place of bent scores, and windows in five layers of six, whose
positions turn by a base of their own."""

from __future__ import annotations

from sdk.llm.architectures.base import Architecture, Given, kinds_of_layers, rope_of
from sdk.llm.architectures.gemma import gemma_config, plus_one
from sdk.llm.architectures.gemma2 import GEMMA_NAMES, score_scale
from sdk.llm.config import Config, Layer, Rope

__all__ = ["ARCHITECTURE"]


def _config(given: Given) -> Config:
    given = Given({"max_position_embeddings": 131072} | dict(given.values))
    config = gemma_config(given, "gemma3")
    every = given.integer("sliding_window_pattern", given.integer("_sliding_window_pattern", 6))
    kinds = kinds_of_layers(given, len(config.layers), lambda k: (k + 1) % max(every, 1) != 0)
    window, size = given.integer("sliding_window", 4096), config.head_dim
    wide = rope_of(given, size, 1e6, "full_attention")
    if "sliding_attention" in given.mapping("rope_parameters"):
        near = rope_of(given, size, 1e4, "sliding_attention")
    else:
        near = Rope(given.number("rope_local_base_freq", 1e4), size)
    return gemma_config(
        given, "gemma3", layers=tuple(Layer(window, near) if slides else Layer(None, wide) for slides in kinds),
        attention_scale=score_scale(given, config, 62),
        attention_softcap=given.optional("attn_logit_softcapping"),
        logit_softcap=given.optional("final_logit_softcapping"),
    )  # fmt: skip


ARCHITECTURE = Architecture(
    "gemma3", ("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"), _config, GEMMA_NAMES, plus_one,
    ignored=(r"(model\.)?(vision_tower|multi_modal_projector)\..*",), tied=True,
)  # fmt: skip
