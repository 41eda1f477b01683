"""Operators that read images at computed places, against onnxruntime and ONNX's reference."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from harness import compare, one_node

from sdk.errors import BuildError
from sdk.frontends.onnx.importer import import_onnx

RNG = np.random.default_rng(7)
IMAGE = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)
# far outside, at borders, between elements
GRID = (RNG.standard_normal((2, 3, 6, 2)) * 1.7).astype(np.float32)
GRID[0, 0, :4] = [[-1, 1], [1, -1], [0, 0], [-9, 7.25]]


@pytest.mark.parametrize(
    ("mode", "padding", "aligned"),
    list(product(("linear", "nearest", "cubic"), ("zeros", "border", "reflection"), (0, 1))),
)
def test_grid_sample(mode: str, padding: str, aligned: int) -> None:
    how = {"mode": mode, "padding_mode": padding, "align_corners": aligned}
    compare("GridSample", {"x": IMAGE, "grid": GRID}, opset=20, **how)


def test_grid_sample_of_volumes_and_of_open_sizes() -> None:
    volume = RNG.standard_normal((1, 2, 3, 4, 5)).astype(np.float32)
    grid = RNG.standard_normal((1, 2, 2, 3, 3)).astype(np.float32)
    for mode in ("linear", "nearest"):
        compare("GridSample", {"x": volume, "grid": grid}, opset=20, mode=mode, padding_mode="reflection")
    shapes = {"x": [2, 3, "h", "w"], "grid": [2, "p", 6, 2]}
    for padding in ("zeros", "reflection"):
        compare(
            "GridSample", {"x": IMAGE, "grid": GRID}, opset=20, padding_mode=padding, shapes=shapes,
            dims={"h": (2, 9), "w": (2, 9), "p": (1, 4)},
        )  # fmt: skip


def test_grid_sample_of_one_element() -> None:
    one = np.full((2, 1, 1, 1), 3.0, np.float32)
    for padding in ("zeros", "border"):
        compare("GridSample", {"x": one, "grid": GRID}, opset=20, padding_mode=padding, align_corners=1)
    compare("GridSample", {"x": one, "grid": GRID}, opset=20, padding_mode="reflection", align_corners=0)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("place", ["half_pixel", "output_half_pixel"])
def test_roi_align(mode: str, place: str) -> None:
    rois = np.array([[0, 0, 8, 6], [3, 2, 4, 9], [-9, -9, -5, -4], [2, 1, 2, 1]], np.float32)
    compare(
        "RoiAlign", {"x": np.abs(IMAGE), "rois": rois, "b": np.array([1, 0, 1, 0])}, mode=mode, output_height=2,
        output_width=3, sampling_ratio=2, spatial_scale=0.5, coordinate_transformation_mode=place,
    )  # fmt: skip


def test_roi_align_whose_samples_depend_on_regions_is_refused() -> None:
    model = one_node("RoiAlign", {"x": IMAGE, "rois": np.zeros((1, 4), np.float32), "b": np.array([0])})
    with pytest.raises(BuildError) as error:
        import_onnx(model, "m")
    assert "sampling_ratio" in str(error.value)


@pytest.mark.parametrize(("groups", "sets"), [(1, 1), (2, 1), (1, 2), (2, 4)])
def test_deform_conv(groups: int, sets: int) -> None:
    x = RNG.standard_normal((2, 4, 6, 7)).astype(np.float32)
    w = RNG.standard_normal((6, 4 // groups, 3, 2)).astype(np.float32)
    offset = RNG.standard_normal((2, sets * 12, 3, 4)).astype(np.float32) * 2
    mask = RNG.random((2, sets * 6, 3, 4)).astype(np.float32)
    inputs = {"x": x, "w": w, "o": offset, "b": np.ones(6, np.float32), "m": mask}
    how = {"strides": [2, 2], "pads": [1, 0, 1, 2], "dilations": [1, 2], "group": groups, "offset_group": sets}
    compare("DeformConv", inputs, against="onnx", opset=19, constants=["w"], **how)
