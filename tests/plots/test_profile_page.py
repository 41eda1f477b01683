"""The page and the trace of a profile, and what notebooks show."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import pytest

import sdk
from plots.reports import CYCLES, OPS, profile_report
from sdk import driver
from sdk.driver.plots.profile_plot import profile_plot
from sdk.driver.plots.words import bytes_text, ending, short_number, wrapped
from sdk.profile import ProfileReport
from sdk.report import BenchReport, VerifyReport

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.tflite"


@pytest.mark.parametrize("unit", ["median_us", "cycles", "est_cycles", "instructions"])
def test_the_page(unit: str) -> None:
    text = driver.profile_page(profile_report(unit))
    assert not re.search(r"(?:src|href)\s*=|@import|url\((?!#)", text)
    words = " ".join(" ".join(ElementTree.fromstring(text).itertext()).split())
    told = ("60,000", "a note <about> this", "two products an instruction", "8 calls", "n = 3", "row by row")
    for words_of in (*OPS, *told):
        assert words_of in words
    assert "at most 2" in words


def test_widths_are_costs() -> None:
    report = profile_report()
    plot = profile_plot(report)
    names, rates, memory = plot.panels
    scale = names.bars[0].width / CYCLES[0]
    for panel in (names, memory):
        assert [b.width / scale for b in panel.bars] == pytest.approx(CYCLES)
    assert len(rates.bars) == 3  # softmax has no products
    whole = plot.width - 8 - plot.left
    assert (plot.rest - plot.left) / whole == pytest.approx(0.99, abs=1e-3)
    assert rates.line is None  # four times what is reached: told, not drawn
    assert profile_plot(profile_report(peak=1.0)).panels[1].line is not None


def test_nothing_measured() -> None:
    empty = ProfileReport("m", "b", "d", False, {}, 1, 1, "time", (), {"median_us": None}, 0.0, 0.0)
    assert "no operator" in driver.profile_page(empty)
    assert driver.chrome_trace(empty)["traceEvents"]


@pytest.mark.parametrize("unit", ["median_us", "est_cycles"])
def test_the_trace(unit: str) -> None:
    trace = json.loads(json.dumps(driver.chrome_trace(profile_report(unit)), allow_nan=False))
    events = trace["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert [e["name"] for e in spans] == ["run", *OPS]
    run, *ops = spans
    assert [e["dur"] for e in ops] == list(CYCLES)
    for before, after in pairwise(ops):
        assert after["ts"] == before["ts"] + before["dur"]
    assert run["ts"] + run["dur"] >= ops[-1]["ts"] + ops[-1]["dur"]
    counters = [e for e in events if e["ph"] == "C"]
    assert [e["args"]["bytes"] for e in counters] == [900, 700, 500, 300, 0]
    (process,) = (e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name")
    assert ("1 µs shown is 1 estimated cycle" in process) == (unit == "est_cycles")


def test_words() -> None:
    assert [short_number(v) for v in (0, 0.05, 3.14159, 999, 9999, 12345, 1.5e6, 2e9)] == [
        "0", "0.05", "3.14", "999", "9,999", "12.3k", "1.50M", "2.00G"
    ]  # fmt: skip
    assert (bytes_text(9_216), bytes_text(24_576)) == ("9,216 B", "24.6 kB")
    assert (ending("a/model/b/conv", 9), ending("conv", 9)) == ("…/b/conv", "conv")
    assert wrapped("one two three", 8, 3) == ["one two", "three"]
    assert wrapped("one two three four", 8, 2) == ["one two", "three …"]


def test_notebooks() -> None:
    model = sdk.compile(DIGITS, board="nucleo_l4r5zi")
    html = model._repr_html_()
    for told in ("image", "i8[1, 8, 8, 1]", "digit", "RAM", "data:image/svg+xml;base64,"):
        assert told in html
    verified = VerifyReport("m", "b", "d", True, "interp", {"engine": "numpy"}, 3, 3, 0.0, 0.0, True)
    measured = BenchReport("m", "b", "d", True, {}, 1, (5.0, 7.0, 6.0), "instructions")
    for report, told in (
        (model.report, f"{model.report.ram_bytes:,}"), (model.memory, "conv2"), (profile_report(), OPS[2]),
        (verified, "yes"), (measured, "6"),
    ):  # fmt: skip
        text = report._repr_html_()
        ElementTree.fromstring(text)
        assert told in text
