"""Checkpoints of small random models, and the decoder run in this process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.compiler.ir.module import Module
from sdk.llm.checkpoint import Checkpoint
from sdk.llm.decoder import Sizes, decoder_module

Floats = NDArray[np.float32]
_CLASSES = {"GPT2": "GPT2LMHeadModel", "Gemma3Text": "Gemma3ForCausalLM"}


def class_of(name: str) -> str:
    """The class of ``transformers`` for the model of a configuration."""
    return _CLASSES.get(name, f"{name}ForCausalLM")


def saved(folder: Path, name: str, seed: int = 0, **sizes: Any) -> Any:
    """A random model of ``transformers`` by the name of its class without "Config", saved to ``folder``."""
    import torch
    import transformers

    torch.manual_seed(seed)
    config = getattr(transformers, f"{name}Config")(**sizes)
    config._attn_implementation = "eager"
    found = getattr(transformers, class_of(name))
    model = found(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases that are not what they start from
            parameter += torch.randn_like(parameter) * 0.05
    model.save_pretrained(folder)
    return model


def logits_of(model: Any, ids: NDArray[Any]) -> Floats:
    """What ``transformers`` finds after each of the tokens, all at once."""
    import torch

    with torch.no_grad():
        found: Floats = model(torch.tensor(ids[None].astype(np.int64)), use_cache=False).logits[0].float().numpy()
    return found


class Interpreted:
    """A conversation with a decoder whose entries are run by the interpreter."""

    def __init__(self, checkpoint: Checkpoint, context: int, chunk: int, cache: str = "f32") -> None:
        sizes = Sizes(context, chunk, cache)
        self.module: Module = decoder_module("m", checkpoint.config, checkpoint.weights, sizes)
        self.states = initial_states(self.module)
        self.at = 0

    def run(self, entry: str, ids: NDArray[Any]) -> Floats:
        inputs = {"ids": ids.astype(np.int32)}
        found = run_graph(self.module, entry, inputs, self.states, {"pos": self.at})["logits"]
        self.at += len(ids)
        return np.asarray(found)

    def by_parts(self, ids: NDArray[Any], parts: Iterable[int]) -> Mapping[int, Floats]:
        """Logits after tokens by their position, the tokens taken in parts of these lengths: one is decoded."""
        found: dict[int, Floats] = {}
        for part in parts:
            now = ids[self.at : self.at + part]
            entry = "decode" if part == 1 else "prefill"
            row = self.run(entry, now)[0]
            found[self.at - 1] = row
        return found
