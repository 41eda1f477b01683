"""Networks that people run, on PoCL and lavapipe, against the same program without a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.gpu.work import compare

SEQ = {"dims": {"seq": (1, 64), "batch": (1, 2)}}
NETS: dict[str, tuple[list[dict[str, int]], dict[str, Any]]] = {
    "mobilenetv2": ([{}], {}),
    "unet": ([{}], {}),
    "lstm": ([{"steps": 10}, {"steps": 3}], {"dims": {"steps": (1, 16)}}),
    "encoder_small": ([{"seq": 1, "batch": 1}, {"seq": 7, "batch": 2}, {"seq": 64, "batch": 1}], SEQ),
}


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["opencl", "vulkan"])
@pytest.mark.parametrize("name", NETS)
def test_floats_are_near(pocl, name: str, gpu: str, tmp_path: Path) -> None:
    from zoo.export import path_of

    dims, options = NETS[name]
    status, told, apart, (recorded, again) = pocl(compare, path_of(name), tmp_path, dims, {"gpu": gpu, **options})
    assert (status, told) == (0, "")
    assert max(max(one) for one in apart) <= 1e-4
    assert min(min(one) for one in apart) >= 0
    assert recorded == again


@pytest.mark.slow
@pytest.mark.models
@pytest.mark.parametrize("gpu", ["opencl", "vulkan"])
def test_integers_are_the_same_to_the_bit(pocl, models: Path, gpu: str, tmp_path: Path) -> None:
    for path in sorted(models.glob("*int8*.tflite")) + sorted(models.glob("*quant*.tflite")):
        status, told, apart, _ = pocl(compare, path, tmp_path, [{}], {"gpu": gpu})
        assert (path.name, status, told) == (path.name, 0, "")
        assert all(value == 0 for one in apart for value in one), path.name
