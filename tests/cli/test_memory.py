"""``sdk memory``: what a person reads in a narrow terminal, what a script reads, and the page with plots."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sdk.boards import load_board
from sdk.cli import run_command
from sdk.cli.memory import memory_lines
from sdk.compiler.memory.report import plan_summary
from sdk.compiler.passes.plan_memory import PlanMemory
from sdk.driver import memory, memory_page, memory_svg
from sdk.driver.agents import link_agent
from sdk.driver.artifact import build_sources
from sdk.driver.explain import stages
from sdk.driver.options import BuildOptions
from sdk.driver.program import save_program
from sdk.graph import ModuleBuilder, f32
from sdk.report import MemoryReport
from sdk.toolchains.elf import ElfFile

Report = Callable[..., MemoryReport]
SVG = "{http://www.w3.org/2000/svg}"
BOARD = load_board("nucleo_l4r5zi")


@pytest.fixture(scope="module")
def digits() -> Path:
    return Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.tflite"


@pytest.fixture(scope="module")
def report(digits: Path) -> Report:
    """The report of the bundled model, made once for each objective."""
    known: dict[str, MemoryReport] = {}

    def get(objective: str = "time") -> MemoryReport:
        if objective not in known:
            known[objective] = memory(digits, BOARD, BuildOptions(memory=objective))
        return known[objective]

    return get


@pytest.mark.parametrize("objective", ["time", "min"])
@pytest.mark.parametrize("width", [80, 60])
def test_lines_fit_the_terminal(report: Report, objective: str, width: int) -> None:
    lines = list(memory_lines(report(objective), width))
    assert max(map(len, lines)) <= width
    assert all(line.isascii() for line in lines)


def test_whole_lines_where_there_is_no_terminal(report: Report) -> None:
    text = "\n".join(memory_lines(report("min"), 1000))
    entry = report("min").entries[0]
    assert all(row.ops in text for row in entry.timeline)
    assert "..." not in text


def test_no_colour_and_one_object(digits: Path) -> None:
    line = [sys.executable, "-m", "sdk", "memory", str(digits), "--board", "nucleo_l4r5zi"]
    env = {**os.environ, "NO_COLOR": "1", "COLUMNS": "80", "LC_ALL": "C", "PYTHONUTF8": "0"}
    shown = subprocess.run(line, capture_output=True, text=True, check=True, env=env)
    assert "\x1b" not in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80
    data = json.loads(subprocess.run([*line, "--json"], capture_output=True, text=True, check=True, env=env).stdout)
    assert data["schema"] == 1


def test_the_other_aim_is_told_both_ways(report: Report) -> None:
    time, minimum = report(), report("min")
    assert time.others["min"].build.ram_bytes == minimum.build.ram_bytes
    assert minimum.others["time"].build.ram_bytes == time.build.ram_bytes
    assert minimum.build.ram_bytes < time.build.ram_bytes
    change = 100 * (minimum.build.ram_bytes / time.build.ram_bytes - 1)
    assert f"--memory min: {minimum.build.ram_bytes:,} bytes of RAM ({change:+.0f} %)" in list(memory_lines(time, 80))
    assert list(time.modes) == ["time", "min"]
    assert list(minimum.modes) == ["min", "time"]


def test_a_limit_is_an_aim_of_its_own(digits: Path, report: Report) -> None:
    limit = (report().build.arena_bytes + report("min").build.arena_bytes) // 2
    found = memory(digits, BOARD, BuildOptions(arena_limit=limit))
    assert found.build.arena_bytes <= limit
    assert found.to_json()["memory"] == "limit"
    assert {*found.modes} == {"limit", "time", "min"}


def test_an_aim_that_does_not_fit_is_not_compared(digits: Path, report: Report) -> None:
    minimum = report("min").build.arena_bytes
    found = memory(digits, BOARD, BuildOptions(memory="min", regions=(("ram", minimum),)))
    assert (found.build.arena_bytes, list(found.modes)) == (minimum, ["min"])


def test_json_agrees_with_itself(report: Report) -> None:
    data = json.loads(json.dumps(report("min").to_json()))
    assert data["memory"] == "min"
    assert data["modes"]["min"] == {"ram_bytes": data["ram_bytes"], "arena_bytes": data["arena_bytes"]}
    assert data["optimal"] is (data["arena_bytes"] <= data["arena_lower_bound_bytes"])
    peak = data["peak"]
    assert peak["live_bytes"] == sum(t["live_bytes"] for t in peak["tensors"])
    assert peak["live_bytes"] == max(s["live_bytes"] for s in data["steps"])
    assert data["steps"][peak["step"] - 1]["call"] == peak["call"]
    assert [s["step"] for s in data["steps"]] == [str(k + 1) for k in range(len(data["steps"]))]
    arena = next(r for r in data["regions"] if r["kind"] == "arena")
    assert (arena["bytes"], arena["live"]) == (data["arena_bytes"], peak["live_bytes"])
    assert all(t["offset"] + t["bytes"] <= arena["bytes"] for t in data["tensors"])
    assert sum(t["live_at_peak"] for t in data["tensors"]) == peak["live_bytes"]


def well_formed(text: str) -> ElementTree.Element:
    """The parsed document, which names nothing elsewhere."""
    assert not re.search(r"(?:src|href)\s*=|@import|url\((?!#)", text)
    assert set(re.findall(r"https?://[\w./]+", text)) <= {
        "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"
    }  # fmt: skip
    return ElementTree.fromstring(text)


@pytest.mark.parametrize("objective", ["time", "min"])
def test_the_page(report: Report, objective: str) -> None:
    found = report(objective)
    root = well_formed(memory_page(found, BOARD))
    plots = [e for e in root.iter(f"{SVG}svg") if e.get("viewBox")]
    assert len(plots) == 2  # this objective and the other
    for plot, mode in zip(plots, found.modes.values(), strict=True):
        told = [e.findtext(f"{SVG}title") or "" for e in plot.iter(f"{SVG}path")]
        for tensor in mode.entries[0].tensors:
            assert any(text.startswith(f"{tensor.title}: {tensor.bytes:,} bytes") for text in told), tensor
    words = "".join(root.itertext())
    assert "FULLY_CONNECTED logits" in words
    assert f"{found.build.ram_bytes:,}" in words


def inside(plot: ElementTree.Element) -> bool:
    """Whether all paths stay in the plot."""
    _, _, width, height = map(float, (plot.get("viewBox") or "").split())
    for path in plot.iter(f"{SVG}path"):
        at = ""
        for letter, numbers in re.findall(r"([MHVz])([\d. -]*)", path.get("d") or ""):
            values = list(map(float, numbers.split()))
            xs = values[:1] if letter in "MH" else []
            ys = values[-1:] if letter in "MV" else []
            if any(not 0 <= x <= width for x in xs) or any(not 0 <= y <= height for y in ys):
                return False
            at = letter
        if at not in ("z", ""):
            return False
    return True


@pytest.mark.parametrize("objective", ["time", "min"])
def test_the_plot_alone(report: Report, objective: str) -> None:
    root = well_formed(memory_svg(report(objective)))
    assert root.tag == f"{SVG}svg"
    assert inside(root)
    hatched = any("hatched" in (path.get("class") or "") for path in root.iter(f"{SVG}path"))
    assert hatched is any(t.ring is not None for t in report(objective).entries[0].tensors)


def test_entries_and_dims_have_plots_of_their_own(tmp_path: Path) -> None:
    g = ModuleBuilder("two")
    n = g.dim("n", 1, 64)
    for name, rows in (("long", n), ("short", 1)):
        with g.entry(name) as e:
            e.output("y", e.softmax(e.input("x", f32, (rows, 8))) + 1.0)
    save_program(g.module(), tmp_path / "two.ir")
    found = memory(tmp_path / "two.ir", BOARD, BuildOptions(), {"n": 16})
    assert [e.entry for e in found.entries] == ["long", "short"]
    assert found.entries[0].dims == {"n": 16}
    assert not found.others  # what has dims stays whole
    root = well_formed(memory_page(found, BOARD))
    assert len([e for e in root.iter(f"{SVG}svg") if e.get("viewBox")]) == 2
    assert "Entry short" in "".join(root.itertext())


def test_names_from_a_file_are_only_text(digits: Path, tmp_path: Path) -> None:
    path = tmp_path / "<script>&amp;'\".tflite"
    path.write_bytes(digits.read_bytes())
    found = memory(path, BOARD, BuildOptions(name="digits"))
    root = well_formed(memory_page(found, BOARD))
    assert path.name in "".join(root.itertext())
    well_formed(memory_svg(found))


def test_html_is_written(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["memory", str(digits), "--board", "nucleo_l4r5zi", "--html"]
    assert run_command([*line, str(tmp_path / "page.html")]) == 0
    assert f"wrote {tmp_path / 'page.html'}" in capsys.readouterr().out
    well_formed((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert run_command([*line, str(tmp_path / "plot.svg"), "--json"]) == 0
    json.loads(capsys.readouterr().out)
    assert well_formed((tmp_path / "plot.svg").read_text(encoding="utf-8")).tag == f"{SVG}svg"
    assert run_command([*line, str(tmp_path / "no" / "page.html")]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_each_memory_has_a_panel_and_a_line(digits: Path, report: Report) -> None:
    module = stages(digits, BOARD, BuildOptions())["cleanup"]
    planned = PlanMemory(pools="fast:600+slow:4000").run(module)
    summary = plan_summary(planned, planned.plans["main"])
    arenas = [r for r in summary.regions if r.kind == "arena"]
    assert len(arenas) == 2
    assert summary.peak == sum(r.bytes for r in arenas)
    assert all(0 < r.live <= r.bytes for r in arenas)
    found = replace(report(), entries=(summary,), others={})
    lines = list(memory_lines(found, 80))
    assert [line for line in lines if line.endswith("  arena_slow (arena)")]
    root = well_formed(memory_page(found, BOARD))
    (plot,) = (e for e in root.iter(f"{SVG}svg") if e.get("viewBox"))
    assert inside(plot)
    assert {"arena", "arena_slow"} <= {e.text for e in plot.iter(f"{SVG}text")}


def test_the_map_of_the_firmware(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the link placed, read back: regions and owners add up to the same, and to what is flashed."""
    command = ["memory", str(digits), "--board", "rpi_pico", "--firmware"]
    assert run_command([*command, "--json"]) == 0
    linked = json.loads(capsys.readouterr().out)["firmware"]
    regions = {r["name"]: r for r in linked["regions"]}
    assert regions["flash"]["boot"] == 256
    assert regions["ram"]["stack"] == load_board("rpi_pico").runtime.stack_bytes
    for side, kind in (("flash", "flash"), ("ram", "ram")):
        of_kind = [r for r in linked["regions"] if r["kind"] == kind]
        assert sum(owner[side] for owner in linked["owners"]) == sum(r["used"] for r in of_kind)
        assert all(0 <= r["used"] <= r["bytes"] for r in of_kind)
    board, options = load_board("rpi_pico"), BuildOptions()
    image = ElfFile(link_agent(build_sources(digits, board, options).sources, board, options))
    flashed = sum(s.size for s in image.sections if s.flags & 2 and s.type != "SHT_NOBITS")
    assert regions["flash"]["used"] == flashed
    owners = {owner["owner"]: owner for owner in linked["owners"]}
    assert owners["arena"]["ram"] > 0
    assert any(name.startswith("code conv2d") for name in owners)
    assert run_command(command) == 0
    assert "agent and start-up" in capsys.readouterr().out
    assert run_command(["memory", str(digits), "--board", "host", "--firmware"]) == 2
