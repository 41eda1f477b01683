"""Vulkan's validation layers over models on lavapipe: synchronisation, and what kernels read and write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.conftest import DRIVERS, in_process, process
from tests.gpu.test_gpu_networks import NETS, decoder, integers
from tests.gpu.work import MIXED, compare, converse, model

VULKAN = {"gpu": "vulkan"}
LAYER = {"VK_ICD_FILENAMES": DRIVERS, "VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation"}
CHECKS = {
    "synchronisation": LAYER | {"VK_LAYER_ENABLES": "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT"},
    "assisted": LAYER | {"VK_LAYER_ENABLES": "VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT"},
}
SLOW = ("assisted",)
Checked = Callable[..., Any]


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in CHECKS])
def checked(request: pytest.FixtureRequest, capfd: pytest.CaptureFixture[str]) -> Checked:
    """Calls a function in a process with the layers, which may not say anything."""

    def call(function: Callable[..., Any], *given: Any) -> Any:
        with process(CHECKS[request.param]) as pool:
            found = in_process(pool, function, *given)
        said = "".join(capfd.readouterr())
        assert not [word for word in ("Validation", "VUID", "SYNC-", "UNASSIGNED") if word in said], said[:2000]
        return found

    return call


def test_the_layers_have_nothing_to_say_of_a_model(checked: Checked, tmp_path: Path) -> None:
    """Neither of its recordings nor of the barriers in them."""
    status, told, apart, _ = checked(compare, model(MIXED, tmp_path), tmp_path, [{"n": 3}, {"n": 70}], VULKAN)
    assert (status, told) == (0, "")
    assert max(max(one) for one in apart) <= 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("groups", [False, True], ids=["items", "groups"])
@pytest.mark.parametrize("name", NETS)
def test_the_layers_have_nothing_to_say_of_networks(checked: Checked, name: str, groups: bool, tmp_path: Path) -> None:
    from zoo.export import path_of

    net, dims, options = NETS[name]
    given = {**VULKAN, **options, "groups": groups}
    status, told, apart, _ = checked(compare, path_of(net), tmp_path, dims, given)
    assert (status, told) == (0, "")
    assert 0 <= min(min(one) for one in apart) <= max(max(one) for one in apart) <= 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("groups", [False, True], ids=["items", "groups"])
def test_the_layers_have_nothing_to_say_of_a_decoder(checked: Checked, groups: bool, tmp_path: Path) -> None:
    given = {**VULKAN, "groups": groups}
    status, told, apart, _ = checked(converse, decoder(tmp_path), tmp_path, 24, 64, given)
    assert (status, told) == (0, "")
    assert max(apart) <= 1e-4


@pytest.mark.slow
@pytest.mark.models
@pytest.mark.parametrize("groups", [False, True], ids=["items", "groups"])
def test_the_layers_have_nothing_to_say_of_integers(
    checked: Checked, models: Path, groups: bool, tmp_path: Path
) -> None:
    for path in integers(models):
        status, told, apart, _ = checked(compare, path, tmp_path, [{}], {**VULKAN, "groups": groups})
        assert (path.name, status, told, apart) == (path.name, 0, "", [[0.0] * len(apart[0])])
