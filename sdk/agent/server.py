"""The agent's server: who may connect, how many, one tool at a time; a thread for each connection."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import select
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from sdk.agent.connection import Connection
from sdk.agent.facts import machine_facts
from sdk.agent.run import Run
from sdk.agent.store import Store
from sdk.devices.channel import Failure, Hello, RefusedError
from sdk.devices.keys import Key
from sdk.errors import UsageError

__all__ = ["Limits", "Server", "is_loopback"]

_MAX_CONNECTIONS = 64
_MAX_UNPROVEN = 32
_MAX_RUNS = 8
_FORGET_S = 5.0  # for which a program outlives its connection, for the tool to come back
_STEP_S = 0.25
_ESTABLISHED = "01"
_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}


@dataclass(frozen=True)
class Limits:
    """What programs may take, in bytes: ``programs`` of them are kept; each may hold ``memory`` and write ``disk``."""

    programs: int = 2 << 30
    memory: int = 0  # 0: four fifths of what is free when it starts
    disk: int = 256 << 20


class Server:
    """An agent that listens at ``host``:``port`` (0: any port); without a key at this machine's own addresses only.

    Raises:
        UsageError: the address needs a key, is none, or is taken; the folder is not safe.
    """

    def __init__(
        self, host: str, port: int, folder: Path, key: Key | None = None, limits: Limits | None = None
    ) -> None:
        if key is None and not is_loopback(host):
            raise UsageError(
                f"an agent at {host} needs a key",
                why="whoever reaches it can run programs as you",
                hint="sdk agent --pair makes a key and prints a code for the other machine",
            )
        self.key = key
        self.limits = limits or Limits()
        self.runs: dict[bytes, Run] = {}
        self._connections: dict[Connection, None] = {}  # oldest first
        self._holder: Hello | None = None
        self._lock = threading.RLock()
        self._closing = False
        self._listener = _listen(host, port)
        try:
            self.store = Store(folder, self.limits.programs)
        except BaseException:
            self._listener.close()
            raise
        self.address: tuple[str, int] = self._listener.getsockname()[:2]

    def serve(self) -> None:
        """Serve until ``close`` is called, or an exception such as KeyboardInterrupt ends it."""
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        while not self._closing:
            ready = poll.poll(_STEP_S * 1000)
            if self._closing:
                return
            if ready:
                self._accept()
            self._forget()

    def close(self) -> None:
        """End all connections and programs, and remove their folders."""
        with self._lock:
            self._closing = True
            connections, runs = list(self._connections), list(self.runs.values())
        self._listener.close()
        for connection in connections:
            connection.abort()
        for run in runs:
            run.stop()
        for connection in connections:
            connection.join(2.0)
        with self._lock:
            left = list(self.runs.values())
            self.runs.clear()
        for run in left:
            run.close()
        self.store.close()

    def hold(self, hello: Hello) -> None:
        """Have the machine for a tool alone; raise RefusedError when another one has it."""
        with self._lock:
            if self._holder is not None and self._holder.client != hello.client and self._is_held():
                raise RefusedError(Failure.BUSY, f"{self._holder.label or 'somebody'} uses it")
            self._holder = hello

    def holder(self) -> str | None:
        """Who has the machine."""
        with self._lock:
            return self._holder.label if self._holder is not None and self._is_held() else None

    def start(self, hello: Hello, digest: bytes, memory: int, cores: int) -> Run:
        """Start a program for a tool. Raises RefusedError."""
        own = self.limits.memory or (machine_facts().free_bytes or 0) * 4 // 5
        memory = min(memory, own) if memory and own else memory or own
        with self._lock:
            if len(self.runs) >= _MAX_RUNS:
                raise RefusedError(Failure.BUSY, f"{_MAX_RUNS} programs run already")
            run = Run(
                self.store, digest, hello.client, memory_bytes=memory, disk_bytes=self.limits.disk, cores=cores
            )
            self.runs[run.id] = run
        return run

    def attach(self, connection: Connection, hello: Hello, number: bytes) -> Run:
        """Take over a program whose connection was lost. Raises RefusedError."""
        with self._lock:
            run = self.runs.get(number)
            if run is None or run.client != hello.client:
                raise RefusedError(Failure.UNKNOWN, "there is no such program, or no longer")
            old = next((other for other in self._connections if other.run is run and other is not connection), None)
        if old is not None:  # it has not noticed yet
            old.abort()
            old.join(2.0)
        with self._lock:
            if self.runs.get(number) is not run or run.lost_at is None:
                raise RefusedError(Failure.UNKNOWN, "there is no such program, or no longer")
            run.lost_at = None
            return run

    def lose(self, run: Run) -> None:
        """The connection to a program is lost: it may be taken over for a while."""
        with self._lock:
            run.lost_at = time.monotonic()

    def drop(self, run: Run) -> None:
        """A program is over."""
        with self._lock:
            self.runs.pop(run.id, None)
        run.close()

    def leave(self, connection: Connection) -> None:
        """A connection is over."""
        with self._lock:
            self._connections.pop(connection, None)

    def _is_held(self) -> bool:
        assert self._holder is not None
        client = self._holder.client
        return any(run.client == client for run in self.runs.values()) or any(
            connection.holds == client for connection in self._connections
        )

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:  # gone again, or too many files are open: others may close theirs
            time.sleep(0.01)
            return
        if self.key is None and not _is_ours(sock):
            sock.close()
            return
        _tune(sock)
        connection = Connection(self, sock)
        with self._lock:
            unproven = [other for other in self._connections if not other.proven]
            if len(unproven) >= _MAX_UNPROVEN:  # the oldest one has had its time: none can keep others out by waiting
                unproven[0].abort()
            if len(self._connections) >= _MAX_CONNECTIONS:
                sock.close()
                return
            self._connections[connection] = None
        connection.start()

    def _forget(self) -> None:
        """End programs whose tools do not come back."""
        with self._lock:
            gone = [run for run in self.runs.values() if run.forgotten_s > _FORGET_S]
            for run in gone:
                del self.runs[run.id]
        for run in gone:
            run.close()


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own, which nothing from elsewhere reaches."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listen(host: str, port: int) -> socket.socket:
    hint = "sdk agent --listen HOST:PORT names another"
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(128)
        except BaseException:
            listener.close()
            raise
        listener.setblocking(False)
    except (OSError, OverflowError) as error:
        why = error.strerror if isinstance(error, OSError) else "ports are 0 to 65535"
        raise UsageError(f"cannot listen at {host}:{port}", why=why, hint=hint) from None
    return listener


def _tune(sock: socket.socket) -> None:
    """Send at once, and notice when the other machine is no more."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _is_ours(sock: socket.socket) -> bool:
    """Whether the process at the other end, on this machine, is this user's or root's, where /proc tells: others who
    use the machine may connect to its own addresses too."""
    host, port = sock.getpeername()[:2]
    mine = sock.getsockname()[1]
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as file:
                rows = [line.split() for line in file][1:]
        except OSError:
            continue
        for row in rows:
            if int(row[1].rsplit(":", 1)[1], 16) == port and int(row[2].rsplit(":", 1)[1], 16) == mine:
                # one that has been closed already counts as nobody's, which looks like root's
                return row[3] == _ESTABLISHED and int(row[7]) in (os.geteuid(), 0)
    return not os.path.exists("/proc/net/tcp") or not is_loopback(host)
