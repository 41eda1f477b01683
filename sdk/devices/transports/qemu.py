"""``qemu://`` starts a board's emulated target and talks to its UART over a socket."""

from __future__ import annotations

import shutil
import socket
import tempfile
import time
from pathlib import Path

from sdk.devices.base import OpenRequest, Transport, register
from sdk.devices.process import Child, Guard, ProcessTransport, spawn, stop
from sdk.errors import LinkError, MissingToolError, NoDeviceError, UsageError

_PACKAGES = {
    "qemu-system-arm": "qemu-system-arm",
    "qemu-system-riscv32": "qemu-system-misc",
    "qemu-aarch64": "qemu-user",
    "node": "nodejs",
}
_BYTES_PER_S = 2000.0  # an emulated UART on a busy machine; 30 to 200 kB/s on an idle one
_POLL_S = 0.02


@register("qemu")
def open_qemu(request: OpenRequest) -> Transport:
    """Boot ``request.artifact`` on the machine of ``request.emulator``.

    Raises UsageError without an emulator or with more of an address, MissingToolError without its program,
    NoDeviceError without the image, LinkError or DeviceFault when the machine does not come up.
    """
    request.refuse_rest()
    spec = request.emulator
    if spec is None:
        raise UsageError(
            "this board has no emulator",
            where=request.uri,
            hint="name the device itself, see `sdk boards show`",
        )
    if not request.artifact.is_file():
        raise NoDeviceError("there is no firmware image to boot", where=str(request.artifact))
    if spec.icount_shift is None:
        raise UsageError("this board's emulator runs programs, not machines", where=request.uri, hint="use program:")
    require_program(spec.command[0])
    with tempfile.TemporaryDirectory(prefix="sdk-") as folder, socket.socket(socket.AF_UNIX) as listener:
        path = Path(folder) / "uart"
        listener.bind(str(path))
        listener.listen(1)
        argv, name = spec.argv(request.artifact, f"unix:{path}"), f"the emulator {spec.command[0]}"
        child = spawn(argv, name, piped=False, guard=Guard(folder))  # it does not end with its line
        try:
            link = _accept(listener, child, request)
            fd = link.fileno()
            return ProcessTransport(
                child,
                fd,
                fd,
                link.close,
                address=request.uri,
                bytes_per_s=_BYTES_PER_S,
                ns_per_instruction=2**spec.icount_shift,
            )
        except BaseException:
            stop(child, listener.close, 0.0)
            raise


def require_program(program: str) -> None:
    """Raise MissingToolError, with the package that has it, unless ``program`` is installed."""
    if shutil.which(program) is None:
        package = _PACKAGES.get(Path(program).name, Path(program).name)
        raise MissingToolError(
            f"{program} is not installed",
            why="the board's emulated target runs in it",
            hint=f"apt-get install {package}",
        )


def _accept(listener: socket.socket, child: Child, request: OpenRequest) -> socket.socket:
    """Wait for the machine to connect its UART; give up when it ends or the deadline passes."""
    deadline = time.monotonic() + request.timeout_s
    listener.settimeout(_POLL_S)
    while time.monotonic() < deadline:
        try:
            return listener.accept()[0]
        except TimeoutError:
            if child.process.poll() is not None:
                raise child.ended() from None
    raise LinkError(
        f"{child.name} did not connect its UART within {request.timeout_s:g} s",
        where=request.uri,
        why=child.last_words(),
        hint="check the emulator command in the board file: it needs -serial {serial}",
    )
