"""Which tensors a decoder has, by its configuration: names, shapes, and which may be left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sdk.llm.config import Config

__all__ = ["Expected", "expected"]

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Expected:
    """A tensor: its ``shapes`` (one of them), and whether there must be one."""

    shapes: tuple[Shape, ...]
    required: bool = False


def expected(config: Config, names: Iterable[str]) -> dict[str, Expected]:
    """The tensors of a model by name; which norms it has follows from the ``names`` that there are."""
    given = set(names)
    hidden = config.hidden_size
    found = {
        "token_embd.weight": Expected(((config.vocabulary_size, hidden),), True),
        "output.weight": Expected(((config.vocabulary_size, hidden),)),
        "output.bias": Expected(((config.vocabulary_size,),)),
        "output_norm.weight": Expected(((hidden,),), True),
    }
    if config.norm == "layer":
        found["output_norm.bias"] = Expected(((hidden,),))
    if not any(layer.rope for layer in config.layers):
        found["position_embd.weight"] = Expected(((config.context_length, hidden),), True)
    for k in range(len(config.layers)):
        found |= {f"blk.{k}.{name}": one for name, one in _layer(config, k, given).items()}
    return found


def _layer(config: Config, k: int, given: set[str]) -> dict[str, Expected]:
    q, kv = config.heads * config.head_dim, config.kv_heads * config.head_dim
    hidden, inner = config.hidden_size, config.intermediate_size
    matrices = {
        "attn_q": (q, hidden), "attn_k": (kv, hidden), "attn_v": (kv, hidden), "attn_output": (hidden, q),
        "ffn_up": (inner, hidden), "ffn_down": (hidden, inner),
    }  # fmt: skip
    found = {f"{name}.weight": Expected((shape,), True) for name, shape in matrices.items()}
    found |= {f"{name}.bias": Expected(((shape[0],),)) for name, shape in matrices.items()}
    found["ffn_gate.weight"] = Expected(((inner, hidden),))
    found["ffn_gate.bias"] = Expected(((inner,),))
    for one, other in (("attn_norm", "post_attention_norm"), ("ffn_norm", "post_ffw_norm")):
        for name, instead in ((one, other), (other, one)):
            needed = f"blk.{k}.{instead}.weight" not in given and name == one
            found[f"{name}.weight"] = Expected(((hidden,),), needed)
            if config.norm == "layer":
                found[f"{name}.bias"] = Expected(((hidden,),))
    for name, width in (("attn_q_norm", q), ("attn_k_norm", kv)):
        found[f"{name}.weight"] = Expected(((config.head_dim,), (width,)))
    return found
