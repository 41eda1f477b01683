"""Random layers to compare schedules on: convolutions, pointwise and depthwise ones, dense layers, pools and sums."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import I8
from sdk.graph import Entry, ModuleBuilder

__all__ = ["KINDS", "kind_of", "net"]

MAX_MACS = 300_000
ODDS = {"pointwise": 2, "conv": 2, "depthwise": 2, "dense": 1, "pool": 1, "add": 1}
KINDS = tuple(ODDS)


def kind_of(layer: int) -> str:
    """What the layer with this number is."""
    return _kind(np.random.default_rng(layer))


def net(layers: Iterable[int]) -> Module:
    """The random layers with these numbers beside each other, each from an input to an output ``y<number>`` of its
    own."""
    builder = ModuleBuilder("net")
    entry = builder.entry("main")
    for k in layers:
        entry.output(f"y{k}", _layer(Parts(builder, entry, np.random.default_rng(k), f"_{k}")))
    return builder.module()


@dataclass
class Parts:
    """Where a layer goes, and the end of its names."""

    builder: ModuleBuilder
    entry: Entry
    rng: np.random.Generator
    end: str

    def const(self, name: str, values: Any, kind: type[np.generic]) -> Any:
        """A constant."""
        return self.builder.const(name + self.end, np.asarray(values).astype(kind))

    def input(self, *shape: int) -> Any:
        """An input of int8."""
        return self.entry.input("x" + self.end, I8, shape)

    def weights(self, *shape: int) -> Any:
        """Weights of int8."""
        return self.const("w", self.rng.integers(-127, 128, shape), np.int8)

    def requantized(self, acc: Any, outputs: int) -> Any:
        """Sums as int8, by a factor for each channel."""
        mult = self.const("mult", self.rng.integers(1 << 30, (1 << 31) - 1, outputs), np.int32)
        shift = self.const("shift", self.rng.integers(-9, -6, outputs), np.int32)
        bounds = {"lo": -128, "hi": 127, "shift_lo": -9, "shift_hi": -7, "acc_bits": 31}
        return self.entry.requantize(acc, mult, shift, out="i8", zp=-128, **bounds)


def _kind(rng: np.random.Generator) -> str:
    return str(rng.choice([kind for kind, odds in ODDS.items() for _ in range(odds)]))


def _layer(parts: Parts) -> Any:
    """A layer of a kind and of sizes drawn."""
    rng, entry = parts.rng, parts.entry
    kind = _kind(rng)
    channels, outputs = (int(rng.choice([4, 8, 12, 16, 24, 32, 48, 64, 96])) for _ in range(2))
    if kind == "conv" and rng.integers(3) == 0:
        channels = int(rng.choice([1, 3]))  # of an image
    kernel, stride = int(rng.choice([3, 3, 5])), int(rng.choice([1, 1, 2]))
    terms = {"pointwise": channels * outputs, "conv": kernel**2 * channels * outputs, "depthwise": kernel**2 * channels}
    side = int(rng.integers(3, 17))
    while side > 3 and side * side * terms.get(kind, channels) > MAX_MACS:
        side -= 1
    if kind == "dense":
        x = parts.input(1, int(rng.integers(2, 65)) * 8)
        bias = parts.const("b", rng.integers(-999, 999, outputs), np.int32)
        acc = entry.dense(x, parts.weights(outputs, x.shape[1]), bias, x_offset=128, w_offset=0)
        return parts.requantized(acc, outputs)
    x = parts.input(1, side, side, channels)
    if kind == "pool":
        square = {"kernel": (2, 2), "stride": (2, 2), "pad": (0, 0, 0, 0)}
        return entry.max_pool2d(x, **square) if rng.integers(2) else entry.avg_pool2d(x, **square)
    if kind == "add":
        return _sum(parts, x, side, channels)
    pad = 0 if kind == "pointwise" else kernel // 2
    steps = (1, 1) if kind == "pointwise" else (stride, stride)
    window = {"stride": steps, "dilation": (1, 1), "pad": (pad,) * 4, "pad_value": -128, "x_offset": 128}
    if kind == "depthwise":
        bias = parts.const("b", rng.integers(-999, 999, channels), np.int32)
        acc = entry.depthwise_conv2d(x, parts.weights(kernel, kernel, channels), bias, multiplier=1, **window)
        return parts.requantized(acc, channels)
    across = 1 if kind == "pointwise" else kernel
    bias = parts.const("b", rng.integers(-999, 999, outputs), np.int32)
    acc = entry.conv2d(x, parts.weights(outputs, across, across, channels), bias, groups=1, **window)
    return parts.requantized(acc, outputs)


def _sum(parts: Parts, x: Any, side: int, channels: int) -> Any:
    other = parts.entry.input("z" + parts.end, I8, (1, side, side, channels))
    scales = {"a_offset": 3, "a_mult": 1 << 30, "a_shift": -1, "b_offset": 5, "b_mult": 3 << 29, "b_shift": -2}
    return parts.entry.add_q(
        x, other, **scales, left_shift=20, out_mult=1 << 30, out_shift=-18, out="i8", zp=-3, lo=-128, hi=127
    )
