"""A TCP proxy that drops, doubles, delays, cuts and changes what it carries, by a seed."""

from __future__ import annotations

import random
import select
import socket
import threading
import time


class Proxy:
    """Between a tool and an agent: in both directions a piece of ``every`` bytes on average goes wrong. ``record``
    keeps what the tool has sent."""

    def __init__(self, port: int, every: float = 0.0, seed: int = 0) -> None:
        self.every = every
        self.faults: dict[str, int] = {}
        self.record: list[bytes] = []
        self.connections = 0
        self._random = random.Random(seed)
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._open:
            sock.close()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            far = socket.create_connection(("127.0.0.1", self._target))
            for sock in (near, far):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open += [near, far]
            threading.Thread(target=self._carry, args=(near, far), daemon=True).start()

    def _carry(self, near: socket.socket, far: socket.socket) -> None:
        gaps = [self._gap(), self._gap()]
        try:
            while True:
                for sock in select.select([near, far], [], [])[0]:
                    data = sock.recv(65536)
                    if not data:
                        return
                    way = sock is far
                    if not way:
                        self.record.append(data)
                    while self.every and len(data) > gaps[way]:
                        data = self._spoil(data, gaps[way])
                        gaps[way] = self._gap()
                    gaps[way] -= len(data)
                    (near if way else far).sendall(data)
        except (OSError, ValueError, EOFError):
            pass
        finally:
            near.close()
            far.close()

    def _gap(self) -> int:
        return int(self._random.expovariate(1 / self.every)) if self.every else 0

    def _spoil(self, data: bytes, at: int) -> bytes:
        kind = self._random.choice(["drop", "double", "delay", "cut", "change"])
        self.faults[kind] = self.faults.get(kind, 0) + 1
        size = self._random.randrange(1, 9)
        match kind:
            case "drop":
                return data[:at] + data[at + size :]
            case "double":
                return data[:at] + 2 * data[at : at + size] + data[at + size :]
            case "delay":
                time.sleep(0.05)
                return data
            case "cut":
                raise EOFError
            case _:
                return data[:at] + bytes([data[at] ^ 1 << size - 1]) + data[at + 1 :]
