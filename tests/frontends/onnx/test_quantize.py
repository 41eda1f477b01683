"""Quantised tensors and the operators on them: every node case of ONNX."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from harness import one_node
from node_cases import cases_of, check

from sdk.errors import BuildError
from sdk.frontends.onnx.importer import import_onnx

QUANTISED = (
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger",
    "MatMulInteger",
)  # fmt: skip
FOREIGN = re.compile("e4m3|e5m2|int4|int2|float4")  # elements of types that we do not have


@pytest.mark.parametrize("name", [n for n in cases_of(*QUANTISED) if not FOREIGN.search(n)])
def test_node_case(name: str) -> None:
    check(name)


BAD = (math.nan, math.inf, 0.0, -0.5)
BYTES, ONE = np.zeros((2, 4), np.int8), np.zeros((), np.int8)
# an operator, its inputs with "s" for the scale that is bad, the scale's number
SCALED = {
    "DequantizeLinear": ([BYTES, "s", ONE], 1),
    "QuantizeLinear": ([BYTES.astype(np.float32), "s", ONE], 1),
    "QLinearMatMul": ([BYTES, np.float32(0.5), ONE, BYTES.T, "s", ONE, np.float32(0.5), ONE], 4),
    "QLinearConv": (
        [BYTES.reshape(1, 2, 2, 2), "s", ONE, BYTES.reshape(4, 2, 1, 1), np.float32(1), ONE, np.float32(1), ONE], 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("scale", BAD)
@pytest.mark.parametrize("op", SCALED)
def test_scales_that_nothing_can_be_divided_by_are_refused(op: str, scale: float) -> None:
    inputs, number = SCALED[op]
    arrays = {f"i{k}": np.asarray(np.float32(scale) if isinstance(v, str) else v) for k, v in enumerate(inputs)}
    model = one_node(op, arrays, constants=[n for n in arrays if n != "i0"])
    with pytest.raises(BuildError) as refused:
        import_onnx(model, "test")
    text = f"{refused.value.message} {refused.value.where}"
    assert f"the_{op}" in text
    assert f"the scale of input {number - 1} is {np.float32(scale)}" in text


def test_one_bad_scale_among_those_of_channels_is_refused() -> None:
    scales = np.array([0.5, 0.25, np.nan, 1], np.float32)
    arrays = {"x": BYTES, "s": scales, "z": np.zeros(4, np.int8)}
    with pytest.raises(BuildError) as refused:
        import_onnx(one_node("DequantizeLinear", arrays, constants=["s", "z"], axis=1), "test")
    assert "the scale of input 0 is nan" in f"{refused.value.where}"
