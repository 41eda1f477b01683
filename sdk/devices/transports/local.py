"""``local:`` starts an agent built for this machine and talks to its standard input and output."""

from __future__ import annotations

from sdk.devices.base import OpenRequest, Transport, register
from sdk.devices.process import ProcessTransport, spawn
from sdk.errors import NoDeviceError

_BYTES_PER_S = 1e6  # a pipe on a busy machine, sanitizers in the agent
_GRACE_S = 1.0  # an agent ends by itself when its input does


@register("local")
def open_local(request: OpenRequest) -> Transport:
    """Start ``request.artifact``, or the program that ``local:PATH`` names. Raises NoDeviceError."""
    program = request.rest or str(request.artifact)
    child = spawn([program], f"the agent {program}", piped=True)
    stdin, stdout = child.process.stdin, child.process.stdout
    if stdin is None or stdout is None:
        raise NoDeviceError(f"cannot reach the agent {program}", why="it was started without pipes")
    return ProcessTransport(
        child,
        stdout.fileno(),
        stdin.fileno(),
        stdin.close,
        address=request.uri,
        bytes_per_s=_BYTES_PER_S,
        grace_s=_GRACE_S,
    )
