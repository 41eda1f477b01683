"""GPT-2: learned positions, layer norms, one joined matrix for queries, keys and values, GELU without a gate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sdk.errors import BuildError
from sdk.llm.architectures.base import Architecture, Given, common, split_qkv
from sdk.llm.config import Config, Layer
from sdk.llm.weights import Weight

__all__ = ["ARCHITECTURE"]

_WORDS: Final = {
    "n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads",
    "n_positions": "max_position_embeddings", "n_inner": "intermediate_size", "activation_function": "hidden_act",
    "layer_norm_epsilon": "layer_norm_eps",
}  # fmt: skip
_PARTS: Final = {
    "ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
    "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
}  # fmt: skip
_WHOLE: Final = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm"}


def _config(given: Given) -> Config:
    for key in ("scale_attn_by_inverse_layer_idx", "add_cross_attention"):
        if given.choice(key, False):
            raise BuildError(f"GPT-2 with {key} is not supported")
    words = {_WORDS.get(key, key): value for key, value in given.values.items()}
    usual = {"hidden_act": "gelu_new", "intermediate_size": 4 * Given(words).integer("hidden_size")}
    own = Given(usual | {k: v for k, v in words.items() if v is not None})
    layers = own.integer("num_hidden_layers")
    return common(
        own, "gpt2", layers=(Layer(None, None),) * min(max(layers, 0), 1025), norm="layer",
        norm_epsilon=own.number("layer_norm_eps", 1e-5),
    )  # fmt: skip


def _split(weight: Weight, config: Config) -> Iterable[Weight]:
    return split_qkv(weight, config) if ".attn_qkv." in weight.name else (weight,)


def _transposed(weight: Weight, config: Config) -> Iterable[Weight]:
    """Matrices of a folder are [inputs, outputs]."""
    if len(weight.shape) == 2 and weight.name.startswith("blk."):
        weight = weight.mapped(lambda values: values.T)
    return _split(weight, config)


ARCHITECTURE = Architecture(
    "gpt2", ("GPT2LMHeadModel",), _config,
    {
        f"{start}{theirs}": ours
        for start in ("transformer.", "")
        for theirs, ours in (_WHOLE | {f"h.{{}}.{part}": f"blk.{{}}.{own}" for part, own in _PARTS.items()}).items()
    } | {"lm_head": "output"},
    _transposed, _split, tied=True,
)  # fmt: skip
