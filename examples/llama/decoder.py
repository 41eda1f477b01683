"""A small Llama-style decoder written with sdk.graph: ring caches, and entries ``prefill`` and ``decode``.

The weights are random; the architecture is the usual one: RMSNorm, rotary positions, grouped-query attention, SwiGLU.

    python examples/llama/decoder.py        generates some tokens on this machine
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import sdk
from sdk.compiler.ir.module import Module
from sdk.compiler.sym import Dim
from sdk.graph import Entry, ModuleBuilder, StateRef, Tensor, f32, i32, i64

Weights = dict[str, NDArray[np.float32]]
HIDDEN_SCORE = -1e30  # of a position that must not be seen: its share is 0


@dataclass(frozen=True)
class Config:
    """Sizes. A cache holds the last positions, as many (within ``cache``) as are asked for at init."""

    vocab: int = 96
    layers: int = 2
    width: int = 64
    heads: int = 4
    kv_heads: int = 2
    head: int = 16
    inner: int = 160
    theta: float = 10000.0
    epsilon: float = 1e-5
    prompt: tuple[int, int] = (1, 32)
    cache: tuple[int, int] = (8, 128)
    positions: int = 4096


def random_weights(config: Config, seed: int = 0) -> Weights:
    """Weights by name, matrices as [outputs, inputs]."""
    rng = np.random.default_rng(seed)
    q, kv = config.heads * config.head, config.kv_heads * config.head

    def matrix(outputs: int, inputs: int) -> NDArray[np.float32]:
        return np.asarray(rng.standard_normal((outputs, inputs)) / np.sqrt(inputs), dtype=np.float32)

    def scale() -> NDArray[np.float32]:
        return rng.uniform(0.5, 1.5, config.width).astype(np.float32)

    found = {"embed": matrix(config.vocab, config.width), "norm": scale()}
    for k in range(config.layers):
        found |= {
            f"attn_norm{k}": scale(), f"q{k}": matrix(q, config.width), f"k{k}": matrix(kv, config.width),
            f"v{k}": matrix(kv, config.width), f"o{k}": matrix(config.width, q),
            f"mlp_norm{k}": scale(), f"gate{k}": matrix(config.inner, config.width),
            f"up{k}": matrix(config.inner, config.width), f"down{k}": matrix(config.width, config.inner),
        }  # fmt: skip
    return found


class Decoder:
    """The module under construction: weights and caches, and what its two entries have in common."""

    def __init__(self, config: Config, weights: Weights) -> None:
        self.config = config
        self.builder = ModuleBuilder("decoder")
        self.capacity = self.builder.dim("cap", *config.cache)
        self.weights = {name: self.builder.const(name, data) for name, data in weights.items()}
        rates = config.theta ** (-np.arange(0, config.head, 2, dtype=np.float64) / config.head)
        self.rates = self.builder.const("rates", rates.astype(np.float32))
        shape = (self.capacity, config.kv_heads, config.head)
        self.caches = [
            (
                self.builder.state(f"keys{k}", f32, shape, layout="ring"),
                self.builder.state(f"values{k}", f32, shape, layout="ring"),
            )
            for k in range(config.layers)
        ]

    def module(self) -> Module:
        """The model: ``prefill`` takes n tokens at positions 0.., ``decode`` one token at the position ``pos``; both
        give the logits of the token that follows."""
        n, pos = self.builder.dim("n", *self.config.prompt), self.builder.dim("pos", 0, self.config.positions - 1)
        with self.entry("prefill", n, 0) as step:
            step.finish(step.layers(see_cache=False))
        with self.entry("decode", 1, pos) as step:
            step.finish(step.layers(see_cache=True))
        return self.builder.module()

    @contextmanager
    def entry(self, name: str, count: Dim, start: Dim) -> Iterator[Step]:
        """An entry on ``count`` tokens, the first at position ``start``."""
        with self.builder.entry(name) as e:
            yield Step(self, e, count, start)


class Step:
    """The body of an entry. Values are [tokens, width]; heads are [kv head, query head of it, tokens, head size]."""

    def __init__(self, model: Decoder, entry: Entry, count: Dim, start: Dim) -> None:
        self.model, self.config, self.weights, self.e = model, model.config, model.weights, entry
        self.count, self.start = count, start
        self.ids = entry.input("ids", i64, (count,))
        self.positions = entry.iota(extent=count, start=start, step=1, dtype=i32)
        angles = entry.reshape(entry.cast(self.positions, to=f32), shape=(count, 1, 1)) * model.rates
        self.cos, self.sin = entry.cos(angles), entry.sin(angles)

    def layers(self, see_cache: bool) -> Tensor:
        """The hidden state after all layers; attention is over the cache, or over these tokens alone."""
        x: Tensor = self.e.gather(self.weights["embed"], self.ids, axis=0)
        for k, (keys, values) in enumerate(self.model.caches):
            x = x + self.attention(k, self.norm(x, f"attn_norm{k}"), keys, values, see_cache)
            x = x + self.mlp(k, self.norm(x, f"mlp_norm{k}"))
        return x

    def finish(self, x: Tensor) -> None:
        """The logits after the last token."""
        last = self.e.slice(x, begin=(self.count - 1, 0), size=(1, self.config.width), strides=(1, 1))
        self.e.output("logits", self.linear(self.norm(last, "norm"), "embed"))

    def norm(self, x: Tensor, name: str) -> Tensor:
        """x over the root of its mean square, scaled."""
        return self.e.call("rms_norm", x, self.weights[name], epsilon=self.config.epsilon)

    def linear(self, x: Tensor, name: str) -> Tensor:
        """x times a weight [outputs, inputs]."""
        return self.e.call("matmul", x, self.weights[name], trans_b=True)

    def mlp(self, k: int, x: Tensor) -> Tensor:
        """SwiGLU."""
        return self.linear(self.e.silu(self.linear(x, f"gate{k}"), alpha=1.0) * self.linear(x, f"up{k}"), f"down{k}")

    def rotated(self, x: Tensor, heads: int) -> Tensor:
        """[tokens, heads, head size] with each pair of halves turned by the angle of its position."""
        half = self.config.head // 2
        size = (self.count, heads, half)
        left, right = (self.e.call("slice", x, begin=(0, 0, at), size=size, strides=(1, 1, 1)) for at in (0, half))
        turned = left * self.cos - right * self.sin, right * self.cos + left * self.sin
        return self.e.call("concat", *turned, axis=2)

    def attention(self, k: int, x: Tensor, keys: StateRef, values: StateRef, see_cache: bool) -> Tensor:
        """Grouped-query attention. Keys are turned before they are kept, so that slots need no order."""
        c, e, n = self.config, self.e, self.count
        queries = self.rotated(self.split(x, f"q{k}", c.heads), c.heads)
        new_keys = self.rotated(self.split(x, f"k{k}", c.kv_heads), c.kv_heads)
        new_values = self.split(x, f"v{k}", c.kv_heads)
        e.write(keys, new_keys, at=self.start)
        e.write(values, new_values, at=self.start)
        grouped = e.reshape(queries, shape=(n, c.kv_heads, c.heads // c.kv_heads, c.head))
        by_head = e.transpose(grouped, perm=(1, 2, 0, 3))
        seen_keys, seen_values, mask = (
            (e.read(keys), e.read(values), self.written()) if see_cache else (new_keys, new_values, self.past())
        )
        scores = e.matmul(by_head, self.head_major(seen_keys), trans_b=True) * (1 / np.sqrt(c.head))
        shares = e.softmax(e.where(mask, scores, HIDDEN_SCORE))
        mixed = e.transpose(shares @ self.head_major(seen_values), perm=(2, 0, 1, 3))
        return self.linear(e.reshape(mixed, shape=(n, c.heads * c.head)), f"o{k}")

    def split(self, x: Tensor, name: str, heads: int) -> Tensor:
        """A projection as [tokens, heads, head size]."""
        return self.e.call("reshape", self.linear(x, name), shape=(self.count, heads, self.config.head))

    def head_major(self, x: Tensor) -> Tensor:
        """[positions, kv heads, head size] as [kv heads, 1, positions, head size]."""
        length, heads, size = x.shape
        return self.e.call("reshape", self.e.transpose(x, perm=(1, 0, 2)), shape=(heads, 1, length, size))

    def written(self) -> Tensor:
        """Which slots of the cache hold a position: all of them once it is full."""
        slots = self.e.iota(extent=self.model.capacity, start=0, step=1, dtype=i32)
        return self.e.call("less_equal", slots, self.start)

    def past(self) -> Tensor:
        """Which tokens of the prompt each may see: itself, and those before it that the cache would still hold."""
        column = self.e.reshape(self.positions, shape=(self.count, 1))
        before = self.e.less_equal(self.positions, column)
        kept = self.e.greater(self.positions, column - self.model.capacity)
        return self.e.call("and", before, kept)


def build(config: Config | None = None, seed: int = 0) -> Module:
    """The decoder with random weights."""
    config = config or Config()
    return Decoder(config, random_weights(config, seed)).module()


def generate(model: sdk.Model, prompt: list[int], count: int) -> list[int]:
    """The most likely tokens after a prompt."""
    found: list[int] = []
    logits = model.run("prefill", {"ids": np.array(prompt, dtype=np.int64)})["logits"]
    for position in range(len(prompt), len(prompt) + count):
        found.append(int(logits.argmax()))
        logits = model.run("decode", {"ids": np.array(found[-1:], dtype=np.int64)}, {"pos": position})["logits"]
    return found


if __name__ == "__main__":
    with sdk.compile(build()) as compiled:
        print(generate(compiled, [1, 2, 3], 12))
