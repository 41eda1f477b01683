"""Qwen 3: Qwen 2 without the biases, with norms on each head of queries and keys."""

from __future__ import annotations

from sdk.llm.architectures.base import Architecture
from sdk.llm.architectures.qwen2 import qwen_config

__all__ = ["ARCHITECTURE"]

ARCHITECTURE = Architecture("qwen3", ("Qwen3ForCausalLM",), lambda given: qwen_config(given, "qwen3"))
