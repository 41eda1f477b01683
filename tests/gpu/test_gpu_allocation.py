"""What programs for GPUs allocate: all when they are opened, and nothing in a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.work import MIXED, STATES, left, model, objects

KEPT = 8  # sizes whose recordings are kept
AT = [{"n": n} for n in (5, 5, 70, 70, 5, *range(10, 10 + 2 * KEPT), 5, 70)]
STEPS = [{"pos": k, "cap": cap} for k, cap in enumerate((3, 3, 3, 16, 16, 3))]
MODELS: dict[str, tuple[str, list[dict[str, int]], frozenset[int]]] = {
    "of any sizes": (MIXED, AT, frozenset()),
    "parts on the processor": (MIXED, AT, frozenset({1})),
    "states": (STATES, STEPS, frozenset()),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keeps what was built of a model of any sizes, for Vulkan, for the tests that want it."""
    return tmp_path_factory.mktemp("mixed")


@pytest.mark.some(2)
@pytest.mark.parametrize("name", MODELS)
def test_a_run_on_vulkan_allocates_nothing(
    name: str, lying_vulkan: Callable[..., Any], tmp_path: Path, folder: Path
) -> None:
    """Neither of the host nor of the driver, at sizes that are new either."""
    text, dims, on_processor = MODELS[name]
    options = {"gpu": "vulkan", "on_processor": on_processor}
    place = folder if name == "of any sizes" else tmp_path
    opened, *runs = lying_vulkan("", objects, model(text, place), place, dims, options)
    assert opened[0] > 0
    assert opened[1] > 0
    assert runs == [(0, 0)] * len(dims)


def test_what_is_made_on_vulkan_is_destroyed(lying_vulkan: Callable[..., Any], folder: Path) -> None:
    """Instance, device and all that is of it, whatever fails on the way."""
    lies = ["", "kernel=2", "build=1", "build=3", "lost=1", "lost=4", "memory", "limits", "types", "apart", "taken"]
    told = lying_vulkan("", left, model(MIXED, folder), folder, [*lies, "old", ""], AT[:3])
    assert {lie for lie, opened, held, _ in told if opened and held > 20} >= {"", "kernel=2", "apart", "taken"}
    assert {lie for lie, opened, *_ in told if not opened} >= {"lost=1", "memory", "old"}
    assert [lie for lie, _, _, kept in told if kept != 0] == []


@pytest.mark.some(2)
@pytest.mark.parametrize("name", MODELS)
def test_a_run_on_opencl_allocates_nothing_but_kernels(name: str, lying: Callable[..., Any], tmp_path: Path) -> None:
    """OpenCL keeps arguments in objects of its own: there is one for each dispatch of a recording, and those of a
    recording that is made anew are used again."""
    text, dims, on_processor = MODELS[name]
    options = {"gpu": "opencl", "on_processor": on_processor}
    opened, *runs = lying("", objects, model(text, tmp_path), tmp_path, dims, options)
    assert opened[0] > 0
    assert opened[1] > 0
    assert [allocated for allocated, _ in runs] == [0] * len(dims)
    recorded: list[int | None] = []
    for (_, created), at in zip(runs, dims, strict=True):
        size = at.get("n")  # recordings of states serve all positions and rows
        fresh = size not in recorded and len(recorded) < KEPT
        assert (created > 0) == fresh, (at, runs)
        recorded += [size] if fresh else []
