"""Memory that host and device share: nothing is copied, and where they do not share it, what is needed is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.work import MIXED, STATES, copies, model

SIZES = [{"n": n} for n in (5, 70, 1, 5)]
STEPS = [{"pos": k, "cap": cap} for k, cap in enumerate((3, 16, 3))]
MODELS: dict[str, tuple[str, list[dict[str, int]], frozenset[int]]] = {
    "of any sizes": (MIXED, SIZES, frozenset()),
    "a part on the processor": (MIXED, SIZES, frozenset({1})),
    "states": (STATES, STEPS, frozenset()),
    "states on the processor": (STATES, STEPS, frozenset({0})),
}


@pytest.fixture(params=["opencl", "vulkan"])
def on(request: pytest.FixtureRequest, lying: Any, lying_vulkan: Any, tmp_path: Path) -> Callable[[str, str], Any]:
    """What ``copies`` finds of a model on a driver that tells a lie."""
    driver = {"opencl": lying, "vulkan": lying_vulkan}[request.param]

    def call(lie: str, name: str) -> Any:
        text, dims, left = MODELS[name]
        told, copied, asked, apart = driver(
            lie, copies, model(text, tmp_path), tmp_path, dims, {"gpu": request.param, "on_processor": left}
        )
        assert 0 <= min(min(one) for one in apart) <= max(max(one) for one in apart) <= 1e-4
        said = [line for line in told.splitlines() if "it is faster there" not in line]
        return said, copied, asked

    return call


@pytest.mark.some(4)
@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_copied_where_memory_is_shared(on: Any, name: str) -> None:
    """But the position that kernels of states read."""
    told, copied, asked = on("", name)
    assert told == []
    assert copied == 0
    assert asked <= (len(STEPS) if "states" in name else 0)


@pytest.mark.some(4)
@pytest.mark.parametrize("name", MODELS)
def test_a_device_with_memory_of_its_own(on: Any, name: str) -> None:
    told, copied, asked = on("apart", name)
    assert told == []
    assert copied > 0
    assert asked > 0


def test_a_driver_that_keeps_a_copy(on: Any, request: pytest.FixtureRequest) -> None:
    """OpenCL's may, and is not asked for more; Vulkan's that does so lies, which the proof of kernels finds out."""
    told, copied, _ = on("keeps", "a part on the processor")
    if "opencl" in request.node.name:
        assert told == []
        assert copied > 0
    else:
        assert all("its results on the device are not those of the processor" in line for line in told)
        assert told


def test_memory_that_the_device_does_not_take(lying_vulkan: Any, tmp_path: Path) -> None:
    text, dims, left = MODELS["a part on the processor"]
    options = {"gpu": "vulkan", "on_processor": left}
    _, copied, _, apart = lying_vulkan("taken", copies, model(text, tmp_path), tmp_path, dims, options)
    assert copied > 0
    assert max(max(one) for one in apart) <= 1e-4
