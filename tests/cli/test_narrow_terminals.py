"""Terminals of a phone's width: nothing that is a number is cut, and what is printed stays inside."""

from __future__ import annotations

import io
import re
import shlex
import sys

import numpy as np
import pytest
from told import EXAMPLE

from sdk.cli import VERBS, run_command

MODEL, FLOAT = EXAMPLE, EXAMPLE.with_name("digits.onnx")
BOARD = "--board nucleo_l4r5zi"
# Command lines, and whether every line of theirs fits: names and paths that are longer than a line are not broken.
LINES = {
    f"inspect {MODEL}": True,
    f"inspect {MODEL} {FLOAT}": True,
    f"build {MODEL} {BOARD} -o o": True,
    f"memory {MODEL} {BOARD}": True,
    f"run {MODEL} {BOARD} --input image=image.npy": True,
    f"verify {MODEL} {BOARD} --cases 1": True,
    f"profile {MODEL} {BOARD}": True,
    "boards": True,
    "boards show nucleo_l4r5zi": False,
}
NUMBER = re.compile(r"\d[\d,.]*\d|\d")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def shown(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """What a command line prints in a terminal of so many columns, without colours."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    np.save("image.npy", np.zeros((1, 8, 8, 1), np.int8))

    def run(line: str, columns: int) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        screen = Terminal()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", screen)
            assert run_command(shlex.split(line)) == 0
        return re.sub(r"\x1b\[[\d;]*m", "", screen.getvalue())

    return run


@pytest.mark.some(5)
@pytest.mark.parametrize("line", LINES, ids=lambda line: re.sub(r"\S*/", "", line))
def test_numbers_stay_whole(shown, line: str) -> None:
    numbers = set(NUMBER.findall(shown(line, 200)))
    assert numbers
    for columns in (40, 60, 80):
        text = shown(line, columns)
        there = set(NUMBER.findall(text)) | set(NUMBER.findall(re.sub(r"\s+", "", text)))
        assert not {n for n in numbers - there if n not in re.sub(r"\s+", "", text)}, (columns, text)
        if LINES[line]:
            long = [row for row in text.splitlines() if len(row.rstrip()) > columns]
            assert not long, (columns, long)


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_help_fits_and_is_whole(shown, columns: int) -> None:
    for verb in ("", *VERBS):
        text = shown(f"{verb} --help", columns)
        commands = re.findall(r"^ +(?:sdk |\$|--\w+ \[).*$", text, re.M)  # to be copied: never broken
        assert not [row for row in text.splitlines() if len(row) > columns and row not in commands], verb
        wide = shown(f"{verb} --help", 200)
        flat = re.sub(r"\W", "", text)  # a word longer than its column is broken, but nothing is left out
        assert not [word for word in re.findall(r"\w+", wide) if word not in flat], verb
