"""A phone for the adb server: a daemon that speaks adb's transport protocol over TCP, and runs what it is asked to.

Messages are 24 bytes: command, two arguments, length, checksum, the command's complement, and what follows.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import subprocess
import threading
from pathlib import Path

_HEAD = struct.Struct("<4sIIIII")
_VERSION = 0x01000000  # with checksums
_MAX_DATA = 1 << 18


class Phone:
    """A daemon at ``port``; what is ``/data/local/tmp`` to programs is ``folder``. ``mute``: it answers nothing."""

    def __init__(self, folder: Path, *, mute: bool = False, stranger: bool = False) -> None:
        self._folder = folder
        self._mute, self._stranger = mute, stranger
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.serial = f"127.0.0.1:{self.port}"
        self.services: list[str] = []
        self._socks: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Unplug it."""
        self._listener.close()
        for sock in self._socks:
            sock.close()

    def unplug(self) -> None:
        """Break all connections."""
        for sock in self._socks:
            with_suppressed(sock)

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as adbd does: small messages both ways
            self._socks.append(sock)
            threading.Thread(target=_Link(self, sock).serve, daemon=True).start()

    def start(self, service: str) -> subprocess.Popen[bytes]:
        """Run what a service is to run."""
        self.services.append(service)
        command = service.removeprefix("exec:").replace("/data/local/tmp", str(self._folder))
        near, far = socket.socketpair()
        try:
            process = subprocess.Popen(["sh", "-c", command], stdin=far, stdout=far, stderr=far)
        finally:
            far.close()
        process.pipe = near  # type: ignore[attr-defined]
        return process


class _Link:
    """One connection of a server."""

    def __init__(self, phone: Phone, sock: socket.socket) -> None:
        self._phone = phone
        self._sock = sock
        self._lock = threading.Lock()
        self._streams: dict[int, tuple[socket.socket, subprocess.Popen[bytes], int, threading.Event]] = {}

    def serve(self) -> None:
        try:
            while True:
                command, one, two, size, _, _ = _HEAD.unpack(self._exactly(_HEAD.size))
                self._message(command, one, two, self._exactly(size))
        except (OSError, EOFError, ValueError):
            pass
        finally:
            for number in list(self._streams):
                self._end(number)
            self._sock.close()

    def _message(self, command: bytes, one: int, two: int, data: bytes) -> None:
        if self._phone._mute:
            return
        if command in (b"CNXN", b"AUTH") and self._phone._stranger:
            self._send(b"AUTH", 1, 0, os.urandom(20))
        elif command == b"CNXN":
            banner = b"device::ro.product.name=test;ro.product.model=Test Phone;ro.product.device=test;features=cmd"
            self._send(b"CNXN", _VERSION, _MAX_DATA, banner)
        elif command == b"OPEN":
            self._open(one, data.rstrip(b"\0").decode())
        elif command == b"WRTE" and two in self._streams:
            self._take(two, one, data)
        elif command == b"OKAY" and two in self._streams:
            self._streams[two][3].set()
        elif command == b"CLSE":
            self._end(two)

    def _open(self, remote: int, service: str) -> None:
        if not service.startswith("exec:"):
            self._send(b"CLSE", 0, remote)
            return
        process = self._phone.start(service)
        number = process.pid
        self._streams[number] = (process.pipe, process, remote, threading.Event())  # type: ignore[attr-defined]
        self._send(b"OKAY", number, remote)
        threading.Thread(target=self._carry, args=(number,), daemon=True).start()

    def _take(self, number: int, remote: int, data: bytes) -> None:
        """What a program is to read; where it has died, its stream alone ends, as adbd has it."""
        try:
            self._streams[number][0].sendall(data)
        except OSError:
            self._send(b"CLSE", number, remote)
            self._end(number)
        else:
            self._send(b"OKAY", number, remote)

    def _carry(self, number: int) -> None:
        """What a program writes; one message at a time, as the protocol has it."""
        pipe, process, remote, taken = self._streams[number]
        try:
            while data := pipe.recv(_MAX_DATA):
                taken.clear()
                self._send(b"WRTE", number, remote, data)
                if not taken.wait(30):
                    return
            self._send(b"CLSE", number, remote)
        except OSError:
            pass
        finally:
            process.wait()

    def _end(self, number: int) -> None:
        found = self._streams.pop(number, None)
        if found is not None:
            found[3].set()
            with_suppressed(found[0])

    def _send(self, command: bytes, one: int, two: int, data: bytes = b"") -> None:
        magic = int.from_bytes(command, "little") ^ 0xFFFFFFFF
        with self._lock:
            self._sock.sendall(_HEAD.pack(command, one, two, len(data), sum(data) & 0xFFFFFFFF, magic) + data)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            select.select([self._sock], [], [])
            piece = self._sock.recv(count - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data


def with_suppressed(sock: socket.socket) -> None:
    """Shut a connection that may be gone."""
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    finally:
        sock.close()
