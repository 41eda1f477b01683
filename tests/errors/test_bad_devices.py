"""Missing tools and devices that are silent, talk nonsense or die: exit codes 3, 6, 7 and 10 with a way out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from failures import Fails, check_error

from sdk.cli import run_command
from sdk.devices import schemes
from sdk.driver import session

TIMEOUT_S = 1.5
# Stands between us and a real agent: passes all on, until a run is asked for.
PROXY = """#!{python}
import os, signal, subprocess, sys, threading
sys.path.insert(0, {root!r})
from sdk.devices.wire import Decoder, Kind, Op

agent = subprocess.Popen([{agent!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
decoder = Decoder(65536)


def answers():
    while data := agent.stdout.read(65536):
        os.write(1, data)


def at_run():
    {at_run}


threading.Thread(target=answers, daemon=True).start()
while data := os.read(0, 65536):
    if any(frame.kind == Kind.REQ and frame.op == Op.RUN for frame in decoder.feed(data)):
        at_run()
    else:
        agent.stdin.write(data)
"""


@pytest.fixture
def image(tmp_path: Path) -> str:
    """A good input of the bundled model, as an argument."""
    np.save(tmp_path / "image.npy", np.zeros((1, 8, 8, 1), np.int8))
    return f"image={tmp_path / 'image.npy'}"


def program(folder: Path, text: str) -> str:
    """The address of a device that is this script."""
    path = folder / "device"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return f"local:{path}"


# Addresses.


@pytest.mark.parametrize(
    ("code", "uri", "says", "hints"),
    [
        (
            2,
            "telepathy://192.0.2.1:9000",
            ("'telepathy://192.0.2.1:9000' is not a device address",),
            ("local:", "qemu://"),
        ),
        (2, "ttyACM0", ("'ttyACM0' is not a device address",), ("local:", "qemu://")),
        (2, "qemu://", ("no emulator", "qemu://"), ("sdk boards",)),
        (3, "local:/no/such/agent", ("/no/such/agent", "No such file"), ("local:",)),
    ],
)
def test_addresses(
    fails: Fails,
    digits: Path,
    image: str,
    code: int,
    uri: str,
    says: tuple[str, ...],
    hints: tuple[str, ...],
) -> None:
    line = ("run", digits, "--board", "host", "--device", uri, "--input", image)
    error = fails(code, *line, says=says, hints=hints)
    named = re.findall(r"\b(\w+):", error["hint"])
    assert set(named) <= set(schemes())  # a hint that names no transport leads to the next error


def test_a_device_without_a_board(fails: Fails, digits: Path) -> None:
    fails(2, "run", digits, "--device", "local:", says=("which board is the device?",), hints=("--board",))


def test_firmware_started_as_a_program(fails: Fails, digits: Path, image: str) -> None:
    line = ("run", digits, "--board", "microbit", "--device", "local:", "--input", image)
    fails(3, *line, says=("cannot start the agent",), hints=("qemu://",))


# Devices that answer nothing, nonsense, or no more.


@pytest.mark.parametrize(
    ("code", "script", "says"),
    [
        (6, "exec sleep 60", ("no valid greeting", "not one byte was received")),
        (6, "exec yes", ("no valid greeting", r"b'y\ny\n")),
        (6, "exec cat", ("no valid greeting",)),
        (6, "exit 0", ("ended before it answered",)),
        (7, "echo out of order >&2; exit 3", ("ended with status 3", "out of order")),
        (7, "kill -SEGV $$", ("killed by SIGSEGV",)),
    ],
    ids=["silent", "garbage", "echo", "polite", "status", "signal"],
)
def test_devices_that_never_greet(
    fails: Fails,
    digits: Path,
    image: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    script: str,
    says: tuple[str, ...],
) -> None:
    monkeypatch.setattr(session, "TIMEOUT_S", TIMEOUT_S)
    uri = program(tmp_path, f"#!/bin/sh\n{script}\n")
    began = time.monotonic()
    fails(code, "run", digits, "--board", "host", "--device", uri, "--input", image, says=says)
    assert time.monotonic() - began < 2 * TIMEOUT_S + 10  # the build and a busy machine


@pytest.mark.parametrize(
    ("code", "at_run", "says"),
    [
        (7, "os.kill(os.getpid(), signal.SIGKILL)", ("killed by SIGKILL",)),
        (7, "sys.exit('heap exhausted')", ("ended with status 1", "heap exhausted")),
        (
            6,
            "os.write(1, b'assert failed at line 3\\0' * 9)",
            ("no answer to RUN", "valid frames", "damaged"),
        ),
        (6, "pass", ("no answer to RUN",)),
    ],
    ids=["killed", "gives up", "garbage", "silent"],
)
@pytest.mark.parametrize("verb", ["run", "bench", "verify"])
def test_devices_lost_in_a_run(
    fails: Fails,
    digits: Path,
    image: str,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    verb: str,
    code: int,
    at_run: str,
    says: tuple[str, ...],
) -> None:
    out = tmp_path / "out"
    assert run_command(["build", str(digits), "--board", "host", "--emit", "firmware", "-o", str(out)]) == 0
    capsys.readouterr()
    monkeypatch.setattr(session, "TIMEOUT_S", TIMEOUT_S)
    agent = str(out / "digits_int8.agent")
    uri = program(tmp_path, PROXY.format(python=sys.executable, root=str(root), agent=agent, at_run=at_run))
    given = ("--input", image) if verb == "run" else ()
    error = fails(code, verb, digits, "--board", "host", "--device", uri, *given, says=says)
    assert " 0 damaged" not in error["why"] or at_run == "pass"


@pytest.mark.emulator
def test_an_emulated_board_without_stack(
    fails: Fails, digits: Path, image: str, add_board: Callable[..., str], need_tool: Any
) -> None:
    need_tool("qemu-system-arm")
    name = add_board("shallow", stack="128")
    line = (7, "run", digits, "--board", name, "--input", image)
    fails(*line, "--device", "qemu://", says=("qemu-system-arm",), hints=("stack",))
    fails(*line, says=("lockup",), hints=("stack",))


# How long a device may take.


@pytest.mark.parametrize("variable", ["CROSSLEVEL_TIMEOUT", "CROSSLEVEL_DEADLINE"])
@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "inf"])
def test_waits_that_are_none(
    fails: Fails, digits: Path, image: str, monkeypatch: pytest.MonkeyPatch, variable: str, text: str
) -> None:
    monkeypatch.setenv(variable, text)
    line = ("run", digits, "--board", "host", "--input", image)
    fails(2, *line, says=(f"{variable}={text} is no number of seconds",), hints=(variable,))


def test_a_device_that_is_always_at_work(
    fails: Fails,
    digits: Path,
    image: str,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It says so, and that it gets on, as often as it should: the deadline of the request ends it."""
    out = tmp_path / "out"
    assert run_command(["build", str(digits), "--board", "host", "--emit", "firmware", "-o", str(out)]) == 0
    capsys.readouterr()
    monkeypatch.setenv("CROSSLEVEL_DEADLINE", "2")
    busy = (
        "import struct, time; from sdk.devices.wire import Frame; f = decoder.last\n"
        "    for k in range(1, 999): os.write(1, Frame(7, f.session, f.id, 1, struct.pack('<HHII', 12, 0, k, 999))"
        ".encode()); time.sleep(0.1)"
    )
    text = PROXY.replace("if any(frame.kind == Kind.REQ and frame.op == Op.RUN for frame in decoder.feed(data)):", (
        "runs = [f for f in decoder.feed(data) if f.kind == Kind.REQ and f.op == Op.RUN]\n"
        "    decoder.last = runs[-1] if runs else None\n"
        "    if runs:"
    ))
    agent = str(out / "digits_int8.agent")
    uri = program(tmp_path, text.format(python=sys.executable, root=str(root), agent=agent, at_run=busy))
    began = time.monotonic()
    line = ("run", digits, "--board", "host", "--device", uri, "--input", image)
    fails(6, *line, says=("RUN is not done after 2 s in all",), hints=("CROSSLEVEL_DEADLINE=",))
    assert time.monotonic() - began < 15


# Tools that are not installed.


def without(line: list[str], *, path: Path | None = None, module: str = "") -> dict[str, Any]:
    """The error of ``sdk LINE --json`` with ``path`` as PATH, or without a Python module; its exit code is 10."""
    command = "import sys; from sdk.cli import main; main()"
    if module:
        command = f"import sys; sys.modules[{module!r}] = None; {command}"
    environment = dict(os.environ) if path is None else {**os.environ, "PATH": str(path)}
    done = subprocess.run(
        [sys.executable, "-c", command, *line, "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=environment,
    )
    return check_error(done.returncode, done.stdout, done.stderr, 10)


def test_no_emulator(digits: Path, image: str, tmp_path: Path) -> None:
    line = ["run", str(digits), "--board", "microbit", "--input", image, "--device", "qemu://"]
    error = without(line, path=tmp_path)
    assert "qemu-system-arm is not installed" in error["message"]
    assert "apt-get install qemu-system-arm" in error["hint"]


@pytest.mark.parametrize(
    ("board", "compiler", "package"),
    [
        ("host", "gcc", "gcc"),
        ("host", "clang", "clang"),
        ("microbit", "arm-none-eabi-gcc", "gcc-arm-none-eabi"),
    ],
)
def test_no_compiler(digits: Path, tmp_path: Path, board: str, compiler: str, package: str) -> None:
    line = ["build", str(digits), "--board", board, "--toolchain", compiler, "-o", str(tmp_path / "out")]
    error = without(line, path=tmp_path)
    assert f"{compiler} is not installed" in error["message"]
    assert f"apt-get install -y {package}" in error["hint"]
    assert "--toolchain zig" in error["hint"]


def test_no_zig(digits: Path) -> None:
    error = without(["build", str(digits), "--board", "host", "--toolchain", "zig"], module="ziglang")
    assert "zig toolchain is not installed" in error["message"]
    assert "pip install 'ziglang" in error["hint"]


def test_no_compiler_at_all(digits: Path, tmp_path: Path) -> None:
    error = without(["build", str(digits), "--board", "microbit"], path=tmp_path, module="ziglang")
    assert error["message"] == "no C compiler for thumb-freestanding-eabi is installed"
    assert "looked for zig, arm-none-eabi-gcc" in error["why"]
    assert "pip install 'ziglang" in error["hint"]
    assert "apt-get install -y gcc-arm-none-eabi" in error["hint"]


def test_no_reference(digits: Path) -> None:
    line = ["verify", str(digits), "--board", "host", "--against", "tflite-micro"]
    error = without(line, module="tflite_micro.python.tflite_micro.runtime")
    assert "tflite-micro is not installed" in error["message"]
    assert "pip install 'tflite-micro" in error["hint"]
