"""Pointwise products of few channels: the channels of staged pixels are the taps of a window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sdk.compiler.analysis.row_calls import drop_single_trips, loops_of_product
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.packing import pack_array
from sdk.compiler.ir.types import I8, I32, TensorType
from sdk.compiler.machines.lookup import MACHINES
from sdk.compiler.machines.nest import Nest
from sdk.compiler.ops import OPS, infer
from sdk.compiler.schedules.rules import rule_for
from sdk.compiler.schedules.trace import replay
from sdk.compiler.verify.loops import verify_loops

DSP = next(m for m in MACHINES if m.name == "dsp")


@pytest.mark.parametrize("stride", [(1, 1), (2, 3)], ids=str)
@pytest.mark.parametrize("depth", [1, 2, 3, 7])
@pytest.mark.parametrize("width", [4, 7, 13, 61])
def test_channels_of_pixels_are_taps(width: int, depth: int, stride: Any) -> None:
    attrs: dict[str, Any] = {"stride": stride, "dilation": (1, 1), "pad": (0,) * 4, "pad_value": 0, "x_offset": 0}
    types = (TensorType(I8, (1, 61, width, depth)), TensorType(I8, (6, 1, 1, depth)), TensorType(I32, (6,)))
    rng = np.random.default_rng(width * depth)
    x, weights = (rng.integers(-128, 128, t.static_shape).astype(np.int8) for t in types[:2])
    bias, op = rng.integers(-999, 999, 6).astype(np.int32), OPS["conv2d"]
    assert op.loops is not None
    loops = op.loops("f", types, infer("conv2d", types, tuple(attrs.items())), attrs)
    loops = drop_single_trips(loops, loops_of_product(loops))
    want = op.reference(x, weights, bias, **attrs)
    rule, done = rule_for(Nest(loops), DSP)
    assert rule is not None
    assert rule.name == "point-rows"
    assert replay(loops, done.trace) == done
    problems: list[str] = []
    verify_loops(done, lambda where, message: problems.append(f"{where}: {message}"))
    assert problems == []
    arrays = {"x": x, "w": weights, "b": bias}
    for name, layout in done.layouts.items():
        arrays[name] = pack_array(arrays[name], layout)
    rows = want.shape[1]
    for lo, hi in ((0, rows), (rows // 3, rows - 1)):
        arrays["o"] = np.full(want.shape, 99, want.dtype)
        run_loops(done, arrays, rows=(lo, hi))
        np.testing.assert_array_equal(arrays["o"][:, lo:hi], want[:, lo:hi])
