"""``program://`` runs an agent built for another processor as a process, and talks to its input and output."""

from __future__ import annotations

from sdk.devices.base import OpenRequest, Transport, register
from sdk.devices.process import open_piped
from sdk.devices.transports.qemu import require_program
from sdk.errors import NoDeviceError, UsageError


@register("program")
def open_program(request: OpenRequest) -> Transport:
    """Start ``request.artifact`` under the program of ``request.emulator``: QEMU's user mode, or an engine.

    Raises UsageError without an emulator or with more of an address, MissingToolError without its program,
    NoDeviceError without the agent.
    """
    request.refuse_rest()
    spec = request.emulator
    if spec is None:
        raise UsageError("this board has no emulator", where=request.uri, hint="see `sdk boards show`")
    if not request.artifact.is_file():
        raise NoDeviceError("there is no agent to run", where=str(request.artifact))
    if spec.icount_shift is not None:
        raise UsageError("this board's emulator runs machines, not programs", where=request.uri, hint="use qemu://")
    require_program(spec.command[0])
    argv = spec.argv(request.artifact)
    return open_piped(argv, f"the agent under {spec.command[0]}", request.uri, emulated=not spec.timed)
