"""``qemu-user://`` runs an agent built for another processor as a process, and talks to its input and output."""

from __future__ import annotations

from sdk.devices.base import OpenRequest, Transport, register
from sdk.devices.process import ProcessTransport, spawn
from sdk.devices.transports.qemu import require_program
from sdk.errors import NoDeviceError, UsageError

_BYTES_PER_S = 1e6
_GRACE_S = 1.0


@register("qemu-user")
def open_qemu_user(request: OpenRequest) -> Transport:
    """Start ``request.artifact`` under the program of ``request.emulator``.

    Raises UsageError without an emulator, MissingToolError without its program, NoDeviceError without the agent.
    """
    spec = request.emulator
    if spec is None:
        raise UsageError("this board has no emulator", where=request.uri, hint="see `sdk boards show`")
    if not request.artifact.is_file():
        raise NoDeviceError("there is no agent to run", where=str(request.artifact))
    require_program(spec.command[0])
    values = {"elf": str(request.artifact), "serial": "null", "shift": ""}
    argv = [part.format_map(values) for part in spec.command]
    child = spawn(argv, f"the agent under {spec.command[0]}", piped=True)
    stdin, stdout = child.process.stdin, child.process.stdout
    if stdin is None or stdout is None:
        raise NoDeviceError(f"cannot reach {child.name}", why="it was started without pipes")
    return ProcessTransport(
        child,
        stdout.fileno(),
        stdin.fileno(),
        stdin.close,
        address=request.uri,
        bytes_per_s=_BYTES_PER_S,
        grace_s=_GRACE_S,
        emulated=True,
    )
