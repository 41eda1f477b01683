"""What the tests of the command share: a folder as a first-time user has it, and a way to make a mistake in it."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from told import EXAMPLE, Mistake, Told, read_error

from sdk.cli import run_command


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
