"""The adb server of this machine, or of the one that ADB_SERVER_SOCKET names: questions, and services of phones."""

from __future__ import annotations

import os
import socket

from sdk.errors import LinkError, UsageError

__all__ = ["ask", "open_service"]

_PORT = 5037
_ASK_S = 2.0
_OPEN_S = 20.0  # for a phone to start a service
_MAX_REQUEST = 4096  # of a phone's service, whatever its age
_AGAIN = "adb kill-server; adb start-server"


def ask(request: str) -> str:
    """The server's answer to a request. Raises LinkError, OSError."""
    with socket.create_connection(_server(), _ASK_S) as sock:
        _request(sock, request)
        return _text(sock)


def open_service(serial: str, service: str) -> socket.socket:
    """A stream to a service of a phone. Raises LinkError, OSError."""
    sock = socket.create_connection(_server(), _OPEN_S)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _request(sock, f"host:transport:{serial}")
        _request(sock, service)
        sock.settimeout(None)
    except BaseException:
        sock.close()
        raise
    return sock


def _request(sock: socket.socket, text: str) -> None:
    data = text.encode()
    assert len(data) < _MAX_REQUEST
    sock.sendall(f"{len(data):04x}".encode() + data)
    if _exactly(sock, 4) != b"OKAY":
        raise LinkError("the adb server refuses", why=_text(sock)[:200], hint=_AGAIN)


def _text(sock: socket.socket) -> str:
    digits = _exactly(sock, 4)
    try:
        size = int(digits, 16)
    except ValueError:
        raise LinkError("what answers is no adb server", why=repr(digits), hint=_AGAIN) from None
    return _exactly(sock, size).decode("utf-8", "replace")


def _server() -> tuple[str, int]:
    text = os.environ.get("ADB_SERVER_SOCKET", "") or f"tcp:{os.environ.get('ANDROID_ADB_SERVER_PORT', _PORT)}"
    kind, _, rest = text.partition(":")
    host, _, port = rest.rpartition(":")
    if kind != "tcp" or not port.isdecimal() or int(port) > 0xFFFF:
        raise UsageError(f"ADB_SERVER_SOCKET={text} is no address", hint="ADB_SERVER_SOCKET=tcp:localhost:5037")
    return host or "127.0.0.1", int(port)


def _exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = sock.recv(count - len(data))
        if not piece:
            raise LinkError("the adb server hung up", hint=_AGAIN)
        data += piece
    return data
