"""``--gpu auto``: what is measured, and what is taken."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sdk.boards import load_board
from sdk.cli import options as cli
from sdk.driver import BuildOptions, choosing
from sdk.driver.backends import backend_for
from sdk.errors import DeviceFault, UsageError
from tests.gpu.work import STATES, model

TIMES: dict[str | None, float | str] = {None: 2.0, "opencl": 3.0, "vulkan": "there is no Vulkan library"}


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model, for which measuring says ``TIMES``."""

    def bench(target: Path, board: Any, device: Any, options: BuildOptions, *more: Any) -> SimpleNamespace:
        assert more[2] == options.threads == (2 if options.gpu is None else 1)
        found = TIMES[options.gpu]
        if isinstance(found, str):
            raise DeviceFault("the model failed", why=found)
        return SimpleNamespace(to_json=lambda: {"median_ms": found})

    monkeypatch.setattr(choosing, "bench", bench)
    return model(STATES, tmp_path)


def test_the_fastest_is_taken_and_told(
    net: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host, options = load_board("host"), BuildOptions(threads=2)
    found = choosing.fastest(net, host, None, options)
    assert found.gpu is None
    assert found.told == (
        "the processor is fastest: the processor 2 ms, opencl 3 ms, vulkan not: there is no Vulkan library"
    )
    monkeypatch.setitem(TIMES, "opencl", 1.0)
    assert choosing.fastest(net, host, None, options).gpu == "opencl"
    names = ("name", "memory", "arena_limit", "isa")
    choices = {**dict.fromkeys(names), "dims": (), "toolchain": "auto", "threads": 2, "gpu": "auto"}
    cli.settle(choices, net, host, None)
    assert (choices["gpu"], choices["threads"]) == ("opencl", 1)
    assert capsys.readouterr().err.startswith("opencl is fastest: the processor 2 ms, opencl 1 ms")
    monkeypatch.setitem(TIMES, None, "it crashed")
    with pytest.raises(DeviceFault):
        choosing.fastest(net, host, None, options)


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
