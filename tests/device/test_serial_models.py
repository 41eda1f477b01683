"""The commands with a board at a serial port: its own firmware, as it would be flashed, behind a pseudo terminal."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from serial_bridge import Bridge, emulated

from sdk.boards import load_board
from sdk.cli import run_command
from sdk.driver.machines import emulator_of

ROOT = Path(__file__).resolve().parents[2]
DIGITS = str(ROOT / "examples" / "digits" / "digits_int8.tflite")
BOARD = "nucleo_l4r5zi"


def test_run_verify_and_bench_on_what_is_flashed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def sdk(*arguments: str) -> tuple[int, dict]:
        status = run_command([*arguments, "--json"])
        return status, json.loads(capsys.readouterr().out)

    out = tmp_path / "out"
    assert sdk("build", DIGITS, "--board", BOARD, "--emit", "firmware", "-o", str(out))[0] == 0
    [image] = out.glob("*.elf")
    spec = emulator_of(load_board(BOARD), image)
    assert spec is not None
    with contextlib.closing(Bridge(emulated(spec, image), rate=1e-4, seed=1)) as bridge:
        where = ("--board", BOARD, "--device", bridge.uri)
        status, said = sdk("verify", DIGITS, *where, "--against", "interp", "--cases", "3")
        assert (status, said["passed"], said["exact_cases"]) == (0, True, 3)
        status, said = sdk("bench", DIGITS, *where)
        assert (status, said["emulated"], said["median_ms"] > 0) == (0, False, True), said
        (tmp_path / "x.tflite").write_bytes(Path(DIGITS).read_bytes() + b"\0")
        status, said = sdk("verify", str(tmp_path / "x.tflite"), "--name", "digits_int8", *where)
        assert (status, "another version of the model" in said["error"]["message"]) == (6, True)
