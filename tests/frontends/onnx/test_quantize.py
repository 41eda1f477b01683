"""Quantised tensors and the operators on them: every node case of ONNX."""

from __future__ import annotations

import re

import pytest
from node_cases import cases_of, check

QUANTISED = (
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger",
    "MatMulInteger",
)  # fmt: skip
FOREIGN = re.compile("e4m3|e5m2|int4|int2|float4")  # elements of types that we do not have


@pytest.mark.parametrize("name", [n for n in cases_of(*QUANTISED) if not FOREIGN.search(n)])
def test_node_case(name: str) -> None:
    check(name)
