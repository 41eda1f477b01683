"""Numbers that documents state of models that are not in the tree: what the benchmarks print today."""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = 5  # models of the table of docs/speed.md
TWICE = ("nucleo_f103rb",)  # its core is there in a machine that holds every model


def printed(script: str, models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setattr(sys, "argv", [script, "--models", str(models)])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(ROOT / "benchmarks" / script), run_name="__main__")
    assert end.value.code == 0
    return capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.models
def test_estimates_beside_published_results(
    models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "fit.md").read_text(encoding="utf-8")
    rows = [line for line in printed("fit_error.py", models, monkeypatch, capsys).splitlines() if line.startswith("|")]
    assert len(rows) > 25
    assert [row for row in rows if row not in page] == []


@pytest.mark.slow
@pytest.mark.models
@pytest.mark.parametrize("name", ["KWS", "IC", "AD", "VWW"])
def test_the_table_of_the_readme(models: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """RAM, code, constants and instructions of a run, for the emulated Cortex-M4."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    budgets = runpy.run_path(str(ROOT / "benchmarks" / "budgets.py"))
    report, instructions = budgets["on_board"](models / budgets["MODELS"][name], budgets["BuildOptions"]())
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| {name} \| (.*) \|$", text, re.M)
    assert row
    stated = [int(cell.replace(",", "")) for cell in row[1].split(" | ")[:4]]
    assert stated == [report.ram_bytes, report.sections["text"], report.sections["rodata"], instructions]


@pytest.mark.slow
@pytest.mark.models
def test_the_table_of_whole_models(
    models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Million instructions and cycles of every model on every kind of core."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.setattr(sys, "argv", ["cores.py", "--models", str(models), "--json"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(ROOT / "benchmarks" / "cores.py"), run_name="__main__")
    assert end.value.code == 0
    found = [row for row in json.loads(capsys.readouterr().out)["models"] if row["board"] not in TWICE]
    cells = [f"{row['instructions'] / 1e6:.2f} / {row['est_cycles'] / 1e6:.2f}" for row in found]
    rows = [" | ".join(cells[at : at + COLUMNS]) for at in range(0, len(cells), COLUMNS)]
    page = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    assert len(rows) == 7
    assert [row for row in rows if f" | {row} |" not in page] == []
