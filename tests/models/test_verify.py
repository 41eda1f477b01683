"""Every real model equals tflite-micro bit for bit, on this machine and on every emulated board that can hold it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from real import BOARDS, FIT_SMALLEST, NAMES, ON_OTHER_CORE, OTHER_CORE, SMALLEST_BOARD, STATEFUL

from sdk.cli import run_command

pytestmark = pytest.mark.models


Capture = pytest.CaptureFixture[str]


def verify(capture: Capture, model: Path, board: str, cases: int, *more: str) -> tuple[int, dict[str, object]]:
    code = run_command(["verify", str(model), "--board", board, "--cases", str(cases), "--json", *more])
    return code, json.loads(capture.readouterr().out)


@pytest.mark.parametrize("name", NAMES)
def test_host(models: Path, name: str, capsys: Capture) -> None:
    cases = 200 if name in STATEFUL else 100
    code, report = verify(capsys, models / NAMES[name], "host", cases)
    assert (code, report["reference"], report["exact_cases"]) == (0, "tflite-micro", cases), report


@pytest.mark.some(20)
@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("name", NAMES)
def test_emulated_board(models: Path, name: str, board: str, capsys: Capture) -> None:
    code, report = verify(capsys, models / NAMES[name], board, 3)
    if board == SMALLEST_BOARD and name not in FIT_SMALLEST:
        assert code == 1
        assert "bytes" in report["error"]["message"], report
        return
    assert (code, report["exact_cases"], report["emulated"]) == (0, 3, True), report


@pytest.mark.parametrize("name", ON_OTHER_CORE)
def test_another_instruction_set(models: Path, name: str, capsys: Capture) -> None:
    code, report = verify(capsys, models / NAMES[name], OTHER_CORE, 3)
    assert (code, report["exact_cases"], report["emulated"]) == (0, 3, True), report


@pytest.mark.some(10)
@pytest.mark.parametrize("isa", ["all", "scalar"])
@pytest.mark.parametrize("name", NAMES)
def test_webassembly(models: Path, name: str, isa: str, capsys: Capture) -> None:
    own = [] if isa == "all" else ["--isa", isa]
    code, report = verify(capsys, models / NAMES[name], "wasm32", 20, *own)
    assert (code, report["exact_cases"], report["emulated"]) == (0, 20, False), report


@pytest.mark.some(5)
@pytest.mark.parametrize("name", NAMES)
def test_row_by_row(models: Path, name: str, capsys: Capture) -> None:
    code, report = verify(capsys, models / NAMES[name], "nucleo_l4r5zi", 3, "--memory", "min")
    assert (code, report["exact_cases"]) == (0, 3), report
