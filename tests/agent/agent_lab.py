"""An agent, in this process or the one written in C, programs for it, and waiting."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from sdk.agent import Server
from sdk.boards import load_board
from sdk.devices import remote
from sdk.devices.keys import Key
from sdk.devices.remote import Address, RemoteProgram, ask_facts
from sdk.devices.transports.tcp import parse_address
from sdk.driver.agent_programs import agent_sources
from sdk.errors import SdkError
from sdk.resources import data_dir
from sdk.toolchains import CompileJob, LinkJob, SourceText, get_toolchain, target_for

TIMEOUT_S = 10.0


def build_twin(out: Path, *defines: str) -> Path:
    """The agent written in C, for this machine."""
    target, tools = target_for(load_board("host")), get_toolchain("gcc")
    flags = ("-Wall", "-Wextra", "-Wshadow", "-Werror", *(f"-D{define}" for define in defines))
    how = {"include_dirs": (data_dir("c_runtime") / "agent",), "flags": flags, "opt": "1"}
    objects = tools.compile_all([CompileJob(SourceText.read(path), target, **how) for path in agent_sources()])
    return tools.link(LinkJob("executable", tuple(objects), target), out)


class TwinServer:
    """The agent written in C: what tests ask of a Server, seen from outside. It keeps its programs in ``store``."""

    def __init__(self, program: Path, folder: Path, key: Key | None, options: tuple[str, ...]) -> None:
        self.key = key
        self.store = SimpleNamespace(root=folder / "store")
        argv = [str(program), "--folder", "store", "--listen", "127.0.0.1:0", *options]
        self.process = subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        found = re.search(r"tcp://(.*):(\d+);", self.process.stdout.readline())
        assert found is not None
        self.address = (found[1], int(found[2]))

    @property
    def runs(self) -> list[str]:
        return os.listdir(self.store.root / "runs")

    @property
    def _connections(self) -> list[str]:
        folder = f"/proc/{self.process.pid}/fd"
        found = []
        for name in os.listdir(folder):
            try:
                found.append(os.readlink(f"{folder}/{name}"))
            except FileNotFoundError:
                continue
        return [name for name in found if name.startswith("socket:")][1:]  # without the listener

    def holder(self) -> str | None:
        host, port = self.address
        keys = [self.key] if self.key else []
        return ask_facts(Address("the twin", host, port, keys), TIMEOUT_S).used_by

    def close(self) -> None:
        self.process.terminate()
        assert self.process.wait(15) in (128 + 15, -9)
        if self.process.stdout is not None:
            self.process.stdout.close()


@dataclass
class Lab:
    """A running agent, and programs to send to it."""

    server: Server | TwinServer
    folder: Path
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


def documented(heading: str) -> list[str]:
    """The commands of the first block under a heading of docs/devices.md, four at most; the first one installs."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "devices.md").read_text(encoding="utf-8")
    lines = text.split(f"\n## {heading}\n")[1].split("```")[1].replace("\\\n", " ").strip().splitlines()
    assert len(lines) <= 4
    assert lines[0] == "pip install '.[zig]'"  # what tests/test_package.py does
    return lines[1:]


def end_of(program: RemoteProgram, seconds: float = 20.0) -> SdkError:
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            program.read(0.5)
    except SdkError as error:
        return error
    finally:
        program.close()
    pytest.fail("it did not end")


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
