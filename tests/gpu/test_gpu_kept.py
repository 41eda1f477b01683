"""What is kept of a model in a folder: kernels and verdicts, damage to them, drivers that crash over a kernel."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.work import damaged, kept, model

SMALL = """module net imported

const @w: f32[4, 3] = [0.5, -1.0, 2.0, 0.25, 0.0, -0.5, 1.5, 3.0, -2.0, 1.0, 0.75, -0.25]

graph @main<n in 1..70>(%x: f32[n, 4]) {
  %h = matmul(%x, @w) : f32[n, 3]
  %s = softmax(%h) : f32[n, 3]
  return %s
}
"""
CRASHED = "runs on the processor: the driver did not return from it in earlier starts"
Lying = Callable[..., Any]


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model; what is built of it for each interface lies in folders beside it."""
    file = model(SMALL, tmp_path_factory.mktemp("net"))
    for gpu in ("opencl", "vulkan"):
        (file.parent / gpu).mkdir()
    return file


@pytest.fixture(params=[pytest.param("opencl", marks=pytest.mark.slow), "vulkan"])
def driver(request: pytest.FixtureRequest, net: Path, lying: Lying, lying_vulkan: Lying) -> tuple[str, Lying]:
    """An interface, and ``lie(lie, keep)``: what comes of the model where its library lies."""
    gpu, call = request.param, lying if request.param == "opencl" else lying_vulkan
    return gpu, lambda lie, keep: call(lie, kept, net, net.parent / gpu, keep, {"gpu": gpu})


@pytest.fixture
def keep(tmp_path: Path) -> Path:
    """A folder to keep things in."""
    (tmp_path / "keep").mkdir()
    return tmp_path / "keep"


def fine(got: tuple[int, str, list[list[float]]]) -> str:
    """What was said of a model that runs and is right."""
    status, told, apart = got
    assert status == 0, told
    assert 0 <= max(max(one) for one in apart) <= 1e-4
    return told


def test_kernels_are_kept_and_proved_once(driver: tuple[str, Lying], keep: Path) -> None:
    gpu, lie = driver
    keep.rmdir()
    assert fine(lie("", keep)) == ""  # a folder that is not there: nothing is kept
    assert not keep.exists()
    keep.mkdir()
    fine(lie("", keep))
    (file,) = keep.iterdir()
    assert file.stat().st_size > 100  # lavapipe has no more than a start of what it compiled
    before = file.read_bytes()
    # the second start neither compiles from source nor proves: a driver that fails there is not met
    status, told, _ = lie("build=net_matmul" if gpu == "opencl" else "kernel=1", keep)
    assert (status, told) == (0, "")
    assert file.read_bytes() == before
    # without what is kept it is
    file.unlink()
    told = fine(lie("build=net_matmul" if gpu == "opencl" else "kernel=1", keep))
    assert "the driver does not compile it" in told or "its results on the device are not those" in told
    # and the verdict is kept too, for this driver says what it was
    assert fine(lie("", keep)) == told
    # another device has its own
    assert "more than the device has" in fine(lie("limits", keep))
    assert len([*keep.iterdir()]) == 2


def test_what_is_kept_does_not_depend_on_how_much_memory_is_free(net: Path, lying: Lying, keep: Path) -> None:
    given = (kept, net, net.parent / "opencl", keep, {"gpu": "opencl"})
    fine(lying("", *given))
    (file,) = keep.iterdir()
    before = file.read_bytes()
    assert fine(lying("free", *given)) == ""
    assert [file] == [*keep.iterdir()]
    assert file.read_bytes() == before


def test_what_is_damaged_is_thrown_away(net: Path, lying_vulkan: Lying, keep: Path) -> None:
    assert lying_vulkan("", damaged, net, net.parent / "vulkan", keep, 40, {"gpu": "vulkan"}) == []


def test_a_compiled_kernel_that_the_driver_refuses_is_made_anew(net: Path, lying: Lying, keep: Path) -> None:
    given = (kept, net, net.parent / "opencl", keep, {"gpu": "opencl"})
    fine(lying("", *given))
    (file,) = keep.iterdir()
    assert file.stat().st_size > 1000
    os.utime(file, (0, 0))
    assert fine(lying("binary", *given)) == ""
    assert file.stat().st_mtime > 0


def test_a_driver_that_crashes_over_a_kernel_does_so_twice(driver: tuple[str, Lying], keep: Path) -> None:
    """Once may have been somebody who ended the program while the driver was at it."""
    gpu, lie = driver
    crash = "crash=net_softmax" if gpu == "opencl" else "crash=2"
    for _ in range(2):  # not in a row: a start in between was fine
        with pytest.raises(Exception, match="terminated abruptly"):
            lie(crash, keep)
        assert [one.suffix for one in keep.iterdir()] == [".trying"]
        assert fine(lie("", keep)) == ""
        assert [one.suffix for one in keep.iterdir()] == [".gpu"]
        next(keep.iterdir()).unlink()
    for _ in range(2):
        with pytest.raises(Exception, match="terminated abruptly"):
            lie(crash, keep)
    for _ in range(2):
        assert CRASHED in fine(lie(crash if gpu == "vulkan" else "", keep))
        assert [one.suffix for one in keep.iterdir()] == [".gpu"]


def test_a_kernel_over_which_the_device_is_lost_is_not_tried_again(driver: tuple[str, Lying], keep: Path) -> None:
    gpu, lie = driver
    status, _, _ = lie("lost=2" if gpu == "opencl" else "lost=4", keep)  # which has no plainer form
    assert status == -10
    assert CRASHED in fine(lie("", keep))
