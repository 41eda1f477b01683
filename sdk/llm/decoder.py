"""The one decoder that all architectures are built of: which parts a layer has follows from its configuration and from
which tensors there are.

Keys and values lie in rings, [kv heads, blocks, numbers of a head, slots of a block] and [kv heads, slots, numbers of a
head], so that attention reads memory in its order. A layer that sees everything has a slot for each position of the
context; one with a window has those of the window and of the tokens of one run, since all of these are written before
any is looked at; some more make whole blocks. Nothing clears them: positions follow each other from 0, so that what is
looked at was written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.module import Module, StateLayout
from sdk.compiler.ir.types import DType
from sdk.compiler.sym import Dim, Expr
from sdk.graph import Entry, ModuleBuilder, StateRef, Tensor, f16, f32, i8, i32
from sdk.graph.quantised import FORMATS, group_dense, group_embedding
from sdk.llm.config import Config, Rope
from sdk.llm.rope import rates
from sdk.llm.runs import Run, runs_of
from sdk.llm.weights import Weight

__all__ = ["CACHES", "VERIFY", "Sizes", "decoder_module", "slots_of", "stacked"]

_BLOCK, _SMALL_BLOCK, _LARGE = 32, 16, 512  # slots; rings of fewer than the last may be of blocks of the second
VERIFY: Final = 8  # tokens that an entry "verify" takes at most
CACHES: Final = ("f32", "f16", "int8")  # what keys and values are kept in
_LARGEST_HALF: Final = 65504.0
_JOINED: Final = 32 << 20  # bytes of a matrix above which threads that wait for each other do not count
_OF_LAYER: Final = re.compile(r"blk\.(\d+)\.")


@dataclass(frozen=True)
class Sizes:
    """How a decoder is built: positions that it has room for, tokens that one run of "prefill" takes at most, and what
    its caches hold, one of ``CACHES``: f16 holds at most 65504 of either sign, int8 each head of a position as 8 bits
    and a scale, so that a number is at most 1/254 of its head's largest off. ``half_scales`` is that of
    ``group_dense``."""

    context: int
    chunk: int
    cache: str = "f32"
    half_scales: bool = False


def slots_of(window: int | None, sizes: Sizes) -> int:
    """Slots in the ring of a layer: whole blocks."""
    needed = sizes.context if window is None else min(sizes.context, window + sizes.chunk - 1)
    block = _BLOCK if needed >= _LARGE else _SMALL_BLOCK
    return -(-needed // block) * block


def decoder_module(name: str, config: Config, weights: Mapping[str, Weight], sizes: Sizes) -> Module:
    """The model with its entries, which share weights and caches. Each takes ``ids`` (i32 [n]) of tokens that follow
    those before, the first at the position ``pos``, with ``pos + n`` within the context.

    ``prefill`` takes 1 to ``sizes.chunk`` tokens, ``decode`` one; both give ``logits`` (f32 [1, vocabulary]) of the
    token that follows the last. ``verify`` takes 1 to 8 and gives those after each, f32 [n, vocabulary].
    """
    model = _Model(name, config, weights, sizes)
    builder, pos = model.builder, model.builder.dim("pos", 0, sizes.context - 1)
    n = builder.dim("n", 1, sizes.chunk)
    several = builder.dim("m", 1, min(VERIFY, sizes.chunk))
    for entry, count, every in (("prefill", n, False), ("decode", 1, False), ("verify", several, True)):
        with builder.entry(entry) as e:
            _Whole(model, e, count, pos).run(every)
    return builder.module()


class _Model:
    """The module under construction: what its entries share."""

    def __init__(self, name: str, config: Config, weights: Mapping[str, Weight], sizes: Sizes) -> None:
        self.config, self.weights, self.sizes = config, weights, sizes
        self.builder = ModuleBuilder(name)
        self.made: dict[str, Tensor] = {}
        self.runs = runs_of(_kinds(config, weights))
        self.alike = _alike(self.runs, weights)
        self.caches: dict[int, tuple[StateRef, ...]] = {}
        for run in self.runs:
            for k in range(run.first, run.first + run.period):
                self.caches[k] = tuple(self.states(k, run.iterations))

    def states(self, k: int, iterations: int) -> Iterator[StateRef]:
        """The rings of layer k, and as many of the layers that are compiled with it."""
        config, kind = self.config, {"f32": f32, "f16": f16, "int8": i8}[self.sizes.cache]
        kv, size, slots = config.kv_heads, config.head_dim, slots_of(config.layers[k].window, self.sizes)
        block = next(count for count in (_BLOCK, _SMALL_BLOCK) if slots % count == 0)
        rings: list[tuple[str, DType, tuple[int, ...], StateLayout]] = [
            (f"keys{k}", kind, (kv, slots // block, size, block), "blocked"),
            (f"values{k}", kind, (kv, slots, size), "ring"),
        ]
        if self.sizes.cache == "int8":
            rings += [(f"{name}_scale{k}", f32, (kv, slots), "ring") for name in ("keys", "values")]
        for name, held, shape, layout in rings:
            yield self.builder.state(name, held, shape, init=None, layout=layout, axis=1, iterations=iterations)

    def constant(self, name: str, data: Callable[[], NDArray[np.float32]] | None = None) -> Tensor:
        """A tensor of the checkpoint as f32, or one that is computed."""
        return self.tensor((name,), lambda weight: weight.floats(), data)

    def blocks(self, *names: str) -> Tensor:
        """A matrix in groups, or several below each other, in the bits of the checkpoint: u8 [rows, bytes]."""
        return self.tensor(names, lambda weight: weight.data)

    def tensor(
        self, names: tuple[str, ...], read: Callable[[Weight], NDArray[Any]],
        data: Callable[[], NDArray[Any]] | None = None,
    ) -> Tensor:  # fmt: skip
        """A tensor as ``read`` has it, or several below each other, with those of the layers that are compiled with its
        own; or what is computed."""
        name = "_".join(names)
        if name not in self.made:
            if data is not None:
                self.made[name] = self.builder.const(name, data())
            elif names[0] in self.alike:
                each = zip(*(self.alike[one] for one in names), strict=True)
                self.made[name] = self.builder.stack(name, [self.joined(ones, read) for ones in each])
            else:
                self.made[name] = self.builder.const(name, self.joined(names, read))
        return self.made[name]

    def joined(self, names: tuple[str, ...], read: Callable[[Weight], NDArray[Any]]) -> NDArray[Any]:
        """Tensors below each other, without a copy where there is one."""
        found = [read(self.weights[one]) for one in names]
        return found[0] if len(found) == 1 else np.concatenate(found)


def stacked(config: Config, weights: Mapping[str, Weight]) -> dict[str, list[str]]:
    """The tensors in each stack of the module, by its name: those of layers that are compiled together, in the order of
    the iterations. Other constants have the names of their tensors."""
    return _alike(runs_of(_kinds(config, weights)), weights)


def _alike(runs: Iterable[Run], weights: Mapping[str, Weight]) -> dict[str, list[str]]:
    """By the tensors of the first iteration of runs, those of all iterations."""
    of = {k: run for run in runs if run.iterations > 1 for k in range(run.first, run.first + run.period)}
    layers = ((name, _layer(name)) for name in weights)
    return {name: [f"blk.{at}.{name.split('.', 2)[2]}" for at in of[k].alike(k)] for name, k in layers if k in of}


def _layer(name: str) -> int | None:
    """The layer that a tensor is of."""
    found = _OF_LAYER.match(name)
    return int(found[1]) if found else None


def _kinds(config: Config, weights: Mapping[str, Weight]) -> list[Hashable]:
    """Of each layer what code for it depends on."""
    found: list[dict[str, Hashable]] = [{} for _ in config.layers]
    for name, weight in weights.items():
        if (k := _layer(name)) is not None:
            found[k][name.split(".", 2)[2]] = weight.shape, weight.format.name
    return [
        (layer.window, repr(layer.rope), tuple(sorted(tensors.items())))
        for layer, tensors in zip(config.layers, found, strict=True)
    ]


class _Layers:
    """Layers, as an entry has them or a part. Values are [tokens, width]; ``angles`` are cosines and sines by rope."""

    def __init__(
        self, model: _Model, entry: Entry, count: Dim, start: Expr, angles: dict[str, tuple[Tensor, Tensor]]
    ) -> None:
        self.model, self.config, self.e = model, model.config, entry
        self.count, self.start, self.rotary = count, start, angles

    def layers(self, run: Run, x: Tensor) -> Tensor:
        """What follows x after the first iteration of a run."""
        for k in range(run.first, run.first + run.period):
            x = self.layer(k, x)
        return x

    def layer(self, k: int, x: Tensor) -> Tensor:
        """What follows x after layer k."""
        mixed = self.attention(k, self.norm(x, f"blk.{k}.attn_norm"))
        mixed = x + self.norm(mixed, f"blk.{k}.post_attention_norm")
        inner = self.mlp(k, self.norm(x if self.config.parallel else mixed, f"blk.{k}.ffn_norm"))
        return mixed + self.norm(inner, f"blk.{k}.post_ffw_norm")

    def norm(self, x: Tensor, name: str) -> Tensor:
        """x normalised along its last axis; as it is where the checkpoint has no such norm."""
        weights, epsilon = self.model.weights, self.config.norm_epsilon
        if f"{name}.weight" not in weights:
            return x
        scale = self.model.constant(f"{name}.weight")
        if self.config.norm == "rms":
            return self.e.call("rms_norm", x, scale, epsilon=epsilon)
        zeros = None if f"{name}.bias" in weights else lambda: np.zeros(weights[f"{name}.weight"].shape, np.float32)
        return self.e.call("layer_norm", x, scale, self.model.constant(f"{name}.bias", zeros), epsilon=epsilon)

    def linear(self, x: Tensor, name: str) -> Tensor:
        """x times a weight [outputs, inputs], and its bias where there is one."""
        return self.linears(x, name)[0]

    def linears(self, x: Tensor, *names: str) -> list[Tensor]:
        """x times each of some weights [outputs, inputs], and their biases. What is in groups alike is one product:
        threads share it, and wait for each other, once."""
        weights = [self.model.weights[f"{name}.weight"] for name in names]
        alike = {w.format.name for w in weights} <= {weights[0].format.name} & FORMATS.keys()
        if len(names) > 1 and not (alike and sum(w.data.nbytes for w in weights) <= _JOINED):
            return [self.linear(x, name) for name in names]
        y = self.product(x, *(f"{name}.weight" for name in names))
        found, at = [], 0
        for name, weight in zip(names, weights, strict=True):
            rows = weight.shape[0]
            part = y if len(names) == 1 else self.e.call(
                "slice", y, begin=(0, at), size=(self.count, rows), strides=(1, 1)
            )  # fmt: skip
            at += rows
            biased = f"{name}.bias" in self.model.weights
            found.append(part + self.model.constant(f"{name}.bias") if biased else part)
        return found

    def product(self, x: Tensor, *names: str) -> Tensor:
        """x times a weight, or several in groups alike below each other."""
        format = self.model.weights[names[0]].format.name
        if format not in FORMATS:
            return self.e.call("matmul", x, self.model.constant(names[0]), trans_b=True)
        return group_dense(self.e, x, self.model.blocks(*names), format, half_scales=self.model.sizes.half_scales)

    def capped(self, x: Tensor, cap: float | None) -> Tensor:
        """x bent into -cap..cap."""
        return x if cap is None else self.e.call("tanh", x * (1 / cap)) * cap

    def mlp(self, k: int, x: Tensor) -> Tensor:
        """The feed-forward part, with a gate where there is one."""
        gated = f"blk.{k}.ffn_gate.weight" in self.model.weights
        names = (f"blk.{k}.ffn_up", *([f"blk.{k}.ffn_gate"] if gated else []))
        made = self.linears(x, *names)
        up, bent = made[0], made[-1]
        if self.config.activation == "silu":
            bent = self.e.call("silu", bent, alpha=1.0)
        else:
            bent = self.e.call("gelu", bent, tanh=self.config.activation == "gelu_tanh")
        return self.linear(bent * up if gated else bent, f"blk.{k}.ffn_down")

    def attention(self, k: int, x: Tensor) -> Tensor:
        """Grouped-query attention over the ring of layer k, into which the new keys and values go first. Keys are
        turned before they are kept, so that a slot needs no position when it is read."""
        c, e, n, layer = self.config, self.e, self.count, self.config.layers[k]
        kv, size = c.kv_heads, c.head_dim
        *both, values = self.linears(x, *(f"blk.{k}.{name}" for name in ("attn_q", "attn_k", "attn_v")))
        queries, keys = (
            self.turned(self.head_norm(made, f"blk.{k}.{name}_norm", heads), layer.rope)
            for made, name, heads in zip(both, ("attn_q", "attn_k"), (c.heads, kv), strict=True)
        )
        values = e.call("reshape", values, shape=(n, kv, size))
        held = []
        for state, new in zip(self.model.caches[k], self.stored(keys, values), strict=True):
            e.write(state, new, at=self.start)
            held.append(e.read(state))
        slots = slots_of(layer.window, self.model.sizes)
        window = layer.window if layer.window is not None and layer.window < self.model.sizes.context else 0
        mixed = e.call(
            "attend" if len(held) == 2 else "attend_bytes", queries, *held, start=self.start, window=window,
            ring=slots < self.model.sizes.context, scale=c.attention_scale, cap=c.attention_softcap or 0.0,
        )  # fmt: skip
        flat = e.call("reshape", mixed, shape=(n, c.heads * size))
        return self.linear(flat, f"blk.{k}.attn_output")

    def head_norm(self, x: Tensor, name: str, heads: int) -> Tensor:
        """x as [tokens, heads, numbers], normalised by head, all heads together or not, as the checkpoint is."""
        weight, shape = self.model.weights.get(f"{name}.weight"), (self.count, heads, self.config.head_dim)
        if weight is not None and weight.shape == (self.config.head_dim,):
            return self.norm(self.e.call("reshape", x, shape=shape), name)
        return self.e.call("reshape", self.norm(x, name), shape=shape)

    def stored(self, keys: Tensor, values: Tensor) -> list[Tensor]:
        """Keys and values [tokens, heads, numbers] as the caches hold them, those in 8 bits with their scales."""
        perms = ((1, 2, 0), (1, 0, 2))
        if self.model.sizes.cache == "int8":
            whole, scales = zip(*(self.bytes_of(x) for x in (keys, values)), strict=True)
            rows = [self.by_head(x, perm) for x, perm in zip(whole, perms, strict=True)]
            return rows + [self.by_head(x, (1, 0)) for x in scales]
        if self.model.sizes.cache == "f16":
            keys, values = (
                self.e.cast(self.e.call("clip", x, lo=-_LARGEST_HALF, hi=_LARGEST_HALF), to=f16) for x in (keys, values)
            )
        return [self.by_head(x, perm) for x, perm in zip((keys, values), perms, strict=True)]

    def bytes_of(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[tokens, heads, numbers] in 8 bits, and the scale of each head, [tokens, heads]."""
        n, heads, size = x.shape
        assert isinstance(size, int)
        flat = self.e.call("reshape", x, shape=(n * heads, size))
        whole, scales, _ = self.e.op("quantize_groups", flat, run=size, zero=0, group=size)
        return self.e.call("reshape", whole, shape=x.shape), self.e.call("reshape", scales, shape=(n, heads))

    def by_head(self, x: Tensor, perm: tuple[int, ...]) -> Tensor:
        """[tokens, heads] or [tokens, heads, numbers] with its axes in another order, the heads first."""
        if self.count == 1:
            return self.e.call("reshape", x, shape=tuple(x.shape[axis] for axis in perm))
        return self.e.call("transpose", x, perm=perm)

    def turned(self, x: Tensor, rope: Rope | None) -> Tensor:
        """[tokens, heads, numbers] with each pair out of two halves turned by the angle of its position."""
        if rope is None:
            return x
        cos, sin = self.rotary[repr(rope)]
        half, heads, rest = rope.dim // 2, x.shape[1], self.config.head_dim - rope.dim
        left, right = (self.cut(x, at, heads, half) for at in (0, half))
        parts = [left * cos - right * sin, right * cos + left * sin]
        return self.e.call("concat", *parts, *([self.cut(x, rope.dim, heads, rest)] if rest else []), axis=2)

    def cut(self, x: Tensor, at: int, heads: Dim, size: int) -> Tensor:
        """Some numbers of each head."""
        return self.e.call("slice", x, begin=(0, 0, at), size=(self.count, heads, size), strides=(1, 1, 1))


class _Whole(_Layers):
    """The body of an entry."""

    def __init__(self, model: _Model, entry: Entry, count: Dim, start: Expr) -> None:
        super().__init__(model, entry, count, start, {})
        self.ids = entry.input("ids", i32, (count,))
        self.positions = entry.iota(extent=count, start=start, step=1, dtype=i32)
        ropes = {repr(layer.rope): layer.rope for layer in self.config.layers if layer.rope is not None}
        self.rotary |= {key: self.angles(f"rates{k}", rope) for k, (key, rope) in enumerate(ropes.items())}

    def run(self, every: bool) -> None:
        """The whole model: logits after each token, or after the last."""
        c, e = self.config, self.e
        x = self.rows("token_embd.weight")
        if c.embedding_scale != 1:
            x = x * c.embedding_scale
        if "position_embd.weight" in self.model.weights:
            x = x + e.call("gather", self.model.constant("position_embd.weight"), self.positions, axis=0)
        for run in self.model.runs:
            x = self.layers(run, x) if run.iterations == 1 else self.iterated(run, x)
        if not every and self.count != 1:
            x = e.call("slice", x, begin=(self.count - 1, 0), size=(1, c.hidden_size), strides=(1, 1))
        head = "output" if "output.weight" in self.model.weights else "token_embd"
        e.output("logits", self.capped(self.linear(self.norm(x, "output_norm"), head), c.logit_softcap))

    def iterated(self, run: Run, x: Tensor) -> Tensor:
        """What follows x after the layers of a run, which are compiled once for all of its iterations."""
        part = self.model.builder.part(f"{self.e.name}_layers{run.first}", run.iterations)
        inner = part.input("x", f32, x.shape)
        used = {repr(layer.rope) for layer in self.config.layers[run.first : run.first + run.period] if layer.rope}
        given = {key: both for key, both in self.rotary.items() if key in used}
        rotary = {
            key: (part.input(f"cos{k}", f32, cos.shape), part.input(f"sin{k}", f32, sin.shape))
            for k, (key, (cos, sin)) in enumerate(given.items())
        }
        part.output("y", _Layers(self.model, part, self.count, self.start, rotary).layers(run, inner))
        return self.e.repeat(part, x, *(tensor for both in given.values() for tensor in both))

    def rows(self, name: str) -> Tensor:
        """The rows of a matrix that the tokens name, as f32."""
        format = self.model.weights[name].format.name
        if format in FORMATS:
            return group_embedding(self.e, self.model.blocks(name), self.ids, format)
        return self.e.call("gather", self.model.constant(name), self.ids, axis=0)

    def angles(self, name: str, rope: Rope) -> tuple[Tensor, Tensor]:
        """Cosines and sines of all positions, [tokens, 1, pairs]; ``name`` is that of the table of rates."""
        found, magnitude = rates(rope, self.model.sizes.context)
        column = self.e.reshape(self.e.cast(self.positions, to=f32), shape=(self.count, 1, 1))
        table = self.model.constant(name, lambda: found)
        cos, sin = self.e.cos(column * table), self.e.sin(column * table)
        return (cos, sin) if magnitude == 1 else (cos * magnitude, sin * magnitude)
