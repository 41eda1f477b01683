"""`sdk profile`: operators add up to the run, two ways of counting agree, and what cannot be counted is said."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from sdk.boards import load_board
from sdk.cli import run_command
from sdk.driver import BuildOptions, bench, profile
from sdk.driver.agents import link_agent
from sdk.driver.artifact import build_sources
from sdk.driver.counting import PHASE_OP, PHASE_RUN, NoPluginsError, counted
from sdk.errors import UsageError

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.tflite"
EMULATED = ("nucleo_l4r5zi", "microbit", "qemu-cortex-m55", "aarch64-linux")


@pytest.mark.some(2)
@pytest.mark.emulator
@pytest.mark.parametrize("name", EMULATED)
def test_the_operators_add_up_to_the_run(name: str, need_tool) -> None:
    need_tool("qemu-system-arm")
    board = load_board(name)
    report = profile(DIGITS, board, None, BuildOptions(), {})
    whole = report.total["instructions"]
    assert whole
    assert sum(op.instructions or 0 for op in report.ops) == pytest.approx(whole, rel=0.02)
    assert sum(op.share for op in report.ops) == pytest.approx(report.covered)
    assert 0 <= report.overhead < 0.05  # some sixty instructions an operator
    assert [op.source_ops.split()[0] for op in report.ops] == ["CONV_2D", "CONV_2D", "FULLY_CONNECTED", "SOFTMAX"]
    assert [op.macs for op in report.ops] == [4608, 18432, 2560, 0]
    stored = 2 if name == "nucleo_l4r5zi" else 1  # bytes of a weight: there in words of two halves
    taps = {"aarch64-linux": 12, "microbit": 10 * 2}.get(name, 9)  # there in words of four, and in pairs that are words
    columns = 3  # of a channel: bias and rescaling
    assert report.ops[0].bytes == 64 + 8 * taps * stored + 512 + columns * 4 * 8  # image, weights, result, columns
    again = profile(DIGITS, board, None, BuildOptions(), {})
    assert again.ops == report.ops  # counted, not sampled


@pytest.mark.emulator
@pytest.mark.parametrize("name", ["nucleo_l4r5zi", "microbit"])
def test_the_plugin_and_the_emulators_own_count_agree(name: str, need_tool) -> None:
    need_tool("qemu-system-arm")
    board = load_board(name)
    report = bench(DIGITS, board, None, BuildOptions(), {}, 3, 1)
    assert report.counter == "instructions"
    assert report.instructions == pytest.approx(sorted(report.samples)[1], rel=0.001)
    built = build_sources(DIGITS, board, BuildOptions())
    clocks = max(op.index for op in built.entries["main"].ops) + 1
    agent = link_agent(built.sources, board, BuildOptions(), clocks)
    ticks, counts = counted(board, agent, clocks, lambda session: (session.run(0), session.profile())[1])
    for k, op in enumerate(ticks):
        executed = counts[PHASE_OP + k].instructions
        assert op.calls == 1
        # the clock counts itself too, and how the operation is called
        assert 0 <= op.ticks - executed <= 60 + 0.001 * executed


def test_profiling_on_this_machine_times_every_operator() -> None:
    report = profile(DIGITS, load_board("host"), None, BuildOptions(), {}, repeat=5)
    assert (report.unit, report.runs, report.emulated) == ("median_us", 5, False)
    assert all((op.median_us or 0) > 0 for op in report.ops)
    assert report.peak is not None
    assert report.peak.unit == "us"
    assert all(0 <= (op.peak_compute or 0) <= 1 for op in report.ops)
    assert report.total["instructions"] is None


@pytest.mark.emulator
def test_a_stream_counts_all_calls_of_an_operator(need_tool) -> None:
    need_tool("qemu-system-arm")
    report = profile(DIGITS, load_board("nucleo_l4r5zi"), None, BuildOptions(memory="min"), {})
    assert max(op.calls for op in report.ops) > 1
    assert sum(op.macs for op in report.ops) == 4608 + 18432 + 2560


@pytest.mark.emulator
def test_a_folder_of_a_build_can_be_profiled(tmp_path: Path, capsys: pytest.CaptureFixture[str], need_tool) -> None:
    need_tool("qemu-system-arm")
    assert run_command(["build", str(DIGITS), "--board", "nucleo_l4r5zi", "-o", str(tmp_path / "b")]) == 0
    capsys.readouterr()
    trace, page = tmp_path / "trace.json", tmp_path / "page.html"
    files = ["--html", str(page), "--trace", str(trace)]
    assert run_command(["profile", str(tmp_path / "b"), "--board", "nucleo_l4r5zi", "--json", *files]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["schema"], data["unit"], data["emulated"]) == (2, "est_cycles", True)
    assert json.loads(trace.read_text())["traceEvents"]
    assert "CONV_2D" in page.read_text()
    assert run_command(["profile", str(tmp_path / "b"), "--board", "nucleo_l4r5zi"]) == 0
    text = capsys.readouterr().out
    assert "CONV_2D conv1" in text
    assert "% of the run" in text


@pytest.mark.emulator
def test_an_emulator_without_plugins_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, need_tool
) -> None:
    need_tool("qemu-system-arm")
    import shutil

    real = shutil.which("qemu-system-arm")
    fake = tmp_path / "qemu-system-arm"
    refuse = 'echo "qemu-system-arm: -plugin: invalid option" >&2; exit 1'
    fake.write_text(f'#!/bin/sh\ncase "$*" in *-plugin*) {refuse};; esac\nexec {real} "$@"\n')
    fake.chmod(fake.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    board = load_board("qemu-cortex-m55")  # which only QEMU emulates
    with pytest.raises(NoPluginsError) as error:
        profile(DIGITS, board, None, BuildOptions(), {})
    assert error.value.hint
    report = bench(DIGITS, board, None, BuildOptions(), {}, 1, 1)
    assert report.to_json()["instructions"]
    assert report.to_json()["est_cycles"] is None


def test_threads_under_user_mode_emulation_are_refused() -> None:
    with pytest.raises(UsageError, match="threads"):
        profile(DIGITS, load_board("aarch64-linux"), None, BuildOptions(threads=2), {})


@pytest.mark.emulator
def test_an_agent_without_clocks_has_no_operators(need_tool) -> None:
    need_tool("qemu-system-arm")
    board = load_board("nucleo_l4r5zi")
    built = build_sources(DIGITS, board, BuildOptions())
    agent = link_agent(built.sources, board, BuildOptions())
    ops, counts = counted(board, agent, 0, lambda session: (session.run(0), session.profile())[1])
    assert ops == ()
    assert set(counts) == {PHASE_RUN}
