"""What a decoder is, in numbers: the record that every checkpoint's own configuration becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sdk.errors import BuildError

__all__ = ["Config", "Layer", "Rope"]

_MAX = 1 << 24  # of any size here: far above every published model, and what 32-bit arithmetic still multiplies
_LAYERS = 1024


@dataclass(frozen=True)
class Rope:
    """Rotary positions: ``theta`` is the base, ``dim`` how many of a head's numbers turn, ``scaling`` how the rates
    are stretched for longer contexts: ``rope_type`` and its parameters, under the names of config.json."""

    theta: float
    dim: int
    scaling: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The name of the scaling, "default" without one."""
        return str(self.scaling.get("rope_type", self.scaling.get("type", "default")) or "default")


@dataclass(frozen=True)
class Layer:
    """What differs from layer to layer: how many positions back a token sees (``window``, itself among them; None for
    all), and how positions enter (None: not at all)."""

    window: int | None
    rope: Rope | None


@dataclass(frozen=True)
class Config:
    """A decoder-only language model.

    Attributes:
        architecture: its name here.
        vocabulary_size: tokens.
        hidden_size: width of the residual stream.
        intermediate_size: width inside of the feed-forward part.
        layers: one record each.
        heads: of queries.
        kv_heads: of keys and values; a divisor of ``heads``.
        head_dim: numbers of a head.
        context_length: most positions that the model was made for.
        norm_epsilon: added to the mean square, or to the variance.
        activation: "silu", "gelu" or "gelu_tanh".
        attention_scale: what scores are multiplied by.
        attention_softcap: scores are ``cap * tanh(score / cap)``; None for as they are.
        logit_softcap: the same of the logits.
        embedding_scale: what embeddings are multiplied by.
        norm: "rms" (over the root mean square) or "layer" (mean and variance).
        parallel: attention and feed-forward part both read the layer's input.
    """

    architecture: str
    vocabulary_size: int
    hidden_size: int
    intermediate_size: int
    layers: tuple[Layer, ...]
    heads: int
    kv_heads: int
    head_dim: int
    context_length: int
    norm_epsilon: float
    activation: str
    attention_scale: float
    attention_softcap: float | None = None
    logit_softcap: float | None = None
    embedding_scale: float = 1.0
    parallel: bool = False
    norm: str = "rms"

    def check(self) -> Config:
        """Itself, where its numbers make sense.

        Raises:
            BuildError: one is outside of its range; it is named.
        """
        sizes = ("vocabulary_size", "hidden_size", "intermediate_size", "heads", "kv_heads", "head_dim",
                 "context_length")  # fmt: skip
        for name in sizes:
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MAX:
                raise _damaged(f"{name} is {value!r}")
        if not 1 <= len(self.layers) <= _LAYERS:
            raise _damaged(f"it has {len(self.layers)} layers")
        if self.heads % self.kv_heads:
            raise _damaged(f"{self.heads} heads do not share {self.kv_heads} heads of keys evenly")
        for layer in self.layers:
            if layer.window is not None and layer.window < 1:
                raise _damaged(f"a window of {layer.window} positions")
            if layer.rope and (layer.rope.dim % 2 or not 2 <= layer.rope.dim <= self.head_dim):
                raise _damaged(f"{layer.rope.dim} of {self.head_dim} numbers of a head turn with the position")
        if self.activation not in ("silu", "gelu", "gelu_tanh"):
            hint = "silu, gelu and gelu_tanh are supported"
            raise BuildError(f"the activation {str(self.activation)[:40]!r} is not supported", hint=hint)
        return self


def _damaged(why: str) -> BuildError:
    return BuildError("the checkpoint's configuration makes no model", why=why, hint="fetch it again: it is damaged")
