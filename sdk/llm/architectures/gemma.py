"""Gemma: scaled embeddings, gated GELU, and norms whose weights are stored less one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from sdk.llm.architectures.base import Architecture, Given, common
from sdk.llm.config import Config
from sdk.llm.weights import Weight

__all__ = ["ARCHITECTURE", "gemma_config", "plus_one"]


def gemma_config(given: Given, name: str, **others: Any) -> Config:
    """The numbers of the family. Its published "gelu" is the one by tanh."""
    scale = float(np.float32(math.sqrt(max(given.integer("hidden_size"), 1))))
    found = {"activation": "gelu_tanh", "embedding_scale": scale, "head_dim": given.integer("head_dim", 256)}
    return common(given, name, **(found | others))


def plus_one(weight: Weight, config: Config) -> Iterable[Weight]:
    """Norms of a Hugging Face folder as what they multiply by."""
    if "_norm." in weight.name:
        return (weight.mapped(lambda values: values + np.float32(1)),)
    return (weight,)


ARCHITECTURE = Architecture(
    "gemma", ("GemmaForCausalLM",), lambda given: gemma_config(given, "gemma"), convert=plus_one, tied=True
)
