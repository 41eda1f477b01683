"""Depthwise windows of integers in pairs of products: multipliers, dilations, strides and rows of any length."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from whole_and_rows import computes

from sdk.compiler.analysis.row_calls import by_rows
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.types import I8, I16, I32, I64, TensorType
from sdk.compiler.machines.lookup import MACHINES
from sdk.compiler.machines.nest import Nest
from sdk.compiler.ops import OPS, infer
from sdk.compiler.schedules.rules import rule_for
from sdk.compiler.schedules.trace import replay

DSP = next(m for m in MACHINES if m.name == "dsp")
PAIRS = replace(DSP, rules=tuple(rule for rule in DSP.rules if rule.name != "direct-window"))
# width, channels, multiplier, kernel, stride, dilation
CASES = [
    *((w, 3, m, (3, 3), (1, 1), (1, 1)) for w, m in product((2, 5, 9, 14), (2, 3))),
    *((w, 5, 1, (3, 3), (1, 1), d) for w, d in product((4, 5, 7, 14), ((2, 2), (4, 4), (1, 3)))),
    *((w, 5, 1, (3, 3), s, (1, 1)) for w, s in product((7, 13, 20), ((2, 2), (1, 3), (2, 1)))),
    (13, 4, 2, (1, 5), (1, 2), (1, 3)),
    (13, 4, 2, (3, 2), (2, 2), (2, 4)),
    (19, 4, 1, (3, 3), (3, 2), (2, 6)),
    (11, 6, 4, (5, 5), (1, 1), (2, 2)),
]


@pytest.mark.some(33)
@pytest.mark.parametrize("wide", [False, True], ids=["bytes", "halves"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_pairs_of_products_are_the_windows(case: Any, wide: bool) -> None:
    width, channels, several, kernel, stride, dilation = case
    before = tuple((k - 1) * d // 2 for k, d in zip(kernel, dilation, strict=True))
    attrs: dict[str, Any] = {"stride": stride, "dilation": dilation, "pad": before * 2, "multiplier": several}
    attrs |= {"pad_value": 0 if wide else 5, "x_offset": 0}
    outputs, rng = channels * several, np.random.default_rng(width)
    kinds = (I16, I64) if wide else (I8, I32)
    types = (
        TensorType(kinds[0], (1, 13, width, channels)), TensorType(I8, (*kernel, outputs)),
        TensorType(kinds[1], (outputs,)),
    )  # fmt: skip
    low = kinds[0].limits[0]
    x = rng.integers(low, -low, types[0].static_shape).astype(kinds[0].numpy)
    weights = rng.integers(-128, 128, types[1].static_shape).astype(np.int8)
    bias = rng.integers(-999, 999, outputs).astype(kinds[1].numpy)
    op = OPS["depthwise_conv2d"]
    assert op.loops is not None
    loops = op.loops("f", types, infer("depthwise_conv2d", types, tuple(attrs.items())), attrs)
    want = op.reference(x, weights, bias, **attrs)
    rule, done = rule_for(Nest(loops), PAIRS)
    if not wide:
        assert rule is not None
        assert rule.name == "pair-window"
        assert replay(loops, done.trace) == done
    arrays = computes(done, {"x": x, "w": weights, "b": bias}, want)
    arrays["o"] = np.full(want.shape, 99, want.dtype)
    run_loops(by_rows(done), arrays)
    np.testing.assert_array_equal(arrays["o"], want)
