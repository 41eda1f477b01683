"""Models through generated C and Vulkan on lavapipe, against the same program without a GPU; and drivers that lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from sdk.boards import load_board
from sdk.driver import BuildOptions
from sdk.driver.explain import inspect
from tests.gpu.work import MIXED, STATES, compare, model, statuses

VULKAN = {"gpu": "vulkan"}
MODELS = (
    "ad01_int8", "kws_ref_model", "micro_speech_quantized", "person_detect", "pretrainedResnet_quant", "vww_96_int8",
    "okay_nabu", "wake_vad", "str_ww_ref_model",
)  # fmt: skip


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model(MIXED, tmp_path_factory.mktemp("mixed"))


def test_a_model_of_any_dims_is_recorded_once_for_each(lavapipe, mixed: Path) -> None:
    dims = [{"n": n} for n in (1, 7, 64, 70, 7, 1, 33, 2, 3, 4, 5, 70)]
    status, told, apart, recorded = lavapipe(compare, mixed, mixed.parent, dims, VULKAN)
    assert (status, told) == (0, "")
    assert max(max(one) for one in apart) <= 1e-4
    assert min(min(one) for one in apart) >= 0
    assert recorded == (9, 9)


def test_states_stay_on_the_device(lavapipe, tmp_path: Path) -> None:
    dims = [{"pos": k} for k in (0, 1, 2, 17, 3)]
    status, told, apart, _ = lavapipe(compare, model(STATES, tmp_path), tmp_path, dims, VULKAN)
    assert (status, told) == (0, "")
    assert apart == [[0.0, 0.0]] * len(dims)


@pytest.mark.parametrize("name", ["hello_world_int8", *(pytest.param(name, marks=pytest.mark.slow) for name in MODELS)])
@pytest.mark.models
def test_integers_are_the_same_to_the_bit(lavapipe, models: Path, name: str, tmp_path: Path) -> None:
    status, told, apart, recorded = lavapipe(compare, models / f"{name}.tflite", tmp_path, [{}, {}], VULKAN)
    assert (status, told) == (0, "")
    assert apart == [[0.0], [0.0]]
    assert recorded == (1, 1)


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ("kernel=2", "runs on the processor: its results on the device are not those"),
        ("build=2", "runs on the processor: the driver does not compile it"),
        ("limits", "runs on the processor: it asks for more than the device has"),
        ("types", ""),
        ("bindings", ""),
        ("times", ""),
    ],
)
def test_a_driver_that_lies_makes_no_wrong_results(lying_vulkan, lie: str, said: str, mixed: Path) -> None:
    status, told, apart, _ = lying_vulkan(lie, compare, mixed, mixed.parent, [{"n": n} for n in (1, 70, 12)], VULKAN)
    assert status == 0
    assert said in told if said else told == ""
    assert min(min(one) for one in apart) >= 0
    assert max(max(one) for one in apart) <= 1e-4


@pytest.mark.parametrize("gpu", ["vulkan", "opencl"])
def test_a_kernel_of_many_buffers(lying_vulkan, pocl, gpu: str, tmp_path: Path) -> None:
    """More than a device has bindings for: those that lie in one region share one."""
    inputs = ", ".join(f"%x{k}: f32[n, 7]" for k in range(22))
    adds = "\n".join(f"  %t{k} = add(%{f't{k - 1}' if k else 'x21'}, %x{k}) : f32[n, 7]" for k in range(21))
    text = f"module net imported\n\ngraph @main<n in 1..70>({inputs}) {{\n{adds}\n  return %t20\n}}\n"
    path = model(text, tmp_path)
    assert "23 operands" in inspect(path, load_board("host"), BuildOptions(gpu=gpu), "kernels")
    given = (compare, path, tmp_path, [{"n": 1}, {"n": 70}], {"gpu": gpu})
    status, told, apart, _ = lying_vulkan("bindings", *given) if gpu == "vulkan" else pocl(*given)
    assert (status, told) == (0, "")
    assert apart == [[0.0], [0.0]]


@pytest.mark.models
def test_a_device_without_bytes(lying_vulkan, models: Path, tmp_path: Path) -> None:
    """What reads or writes them runs as C, and is right."""
    path = models / "hello_world_int8.tflite"
    status, told, apart, _ = lying_vulkan("types", compare, path, tmp_path, [{}], VULKAN)
    assert status == 0
    assert "it asks for more than the device has" in told
    assert apart == [[0.0]]


@pytest.mark.parametrize(
    ("lie", "status", "said"),
    [
        ("none", -6, "there is no Vulkan library"),
        ("old", -6, "older than Vulkan 1.1"),
        ("nothing", -7, "VkResult -9"),
        ("memory", -9, "vkAllocateMemory failed: VkResult -2"),
        ("lost=2", -10, "VkResult -4"),
    ],
)
def test_what_fails_is_a_status_with_words(lying_vulkan, lie: str, status: int, said: str, mixed: Path) -> None:
    got, told, _, _ = lying_vulkan(lie, statuses, mixed, mixed.parent, 0, VULKAN)
    assert got == status
    assert said in told
