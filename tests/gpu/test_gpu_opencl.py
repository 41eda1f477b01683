"""Models through generated C and OpenCL on PoCL, against the same program without a GPU; and with drivers that lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from sdk.boards import load_board
from sdk.driver import BuildOptions
from sdk.driver.backends import backend_for
from sdk.errors import UsageError
from tests.gpu.work import MIXED, STATES, compare, model, statuses


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model(MIXED, tmp_path_factory.mktemp("mixed"))


def test_a_model_of_any_dims_is_recorded_once_for_each(pocl, mixed: Path) -> None:
    """Eight recordings are kept: what comes again within those is not recorded."""
    dims = [{"n": n} for n in (1, 7, 64, 70, 7, 1, 33, 2, 3, 4, 5, 70)]
    status, told, apart, (recorded, again) = pocl(compare, mixed, mixed.parent, dims)
    assert (status, told) == (0, "")
    assert len(apart) == len(dims)
    assert max(max(one) for one in apart) <= 1e-4
    assert min(min(one) for one in apart) >= 0
    # 1, 7, 64, 70, 33, 2, 3, 4 fill the eight; 5 takes the place of 64, which was not used for longest
    assert (recorded, again) == (9, 9)


def test_states_stay_on_the_device(pocl, tmp_path: Path) -> None:
    dims = [{"pos": k} for k in (0, 1, 2, 17, 3)]
    status, told, apart, _ = pocl(compare, model(STATES, tmp_path), tmp_path, dims)
    assert (status, told) == (0, "")
    assert apart == [[0.0, 0.0]] * len(dims)


@pytest.mark.parametrize("name", ["kws_ref_model", "ad01_int8"])
@pytest.mark.models
def test_integers_are_the_same_to_the_bit(pocl, models: Path, name: str, tmp_path: Path) -> None:
    status, told, apart, recorded = pocl(compare, models / f"{name}.tflite", tmp_path, [{}, {}])
    assert (status, told) == (0, "")
    assert apart == [[0.0], [0.0]]
    assert recorded == (1, 1)


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ("kernel=net_matmul_2", "kernel net_matmul_2 is replaced by a plainer one: its results on the device are not"),
        ("kernel=net_matmul_2*", "kernel net_matmul_2_plain runs on the processor: its results on the device are not"),
        ("build=net_matmul_2", "kernel net_matmul_2_plain runs on the processor: the driver does not compile it"),
        ("limits", "runs on the processor: it asks for more than the device has"),
        ("times", ""),
    ],
)
def test_a_driver_that_lies_makes_no_wrong_results(lying, lie: str, said: str, mixed: Path) -> None:
    dims = [{"n": n} for n in (1, 70, 12)]
    status, told, apart, _ = lying(lie, compare, mixed, mixed.parent, dims)
    assert status == 0
    assert said in told if said else told == ""
    assert min(min(one) for one in apart) >= 0
    assert max(max(one) for one in apart) <= 1e-4


@pytest.mark.parametrize(
    ("lie", "status", "said"),
    [
        ("none", -6, "no OpenCL library is installed"),
        ("nothing", -7, "OpenCL has no device: 0 found"),
        ("memory", -9, "clCreateBuffer failed with OpenCL error -4"),
        ("buffers", -11, "at most 64 are allowed"),
        ("lost=2", -10, "clFinish failed with OpenCL error -36"),
    ],
)
def test_what_fails_is_a_status_with_words(lying, lie: str, status: int, said: str, mixed: Path) -> None:
    got, told, _, _ = lying(lie, statuses, mixed, mixed.parent, 0)
    assert got == status
    assert said in told


def test_a_device_that_is_lost_in_a_run(lying, mixed: Path) -> None:
    """The proof waits once for each kernel; the run after it meets the loss, and so do those after that."""
    status, told, runs, message = lying("lost=8", statuses, mixed, mixed.parent, 4)
    assert (status, told) == (0, "")
    assert runs[-1] == -10
    assert "OpenCL error -36" in message


def test_choices_that_mean_nothing_are_refused() -> None:
    board = load_board("host")
    with pytest.raises(UsageError, match="no interface of GPUs is called 'metal'"):
        BuildOptions(gpu="metal")
    for options, said in (
        (BuildOptions(gpu="opencl", backend="c99"), "the c99 backend makes no kernels beside C"),
        (BuildOptions(backend="gpu"), "the gpu backend wants to know for what"),
        (BuildOptions(gpu="opencl", threads=2), "--threads means nothing to the gpu backend"),
    ):
        with pytest.raises(UsageError, match=said):
            backend_for(board, options)
    with pytest.raises(UsageError, match="the gpu backend prints no code for nucleo_l4r5zi"):
        backend_for(load_board("l4r5zi"), BuildOptions(gpu="vulkan"))


def test_vulkan_runs_the_same_programs(pocl, mixed: Path, tmp_path: Path) -> None:
    """The other driver behind the same interface; no process of a test has loaded it otherwise."""
    dims = [{"n": n} for n in (1, 70, 12)]
    status, told, apart, recorded = pocl(compare, mixed, tmp_path, dims, {"gpu": "vulkan"})
    assert (status, told) == (0, "")
    assert max(max(one) for one in apart) <= 1e-4
    assert min(min(one) for one in apart) >= 0
    assert recorded == (3, 3)
