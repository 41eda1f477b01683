"""``ssh://USER@HOST`` sends an agent to a machine with an SSH server, and runs programs under it.

OpenSSH does it, so that what ``~/.ssh/config`` says holds, jump hosts and agents included, and host keys are checked as
the user has it. One connection carries all; what starts the agent is in sdk/devices/pushed.py.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Callable
from urllib.parse import unquote, urlsplit

from sdk.devices.base import OpenRequest, Transport, register
from sdk.devices.process import Child, spawn, stop
from sdk.devices.pushed import Line, Options, Shell, agent_chooser, open_pushed, parse_options, script
from sdk.errors import DeviceFault, LinkError, MissingToolError, UsageError

_FORM = "ssh://HOST, ssh://USER@HOST:PORT, ssh://[IPV6]:PORT, ssh://HOST?cores=2-3 or ssh://HOST?via=PROGRAM"
_NAME = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9_.:%-]*")  # IPv6 addresses too
_OPTIONS = (
    *("-T", "-a", "-x", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"),
    *("-o", "ClearAllForwardings=yes", "-o", "RemoteCommand=none", "-o", "PermitLocalCommand=no"),
)
_FOLDER = "${XDG_CACHE_HOME:-$HOME/.cache}/crosslevel"
_QUOTA = "1G"
_GRACE_S = 2.0  # for ssh to end once the other side has
_END_S = 5.0
_SSH_FAILED = 255


class _Ssh(Child):
    """The ssh program: its end says why there is no connection any more."""

    def last_words(self) -> str:
        """Return the end of what was written to standard error, without the agent's signs of life."""
        return re.sub(r"\n{2,}", "\n", super().last_words()).strip()

    def ended(self) -> LinkError | DeviceFault:
        """Return the error that says how it ended."""
        try:
            status = self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return super().ended()
        if status == _SSH_FAILED:
            return LinkError(f"the connection of {self.name} is lost", why=self.last_words())
        return super().ended()


@register("ssh")
def open_ssh(request: OpenRequest) -> Transport:
    """Start ``request.artifact`` on the machine that the address names.

    Raises:
        UsageError: it is no address, or the program is for another machine.
        MissingToolError: there is no ssh here.
        NoDeviceError: ssh cannot connect, or the machine cannot take the agent.
        BusyError: somebody else uses the machine.
        LinkError, DeviceFault: it broke off, or the program died at once.
    """
    address, options = parse_options(request.uri, _FORM)
    destination = _destination(request.uri, address)
    if shutil.which("ssh") is None:
        raise MissingToolError("ssh is not installed", hint="apt-get install openssh-client")
    hint = f"ssh {address} must work by itself first: it asks about the host's key, and for passwords"
    connect = _connector(request.uri, destination, options)
    shell = Shell(request.uri, options.cores, connect, agent_chooser(request, options), hint)
    return open_pushed(request, shell, emulated=bool(options.via))


def _connector(uri: str, destination: list[str], options: Options) -> Callable[[float], Line]:
    argv = ["ssh", *_OPTIONS, *destination, f"exec sh -c '{script(_FOLDER, _QUOTA, options)}'"]

    def connect(_: float) -> Line:
        near, far = socket.socketpair()
        with far:
            try:
                child = spawn(argv, f"the connection to {uri}", piped=True, over=far.fileno())
            except BaseException:
                near.close()
                raise
        ssh = _Ssh(child.process, child.stderr_fd, child.name)
        return Line(near, lambda: stop(ssh, near.close, _GRACE_S), ssh.ended)

    return connect


def _destination(uri: str, address: str) -> list[str]:
    """What ssh is told of the destination. Raises UsageError."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{uri!r} is not a device address", why=str(error), hint=_FORM) from None
    host, user = unquote(parts.hostname or ""), parts.username or ""
    extra = parts.path.strip("/") or parts.password or ("port 0" if port == 0 else "")
    for value in (host, user):
        if value and not _NAME.fullmatch(value):  # ssh would read some of them as its options
            extra = extra or value
    if not host or extra:
        why = f"what is {extra!r}?" if extra else "it names no machine"
        raise UsageError(f"{uri!r} is not a device address", why=why, hint=_FORM)
    return [*(["-l", user] if user else []), *(["-p", str(port)] if port else []), "--", host]
