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
    program.write_text(
        "#!/bin/sh\nprintf 'llvmpipe\\t25.1\\t1\\t1024\\t128\\t256\\t32\\t1\\n'\n"
        "printf 'Mali-G78\\t38.1\\t0\\t2048\\t256\\t128\\t16\\t1\\n'\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(module, "_program", lambda interface: program)
    found = module.gpus("vulkan")
    assert found[0] == module.Device("llvmpipe", "25.1", True, 1024, 128, 256, 32, True, "vulkan")
    assert [(device.name, device.row) for device in found] == [("llvmpipe", "vulkan"), ("Mali-G78", "vulkan-mali")]
    assert str(found[1]).startswith("Mali-G78 (38.1; its memory is the processor's): 2048 MiB")
