"""Convolutions and poolings: every node case of ONNX."""

from __future__ import annotations

import numpy as np
import pytest
from harness import compare, one_node
from node_cases import cases_of, check

from sdk.errors import BuildError
from sdk.frontends.onnx.importer import import_onnx

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


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(("size", "kernel", "stride", "dilation"), [(1, 2, 1, 1), (1, 3, 2, 1), (2, 2, 2, 3)])
def test_a_window_too_large_for_ceil_mode_is_refused(
    op: str, size: int, kernel: int, stride: int, dilation: int
) -> None:
    """onnxruntime makes a tensor of no elements; there was one of one window."""
    how = {"kernel_shape": [kernel], "strides": [stride], "dilations": [dilation], "ceil_mode": 1}
    model = one_node(op, {"x": np.ones((1, 1, size), np.float32)}, opset=21, **how)
    with pytest.raises(BuildError) as error:
        import_onnx(model, "test")
    assert f"a window of {kernel} does not fit into {size}" in str(error.value)


def test_a_large_window_fits_where_ceil_mode_rounds_up() -> None:
    compare("MaxPool", {"x": np.ones((1, 1, 2), np.float32)}, kernel_shape=[4], strides=[3], ceil_mode=1)
