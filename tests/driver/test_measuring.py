"""Measurements: how sure a median is, two builds in turns, baselines, and what is told of the machine."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import sqlite3
import statistics
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from sdk.boards import load_board
from sdk.cli import run_command
from sdk.devices.machine import Core, MachineFacts
from sdk.driver import conditions as machine
from sdk.driver import measuring
from sdk.driver.history import remember
from sdk.driver.measuring import Baseline, PairReport, bench_pair, compare_with
from sdk.driver.options import BuildOptions
from sdk.driver.pinning import pinned
from sdk.driver.plots.bench_page import bench_page
from sdk.driver.plots.bench_trace import bench_trace
from sdk.errors import UsageError
from sdk.measures import drift, median_interval
from sdk.report import BenchReport

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_int8.tflite"
RAN = BenchReport("m", "host", "host", False, {}, 1, (2e6, 1e6, 3e6, 4e6, 5e6, 6e6, 7e6), "time", first=9e6)


def test_a_median_is_as_sure_as_it_is_said_to_be() -> None:
    for count in range(1, 14):  # of all 2**n ways in which samples lie above and below the true median
        found = median_interval(range(count))
        if found is None:
            assert 2 / 2**count > 0.05
            continue
        low, high = found
        within = sum(low < sum(way) <= high for way in itertools.product((0, 1), repeat=count))
        narrower = sum(low + 1 < sum(way) <= high - 1 for way in itertools.product((0, 1), repeat=count))
        assert within / 2**count >= 0.95 > narrower / 2**count
    assert median_interval(range(1, 32)) == (10, 22)
    assert median_interval([]) is None
    assert drift([1.0] * 8) is None
    assert drift([1.0] * 20 + [1.5] * 10) == 0.5
    assert drift([0.0] * 9) is None


def test_what_is_told_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = (Core(0, 1800.0, 2400.0, "performance"), Core(1, 600.0, 1800.0, "performance"))
    before = MachineFacts("pi", "Linux 6", "aarch64", "A76", cores, {"cpu": 50.0}, load=0.1)
    assert list(machine.remarks(before, before, [1.0] * 30)) == []
    slow = tuple(Core(core.number, 900.0, core.max_mhz, core.governor) for core in cores)
    hot = MachineFacts("pi", "Linux 6", "aarch64", "A76", slow, {"cpu": 84.0}, load=1.6)
    [fell] = machine.remarks(before, hot, [1.0] * 30)
    assert fell == "the clock fell from 1800 to 900 MHz (it throttles: 50 to 84 degrees)"
    [longer, saves] = machine.remarks(before, MachineFacts("pi", "", "", cores=slow), [1.0] * 20 + [1.2] * 10)
    assert (longer, "saves power" in saves) == ("the last runs took 20 % longer than the first ones", True)
    lazy = MachineFacts("pi", "", "", cores=(Core(0, None, None, "powersave"),), load=3.0)
    assert [line.split()[1] for line in machine.remarks(lazy, lazy, [1.0])] == ["governor", "programs"]
    said = machine.conditions(before, hot)
    assert said is not None
    assert (said["mhz"], said["temperature_c"], said["max_mhz"]) == ([1800.0, 900.0], [50.0, 84.0], 2400.0)
    assert machine.conditions(None, hot) is None
    host, emulated = load_board("host"), load_board("qemu-cortex-m4")
    odd = MachineFacts("p", "", "", temperatures_c={"a": 44.0, "b": 1000.0, "c": -273.0})
    assert (machine.conditions(odd, odd) or {})["temperature_c"] == [44.0, 44.0]
    capped = MachineFacts("p", "", "", cores=(Core(0, 900.0, 2400.0, None, 900.0), Core(1, None, 1800.0, None, 900.0)))
    [held] = machine.remarks(capped, capped, [1.0])
    assert held == "the system holds the clock at 900 of 2400 MHz: heat or a setting"
    session = SimpleNamespace(machine=lambda: hot)  # tests/agent/test_conditions.py has real ones
    assert machine.facts_of(None, host, session)() not in (None, hot)
    assert machine.facts_of(None, emulated, session)() is None
    assert machine.facts_of("serial:/dev/ttyACM0", emulated, session)() is None
    assert all(machine.facts_of(f"{agent}://x", host, session)() == hot for agent in ("tcp", "ssh", "adb"))


def test_two_builds_in_turns() -> None:
    same = bench_pair((DIGITS, DIGITS), load_board("host"), None, BuildOptions(), {}, blocks=7)
    assert (len(same.ratios), same.a.counter, len(same.a.samples)) == (7, "time", 7)
    assert -0.5 < same.change < 1.0
    assert same.a.first is not None
    counted = bench_pair((DIGITS, DIGITS), load_board("qemu-cortex-m4"), None, BuildOptions(), {}, blocks=31)
    assert (counted.ratios, counted.change, counted.differs) == ((1.0, 1.0, 1.0), 0.0, False)
    with pytest.raises(UsageError, match="a board runs one image"):
        bench_pair((DIGITS, DIGITS), load_board("nucleo_l4r5zi"), "serial:/dev/ttyX", BuildOptions(), {})


@pytest.mark.skipif(sys.platform != "linux", reason="other systems start programs as always")
def test_programs_that_are_compared_start_alike() -> None:
    tell = [sys.executable, "-c", "import os; print(os.sched_getaffinity(0), open('/proc/self/personality').read())"]

    def told() -> str:
        return subprocess.run(tell, capture_output=True, text=True, check=True).stdout

    before = told()
    with pinned():
        (cpu,) = os.sched_getaffinity(0)
        inside = told()
    assert inside.startswith(f"{{{cpu}}} ")
    assert int(inside.split()[-1], 16) & 0x0040000
    assert told() == before
    with pytest.raises(ZeroDivisionError), pinned():
        raise ZeroDivisionError
    assert told() == before


def test_a_difference_is_told_from_chance() -> None:
    slower = PairReport(RAN, RAN, tuple(1.05 + k / 1000 for k in range(-15, 16)))
    assert (round(slower.change, 3), slower.differs) == (0.05, True)
    noise = PairReport(RAN, RAN, tuple(1 + k / 1000 for k in range(-15, 16)))
    assert (noise.change, noise.differs) == (0.0, False)
    assert PairReport(RAN, RAN, (1.2,)).interval is None
    assert json.loads(json.dumps(slower.to_json()))["change_percent_95"][0] == pytest.approx(4.4)


def test_baselines(tmp_path: Path) -> None:
    file, now = tmp_path / "base.json", {**RAN.to_json(), "conditions": {"cpu": "A76"}}
    file.write_text(json.dumps(now), encoding="utf-8")
    same = compare_with(file, now, 0.05)
    assert (same.unit, same.change, same.passed) == ("median_ms", 0.0, True)
    worse = compare_with(file, {**now, "median_ms": 4.3}, 0.05)
    assert (round(worse.change, 4), worse.passed) == (0.075, False)
    assert compare_with(file, {**now, "median_ms": 4.3}, 0.08).passed
    assert Baseline(file, "cycles", 0.0, 0.0, 0.0).passed
    assert Baseline(file, "cycles", 0.0, 1.0, 9.0).change == math.inf
    for wrong, words in (
        ("", "it is no JSON"),
        ("[]", "has no median_ms"),
        ('{"median_ms": null}', "has no median_ms"),
        ('{"median_ms": -1}', "has no median_ms"),
        (json.dumps({**now, "board": "rpi"}), "is of something else"),
        (json.dumps({**now, "threads": 2}), "is of something else"),
        (json.dumps({**now, "conditions": {"cpu": "A53"}}), "cpu: A53, now A76"),
    ):
        file.write_text(wrong, encoding="utf-8")
        with pytest.raises(UsageError, match=words):
            compare_with(file, now, 0.0)
    with pytest.raises(UsageError, match="cannot read the baseline"):
        compare_with(tmp_path, now, 0.0)


def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def sdk(*arguments: str) -> tuple[int, str]:
        status = run_command(["bench", *arguments])
        told = capsys.readouterr()
        return status, told.out + told.err

    where = ("--board", "host")
    status, said = sdk(str(DIGITS), *where, "--min-time", "0.05", "--warmup", "0", "--json")
    base, first = tmp_path / "base.json", json.loads(said)
    assert (status, first["runs"] > 10, first["runs"] % 10) == (0, True, 0)
    assert first["first_ms"] > 0
    assert first["median_ms_95"][0] <= first["median_ms"] <= first["median_ms_95"][1]
    base.write_text(json.dumps({**first, "median_ms": 1e-9}), encoding="utf-8")
    page, file = tmp_path / "page.html", tmp_path / "trace.json"
    held = ("--baseline", str(base), "--fail-above", "5%")
    status, said = sdk(str(DIGITS), *where, *held, "--html", str(page), "--trace", str(file), "--json")
    assert (status, json.loads(said)["baseline"]["passed"]) == (9, False)
    ET.fromstring(page.read_text(encoding="utf-8").partition("\n")[2])
    runs = [e for e in json.loads(file.read_text(encoding="utf-8"))["traceEvents"] if e["ph"] == "X"]
    assert [e["name"] for e in runs[:3]] == ["first run", "run 1", "run 2"]
    assert len(runs) == 11
    base.write_text(json.dumps({**first, "median_ms": 1e9}), encoding="utf-8")
    status, said = sdk(str(DIGITS), *where, "--baseline", str(base), "--fail-above", "5")
    assert (status, "-100.00 % of 1e+09 median_ms" in said) == (0, True)

    def pair(*args: object, **kwargs: object) -> PairReport:
        return PairReport(RAN, replace(RAN, model="<n>", notes=("hot",)), (1.1,) * 31)

    monkeypatch.setattr(measuring, "bench_pair", pair)
    two = (str(DIGITS), str(DIGITS), *where)
    assert sdk(*two, "--fail-above", "9%", "--html", str(page))[0] == 9
    ET.fromstring(page.read_text(encoding="utf-8").partition("\n")[2])
    status, said = sdk(*two, "--fail-above", "11%")
    assert (status, "B: +10.00 % of A" in said, "note: hot" in said) == (0, True, True)
    assert json.loads(sdk(*two, "--json")[1])["differs"] is True
    for line, words in (
        ((*two, str(DIGITS)), "one build is measured, or two in turns"),
        ((*two, "--baseline", str(base)), "one build is measured, or two in turns"),
        ((str(DIGITS), *where, "--fail-above", "5%"), "--fail-above compares"),
        ((str(DIGITS), *where, "--baseline", str(base), "--fail-above", "much"), "is no percentage"),
    ):
        status, said = sdk(*line)
        assert (status, words in said) == (2, True)


def test_traces() -> None:
    """Runs one after the other, nothing over another, two builds in turns; what is not known is left out."""
    known = {"mhz": [2400.0, 1200.0], "temperature_c": [None, 80.5], "load": [0.5, None], "cpu": "x"}
    one = replace(RAN, samples=(2000.0, 3000.0), first=9000.0, conditions=known, notes=("hot",))
    trace = json.loads(json.dumps(bench_trace(one), allow_nan=False))
    runs = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert [(e["name"], e["ts"], e["dur"]) for e in runs] == [
        ("first run", 0, 9), ("run 1", 9, 2), ("run 2", 11, 3)
    ]  # fmt: skip
    counters = [(e["name"], e["ts"], e["args"]["value"]) for e in trace["traceEvents"] if e["ph"] == "C"]
    assert counters == [("clock in MHz", 0, 2400), ("clock in MHz", 14, 1200), ("temperature in degrees", 14, 80.5),
                        ("load", 0, 0.5)]  # fmt: skip
    assert (trace["otherData"]["notes"], trace["otherData"]["conditions"]["cpu"]) == (["hot"], "x")
    two = bench_trace(one, replace(RAN, model="b", samples=(1000.0, 1000.0)))["traceEvents"]
    turns = [(e["tid"], e["ts"], e["dur"]) for e in two if e["ph"] == "X"]
    assert turns == [(0, 0, 2), (1, 2, 1), (1, 3, 1), (0, 4, 3)]
    counted = bench_trace(replace(RAN, samples=(70.0,), counter="instructions"))
    assert "1 µs shown is 1 instruction)" in counted["traceEvents"][0]["args"]["name"]
    assert counted["traceEvents"][-1]["dur"] == 70.0


def test_pages_of_odd_measurements() -> None:
    for report in (
        replace(RAN, samples=(0.0,), counter="cycles", model="<&\x1b"),
        replace(RAN, samples=(5.0,) * 9000, counter="instructions", notes=("a < b",)),
        replace(RAN, conditions={"cpu": "x<y", "mhz": [1.5, None], "load": [None, None], "governors": ["a", "b"]}),
    ):
        page = bench_page(report)
        ET.fromstring(page.partition("\n")[2])
        assert page.count("<circle") <= 4500
    assert statistics.median(RAN.samples) == 4e6


def test_histories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, now = tmp_path / "runs.sqlite", RAN.to_json()
    assert [past.cost for past in remember(file, now)] == [4.0]
    remember(file, {**now, "board": "other"})
    remember(file, {**now, "at": {"n": 2}})
    remember(file, {**now, "conditions": {"cpu": "A76"}})
    assert len(remember(file, now, "tcp://pi")) == 1
    found = remember(file, {**now, "median_ms": 5.0})
    assert [(past.cost, past.unit) for past in found] == [(4.0, "median_ms"), (5.0, "median_ms")]
    page = bench_page(RAN, past=found)
    ET.fromstring(page.partition("\n")[2])
    assert page.count("<svg") == 2
    before = file.read_bytes()
    with pytest.raises(UsageError, match="there is nothing to remember"):
        remember(file, {**now, "median_ms": None})
    (tmp_path / "text").write_text("no data base, " * 100, encoding="utf-8")
    other, later = tmp_path / "other.sqlite", tmp_path / "later.sqlite"
    for path, command in ((other, "create table t (a)"), (later, "pragma user_version = 2")):
        with contextlib.closing(sqlite3.connect(path)) as base:
            base.execute(command)
    for path, words in (
        (other, "is no history of measurements\n  why: it is a file of something else"),
        (later, "of a later version"),
        (tmp_path / "text", "cannot write the history"),
        (tmp_path, "cannot write the history"),
        (tmp_path / "none" / "x", "cannot write the history"),
    ):
        with pytest.raises(UsageError, match=words):
            remember(path, now)
    assert file.read_bytes() == before
    for number in (1, 2):
        assert run_command(["bench", str(DIGITS), "--board", "host", "--history", str(tmp_path / "own.sqlite")]) == 0
        assert f"{number} measurement" in capsys.readouterr().out
