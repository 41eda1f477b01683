"""Manners of the command: help with examples that run, colours, progress, a quick start."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from sdk import steps
from sdk.cli import VERBS, cli, progress, run_command
from sdk.cli.group import examples

Works = Callable[[str], str]
ELSEWHERE = {"agent", "completion", "doctor", "farm", "fit", "llm"}  # what has tests of its own that run the command


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Terminal]:
    """A function that makes stderr a terminal. (What a fixture itself sets there, pytest takes away again.)"""
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")

    def install() -> Terminal:
        monkeypatch.setattr(sys, "stderr", Terminal())
        return sys.stderr

    return install


# --- help -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_help_ends_with_examples(works: Works, verb: str) -> None:
    shown = works(f"sdk {verb} --help")
    lines = examples(verb)
    assert lines, f"templates/help/examples.toml has none for {verb}"
    tail = shown.split("Examples:\n")[1]
    for line, what in lines:
        assert line in tail
        assert what in " ".join(tail.split())  # it is wrapped


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in ELSEWHERE])
def test_examples_run(works: Works, verb: str) -> None:
    if verb == "bench":
        works("sdk build model.tflite --board host -o out/model")  # what examples name
        Path("base.json").write_text(works("sdk bench model.tflite --board nucleo_l4r5zi --json"), encoding="utf-8")
    for line, _ in examples(verb):
        assert works(line).strip(), line


@pytest.mark.parametrize("verb", ["agent", "doctor", "farm", "fit", "llm"])
def test_other_examples_parse(verb: str) -> None:
    for line, _ in examples(verb):
        name, *arguments = shlex.split(line)[1:]
        assert cli.commands[name].make_context(name, arguments, parent=click.Context(cli, info_name="sdk"))


def test_version(works: Works) -> None:
    assert re.fullmatch(r"sdk \d+\.\d+\.\d+\n", works("sdk --version"))


# --- colours ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "colored"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colors_on_a_terminal(
    terminal: Callable[[], Terminal], monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], colored: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    stream = terminal()
    assert run_command(["build", "x.tflite", "--board", "hots"]) == 2
    assert ("\x1b[" in stream.getvalue()) == colored


@pytest.mark.parametrize(("variables", "colored"), [({}, False), ({"FORCE_COLOR": "1"}, True)])
def test_colors_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variables: dict[str, str], colored: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert run_command(["boards", "show", "hots"]) == 2
    assert ("\x1b[" in capsys.readouterr().err) == colored


# --- progress ---------------------------------------------------------------------------------------------


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY_S", 0.0)


def walk(pause: float) -> None:
    """Steps within steps, as the driver takes them."""
    with steps.step("reading [the] model"):
        time.sleep(pause)
        with steps.step("planning memory"):
            time.sleep(pause)
            steps.update("case 3 of 10")
            time.sleep(pause)


def test_a_second_passes_in_silence(terminal: Callable[[], Terminal]) -> None:
    stream = terminal()
    with progress.shown(as_json=False):
        walk(0.0)
    assert stream.getvalue() == ""


def test_then_the_step_is_shown_and_wiped(terminal: Callable[[], Terminal], at_once: None) -> None:
    stream = terminal()
    with progress.shown(as_json=False):
        walk(0.15)
        wiped = stream.getvalue()
        assert wiped.endswith(("\x1b[2K", "\x1b[?25h", "\x1b[1A\x1b[2K"))  # nothing is left when results are printed
    for text in ("reading [the] model", "planning memory", "case 3 of 10"):
        assert text in wiped
    steps.update("nobody listens")
    assert stream.getvalue() == wiped


@pytest.mark.parametrize("case", ["--json", "a pipe", "a dumb terminal"])
def test_nothing_of_it_elsewhere(
    terminal: Callable[[], Terminal], at_once: None, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    stream = terminal()
    if case == "a pipe":
        monkeypatch.setattr(stream, "isatty", lambda: False)
    elif case == "a dumb terminal":
        monkeypatch.setenv("TERM", "dumb")
    with progress.shown(as_json=case == "--json"):
        walk(0.05)
    assert stream.getvalue() == ""


@pytest.fixture
def told() -> Iterator[list[str | None]]:
    """What listeners are told while the test runs."""
    texts: list[str | None] = []
    with steps.listening(texts.append):
        yield texts


def test_a_build_and_a_comparison_say_what_they_do(
    works: Works, told: list[str | None], desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSLEVEL_CACHE", str(desk / "cache"))
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", os.environ.get("ZIG_GLOBAL_CACHE_DIR", str(Path.home() / ".cache/zig")))
    works("sdk verify model.tflite --board host --against interp --cases 2")
    assert told[-1] is None
    text = "\n".join(filter(None, told))
    for step in ("compiling model.tflite", "compiling: plan-memory", "compiling C: 1 of", "linking", "case 2 of 2"):
        assert step in text
    assert "for the first time" not in text


def test_a_cold_compiler_is_said_to_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from sdk.toolchains import get_toolchain

    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(tmp_path / "none"))
    assert get_toolchain("zig").is_cold()
    assert not get_toolchain("gcc").is_cold()
    (tmp_path / "none" / "o").mkdir(parents=True)
    assert not get_toolchain("zig").is_cold()


# --- start ------------------------------------------------------------------------------------------------


def quickest(line: str) -> float:
    """The least processor seconds of several starts: what a machine that is busy with other things does not change."""
    times = []
    for _ in range(4):
        process = subprocess.Popen([sys.executable, *shlex.split(line)], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        times.append(usage.ru_utime + usage.ru_stime)
    return min(times)


def test_start_is_quick() -> None:
    assert quickest("-m sdk --help") < 0.4
    assert quickest("-c 'import sdk'") < 0.3


@pytest.mark.parametrize("line", ["-m sdk --help", "-m sdk build --help", "-c 'import sdk'"])
def test_start_loads_nothing_large(line: str) -> None:
    command = [sys.executable, "-X", "importtime", *shlex.split(line)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    loaded = {row.split("|")[-1].strip().split(".")[0] for row in done.stderr.splitlines()}
    assert {"sdk"} <= loaded
    assert not loaded & {"numpy", "onnx", "tflite", "rich", "jinja2", "serial", "ziglang"}
