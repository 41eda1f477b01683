"""What an architecture is: which checkpoints it reads, what their numbers are called, and how its tensors are named."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from sdk.errors import BuildError
from sdk.llm.config import Config, Layer, Rope
from sdk.llm.weights import Weight

__all__ = [
    "LLAMA_NAMES", "Architecture", "Given", "as_is", "check_rows", "common", "interleaved_rows", "kinds_of_layers",
    "rope_of", "split_qkv", "split_rows",
]  # fmt: skip

Change = Callable[[Weight, Config], Iterable[Weight]]

# Names of the tensors of a layer in Hugging Face's checkpoints of the family, and here: as in GGUF files.
LLAMA_NAMES: Final[Mapping[str, str]] = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "model.layers.{}.input_layernorm": "blk.{}.attn_norm",
    "model.layers.{}.self_attn.q_proj": "blk.{}.attn_q", "model.layers.{}.self_attn.k_proj": "blk.{}.attn_k",
    "model.layers.{}.self_attn.v_proj": "blk.{}.attn_v", "model.layers.{}.self_attn.o_proj": "blk.{}.attn_output",
    "model.layers.{}.self_attn.q_norm": "blk.{}.attn_q_norm", "model.layers.{}.self_attn.k_norm": "blk.{}.attn_k_norm",
    "model.layers.{}.post_attention_layernorm": "blk.{}.ffn_norm",
    "model.layers.{}.mlp.gate_proj": "blk.{}.ffn_gate", "model.layers.{}.mlp.up_proj": "blk.{}.ffn_up",
    "model.layers.{}.mlp.down_proj": "blk.{}.ffn_down",
}  # fmt: skip


class Given:
    """The numbers of a checkpoint's configuration, by the names of config.json, each checked when asked for."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number.

        Raises:
            BuildError: it is none, or it is missing and there is no default.
        """
        value = self.values.get(key)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(key, "a whole number")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number.

        Raises:
            BuildError: it is none, or it is missing and there is no default.
        """
        value = self.values.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise self._wrong(key, "a number")
        return float(value)

    def optional(self, key: str) -> float | None:
        """A number, or None where there is none.

        Raises:
            BuildError: it is something else.
        """
        return None if self.values.get(key) is None else self.number(key)

    def choice(self, key: str, default: Any = None) -> Any:
        """Whatever stands there, else the default."""
        value = self.values.get(key)
        return default if value is None else value

    def listed(self, key: str, length: int) -> list[Any] | None:
        """A list of that length; None where there is none.

        Raises:
            BuildError: it is something else.
        """
        value = self.values.get(key)
        if value is not None and (not isinstance(value, list) or len(value) != length):
            raise self._wrong(key, f"a list of {length}")
        return value

    def mapping(self, key: str) -> Mapping[str, Any]:
        """What is by name, empty where there is nothing.

        Raises:
            BuildError: it is something else.
        """
        value = self.values.get(key)
        if value is not None and not isinstance(value, Mapping):
            raise self._wrong(key, "an object")
        return value or {}

    def _wrong(self, key: str, what: str) -> BuildError:
        found = repr(self.values.get(key))[:60]
        return BuildError(f"the checkpoint's {key} is no {what.split(' ', 1)[1]}", why=f"it is {found}")


def as_is(weight: Weight, config: Config) -> Iterable[Weight]:
    """The tensor as it is stored."""
    return (weight,)


@dataclass(frozen=True)
class Architecture:
    """A family of checkpoints with one way of computing.

    Attributes:
        name: as GGUF files have it in ``general.architecture``.
        models: as config.json has them in ``architectures``.
        config: numbers of config.json (those of a GGUF file are brought under these names) as a ``Config``.
        names: of tensors in a Hugging Face folder without ".weight" and ".bias", ``{}`` being the layer, and here.
        convert: a tensor of a Hugging Face folder under its name here, as those that the decoder wants.
        convert_gguf: the same of a GGUF file.
        ignored: patterns of tensors of a folder that nothing is computed with.
        other_gguf: further names in GGUF files.
        tied: whether embeddings are the output matrix too, where a configuration does not say.
    """

    name: str
    models: tuple[str, ...]
    config: Callable[[Given], Config]
    names: Mapping[str, str] = field(default_factory=lambda: LLAMA_NAMES)
    convert: Change = as_is
    convert_gguf: Change = as_is
    ignored: tuple[str, ...] = (r".*\.rotary_emb\.inv_freq", r".*\.attn\.(masked_)?bias")
    other_gguf: tuple[str, ...] = ()
    tied: bool = False

    def here(self, name: str) -> str | None:
        """The name here of a tensor in a folder; None for one that is not used.

        Raises:
            BuildError: the architecture has no such tensor.
        """
        if any(re.fullmatch(pattern, name) for pattern in self.ignored):
            return None
        name = re.sub(r"^(language_model\.(?=model\.)|model\.language_model\.)", _inside, name)
        stem, _, kind = name.rpartition(".")
        layer = re.search(r"\.(\d{1,4})\.", stem)
        plain = stem if layer is None else stem[: layer.start(1)] + "{}" + stem[layer.end(1) :]
        found = self.names.get(plain)
        if found is None or kind not in ("weight", "bias"):
            raise BuildError(
                f"the checkpoint has a tensor {name[:80]!r}, which {self.name} has not",
                hint="it is of another architecture, or an adapter that must be merged first",
            )
        return f"{found.format(layer[1] if layer else '')}.{kind}"


def _inside(prefix: re.Match[str]) -> str:
    """What the names of the text part of a model of several kinds begin with, by itself."""
    return "" if prefix[0] == "language_model." else "model."


def kinds_of_layers(given: Given, count: int, slides: Callable[[int], bool]) -> list[bool]:
    """Which layers have a window: as the configuration lists them, else by their number.

    Raises:
        BuildError: the list has a kind that is not known.
    """
    kinds = given.listed("layer_types", count)
    if kinds is None:
        return [slides(k) for k in range(count)]
    known = {"full_attention": False, "sliding_attention": True}
    strange = [kind for kind in kinds if not isinstance(kind, str) or kind not in known]
    if strange:
        hint = f"known: {', '.join(known)}"
        raise BuildError(f"a layer of kind {str(strange[0])[:40]!r} is not supported", hint=hint)
    return [known[kind] for kind in kinds]


def rope_of(given: Given, head_dim: int, theta: float = 10000.0, kind: str | None = None) -> Rope:
    """Rotary positions as config.json has them, in its old words (``rope_theta``, ``rope_scaling``) or its new one
    (``rope_parameters``, there by kind of layer where there are several)."""
    scaling = dict(given.mapping("rope_parameters"))
    if kind is not None and isinstance(scaling.get(kind), Mapping):
        scaling = dict(scaling[kind])
    scaling = scaling or dict(given.mapping("rope_scaling"))
    known = {"max_position_embeddings": given.choice("max_position_embeddings"), **given.values}
    if "original_max_position_embeddings" not in scaling:
        trained = known.get("original_max_position_embeddings") or known["max_position_embeddings"]
        scaling["original_max_position_embeddings"] = trained
    if scaling.get("factor") is None and scaling.get("rope_type", scaling.get("type")) == "longrope":
        trained = Given(scaling).number("original_max_position_embeddings")
        scaling["factor"] = Given(known).number("max_position_embeddings") / (trained or 1)
    own = Given({**given.values, **scaling})
    part = own.number("partial_rotary_factor", own.number("rotary_pct", 1.0))
    return Rope(own.number("rope_theta", theta), int(head_dim * part), scaling)


def common(given: Given, name: str, **others: Any) -> Config:
    """The numbers that most families have under the same names; ``others`` take their place."""
    heads, hidden = given.integer("num_attention_heads"), given.integer("hidden_size")
    head_dim = others.get("head_dim") or given.integer("head_dim", hidden // max(heads, 1))
    count = given.integer("num_hidden_layers")
    if not 1 <= count <= 1024:
        raise BuildError("the checkpoint's configuration makes no model", why=f"it has {count} layers")
    layers = others.pop("layers", None) or (Layer(None, rope_of(given, head_dim)),) * count
    found: dict[str, Any] = {
        "architecture": name,
        "vocabulary_size": given.integer("vocab_size"),
        "hidden_size": hidden,
        "intermediate_size": given.integer("intermediate_size"),
        "layers": layers,
        "heads": heads,
        "kv_heads": given.integer("num_key_value_heads", heads),
        "head_dim": head_dim,
        "context_length": given.integer("max_position_embeddings"),
        "norm_epsilon": given.number("rms_norm_eps", 1e-6),
        "activation": ACTIVATIONS.get(str(given.choice("hidden_act", "silu")), given.choice("hidden_act", "silu")),
        "attention_scale": 1 / math.sqrt(max(head_dim, 1)),
    }
    return Config(**(found | others)).check()


ACTIVATIONS: Final = {
    "silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
}  # fmt: skip


def check_rows(weight: Weight, count: int) -> None:
    """Checks that a tensor has so many rows.

    Raises:
        BuildError: it has others.
    """
    if weight.shape[:1] != (count,):
        raise BuildError(f"the tensor {weight.name[:80]} is {list(weight.shape)}, and must have {count} rows")


def interleaved_rows(weight: Weight, heads: int, head_dim: int) -> Weight:
    """Rows of heads whose turning pairs lie side by side, reordered into halves."""
    check_rows(weight, heads * head_dim)
    if head_dim % 2:
        raise BuildError("the checkpoint's configuration makes no model", why=f"heads of {head_dim} numbers")
    order = np.arange(heads * head_dim).reshape(heads, head_dim // 2, 2).swapaxes(1, 2).reshape(-1)
    return weight.rows(order)


def split_rows(weight: Weight, parts: Iterable[tuple[str, int]]) -> Iterable[Weight]:
    """Rows of several tensors that are stored as one: names and how many each has."""
    wanted, at = list(parts), 0
    check_rows(weight, sum(count for _, count in wanted))
    for name, count in wanted:
        yield weight.rows(slice(at, at + count)).renamed(name)
        at += count


def split_qkv(weight: Weight, config: Config) -> Iterable[Weight]:
    """Queries, keys and values that are stored as one, in this order."""
    sizes = (config.heads * config.head_dim, *(2 * (config.kv_heads * config.head_dim,)))
    names = (weight.name.replace("attn_qkv", f"attn_{part}") for part in "qkv")
    return split_rows(weight, zip(names, sizes, strict=True))
