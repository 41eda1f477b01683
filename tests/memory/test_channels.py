"""RAM by the number of channels: odd ones, and numbers that differ by layer, take their share and no more."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from sdk.boards import load_board
from sdk.compiler.interp.plan import run_plan
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import PlanCall
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes, lower_module
from sdk.frontends.tflite.importer import import_tflite

sys.path.insert(0, str(Path(__file__).parents[1] / "frontends"))
from tflite_files import ModelFile

BASE = 64
SLACK = 0.03  # of the RAM at BASE: what the image and scratch take does not follow the channels
BLOCKS = 4
SAMPLE = (49, 51, 66, 69)
Channels = tuple[int, ...]


class Network:
    """A DS-CNN like that of MLPerf Tiny for keywords: a convolution, depthwise and pointwise ones, a pool, a dense."""

    def __init__(self, channels: Channels) -> None:
        self.file, self.rng = ModelFile(), np.random.default_rng(sum(channels))
        self.shape: Channels = (1, 49, 10, 1)
        x = self.file.tensor("x", self.shape, "int8", 0.5, 83)
        self.file.inputs.append(x)
        x = self.convolution(x, channels[0], (10, 4), stride=2)
        for count in channels[1:]:
            x = self.convolution(x, self.shape[3], (3, 3), depthwise=True)
            x = self.convolution(x, count, (1, 1))
        window = {"FilterHeight": self.shape[1], "FilterWidth": self.shape[2]}
        pooled = self.tensor((1, 1, 1, self.shape[3]))
        self.file.op("AVERAGE_POOL_2D", [x], [pooled], "Pool2DOptions", Padding=1, StrideH=1, StrideW=1, **window)
        out = self.tensor((1, 12))
        self.file.op("FULLY_CONNECTED", [pooled, *self.weights((12, channels[-1]), 0)], [out], "FullyConnectedOptions")
        self.file.outputs.append(out)

    def tensor(self, shape: Channels) -> int:
        self.shape = shape
        return self.file.tensor(f"t{len(self.file.tensors)}", shape, "int8", 0.5, 3)

    def weights(self, shape: Channels, axis: int) -> list[int]:
        scales = [2.0**-7] * shape[axis]
        data = self.rng.integers(-60, 60, shape).astype(np.int8)
        bias = self.rng.integers(-900, 900, shape[axis])
        name = len(self.file.tensors)
        return [
            self.file.const(f"w{name}", data, "int8", scale=scales, zero=0, axis=axis),
            self.file.const(f"b{name}", bias, "int32", scale=[0.5 * s for s in scales]),
        ]

    def convolution(self, x: int, count: int, kernel: Channels, stride: int = 1, depthwise: bool = False) -> int:
        inner, (_, rows, cols, _) = self.shape[3], self.shape
        w, b = self.weights((1, *kernel, count), 3) if depthwise else self.weights((count, *kernel, inner), 0)
        out = self.tensor((1, -(-rows // stride), -(-cols // stride), count))
        given = {"Padding": 0, "StrideH": stride, "StrideW": stride, "DilationHFactor": 1, "DilationWFactor": 1}
        if depthwise:
            self.file.op(
                "DEPTHWISE_CONV_2D", [x, w, b], [out], "DepthwiseConv2DOptions", DepthMultiplier=1, **given
            )
        else:
            self.file.op("CONV_2D", [x, w, b], [out], "Conv2DOptions", **given)
        return out


def planned(channels: Channels, memory: str) -> Module:
    module = import_tflite(Network(channels).file.build(), "net")
    return lower_module(module, default_passes(load_board("nucleo_l4r5zi"), BuildOptions(memory=memory)))


@cache
def arena(channels: Channels, memory: str) -> int:
    return planned(channels, memory).plans["main"].region("arena").bytes


def check_share(count: int, memory: str) -> None:
    base = arena((BASE,) * (BLOCKS + 1), memory)
    found = arena((count,) * (BLOCKS + 1), memory)
    share = base * (count - BASE) / BASE
    assert abs(found - base) <= abs(share) + SLACK * base, f"{count} channels: {found} bytes, {base} at {BASE}"


@pytest.mark.some(4)
@pytest.mark.parametrize("memory", ["time", "min"])
@pytest.mark.parametrize("count", SAMPLE)
def test_arena_follows_the_channels(count: int, memory: str) -> None:
    check_share(count, memory)


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["time", "min"])
@pytest.mark.parametrize("count", sorted(set(range(49, 73)) - set(SAMPLE)))
def test_arena_follows_all_channels(count: int, memory: str) -> None:
    check_share(count, memory)


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("channels", "share"),
    [
        ((64, 66, 64, 66, 64), 1.1),
        ((72, 70, 68, 66, 64), 1.1),
        ((32, 64, 64, 32, 64), 1.5),  # what grows begins below, and what shrinks begins there: steps down add up
        ((51, 66, 54, 50, 72), 1.4),
    ],
)
def test_unequal_channels_take_one_layer_and_a_part(channels: Channels, share: float) -> None:
    """Results are written over their inputs: two layers never lie side by side."""
    assert arena(channels, "time") <= share * arena((max(channels),) * (BLOCKS + 1), "time")


def test_unequal_channels_are_exact() -> None:
    """The plan on bytes beside TensorFlow Lite Micro."""
    from tflite_micro import runtime

    channels = (24, 21, 26, 9, 30)
    data, module = Network(channels).file.build(), planned(channels, "time")
    (plan,) = module.plans.values()
    places = {b.name: b for b in plan.buffers}
    calls = [s for s in plan.body if isinstance(s, PlanCall)]
    pairs = ((places[c.args[0]], places[c.args[-1]]) for c in calls)
    over = [b.name for a, b in pairs if a.offset != b.offset and b.offset + b.type.max_bytes > a.offset > b.offset]
    assert len(over) >= BLOCKS - 1
    x = np.random.default_rng(3).integers(-128, 128, (1, 49, 10, 1)).astype(np.int8)
    engine = runtime.Interpreter.from_bytes(data)
    engine.set_input(x, 0)
    engine.invoke()
    found = run_plan(module, plan.name, {plan.inputs[0]: x})
    np.testing.assert_array_equal(found[plan.outputs[0]], engine.get_output(0))
