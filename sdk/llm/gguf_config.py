"""The numbers of a GGUF file's metadata under the names of config.json, so that architectures read one set of words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sdk.llm.gguf import GgufFile

__all__ = ["config_of"]

_WORDS: Final[Mapping[str, str]] = {
    "context_length": "max_position_embeddings", "embedding_length": "hidden_size", "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size", "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads", "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps", "attention.layer_norm_epsilon": "layer_norm_eps",
    "attention.sliding_window": "sliding_window", "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping", "rope.freq_base": "rope_theta",
    "rope.freq_base_swa": "rope_local_base_freq", "use_parallel_residual": "use_parallel_residual",
    "vocab_size": "vocab_size",
}  # fmt: skip


def config_of(file: GgufFile) -> dict[str, Any]:
    """What config.json would have of a file; a head's turning part as ``partial_rotary_factor``."""
    prefix = f"{file.metadata['general.architecture']}."
    found = {word: file.metadata[prefix + key] for key, word in _WORDS.items() if prefix + key in file.metadata}
    tokens = file.metadata.get("tokenizer.ggml.tokens")
    table = file.tensors.get("token_embd.weight")
    if table is not None and len(table.shape) == 2:
        found["vocab_size"] = table.shape[0]
    elif "vocab_size" not in found and isinstance(tokens, list):
        found["vocab_size"] = len(tokens)
    heads, hidden = found.get("num_attention_heads"), found.get("hidden_size")
    turning = file.metadata.get(f"{prefix}rope.dimension_count")
    head_dim = found.get("head_dim")
    if head_dim is None and isinstance(heads, int) and isinstance(hidden, int) and heads:
        head_dim = hidden // heads
    if isinstance(turning, int) and isinstance(head_dim, int) and head_dim and turning != head_dim:
        found["partial_rotary_factor"] = turning / head_dim
    scaling = _scaling(file, prefix)
    return found | ({"rope_scaling": scaling} if scaling else {})


def _scaling(file: GgufFile, prefix: str) -> dict[str, Any]:
    """How positions are stretched: divisors stand in tensors of the file, the rest in its metadata."""
    given = {k: file.metadata.get(f"{prefix}rope.scaling.{k}") for k in
             ("type", "factor", "original_context_length", "attn_factor")}  # fmt: skip
    trained = given["original_context_length"]
    more = {} if trained is None else {"original_max_position_embeddings": trained}
    one, long, short = (file.tensors.get(f"rope_{name}.weight") for name in ("freqs", "factors_long", "factors_short"))
    if one is not None:
        return {"rope_type": "factors", "factors": one.floats().reshape(-1).tolist()}
    if long is not None and short is not None:
        lists = {"long_factor": long.floats().reshape(-1).tolist(), "short_factor": short.floats().reshape(-1).tolist()}
        magnitude = {} if given["attn_factor"] is None else {"attention_factor": given["attn_factor"]}
        return {"rope_type": "longrope", **lists, **more, **magnitude}
    if given["type"] in ("linear", "yarn"):
        return {"rope_type": given["type"], "factor": given["factor"], **more}
    return {} if given["type"] in (None, "none") else {"rope_type": str(given["type"]), **more}
