"""Resizing: every node case of ONNX, and open sizes against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from harness import compare
from node_cases import cases_of, check

# onnxruntime, and we, align the corners of the sizes that there are; the cases those of scale * size, a fraction
OTHER_CORNERS = ("resize_downsample_scales_cubic_align_corners", "resize_downsample_scales_linear_align_corners")


@pytest.mark.parametrize("name", [n for n in cases_of("Resize", "Upsample") if n not in OTHER_CORNERS])
def test_node_case(name: str) -> None:
    check(name, known=(1, 2, 3))


IMAGE = np.random.default_rng(3).standard_normal((1, 2, 5, 6)).astype(np.float32)
OPEN = {"shapes": {"x": (1, 2, "h", "w")}, "dims": {"h": (2, 9), "w": (2, 9)}}


@pytest.mark.parametrize("sizes", [(10, 12), (15, 9), (5, 6)])
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_open_sizes_by_scale(mode: str, coordinates: str, sizes: tuple[int, int]) -> None:
    scales = np.array([1, 1, sizes[0] / 5, sizes[1] / 6], np.float32)
    compare(
        "Resize", {"x": IMAGE, "scales": scales}, order=["x", "", "scales"], constants=["scales"], mode=mode,
        coordinate_transformation_mode=coordinates, **OPEN,
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_open_sizes_to_a_fixed_one(mode: str) -> None:
    sizes = np.array([1, 2, 7, 4], np.int64)
    compare(
        "Resize", {"x": IMAGE, "sizes": sizes}, order=["x", "", "", "sizes"], constants=["sizes"], mode=mode, **OPEN
    )


@pytest.mark.parametrize("given", [{"scales": np.array([1, 1, 0.25, 1 / 3], np.float32)}, {"sizes": (1, 2, 1, 1)}])
@pytest.mark.parametrize("how", [{}, OPEN], ids=["fixed", "open"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_an_axis_of_one_takes_its_first_element(mode: str, how: dict[str, object], given: dict[str, object]) -> None:
    ((name, value),) = given.items()
    order = ["x", "", name] if name == "scales" else ["x", "", "", name]
    more = {name: np.asarray(value, np.float32 if name == "scales" else np.int64)}
    compare(
        "Resize", {"x": IMAGE, **more}, order=order, constants=[name], mode=mode,
        coordinate_transformation_mode="pytorch_half_pixel", **how,
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsample(mode: str) -> None:
    scales = np.array([1, 1, 2, 3], np.float32)
    compare("Upsample", {"x": IMAGE, "scales": scales}, constants=["scales"], mode=mode, opset=9, **OPEN)


@pytest.mark.parametrize(("size", "scale"), [(10, 0.7), (5, 2.6), (3, 1.9999999), (7, 0.3), (13, 1.1)])
def test_products_of_sizes_and_scales_are_those_of_single_precision(size: int, scale: float) -> None:
    given = {"x": np.arange(size, dtype=np.float32)[None, None], "scales": np.array([1, 1, scale], np.float32)}
    compare("Resize", given, order=["x", "", "scales"], constants=["scales"], mode="linear")
