"""The rows of GPUs by maker, forced on the drivers that there are: results are right, and they ask for little."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdk.codegen_c.gpu.grid import parts_of, work_items
from sdk.codegen_c.gpu.steps import all_rows
from sdk.compiler.ir.loops import Alloc
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.gpus.lookup import GPUS, row_of
from sdk.compiler.sym import max_value
from tests.gpu.test_gpu_schedules import SWEEP, by_rule, nest
from tests.gpu.work import compare, model

DEVICES = {
    "Adreno (TM) 750": "adreno", "Mali-G610": "mali", "Immortalis-G715": "mali", "PowerVR Rogue GE8320": "powervr",
    "V3D 7.1.7": "videocore", "Apple M2": "apple", "NVIDIA GeForce RTX 3060": "nvidia",
    "AMD Radeon RX 6800 XT (RADV NAVI21)": "amd", "Intel(R) Arc(tm) A770 Graphics (DG2)": "intel", "Some GPU": "groups",
}  # fmt: skip
FORCED = ["Adreno", "Mali", "PowerVR", "VideoCore", "Apple", "NVIDIA"]  # AMD is as NVIDIA, Intel as Apple
SHARED, ITEMS = 16384, 128
NET = """module net imported

const @w: f32[40, 3, 3, 24] = blob
const @b: f32[40] = blob
const @m: f32[40, 56] = blob

graph @main<n in 1..3>(%x: f32[n, 9, 7, 24], %y: f32[1, 56]) {
  %c = conv2d(%x, @w, @b) {stride = (1, 1), pad = (1, 1, 1, 1), dilation = (1, 1)} : f32[n, 9, 7, 40]
  %r = relu(%c) : f32[n, 9, 7, 40]
  %p = matmul(%r, @m) : f32[n, 9, 7, 56]
  %s = softmax(%p) : f32[n, 9, 7, 56]
  %t = transpose(@m) {perm = (1, 0)} : f32[56, 40]
  %v = matmul(%y, %t) : f32[1, 40]
  return %s, %v
}
"""


def filled(text: str) -> str:
    """The model with numbers for its constants."""
    rng = np.random.default_rng(2)
    for size in (40 * 9 * 24, 40, 40 * 56):
        text = text.replace("blob", "[" + ", ".join(map(str, rng.uniform(-0.2, 0.2, size).round(3))) + "]", 1)
    return text


def agree(driver: Any, gpu: str, device: str, folder: Path) -> None:
    options = {"gpu": gpu, "device": device}
    status, told, apart, _ = driver(compare, model(filled(NET), folder), folder, [{"n": 1}, {"n": 3}], options)
    assert (status, told) == (0, "")
    assert 0 <= min(min(one) for one in apart) <= max(max(one) for one in apart) <= 1e-4


@pytest.mark.parametrize(("gpu", "device"), [("vulkan", "Mali"), ("opencl", "NVIDIA")])
def test_kernels_of_a_maker_are_right(pocl: Any, gpu: str, device: str, tmp_path: Path) -> None:
    agree(pocl, gpu, device, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["vulkan", "opencl"])
@pytest.mark.parametrize("device", FORCED)
def test_kernels_of_all_makers_are_right(pocl: Any, gpu: str, device: str, tmp_path: Path) -> None:
    agree(pocl, gpu, device, tmp_path)


def test_names_of_devices_find_their_rows() -> None:
    for interface in ("opencl", "vulkan"):
        assert {name: row_of(interface, name) for name in DEVICES} == {
            name: f"{interface}-{row}" for name, row in DEVICES.items()
        }
        assert row_of(interface, None) == interface
    assert row_of("webgpu", "Apple M2") == "webgpu"


@pytest.mark.parametrize("row", [f"vulkan-{DEVICES[name]}" for name in DEVICES if name.startswith(tuple(FORCED))])
def test_what_a_row_asks_for_is_had_by_every_device(row: str) -> None:
    """Groups of at most 128 items, which Vulkan promises, and half of what Adreno shares."""
    made = 0
    for name, sample in SWEEP[::4]:
        for part in parts_of(all_rows(nest(name, sample))):
            made += by_rule(part, GPUS[row]) is not None
            grid = by_rule(part, GPUS[row]) or work_items(part)
            assert int(np.prod(grid.local)) <= ITEMS
            held = [n.buffer for n in walk(grid.loops.body) if isinstance(n, Alloc) and n.buffer.space == "local"]
            assert sum((max_value(b.type.size) or 0) * max(b.dtype.nbytes, 4) for b in held) <= SHARED, (name, sample)
    assert made > 4
