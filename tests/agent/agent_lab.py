"""An agent in this process, programs for it, and waiting."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sdk.agent import Server
from sdk.devices import remote
from sdk.devices.remote import RemoteProgram
from sdk.devices.transports.tcp import parse_address

TIMEOUT_S = 10.0


@dataclass
class Lab:
    """A running agent, and programs to send to it."""

    server: Server
    folder: Path
    thread: threading.Thread
    uri: str = field(init=False)

    def __post_init__(self) -> None:
        self.uri = f"tcp://127.0.0.1:{self.server.address[1]}"

    def script(self, text: str, interpreter: str = "/bin/sh") -> Path:
        path = self.folder / f"script{len(text)}-{abs(hash(text))}"
        path.write_text(f"#!{interpreter}\n{text}\n", encoding="utf-8")
        return path

    def open(self, program: Path, uri: str = "") -> RemoteProgram:
        return remote.open_program(parse_address(uri or self.uri), program, TIMEOUT_S)

    def serves(self) -> None:
        """The agent runs programs as on the first day, and nothing is left of those before."""
        program = self.open(self.script("exec cat"))
        program.write(b"ping", 5)
        assert read_all(program, 4) == b"ping"
        program.close()
        until(lambda: not self.server.runs and not os.listdir(self.server.store.root / "runs"))


def read_all(program: RemoteProgram, count: int) -> bytes:
    data, deadline = b"", time.monotonic() + TIMEOUT_S
    while len(data) < count and time.monotonic() < deadline:
        data += program.read(0.5)
    return data


def until(reached: Callable[[], bool], seconds: float = TIMEOUT_S) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def running(mark: str) -> list[int]:
    """The processes whose command lines have ``mark``."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and mark.encode() in Path("/proc", name, "cmdline").read_bytes():
                found.append(int(name))
        except OSError:
            pass
    return found
