"""What commands tell of models on a GPU: lavapipe, in agents of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sdk import driver
from sdk.boards import load_board
from sdk.driver import BuildOptions, finding
from sdk.driver.artifact import build_sources
from sdk.errors import SdkError, UsageError
from tests.gpu.conftest import DRIVERS, VENDORS
from tests.gpu.work import model

LONG = 70_000  # steps of one work item, which is more than Vulkan drivers are sure to do
NET = """module net imported

graph @main(%x: f32[2, LONG], %y: f32[64, 64]) {
  %r = reduce_sum(%x) {axes = (1,)} : f32[2, 1]
  %m = matmul(%y, %y) : f32[64, 64]
  %s = softmax(%m) : f32[64, 64]
  return %r, %s
}
""".replace("LONG", str(LONG))


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VK_ICD_FILENAMES", DRIVERS)
    monkeypatch.setenv("OCL_ICD_VENDORS", VENDORS)
    return model(NET, tmp_path)


def test_steps_that_the_processor_does_are_told(net: Path) -> None:
    inputs = {"x": np.ones((2, LONG), np.float32), "y": np.eye(64, dtype=np.float32)}
    result = driver.run(net, load_board("host"), None, BuildOptions(gpu="vulkan"), {}, inputs)
    assert np.allclose(result.outputs["r"], LONG)
    (note,) = result.notes
    assert note.startswith("step 0 of main, reduce_sum, runs on the processor: a work item of 70001 steps of loops")
    assert result.to_json()["notes"] == [note]


def test_a_profile_has_what_the_device_took_for_each_operation(net: Path) -> None:
    report = driver.profile(net, load_board("host"), None, BuildOptions(gpu="vulkan"), {}, repeat=3)
    assert [op.name for op in report.ops] == ["reduce_sum", "matmul", "softmax"]
    assert all(op.median_us is not None and op.median_us > 0 for op in report.ops)
    assert all(op.calls == 1 for op in report.ops)
    assert 0 < report.covered <= 1.001
    assert report.peak is not None
    assert report.peak.source.startswith("measured here on llvmpipe")
    assert report.peak.macs > 0 < report.peak.bytes
    assert any("runs on the processor" in note for note in report.notes)


def test_builds_for_two_interfaces_are_two(net: Path) -> None:
    made = {
        gpu: build_sources(net, load_board("host"), BuildOptions(gpu=gpu)).sources for gpu in ("opencl", "vulkan")
    }
    assert "sdk_rt_gpu_opencl.c" in made["opencl"].model
    assert "sdk_rt_gpu_vulkan.c" in made["vulkan"].model


def test_kernels_are_a_stage(net: Path) -> None:
    host = load_board("host")
    text = driver.inspect(net, host, BuildOptions(gpu="vulkan"), "kernels")
    assert "kernel 0 net_matmul" in text
    assert 'bind axis "global.x"' in text
    assert "no kernel of reduce_sum: a work item of 70001 steps of loops" in text
    assert "__kernel void net_matmul" in driver.inspect(net, host, BuildOptions(gpu="opencl"), "kernels")
    with pytest.raises(UsageError, match="a build for the processor has no kernels"):
        driver.inspect(net, host, BuildOptions(), "kernels")
    assert driver.inspect(net, host, BuildOptions(gpu="vulkan"), "scheduled").startswith("module net")


def test_boards_with_a_gpu_have_items_work_together(net: Path) -> None:
    host, board = load_board("host"), load_board("rock_5b")
    assert "barrier(" in driver.inspect(net, board, BuildOptions(gpu="opencl"), "kernels")
    assert "barrier(" not in driver.inspect(net, host, BuildOptions(gpu="opencl"), "kernels")
    long = driver.inspect(net, board, BuildOptions(gpu="vulkan"), "kernels")
    assert "no kernel" not in long  # 70001 steps are few for each item of a group


def test_gpus_are_among_the_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = {"opencl": ("one", "two")}

    def gpus(interface: str) -> tuple[str, ...]:
        if interface not in lines:
            raise SdkError("no library")
        return lines[interface]

    monkeypatch.setattr(finding, "gpus", gpus)
    finding._gpus.cache_clear()
    try:
        found = [one.name for one in driver.attached(0.1).devices if one.name.startswith("--gpu")]
    finally:
        finding._gpus.cache_clear()
    assert found == ["--gpu opencl: one", "--gpu opencl: two"]
