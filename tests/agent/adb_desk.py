"""Debian's adb server, with phones of a test's own at it."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from adb_phone import Phone
from agent_lab import until


class Desk:
    """An adb server at ``port``, which writes into ``home``, and phones at it, whose files are below ``folder``."""

    def __init__(self, adb: str, home: Path, folder: Path) -> None:
        self._adb, self._home, self._folder = adb, home, folder
        self.phones: list[Phone] = []
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.server = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        home, quiet = str(self._home), subprocess.DEVNULL
        environment = {**os.environ, "HOME": home, "ANDROID_SDK_HOME": home, "ADB_MDNS": "0"}
        argv = [self._adb, "-P", str(self.port), "nodaemon", "server"]
        with (self._home / "log").open("ab") as log:
            process = subprocess.Popen(argv, env=environment, stdin=quiet, stdout=log, stderr=log)

        def listens() -> bool:
            assert process.poll() is None, (self._home / "log").read_text()
            with socket.socket() as sock:
                return sock.connect_ex(("127.0.0.1", self.port)) == 0

        until(listens, 30)
        return process

    def kill_server(self) -> None:
        """End the server at once, with all that it knows."""
        self.server.kill()
        self.server.wait()

    def restart(self) -> None:
        """Another server, that knows the same phones."""
        self.server = self._started()
        for phone in self.phones:
            self.adb("connect", phone.serial)

    def adb(self, *words: str) -> str:
        """What adb says to a command."""
        argv = [self._adb, "-P", str(self.port), *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        return done.stdout + done.stderr

    def plug(self, **how: bool) -> Phone:
        """Another phone."""
        place = self._folder / f"phone{len(self.phones)}"
        place.mkdir()
        phone = Phone(place, **how)
        self.phones.append(phone)
        self.adb("connect", phone.serial)
        return phone


@contextmanager
def adb_desk(adb: str, home: Path, folder: Path) -> Iterator[Desk]:
    """A desk while the block runs."""
    desk = Desk(adb, home, folder)
    try:
        yield desk
    finally:
        desk.adb("disconnect")
        for phone in desk.phones:
            phone.close()
        desk.server.terminate()
        desk.server.wait(20)
