"""Shifts of sums that move into 16-bit weights: the results stay, and channels too far apart keep their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sdk.boards import load_board
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.interp.plan import run_plan
from sdk.compiler.ir.layout import Layout, Scale
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import I8
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.schedules.trace import Schedule
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes, lower_module
from sdk.graph import ModuleBuilder

OUTPUTS = 6


def layer(kind: str, shifts: list[int], zp: int, bias: int = 999) -> Module:
    """A depthwise, pointwise or first convolution of 6 channels, scaled by 2 to the power of ``shifts``."""
    builder, rng = ModuleBuilder("net"), np.random.default_rng(len(kind) + abs(zp))
    entry = builder.entry("main")
    channels = {"depthwise": OUTPUTS, "pointwise": 2, "rows": 1}[kind]
    x = entry.input("x", I8, (1, 9, 12, channels))
    size = (1, 1) if kind == "pointwise" else (3, 3)
    pad = (size[0] // 2,) * 4
    attrs: dict[str, Any] = {"stride": (1, 1), "dilation": (1, 1), "pad": pad, "pad_value": -128, "x_offset": 128}
    b = builder.const("b", rng.integers(-bias, bias + 1, OUTPUTS).astype(np.int32))
    shape = (*size, OUTPUTS) if kind == "depthwise" else (OUTPUTS, *size, channels)
    w = builder.const("w", rng.integers(-127, 128, shape).astype(np.int8))
    conv = entry.depthwise_conv2d if kind == "depthwise" else entry.conv2d
    acc = conv(x, w, b, **attrs, **({"multiplier": 1} if kind == "depthwise" else {"groups": 1}))
    mult = builder.const("mult", rng.integers(1 << 30, (1 << 31) - 1, OUTPUTS).astype(np.int32))
    shift = builder.const("shift", np.asarray(shifts, np.int32))
    bounds = {"lo": -128, "hi": 127, "shift_lo": min(shifts), "shift_hi": max(shifts), "acc_bits": 31}
    entry.output("y", entry.requantize(acc, mult, shift, out="i8", zp=zp, **bounds))
    return builder.module()


def lowered(module: Module) -> Module:
    return lower_module(module, default_passes(load_board("nucleo_l4r5zi"), BuildOptions()))


def scales(loops: Loops) -> list[Scale]:
    return [step for p in loops.params for step in p.layout.steps if isinstance(step, Scale)]


@pytest.mark.some(22)
@pytest.mark.parametrize("zp", [-128, 5, -127])
@pytest.mark.parametrize("kind", ["depthwise", "pointwise", "rows"])
@pytest.mark.parametrize(
    "shifts",
    [
        [-7] * 6,
        [-9, -8, -7, -6, -5, -4],
        [-3, -9, -4, -4, -4, -4],
        [-13, -7, -7, -8, -8, -8],
        [-1, -2, -3, -4, -9, -16],
    ],
    ids=str,
)
def test_results_stay(kind: str, shifts: list[int], zp: int) -> None:
    module = layer(kind, shifts, zp)
    planned = lowered(module)
    (loops,) = planned.loops.values()
    (scale,) = scales(loops)
    assert bool(scale.by) == (max(shifts) - min(shifts) <= 6)
    x = np.random.default_rng(1).integers(-128, 128, module.graphs["main"].params[0].type.shape).astype(np.int8)
    (plan,) = planned.plans.values()
    (want,) = run_graph(module, "main", {"x": x}).values()
    found = run_plan(planned, plan.name, {plan.inputs[0]: x})
    np.testing.assert_array_equal(found[plan.outputs[0]], want)


def test_sums_that_fill_their_bits_are_shifted_as_before() -> None:
    (loops,) = lowered(layer("depthwise", [-8] * 6, -128, bias=1 << 26)).loops.values()
    assert not scales(loops)


def test_obligations() -> None:
    (loops,) = lowered(layer("pointwise", [-8] * 6, -128)).loops.values()
    with pytest.raises(ScheduleError, match="not multiplied and added to one sum alone"):
        Schedule(loops).shift_sums("w", 0)  # the shift is gone
    plain = replace(loops, params=tuple(replace(p, layout=Layout()) for p in loops.params))
    with pytest.raises(ScheduleError, match="not kept in 16 bits"):
        Schedule(plain).shift_sums("w", 0)
