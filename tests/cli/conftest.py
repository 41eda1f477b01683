"""What the tests of the command share: a folder as a first-time user has it, and a way to make a mistake in it."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from sdk.cli import run_command

EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "digits" / "digits_int8.tflite"


@dataclass(frozen=True)
class Told:
    """An error as people read it on stderr, in its parts."""

    code: int
    message: str
    where: str
    why: str
    hint: str

    @property
    def command(self) -> str:
        """The command line in the hint."""
        found = re.search(r"\b(sdk .*|mv .*|python -c .*)$", self.hint)
        assert found, f"no command in: {self.hint}"
        return found[1]


Mistake = Callable[[str], Told]


def read_error(code: int, out: str, err: str) -> Told:
    """The parts of what a failed command has printed: nothing on stdout, on stderr one error that can be read."""
    assert "Traceback" not in err
    assert "internal error" not in err
    assert out == ""
    assert err.startswith("error: "), err
    parts = dict.fromkeys(("where", "why", "hint"), "")
    message = err.removeprefix("error: ").split("\n  where:")[0].split("\n  why:")[0].split("\n  hint:")[0]
    for name in parts:
        if found := re.search(rf"^  {name}: (.*?)(?=^  (?:where|why|hint): |\Z)", err, re.DOTALL | re.MULTILINE):
            parts[name] = found[1].strip()
    assert parts["hint"], f"nothing says what to do next: {err}"
    return Told(code, message.strip(), **parts)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with ``model.tflite`` (input ``image`` i8[1, 8, 8, 1]) and a good ``image.npy``;
    ``float.onnx``, which is the same in floats, and ``calib.npz`` with samples and labels for that."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(EXAMPLE, "model.tflite")
    np.save("image.npy", np.zeros((1, 8, 8, 1), np.int8))
    shutil.copy(EXAMPLE.with_name("digits.onnx"), "float.onnx")
    held = np.load(EXAMPLE.with_name("holdout.npz"))
    ink = (held["images"].astype(np.float32) + 128) / 255
    np.savez("calib.npz", image=ink.transpose(0, 3, 1, 2), label=held["labels"])
    return tmp_path


@pytest.fixture
def mistake(desk: Path, capsys: pytest.CaptureFixture[str]) -> Mistake:
    """A function that runs a command line, which must fail and say so as all errors do."""

    def make(line: str) -> Told:
        code = run_command(shlex.split(line)[1:])
        captured = capsys.readouterr()
        return read_error(code, captured.out, captured.err)

    return make


@pytest.fixture
def works(desk: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """A function that runs a command line, which must succeed, and returns what it prints."""

    def run(line: str) -> str:
        assert run_command(shlex.split(line)[1:]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return run
