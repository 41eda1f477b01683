"""Sessions of the tool with an agent: over good lines, over lines that spoil what they carry, by the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_lab import Lab, until
from agent_proxy import Proxy
from wire_work import work

from sdk.cli import run_command
from sdk.devices import keys, open_device, remote
from sdk.devices.transports.tcp import parse_address

ROOT = Path(__file__).resolve().parent.parent.parent
DIGITS = ROOT / "examples" / "digits" / "digits_int8.tflite"


@pytest.mark.parametrize("lab", ["keyed", "open"], indirect=True)
def test_sessions_over_a_line_that_spoils_what_it_carries(lab: Lab, wire_agent: Path) -> None:
    open_device(lab.uri, artifact=wire_agent, emulator=None, timeout_s=10).close()  # the program is there now
    proxy = Proxy(lab.server.address[1], every=60_000, seed=1)
    uri = f"tcp://127.0.0.1:{proxy.port}"
    for seed in range(3):
        with open_device(uri, artifact=wire_agent, emulator=None, timeout_s=10) as session:
            work(session, seed)
    proxy.close()
    assert proxy.connections > 3  # some were made anew
    assert len(proxy.faults) >= 3
    lab.serves()


@pytest.mark.parametrize("twin", ["python"], indirect=True)
def test_a_lost_connection_is_no_lost_session(lab: Lab, wire_agent: Path) -> None:
    with open_device(lab.uri, artifact=wire_agent, emulator=None, timeout_s=10) as session:
        session.write(0, 0, bytes(64))
        session.run(0)
        for _ in range(3):
            next(iter(lab.server._connections)).abort()
            began = time.monotonic()
            session.write(0, 0, bytes(64))
            session.run(0)
            assert time.monotonic() - began < 5
        assert session.read(0, 1) == b"\3" * 64  # it has kept its state
    lab.serves()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """`sdk agent` as a user starts it: the process, its address, its code."""
    command = [sys.executable, "-m", "sdk", "agent", "--listen", "127.0.0.1:0", "--pair", "--json", "--folder"]
    process = subprocess.Popen([*command, str(tmp_path / "agent")], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    text = ""
    while not text.endswith("}\n") and (line := process.stdout.readline()):
        text += line
    said = json.loads(text)
    yield process, said["address"], said["code"]
    process.kill()
    process.wait()
    process.stdout.close()


def test_the_command_from_pairing_to_a_benchmark(
    served: tuple[subprocess.Popen[str], str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process, address, code = served

    def sdk(*arguments: str) -> tuple[int, str]:
        status = run_command(arguments)
        return status, capsys.readouterr().out

    where = (str(DIGITS), "--board", "host", "--device", address)
    status, said = sdk("bench", *where, "--json")
    assert (status, "--trust" in said) == (2, True)
    assert sdk("agent", "--trust", code.lower())[0] == 0
    assert "already in" in sdk("agent", "--trust", code)[1]
    status, said = sdk("bench", *where, "--json")
    report = json.loads(said)
    assert (status, report["emulated"], report["median_ms"] > 0) == (0, False, True)
    assert sdk("verify", *where, "--against", "interp", "--cases", "3")[0] == 0
    assert sdk("profile", *where)[0] == 0
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 128 + signal.SIGTERM
    assert not os.listdir(tmp_path / "agent" / "runs")
    assert sdk("bench", *where)[0] == 3


def script(folder: Path) -> Path:
    path = folder / "endless"
    path.write_text("#!/bin/sh\necho up\nwhile :; do :; done\n", encoding="utf-8")
    return path


def test_an_agent_that_is_killed_takes_its_programs_along(
    served: tuple[subprocess.Popen[str], str, str], tmp_path: Path
) -> None:
    process, address, code = served
    keys.add_code(keys.known_keys_file(), code)
    program = remote.open_program(parse_address(address), script(tmp_path), 10)
    assert program.read(5) == b"up\n"
    assert os.listdir(tmp_path / "agent" / "runs")
    process.kill()
    until(lambda: not os.listdir(tmp_path / "agent" / "runs"))
    program.close()
