"""Convolutions and poolings: every node case of ONNX."""

from __future__ import annotations

import numpy as np
import pytest
from harness import compare
from node_cases import cases_of, check

IMAGES = (
    "Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool",
    "BatchNormalization", "DepthToSpace", "SpaceToDepth",
)  # fmt: skip
TRAINING = [name for name in cases_of(*IMAGES) if "training" in name]


@pytest.mark.parametrize("name", [n for n in cases_of(*IMAGES) if n not in TRAINING])
def test_node_case(name: str) -> None:
    check(name)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("auto_pad", ["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("size", "kernel", "stride"), [(4, 2, 3), (5, 3, 3), (7, 2, 3), (4, 3, 2), (3, 1, 2)])
def test_windows_of_ceil_mode(op: str, auto_pad: str, size: int, kernel: int, stride: int) -> None:
    x = np.arange(2.0 * size, dtype=np.float32).reshape(1, 1, 2, size)
    compare(op, {"x": x}, kernel_shape=[1, kernel], strides=[1, stride], auto_pad=auto_pad, ceil_mode=1)
