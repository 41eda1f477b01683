"""Networks that people run, on PoCL and lavapipe, against the same program without a GPU."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.work import compare, converse

DECODER = Path(__file__).resolve().parents[2] / "examples" / "llama" / "decoder.py"

SEQ = {"dims": {"seq": (1, 256), "batch": (1, 2)}}
SIZE = {"dims": {"height": (32, 96), "width": (32, 96)}}
STATIC = {"dims": {"height": (64, 64), "width": (48, 48)}}
SIZES = [{"height": 33, "width": 47}, {"height": 64, "width": 32}]
NETS: dict[str, tuple[str, list[dict[str, int]], dict[str, Any]]] = {
    "mobilenetv2": ("mobilenetv2", [{}], {}),
    "mobilenetv2 of any size": ("mobilenetv2_size", SIZES, SIZE),
    "resnet50": ("resnet50_size", [{}], STATIC),  # of 224 x 224 it takes a driver in software minutes
    "resnet50 of any size": ("resnet50_size", SIZES, SIZE),
    "unet": ("unet", [{}], {}),
    "lstm": ("lstm", [{"steps": 10}, {"steps": 3}], {"dims": {"steps": (1, 16)}}),
    "gru": ("gru", [{"steps": 10}, {"steps": 3}], {"dims": {"steps": (1, 16)}}),
    "encoder": ("encoder_small", [{"seq": n, "batch": 1} for n in (1, 7, 64, 255, 256)], SEQ),
}


def integers(models: Path) -> list[Path]:
    """The models of 8-bit integers: those in which no operator is of reals."""
    reals = ("float", "fp32", "pretrainedResnet.tflite", "README")
    return [path for path in sorted(models.iterdir()) if not any(word in path.name for word in reals)]


def decoder(folder: Path) -> Path:
    """The example's decoder as a program, in a folder."""
    from sdk.driver.program import save_program

    spec = importlib.util.spec_from_file_location("decoder", DECODER)
    assert spec is not None
    assert spec.loader is not None
    sys.modules["decoder"] = module = importlib.util.module_from_spec(spec)  # dataclasses look their module up
    spec.loader.exec_module(module)
    save_program(module.build(module.Config(cache=(8, 40))), folder / "decoder.ir")
    return folder / "decoder.ir"


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["opencl", "vulkan"])
@pytest.mark.parametrize("name", NETS)
def test_floats_are_near(pocl, name: str, gpu: str, tmp_path: Path) -> None:
    from zoo.export import path_of

    net, dims, options = NETS[name]
    status, told, apart, (recorded, again) = pocl(compare, path_of(net), tmp_path, dims, {"gpu": gpu, **options})
    assert (status, told) == (0, "")
    assert max(max(one) for one in apart) <= 1e-4
    assert min(min(one) for one in apart) >= 0
    assert recorded == again


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["opencl", "vulkan"])
@pytest.mark.parametrize("name", ["mobilenetv2", "lstm", "encoder"])
def test_floats_are_near_where_groups_work_together(pocl, name: str, gpu: str, tmp_path: Path) -> None:
    from zoo.export import path_of

    net, dims, options = NETS[name]
    status, told, apart, _ = pocl(compare, path_of(net), tmp_path, dims, {"gpu": gpu, "groups": True, **options})
    assert (status, told) == (0, "")
    assert max(max(one) for one in apart) <= 1e-4
    assert min(min(one) for one in apart) >= 0


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["opencl", "vulkan"])
def test_a_decoder_keeps_its_states_on_the_device(pocl, gpu: str, tmp_path: Path) -> None:
    """Prefill, then 64 steps, with caches that wrap: one recording each; the position is read from a buffer."""
    status, told, apart, recorded = pocl(converse, decoder(tmp_path), tmp_path, 24, 64, {"gpu": gpu})
    assert (status, told) == (0, "")
    assert len(apart) == 65
    assert max(apart) <= 1e-4
    assert recorded == 2


@pytest.mark.slow
@pytest.mark.models
@pytest.mark.parametrize("gpu", ["opencl", "vulkan"])
def test_integers_are_the_same_to_the_bit(pocl, models: Path, gpu: str, tmp_path: Path) -> None:
    for path in integers(models):
        status, told, apart, _ = pocl(compare, path, tmp_path, [{}], {"gpu": gpu})
        assert (path.name, status, told) == (path.name, 0, "")
        assert all(value == 0 for one in apart for value in one), path.name
