"""Every real model of floats agrees with LiteRT, on this machine and as programs for others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from real import FLOATS

from sdk.cli import run_command

pytestmark = pytest.mark.models
Capture = pytest.CaptureFixture[str]


def agrees(capture: Capture, model: Path, board: str, cases: int, *more: str) -> None:
    code = run_command(["verify", str(model), "--board", board, "--cases", str(cases), "--json", *more])
    report = json.loads(capture.readouterr().out)
    assert (code, report.get("reference"), report.get("cases")) == (0, "litert", cases), report
    assert report["max_rel_err"] < 1e-5, report


@pytest.mark.some(3)
@pytest.mark.parametrize("name", FLOATS)
def test_host(models: Path, name: str, capsys: Capture) -> None:
    agrees(capsys, models / FLOATS[name], "host", 20)


@pytest.mark.some(4)
@pytest.mark.parametrize(("board", "name"), [
    ("wasm32", "kws"), ("wasm32", "ic"), ("wasm32", "hello"), ("aarch64-linux", "ad"), ("aarch64-linux", "hello"),
    ("qemu-cortex-m7", "ad"), ("qemu-cortex-m33", "kws"), ("qemu-cortex-m3", "hello"),
])  # fmt: skip
def test_other_machines(models: Path, name: str, board: str, capsys: Capture) -> None:
    agrees(capsys, models / FLOATS[name], board, 3)


def test_row_by_row(models: Path, capsys: Capture) -> None:
    agrees(capsys, models / FLOATS["vww"], "host", 3, "--memory", "min")
