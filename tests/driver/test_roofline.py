"""``sdk fit --phones``: the roofline of phones' fastest cores, and how far published runs are from it."""

from __future__ import annotations

import json
import re
import runpy
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sdk.boards import Fastest, board_names, load_board
from sdk.cli import run_command
from sdk.driver import BuildOptions
from sdk.driver.program import save_program
from sdk.driver.roofline import PUBLISHED, fit_phones
from sdk.errors import UsageError
from sdk.graph import ModuleBuilder, f32

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "digits" / "digits_int8.tflite"
MACS = 25_600  # of MODEL, as `sdk inspect` counts them
WIDE = Fastest(cpu="any", clock_hz=10**9, pipelines=2, memory_bytes_s=10**18)


def dense(folder: Path) -> Path:
    """A product of n rows of 64 floats with a 64 x 32 matrix."""
    g = ModuleBuilder("dense")
    n = g.dim("n", 1, 100)
    table = g.const("table", np.ones((64, 32), np.float32))
    with g.entry("main") as e:
        e.output("y", e.input("x", f32, (n, 64)) @ table)
    path = folder / "dense.ir"
    save_program(g.module(), path)
    return path


@pytest.mark.parametrize(("name", "products"), [("pixel_8", 16), ("rpi_4b", 8)])
def test_products_take_what_the_pipelines_need(name: str, products: int) -> None:
    """Dot products make sixteen products of 8 bits with 128 bits, plain code eight."""
    report = fit_phones(MODEL, BuildOptions(), {}, [replace(load_board(name), fastest=WIDE)])
    (phone,) = report.phones
    assert phone.min_ms == pytest.approx(MACS / (1e9 * 2 * products) * 1e3)
    assert report.kind == "int8"
    assert report.published is PUBLISHED["int8"]


def test_floats_and_dims(tmp_path: Path) -> None:
    model, board = dense(tmp_path), replace(load_board("rpi_5"), fastest=WIDE)
    for at, rows in (({}, 100), ({"n": 1}, 1)):
        report = fit_phones(model, BuildOptions(), at, [board])
        assert report.kind == "float"
        assert report.dims == {"n": (1, 100)}
        assert report.phones[0].min_ms == pytest.approx(rows * 64 * 32 / (1e9 * 2 * 4) * 1e3)
        assert report.phones[0].weights_bytes >= 64 * 32 * 4
    with pytest.raises(UsageError, match=r"outside 1\.\.100"):
        fit_phones(model, BuildOptions(), {"n": 101}, [board])


def test_weights_take_what_the_memory_needs(tmp_path: Path) -> None:
    slow = Fastest(cpu="any", clock_hz=10**12, pipelines=4, memory_bytes_s=10**6)
    report = fit_phones(dense(tmp_path), BuildOptions(), {"n": 1}, [replace(load_board("rpi_5"), fastest=slow)])
    (phone,) = report.phones
    assert phone.min_ms == pytest.approx(phone.weights_bytes / 1e6 * 1e3, rel=0.02)


def test_all_phones_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["fit", str(MODEL), "--phones", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    times = [phone["min_ms"] for phone in told["phones"]]
    assert times == sorted(times)
    known = {name for name in board_names() if load_board(name).fastest is not None}
    page = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    (part,) = re.findall(r"^## fit --phones\n(.*?)^## ", page, re.MULTILINE | re.DOTALL)
    words = set(re.findall(r"`(\w+)`", part))
    assert {*told, *told["phones"][0], *told["published"]} - {"schema", "tool", "version"} <= words
    assert {phone["board"] for phone in told["phones"]} == known
    assert len(known) >= 15
    assert run_command(["fit", str(MODEL), "--phones"]) == 0
    out = capsys.readouterr().out
    assert "take 0.9 to 7.3 times as long" in " ".join(out.split())
    with pytest.raises(UsageError, match="no board has a table"):
        fit_phones(MODEL, BuildOptions(), {}, [load_board("microbit")])


def test_what_the_page_says_of_published_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["phone_error.py"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(ROOT / "benchmarks" / "phone_error.py"), run_name="__main__")
    assert end.value.code == 0  # the spread that is printed is that of the runs
    page = (ROOT / "docs" / "fit.md").read_text(encoding="utf-8")
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(rows) > 25
    assert [row for row in rows if row not in page] == []
