"""What the GPUs of a machine are told from: a program of its own, which may hang or crash with a driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from sdk.driver import gpus as module
from sdk.errors import SdkError


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("sleep 60", "the driver gave no answer within 0.2 s"),
        ("echo no OpenCL library is installed; exit 1", "no OpenCL library is installed"),
        ("kill -SEGV $$", "the driver crashed"),
    ],
)
def test_a_driver_that_fails_is_an_error(
    script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "gpus"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(module, "_program", lambda interface: program)
    if "sleep" in script:
        monkeypatch.setattr(module, "TIMEOUT_S", 0.2)
    with pytest.raises(SdkError, match=said):
        module.gpus("opencl")


def test_devices_come_a_line_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "gpus"
    program.write_text("#!/bin/sh\necho one\necho two\n")
    program.chmod(0o755)
    monkeypatch.setattr(module, "_program", lambda interface: program)
    assert module.gpus("vulkan") == ("one", "two")
