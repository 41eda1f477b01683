"""Phones, as a running adb server tells of them. None is started: that would go on after us."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Iterator

from sdk.devices.sources.base import Found, State, register_source
from sdk.errors import LinkError, MissingToolError, UsageError

__all__ = ["find_phones"]

_PLACE = "adb"
_PORT = 5037
_ASK_S = 2.0
_STATES: dict[str, tuple[State, str | None]] = {
    "device": ("free", None),
    "unauthorized": ("unauthorised", "unlock the phone and allow debugging from this computer"),
    "authorizing": ("unauthorised", "unlock the phone and allow debugging from this computer"),
    "offline": ("offline", "adb reconnect offline, or plug it in anew"),
    "no permissions": ("no permission", "sudo apt-get install android-sdk-platform-tools-common, and plug it in anew"),
    "bootloader": ("in bootloader", "fastboot reboot"),
    "recovery": ("in bootloader", "adb reboot"),
    "sideload": ("in bootloader", "adb reboot"),
}


@register_source(_PLACE)
def find_phones() -> Iterator[Found]:
    """The devices of the adb server of this machine, or of the one that ADB_SERVER_SOCKET names."""
    try:
        answer = _ask("host:devices-l")
    except ConnectionRefusedError:
        if shutil.which("adb"):
            raise MissingToolError("no adb server runs", hint="adb start-server") from None
        return  # nobody here uses phones
    for line in answer.splitlines():
        found = re.match(r"(?P<serial>\S+)\s+(?P<state>no permissions|\S+)(?P<rest>.*)", line)
        if found is None:
            continue
        serial, rest = found["serial"], found["rest"]
        facts = dict(part.partition(":")[::2] for part in rest.split() if ":" in part)
        state, fix = _STATES.get(found["state"], ("offline", "adb reconnect"))
        name = (facts.get("model") or facts.get("product") or "phone").replace("_", " ")
        why = None if found["state"] in ("device", state) else found["state"]
        yield Found(_PLACE, f"adb://{serial}", name, state, (), why, fix, serial)


def _ask(request: str) -> str:
    """The server's answer to a request. Raises LinkError, OSError."""
    with socket.create_connection(_server(), _ASK_S) as sock:
        sock.sendall(f"{len(request):04x}{request}".encode())
        status = _exactly(sock, 4)
        text = _exactly(sock, _length(_exactly(sock, 4))).decode("utf-8", "replace")
    if status != b"OKAY":
        raise LinkError("the adb server refuses", why=text[:200], hint="adb kill-server; adb start-server")
    return text


def _server() -> tuple[str, int]:
    text = os.environ.get("ADB_SERVER_SOCKET", "") or f"tcp:{os.environ.get('ANDROID_ADB_SERVER_PORT', _PORT)}"
    kind, _, rest = text.partition(":")
    host, _, port = rest.rpartition(":")
    if kind != "tcp" or not port.isdecimal() or int(port) > 0xFFFF:
        raise UsageError(f"ADB_SERVER_SOCKET={text} is no address", hint="ADB_SERVER_SOCKET=tcp:localhost:5037")
    return host or "127.0.0.1", int(port)


def _length(digits: bytes) -> int:
    try:
        return int(digits, 16)
    except ValueError:
        why = repr(digits)
        raise LinkError("what answers is no adb server", why=why, hint="adb kill-server; adb start-server") from None


def _exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = sock.recv(count - len(data))
        if not piece:
            raise LinkError("the adb server hung up", hint="adb kill-server; adb start-server")
        data += piece
    return data
