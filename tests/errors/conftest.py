"""What the tests of bad input share: a command that must fail well, and boards with too little memory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from failures import Fails, check_error

from sdk.cli import run_command

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "frontends"))  # its writer of .tflite files and its ways to damage them

BOARD = """
schema = 1
extends = "microbit"

[board]
title = "a micro:bit with other memory"

[runtime]
stack = "{stack}"

[[memory]]
name = "flash"
base = 0
size = "{flash}"
kind = "flash"
attrs = ["r", "x", "boot"]

[[memory]]
name = "ram"
base = 0x2000_0000
size = "{ram}"
kind = "ram"
attrs = ["r", "w", "x"]
"""


@pytest.fixture
def fails(capsys: pytest.CaptureFixture[str]) -> Fails:
    """A function that runs ``sdk LINE --json``, which must end with ``code`` and an error that is fit to read.

    Each of ``says`` must be in the message, its place or its cause; each of ``hints`` in the hint.
    """

    def run(code: int, *line: object, says: tuple[str, ...], hints: tuple[str, ...] = ()) -> dict[str, Any]:
        status = run_command([*map(str, line), "--json"])
        captured = capsys.readouterr()
        error = check_error(status, captured.out, captured.err, code)
        told = " ".join(error[part] or "" for part in ("message", "where", "why"))
        assert [word for word in says if word not in told] == [], error
        assert [word for word in hints if word not in error["hint"]] == [], error
        return error

    return run


@pytest.fixture
def digits(root: Path) -> Path:
    """The bundled int8 model: input ``image`` i8[1, 8, 8, 1], output ``digit`` i8[1, 10]."""
    return root / "examples" / "digits" / "digits_int8.tflite"


@pytest.fixture
def add_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """A function that adds a user's board, a micro:bit with the given memory, and returns its name."""
    folder = tmp_path / "boards"
    folder.mkdir()
    monkeypatch.setenv("CROSSLEVEL_BOARDS", str(folder))

    def add(name: str, flash: str = "256K", ram: str = "16K", stack: str = "2K") -> str:
        (folder / f"{name}.toml").write_text(BOARD.format(flash=flash, ram=ram, stack=stack))
        return name

    return add
