"""8-bit products of few channels in vectors of four words (Helium): which rule takes a layer, and what it computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from whole_and_rows import computes

from sdk.compiler.analysis.row_calls import drop_single_trips
from sdk.compiler.ir.types import I8, I32, TensorType
from sdk.compiler.machines.lookup import MACHINES
from sdk.compiler.machines.nest import Nest
from sdk.compiler.ops import OPS, infer
from sdk.compiler.schedules.rules import rule_for
from sdk.compiler.schedules.trace import replay

MVE = next(m for m in MACHINES if m.name == "mve")


def check(name: str, shapes: tuple[tuple[int, ...], tuple[int, ...]], rule_name: str, **attrs: Any) -> None:
    """The rule takes a layer, replays to the same loops, and computes whole images and some rows rightly."""
    outputs = shapes[1][0] if name == "conv2d" else shapes[1][-1]
    attrs = {"stride": (1, 1), "dilation": (1, 1), "pad": (0,) * 4, "pad_value": 5, "x_offset": 0, **attrs}
    types = (TensorType(I8, shapes[0]), TensorType(I8, shapes[1]), TensorType(I32, (outputs,)))
    rng, op = np.random.default_rng(shapes[0][2] * outputs), OPS[name]
    x, weights = (rng.integers(-128, 128, t.static_shape).astype(np.int8) for t in types[:2])
    bias = rng.integers(-999, 999, outputs).astype(np.int32)
    assert op.loops is not None
    loops = op.loops("f", types, infer(name, types, tuple(attrs.items())), attrs)
    loops = drop_single_trips(loops)
    rule, done = rule_for(Nest(loops), MVE)
    assert (rule.name if rule is not None else None) == rule_name
    assert replay(loops, done.trace) == done
    computes(done, {"x": x, "w": weights, "b": bias}, op.reference(x, weights, bias, **attrs))


def depthwise(
    width: int, channels: int, multiplier: int, kernel: tuple[int, int], rule_name: str, height: int = 9, **attrs: Any
) -> None:
    dilation = attrs.get("dilation", (1, 1))
    before = tuple((k - 1) * d // 2 for k, d in zip(kernel, dilation, strict=True))
    given = {"pad": before * 2, "multiplier": multiplier, **attrs}
    check("depthwise_conv2d", ((1, height, width, channels), (*kernel, channels * multiplier)), rule_name, **given)


@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (1, 3)], ids=str)
@pytest.mark.parametrize("channels", [2, 3])
@pytest.mark.parametrize("width", [5, 8, 19])
def test_channels_fewer_than_lanes(width: int, channels: int, stride: tuple[int, int]) -> None:
    for kernel, dilation in (((3, 3), (1, 1)), ((1, 5), (1, 2)), ((5, 2), (2, 1))):
        depthwise(width, channels, 1, kernel, "narrow-window", stride=stride, dilation=dilation)


@pytest.mark.parametrize("stride", [(1, 1), (2, 2)], ids=str)
@pytest.mark.parametrize("multiplier", [2, 3, 5, 8])
@pytest.mark.parametrize("channels", [2, 3, 6])
def test_several_results_to_a_channel(channels: int, multiplier: int, stride: tuple[int, int]) -> None:
    for width, kernel, dilation in ((7, (3, 3), (1, 1)), (12, (3, 1), (2, 1)), (13, (2, 5), (1, 2))):
        depthwise(width, channels, multiplier, kernel, "multiplier-window", stride=stride, dilation=dilation)


@pytest.mark.parametrize("depth", [1, 3, 16, 33])
@pytest.mark.parametrize(("stride", "dilation"), [((1, 1), (1, 1)), ((2, 2), (1, 1)), ((1, 1), (1, 2))], ids=str)
def test_one_result_to_a_pixel(depth: int, stride: tuple[int, int], dilation: tuple[int, int]) -> None:
    for width, kernel in ((9, (3, 3)), (14, (1, 4))):
        reach = tuple((k - 1) * d for k, d in zip(kernel, dilation, strict=True))
        pad = (*(r // 2 for r in reach), *(r - r // 2 for r in reach))
        check("conv2d", ((1, 8, width, depth), (1, *kernel, depth)), "one-channel",
              stride=stride, dilation=dilation, pad=pad)  # fmt: skip


@pytest.mark.parametrize("outputs", [2, 3, 5, 17])
@pytest.mark.parametrize("width", [3, 10])
def test_one_product_to_a_result(width: int, outputs: int) -> None:
    check("conv2d", ((1, 6, width, 1), (outputs, 1, 1, 1)), "channel-products")
