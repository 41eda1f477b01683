"""A real farm of processes on loopback: hosts that are killed, a scheduler that is started again, TLS."""

from __future__ import annotations

import gc
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from farm_processes import DIGITS, ROOT, Process, certificates, copies, free_port

from sdk import driver
from sdk.boards import load_board
from sdk.cli import run_command
from sdk.driver.options import BuildOptions
from sdk.errors import NoDeviceError
from sdk.farm import Place, bench_farm, link
from sdk.farm.kept import Result
from sdk.farm.place import SETTINGS
from sdk.farm.work import STRIKES

Start = Callable[..., Process]
# Dask leaves a socket open where it cannot listen or connect: no other test is to be told of that.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def swept() -> Iterator[None]:
    """Sockets that are left are found before the test ends."""
    yield
    gc.collect()


def test_a_rack(
    start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hosts, of which one is killed when the first result is there; then what the command prints."""
    address = f"127.0.0.1:{free_port()}"
    with monkeypatch.context() as soon:
        soon.setattr(link, "CONNECT_S", 1.0)
        with pytest.raises(NoDeviceError, match="no farm answers at"):
            bench_farm(Place.read(address), "*", [DIGITS], BuildOptions(), {}, 1, warmup=0)
    assert start("scheduler", "--listen", address).ready() == {"schema": 1, "address": f"tcp://{address}", "tls": False}
    board = ("--board", "qemu-cortex-m4")
    # one has a device besides that fails
    bad = ("--device", "serial:/dev/none", "--board", "microbit")
    stays = start("worker", address, "--device", "unicorn://", *board, *bad)
    goes = start("worker", address, *board)
    for host in (stays, goes):
        host.ready()
    own = driver.bench(DIGITS, load_board("qemu-cortex-m4"), None, BuildOptions(), {}, 5, 1, warmup=0)
    models, results = copies(tmp_path, 6), list[Result]()

    def kill(result: Result) -> None:
        results.append(result)
        if len(results) == 1:
            goes.kill()

    file = tmp_path / "results"
    report = bench_farm(
        *(Place.read(address), "qemu-*", models, BuildOptions(), {}, 5), warmup=0, resume=file,
        on_result=kill,
    )  # fmt: skip
    assert not report.failed
    assert [one.result.report.model for one in report.measured] == [path.name for path in models]
    assert {one.result.report.instructions for one in report.measured} == {own.instructions}
    assert len(results) == len({one.job for one in results}) == len(models)
    assert {one.device for one in results[1:]} == {"unicorn://"}
    assert len(file.read_text().splitlines()) == 2 + len(models)  # a head, the boards, and each result once
    # nobody has the board: an error with what there is, and no hang
    line = ["bench", *map(str, models), "--farm", address, "--repeat", "5", "--warmup", "0", "--resume", str(file)]
    began = time.monotonic()
    assert run_command([*line, "--board", "nrf*"]) == 3
    assert "it has microbit, qemu-cortex-m4" in capsys.readouterr().err
    assert time.monotonic() - began < 30
    # the same again is there already, and a device that fails is told
    history = tmp_path / "history.sqlite"
    assert run_command([*line, "--board", "*", "--history", str(history), "--json"]) == 3
    data = json.loads(capsys.readouterr().out)
    assert [one["kept"] for one in data["results"]] == [True] * len(models)
    assert [(one["board"], one["kind"]) for one in data["failed"]] == [("microbit", "NoDeviceError")] * len(models)
    untried = [one["message"] for one in data["failed"] if not one["attempts"]]
    assert 0 < len(untried) <= len(models) - STRIKES  # since it rests
    assert {"failed 3 times in a row" in message for message in untried} == {True}
    assert not history.exists()  # of what was kept, it was remembered then
    farm = ["--farm", address, *board]
    assert run_command(["bench", str(models[0]), *farm, "--repeat", "1", "--history", str(history)]) == 0
    out = capsys.readouterr().out
    assert "model0.tflite" in out
    assert "unicorn:// at " in out
    assert history.exists()
    assert stays.end() == 130


def test_where_nobody_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(SETTINGS, "distributed.comm.timeouts.connect", "1s")
    assert run_command(["farm", "worker", f"127.0.0.1:{free_port()}", "--board", "host"]) == 3
    assert "no scheduler answers at tcp://127.0.0.1" in capsys.readouterr().err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert run_command(["farm", "scheduler", "--listen", f"127.0.0.1:{taken.getsockname()[1]}"]) == 2
    told = capsys.readouterr().err
    assert "cannot listen at 127.0.0.1" in told
    assert "in use" in told


@pytest.mark.slow
def test_a_scheduler_that_is_started_again(start: Start, tmp_path: Path) -> None:
    """It is killed twice in mid-run: workers and the command find the next one, and no result comes twice."""
    address = f"127.0.0.1:{free_port()}"
    scheduler = start("scheduler", "--listen", address)
    scheduler.ready()
    hosts = [start("worker", address, "--board", board) for board in ("qemu-cortex-m4", "microbit", "qemu-cortex-m4")]
    for host in hosts:
        host.ready()
    results: list[Result] = []

    def again(result: Result) -> None:
        nonlocal scheduler
        results.append(result)
        if len(results) in (3, 9):
            scheduler.kill()
            scheduler = start("scheduler", "--listen", address)
            scheduler.ready()
        if len(results) == 12:
            hosts[0].kill()

    models = copies(tmp_path, 10)
    report = bench_farm(Place.read(address), "*", models, BuildOptions(), {}, 100, warmup=0, on_result=again)
    assert not report.failed
    assert len(results) == len({one.job for one in results}) == 2 * len(models)
    assert all(host.end() == 130 for host in hosts[1:])


@pytest.mark.slow
def test_tools_that_are_killed(start: Start, tmp_path: Path) -> None:
    """The command and then the scheduler are killed at many moments: with --resume it ends with each result once."""
    address = f"127.0.0.1:{free_port()}"
    scheduler = start("scheduler", "--listen", address)
    scheduler.ready()
    hosts = [start("worker", address, "--board", "qemu-cortex-m4") for _ in range(2)]
    for host in hosts:
        host.ready()
    file, models = tmp_path / "results", copies(tmp_path, 12)
    words = ["bench", *map(str, models), "--farm", address, "--board", "qemu*", "--repeat", "100"]
    words += ["--resume", str(file)]
    for moment in (2.0, 3.0, 4.5):
        tool = subprocess.Popen([sys.executable, "-m", "sdk", *words], cwd=ROOT, stdout=subprocess.DEVNULL)
        time.sleep(moment)
        tool.kill()
        tool.wait(30)
        scheduler.kill()
        scheduler = start("scheduler", "--listen", address)
        scheduler.ready()
    command = [sys.executable, "-m", "sdk", *words, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["results"]) == len(models)
    jobs = [json.loads(line)["job"] for line in file.read_text().splitlines() if line.startswith('{"job"')]
    assert len(jobs) == len(set(jobs)) == len(models)


def test_tls(start: Start, tmp_path: Path, need_tool: Callable[[str], str]) -> None:
    """Who has a certificate by the farm's authority is let in, and nobody else."""
    ours, others = (certificates(tmp_path / name, need_tool("openssl")) for name in ("ours", "others"))
    address = f"127.0.0.1:{free_port()}"
    files = [str(file) for file in ours]
    assert start("scheduler", "--listen", address, "--tls", *files).ready()["address"] == f"tls://{address}"

    def asked(place: Place) -> str:
        with pytest.raises(NoDeviceError) as told:
            bench_farm(place, "*", [DIGITS], BuildOptions(), {}, 1, warmup=0)
        return str(told.value)

    assert "it has no device" in asked(Place.read(address, ours))
    assert "no farm answers" in asked(Place.read(address, others))
    assert "no farm answers" in asked(Place.read(address))
    mixed = (ours[0], ours[1], others[2])
    with pytest.raises(Exception, match="TLS cannot be had of"):
        bench_farm(Place.read(address, mixed), "*", [DIGITS], BuildOptions(), {}, 1, warmup=0)
