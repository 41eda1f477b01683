"""``--gpu auto``: what is measured, and what is taken."""

from __future__ import annotations

from itertools import combinations
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sdk.boards import load_board
from sdk.cli import options as cli
from sdk.driver import BuildOptions, choosing
from sdk.driver.artifact import build_sources
from sdk.driver.backends import backend_for
from sdk.driver.splitting import OpTimes, shares
from sdk.errors import DeviceFault, UsageError
from tests.gpu.work import MIXED, STATES, divided, model

TIMES: dict[str | None, float | str] = {None: 2.0, "opencl": 3.0, "vulkan": "there is no Vulkan library"}
SHARED = 2.5  # ms of a run that is divided
OPS = ((0.4, 1.4), (9.0, 0.5), (0.3, 0.4))  # ms on the processor and on the device


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model, for which measuring says ``TIMES``."""

    def bench(target: Path, board: Any, device: Any, options: BuildOptions, *more: Any) -> SimpleNamespace:
        assert more[2] == options.threads == (2 if options.gpu is None else 1)
        found = SHARED if options.on_processor else TIMES[options.gpu]
        if isinstance(found, str):
            raise DeviceFault("the model failed", why=found)
        return SimpleNamespace(to_json=lambda: {"median_ms": found})

    def profile(target: Path, board: Any, device: Any, options: BuildOptions, *more: Any) -> SimpleNamespace:
        us = [(here if k in options.on_processor else there) * 1e3 for k, (here, there) in enumerate(OPS)]
        return SimpleNamespace(ops=[SimpleNamespace(index=k, median_us=one) for k, one in enumerate(us)])

    monkeypatch.setattr(choosing, "bench", bench)
    monkeypatch.setattr(choosing, "profile", profile)
    return model(STATES, tmp_path)


def test_the_fastest_is_taken_and_told(
    net: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host, options = load_board("host"), BuildOptions(threads=2)
    found = choosing.fastest(net, host, None, options)
    assert found.gpu is None
    assert found.told == (
        "the processor is fastest: the processor 2 ms, opencl 3 ms, opencl and the processor 2.5 ms, "
        "vulkan not: there is no Vulkan library"
    )
    monkeypatch.setitem(TIMES, None, 2.8)
    found = choosing.fastest(net, host, None, options)
    assert (found.gpu, found.on_processor) == ("opencl", {0, 2})
    assert found.told.startswith("opencl with 2 operations on the processor is fastest: the processor 2.8 ms, opencl 3")
    monkeypatch.setitem(TIMES, "opencl", 1.0)
    found = choosing.fastest(net, host, None, options)
    assert (found.gpu, found.on_processor) == ("opencl", frozenset())
    names = ("name", "memory", "arena_limit", "isa")
    choices = {**dict.fromkeys(names), "dims": (), "toolchain": "auto", "threads": 2, "gpu": "auto"}
    cli.resolve_gpu(choices, net, host, None)
    assert (choices["gpu"], choices["threads"], choices["on_processor"]) == ("opencl", 1, frozenset())
    assert capsys.readouterr().err.startswith("opencl is fastest: the processor 2.8 ms, opencl 1 ms")
    monkeypatch.setitem(TIMES, None, "it crashed")
    with pytest.raises(DeviceFault):
        choosing.fastest(net, host, None, options)


@pytest.mark.parametrize(
    ("times", "turn", "want"),
    [
        ([(1, 9), (9, 1), (1, 9)], 0, {0, 2}),
        ([(1, 9), (9, 1), (1, 3), (9, 1)], 1, {0, 2}),
        ([(1, 9), (9, 1), (1, 3), (9, 1)], 3, {0}),  # back to the device costs more than it saves
        ([(9, 1), (1, 2), (1, 2), (9, 1)], 1.5, {1, 2}),
        ([(9, 1), (1, 2)], 100, {1}),  # nothing goes back
        ([(inf, 1), (1, inf), (inf, 1)], 5, {1}),  # what runs at one place only
        ([(1, 2)], 0, {0}),
        ([], 0, set()),
    ],
)
def test_the_least_sum_is_found(times: list[tuple[float, float]], turn: float, want: set[int]) -> None:
    assert shares([OpTimes(k, *both) for k, both in enumerate(times)], turn) == want


def test_no_other_way_to_divide_takes_less() -> None:
    rng = np.random.default_rng(3)

    def cost(ops: list[OpTimes], left: frozenset[int], turn: float) -> float:
        here = [op.index in left for op in ops]
        starts = sum(not now and (k == 0 or here[k - 1]) for k, now in enumerate(here))
        each = sum(op.processor if op.index in left else op.device for op in ops)
        return each + turn * max(starts - 1, 0)

    for _ in range(40):
        ops = [OpTimes(k, *map(float, rng.integers(1, 9, 2))) for k in range(int(rng.integers(1, 8)))]
        turn = float(rng.integers(0, 6))
        every = [frozenset(c) for n in range(len(ops) + 1) for c in combinations(range(len(ops)), n)]
        assert cost(ops, shares(ops, turn), turn) == min(cost(ops, one, turn) for one in every)


@pytest.mark.some(1)
@pytest.mark.parametrize("text", [MIXED, STATES], ids=["mixed", "states"])
@pytest.mark.parametrize("gpu", ["vulkan", pytest.param("opencl", marks=pytest.mark.slow)])
def test_however_it_is_divided_results_are_the_same(pocl: Any, gpu: str, text: str, tmp_path: Path) -> None:
    """With no copies but those that are needed."""
    built = build_sources(model(text, tmp_path), load_board("host"), BuildOptions(gpu=gpu))
    numbers = [op.index for op in built.entries["main"].ops]
    parts = [frozenset(c) for n in range(1, len(numbers)) for c in combinations(numbers, n)][::2]
    for part, got in zip(parts, pocl(divided, tmp_path / "net.ir", tmp_path, parts, gpu), strict=True):
        status, told, apart = got
        assert status == 0, told
        assert told.count("runs on the processor: it is faster there") == len(part), told
        assert 0 <= min(min(one) for one in apart) <= max(max(one) for one in apart) <= 1e-4, part


def test_a_board_whose_gpu_lacks_the_interface_is_refused() -> None:
    for name, gpu, said in (
        ("pixel_8", "opencl", "pixel_8 has no driver of opencl"),
        ("iphone_13", "vulkan", "iphone_13 has no driver of vulkan"),
    ):
        with pytest.raises(UsageError, match=said):
            backend_for(load_board(name), BuildOptions(gpu=gpu))
    assert backend_for(load_board("galaxy_s24"), BuildOptions(gpu="opencl")).name == "gpu"


def test_what_cannot_be_measured_is_refused(net: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="measures where the model is to run"):
        choosing.fastest(net, load_board("microbit"), None, BuildOptions())
    with pytest.raises(UsageError, match="measures where the model is to run"):
        choosing.fastest(net, None, "ssh://there", BuildOptions())
    with pytest.raises(UsageError, match="builds what it measures"):
        choosing.fastest(tmp_path, load_board("host"), None, BuildOptions())
