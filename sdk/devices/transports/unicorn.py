"""``unicorn://`` runs a board's image on the board's own memory map, in a process of ours with Unicorn in it."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import msgspec

from sdk.devices.base import OpenRequest, Transport, register
from sdk.devices.emulated.spec import CAN_EMULATE
from sdk.devices.process import open_piped
from sdk.errors import MissingToolError, NoDeviceError, UsageError
from sdk.installs import pip_command

_PACKAGES = Path(__file__).resolve().parents[3]  # the folder that holds the package sdk


@register("unicorn")
def open_unicorn(request: OpenRequest) -> Transport:
    """Start the machine of ``request.emulator`` with ``request.artifact`` in it.

    Raises UsageError for a board that Unicorn cannot be, MissingToolError without Unicorn, NoDeviceError without the
    image; what the image then does wrong is a DeviceFault.
    """
    spec = None if request.emulator is None else request.emulator.machine
    if spec is None:
        raise UsageError(
            "this board cannot run under Unicorn",
            where=request.uri,
            why=f"that takes a core it has ({', '.join(sorted(CAN_EMULATE))}) and, in the board's file, runtime.uart "
            "and runtime.timer of kinds that are modelled",
            hint="--device qemu:// where the board's file has an [emulator]; sdk boards lists others",
        )
    if not request.artifact.is_file():
        raise NoDeviceError("there is no firmware image to boot", where=str(request.artifact))
    require_unicorn()
    path = os.pathsep.join(filter(None, (str(_PACKAGES), os.environ.get("PYTHONPATH", ""))))
    told = msgspec.json.encode(spec).decode()
    argv = (sys.executable, "-P", "-m", "sdk.devices.emulated", told, str(request.artifact))
    return open_piped(
        argv, "the board under Unicorn", request.uri, ns_per_instruction=1e9 / spec.timer.hz,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip


def require_unicorn() -> None:
    """Raise MissingToolError unless the package is installed."""
    if find_spec("unicorn") is None:
        raise MissingToolError(
            "the package unicorn is not installed",
            why="emulated boards run in it",
            hint=f"{pip_command('unicorn')}; where it has no wheel for this machine, --device qemu:// takes QEMU",
        )
