"""Convolutions and poolings: every node case of ONNX."""

from __future__ import annotations

import pytest
from node_cases import cases_of, check

IMAGES = (
    "Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool",
    "BatchNormalization", "DepthToSpace", "SpaceToDepth",
)  # fmt: skip
TRAINING = [name for name in cases_of(*IMAGES) if "training" in name]


@pytest.mark.parametrize("name", [n for n in cases_of(*IMAGES) if n not in TRAINING])
def test_node_case(name: str) -> None:
    check(name)
