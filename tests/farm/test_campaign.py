"""Where jobs go: decided beside a scheduler of the test's own, which says at once what came of each."""

from __future__ import annotations

import asyncio
import itertools
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sdk import driver
from sdk.boards import load_board
from sdk.cli import run_command
from sdk.devices.sources import Found
from sdk.driver.entries import join_files
from sdk.driver.files import read_model_file
from sdk.driver.finding import Attached
from sdk.driver.options import BuildOptions
from sdk.errors import BusyError, MissingToolError, NoDeviceError, SdkError, UsageError
from sdk.farm import campaign, place, work
from sdk.farm.campaign import ATTEMPTS, bench_farm
from sdk.farm.kept import Result, opened
from sdk.farm.link import LostError, Worker
from sdk.farm.place import Place
from sdk.farm.serve import Device, devices_of
from sdk.farm.work import Cargo, Failure, Job, Outcome, measure
from sdk.report import BenchReport
from sdk.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_int8.tflite"
HERE = Place("127.0.0.1", 8786)
BROKEN = Failure("LinkError", "the line is cut", exit_code=6)
Answer = Callable[[str, Job], Outcome | Exception]


def worker(name: str, *boards: str, version: str = VERSION) -> Worker:
    return Worker(f"tcp://{name}", name, frozenset(boards), version)


def good(name: str, job: Job) -> Outcome:
    report = BenchReport(job.model, job.board, name, True, {}, 1, (5.0,), "instructions")
    return Outcome(name, "rack", name, report)


class FakeLink:
    """Gives each job to the first worker that it may go to, which answers at once; ``rounds`` are the workers that are
    there at each look, None for a scheduler that has gone, the last for ever."""

    def __init__(self, answer: Answer, *rounds: list[Worker] | None) -> None:
        self.answer, self.rounds = answer, itertools.chain(rounds, itertools.repeat(rounds[-1]))
        self.asked: list[tuple[str, str]] = []  # worker, board
        self.opened = 0
        self._there: list[Worker] = []

    def open(self, wait_s: float = 0.0) -> None:
        self.opened += 1

    def close(self) -> None:
        pass

    def workers(self) -> list[Worker]:
        found = next(self.rounds)
        if found is None:
            raise LostError
        self._there = found
        return found

    def submit(self, cargo: Cargo, job: Job, key: str, among, done) -> SimpleNamespace:
        having = [w for w in self._there if job.board in w.boards and (among is None or w.address in among)]
        name = having[0].name
        self.asked.append((name, job.board))
        found = self.answer(name, job)
        future = SimpleNamespace(found=found, cancel=lambda: None, at=having[0].address)
        if found is not None:  # else one that never ends
            done(future)
        return future

    def stranded(self, futures: list[SimpleNamespace], addresses: list[str]) -> list[SimpleNamespace]:
        return [future for future in futures if future.found is None and future.at not in addresses]

    def outcome(self, future: SimpleNamespace) -> Outcome | Exception:
        return future.found


def run(monkeypatch: pytest.MonkeyPatch, link: FakeLink, pattern: str = "*", **more):
    monkeypatch.setattr(campaign, "Link", lambda place: link)
    monkeypatch.setattr(campaign, "_LOOK_S", 0.01)
    return bench_farm(HERE, pattern, [DIGITS], BuildOptions(), {}, 1, warmup=0, **{"wait_s": 0.05, **more})


def test_a_job_that_fails_goes_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(name: str, job: Job) -> Outcome:
        return Outcome(name, "rack", name, failure=BROKEN) if name == "bad" else good(name, job)

    told: list[Result] = []
    link = FakeLink(answer, [worker("bad", "b1"), worker("ok", "b1", "b2")])
    report = run(monkeypatch, link, on_result=told.append)
    assert link.asked == [("bad", "b1"), ("ok", "b2"), ("ok", "b1")]
    assert [(one.result.report.board, one.result.device) for one in report.measured] == [("b1", "ok"), ("b2", "ok")]
    assert [[a.device for a in one.attempts] for one in report.measured] == [["bad"], []]
    assert len(told) == len({one.job for one in told}) == 2
    assert not report.failed
    # on every device of the board: it ends, and says all
    link = FakeLink(answer, [worker("bad", "b1")])
    [lost] = run(monkeypatch, link).failed
    assert (lost.failure, len(lost.attempts), link.asked) == (BROKEN, 1, [("bad", "b1")])
    # not for ever, however many devices there are
    many = FakeLink(lambda n, j: Outcome(n, "rack", n, failure=BROKEN), [worker(str(k), "b1") for k in range(9)])
    [lost] = run(monkeypatch, many).failed
    assert len({name for name, _ in many.asked}) == len(many.asked) == ATTEMPTS
    # workers that end are counted as well
    dying = FakeLink(lambda n, j: RuntimeError("all those workers died. more"), [worker("w", "b1")])
    [lost] = run(monkeypatch, dying).failed
    assert (len(dying.asked), lost.failure.why) == (ATTEMPTS, "all those workers died")
    # what is wrong with the model is wrong everywhere
    wrong = Failure("BuildError", "too large", elsewhere=False)
    link = FakeLink(lambda n, j: Outcome(n, "rack", n, failure=wrong), [worker("a", "b1"), worker("b", "b1")])
    assert run(monkeypatch, link).failed[0].failure == wrong
    assert len(link.asked) == 1


def test_a_device_that_rests_gets_no_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for it goes elsewhere; where there is no other one, that is said at once."""

    def answer(name: str, job: Job) -> Outcome | None:
        return None if name == "bad" else good(name, job)

    tired = Worker("tcp://bad", "bad #1", frozenset(), VERSION, frozenset({"b1"}), "the line is cut")
    bad, ok = worker("bad", "b1"), worker("ok", "b1")
    link = FakeLink(answer, [bad, ok], [bad, ok], [tired, ok])
    [one] = run(monkeypatch, link, wait_s=9).measured
    assert (link.asked, one.result.device, one.attempts) == ([("bad", "b1"), ("ok", "b1")], "ok", ())
    [lost] = run(monkeypatch, FakeLink(answer, [bad], [bad], [tired]), wait_s=9).failed
    assert lost.failure.message.startswith("each device of b1 failed 3 times in a row")
    assert (lost.failure.why, lost.failure.exit_code) == ("bad: the line is cut", 3)


def test_what_is_the_devices_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures in a row of its own, no models' and no slow ones, make a device rest; a success forgets them."""
    rests: list[str] = []
    loop = SimpleNamespace(add_callback=lambda _, worker, why: rests.append(why))
    monkeypatch.setattr(work, "dask", lambda: SimpleNamespace(get_worker=lambda: SimpleNamespace(loop=loop)))
    health = work._Health()
    crash = Failure("DeviceFault", "it crashed", exit_code=7)
    for failure, took_s in [(BROKEN, 1), (crash, 1), (BROKEN, 30), (BROKEN, 1)]:
        health.failed(failure, took_s)
    assert (health.strikes, rests) == (2, [])
    health.failed(Failure("BusyError", "x" * 999), 99)
    assert rests == ["x" * 200]
    announced = {"board:b1": 0.0, "sdk:9": 1.0, "resting:old": 0.0, "resting:why": 1.0}
    assert work.resting_of(announced) == (frozenset({"b1"}), "why")
    assert work.boards_in(announced) == frozenset()
    assert work.resting_of({"board:b1": 1.0, "resting:old": 0.0}) is None


def test_a_device_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """After its rest a worker announces the same boards again, though its scheduler did not hear it at first."""
    heard: list[dict[str, float]] = []
    deaf = iter([True, False, True, True, False])

    async def set_resources(**resources: float) -> None:
        if next(deaf):
            raise OSError
        fake.state.total_resources.update(resources)
        heard.append(dict(fake.state.total_resources))

    monkeypatch.setattr(work, "REST_S", 0.0)
    monkeypatch.setattr(work, "_AGAIN_S", 0.0)
    state = SimpleNamespace(total_resources={"board:a": 1.0, "board:b": 1.0, "sdk:9": 1.0})
    fake = SimpleNamespace(state=state, status=SimpleNamespace(name="running"), set_resources=set_resources)
    asyncio.run(work._rest(fake, "why"))
    assert [(work.boards_in(one), work.resting_of(one)) for one in heard] == [
        (frozenset(), (frozenset("ab"), "why")), (frozenset("ab"), None)
    ]  # fmt: skip
    state.total_resources["board:a"] = state.total_resources["board:b"] = 0.0
    asyncio.run(work._rest(fake, "again"))  # it rests already
    assert len(heard) == 2


def test_boards_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    link = FakeLink(good, [worker("a", "b1", "c1"), worker("old", "b2", version="0.0.1")])
    with pytest.raises(NoDeviceError, match=r"has no board b2") as told:
        run(monkeypatch, link, "b2")
    assert told.value.why == f"it has b1, c1; devices of version 0.0.1 are not used by {VERSION}"
    with pytest.raises(NoDeviceError) as told:
        run(monkeypatch, FakeLink(good, []), "b*")
    assert told.value.why == "it has no device"
    assert [one.result.report.board for one in run(monkeypatch, link, "?1").measured] == ["b1", "c1"]
    # one that goes in mid-run, and the job with it
    link = FakeLink(lambda n, j: None, [worker("a", "b1")], [worker("a", "b1")], [])
    [lost] = run(monkeypatch, link).failed
    assert lost.failure.message == "no worker has b1 any more"
    # one that was the last to be asked and went, while another has come
    def late(name: str, job: Job) -> Outcome | None:
        return {"a": Outcome("a", "r", "a", failure=BROKEN), "b": None}.get(name, good(name, job))

    a, b, c = (worker(name, "b1") for name in "abc")
    link = FakeLink(late, [a], [a], [a, b], [a, b], [a, c])
    monkeypatch.setattr(campaign._Campaign, "_give_up", lambda *given: pytest.fail(str(given)))
    link.rounds = iter([[a], [a, b], [a, b], [a], [a, c], [a, c]])
    [one] = run(monkeypatch, link, wait_s=9).measured
    assert (one.result.device, [x.failure.message for x in one.attempts]) == ("c", [BROKEN.message, "the worker ended"])


def test_a_scheduler_that_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = iter([None, None])

    def answer(name: str, job: Job) -> Outcome | None:
        return next(flow, good(name, job))

    there = [worker("a", "b1", "b2")]
    link = FakeLink(answer, there, there, None, there)
    assert len(run(monkeypatch, link).measured) == 2
    assert (link.opened, len(link.asked)) == (2, 4)

    def gone(wait_s: float = 0.0) -> None:
        if link.opened:
            raise NoDeviceError("no farm answers", why="refused")
        link.opened += 1

    link = FakeLink(good, there, None)
    monkeypatch.setattr(link, "open", gone)
    with pytest.raises(NoDeviceError, match="no farm answers") as told:
        run(monkeypatch, link)
    assert told.value.why == "refused; 0 of 2 were measured"
    assert "--resume" in (told.value.hint or "")


def test_what_is_kept_is_not_measured_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file, both = tmp_path / "results", [worker("a", "b1", "b2")]
    broken = FakeLink(lambda n, j: good(n, j) if j.board == "b1" else Outcome(n, "r", n, failure=BROKEN), both)
    first = run(monkeypatch, broken, resume=file)
    assert (len(first.measured), len(first.failed)) == (1, 1)
    told: list[Result] = []
    whole = file.read_bytes()
    file.write_bytes(whole + b'{"job":"half of a li')  # killed while it wrote
    link = FakeLink(good, [worker("c", "b2")])  # the device of b1 has gone, its result has not
    again = run(monkeypatch, link, resume=file, on_result=told.append)
    assert link.asked == [("c", "b2")]
    assert [(one.result.device, one.kept) for one in again.measured] == [("a", True), ("c", False)]
    assert again.measured[0].result == first.measured[0].result
    assert [one.device for one in told] == ["c"]
    assert file.read_bytes().startswith(whole)
    # other arguments are another job
    link = FakeLink(good, [worker("c", "b2")])
    run(monkeypatch, link, pattern="b2", resume=file, min_time_s=1.0)
    assert link.asked == [("c", "b2")]
    with opened(file), pytest.raises(BusyError, match="another command writes its results into"), opened(file):
        pass
    file.write_bytes(whole.replace(b'"host":', b'"hots":'))
    with pytest.raises(UsageError, match="damaged") as damaged:
        run(monkeypatch, link, resume=file)
    assert damaged.value.where == "line 3"
    other = tmp_path / "other"
    other.write_text("a diary")
    os.mkfifo(tmp_path / "pipe")
    for bad, message in (
        (other, "holds no results of a farm"), (tmp_path / "pipe", "cannot keep results in"),
        (tmp_path, "cannot keep results in"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=message):
            run(monkeypatch, link, resume=bad)
    assert other.read_text() == "a diary"


def beside_model(folder: Path) -> Path:
    """An ONNX model with its weights in a file beside it."""
    weights = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "m",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8])],
        [numpy_helper.from_array(weights, "w")],
    )  # fmt: skip
    path = folder / "outside.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, str(path), save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def test_models_travel_by_content(tmp_path: Path) -> None:
    """What a worker measures is what this machine measures, though the file has gone when it does."""
    path, board = beside_model(tmp_path), "qemu-cortex-m4"
    joined = join_files({"one": path, "two": DIGITS})
    own = driver.bench(path, load_board(board), None, BuildOptions(), {}, 1, 1)
    cargos = [pickle.loads(pickle.dumps(Cargo.of(file))) for file in (read_model_file(path), joined)]
    for file in tmp_path.iterdir():
        file.unlink()
    assert [cargo.file().digest for cargo in cargos] == [cargo.digest for cargo in cargos]
    assert cargos[1].file().digest == joined.digest
    assert len({cargo.key for cargo in cargos}) == 2
    job = Job(cargos[0].digest, cargos[0].name, board, BuildOptions(), {}, None, 1, 2, 0.0)
    found = measure(cargos[0], pickle.loads(pickle.dumps(job)), "w")
    assert found.failure is None
    assert found.report == own
    # an error comes as it is
    bad = Job(cargos[0].digest, cargos[0].name, board, BuildOptions(), {"n": 3}, None, 1, 2, 0.0)
    failure = measure(cargos[0], bad, "w").failure
    assert failure is not None
    assert (failure.kind, failure.exit_code, failure.elsewhere) == ("UsageError", 2, False)


@pytest.mark.parametrize(
    ("text", "tls", "address"),
    [
        ("127.0.0.1", False, "tcp://127.0.0.1:8786"),
        ("localhost:99", False, "tcp://localhost:99"),
        ("::1", False, "tcp://[::1]:8786"),
        ("tcp://[::1]:5", False, "tcp://[::1]:5"),
        ("rack.lab", True, "tls://rack.lab:8786"),
        ("tls://10.0.0.3:7", True, "tls://10.0.0.3:7"),
        ("0.0.0.0", False, "needs TLS"),
        ("rack.lab", False, "needs TLS"),
        ("localhost.evil.org", False, "needs TLS"),
        ("tcp://rack.lab", True, "with --tls it is tls://"),
        ("tls://127.0.0.1", False, "needs the files of --tls"),
        ("http://127.0.0.1", False, "no address"),
        ("127.0.0.1:x", False, "no address"),
        ("127.0.0.1:99999", False, "no address"),
        ("", False, "no address"),
        ("me@127.0.0.1", False, "no address"),
    ],
)
def test_addresses(text: str, tls: bool, address: str) -> None:
    files = (Path("ca"), Path("cert"), Path("key")) if tls else None
    if "://" in address and " " not in address:
        assert Place.read(text, files).address == address
        return
    with pytest.raises(UsageError) as told:
        Place.read(text, files)
    assert address in str(told.value)


def test_devices_of_a_host() -> None:
    found = Attached(
        (
            Found("serial", "serial:/dev/a", "probe", "free", ("nrf52840_dk",)),
            Found("serial", "serial:/dev/b", "probe", "free", ("nucleo_l4r5zi", "nrf52840_dk")),
            Found("serial", "serial:/dev/c", "probe", "busy", ("microbit",)),
            Found("ssh", "ssh://pi", "pi", "not asked"),
            Found("here", "unicorn://", "emulated", "free", ("microbit", "nrf52840_dk")),
            Found("here", "qemu://", "emulated by one", "free", ("qemu-cortex-m55",)),
            Found("here", "qemu://", "emulated by another", "free", ("esp32c3_devkitm",)),
            Found("here", "qemu://", "emulated by a third", "offline", ("qemu-cortex-m4",)),
        ),
        (),
    )

    def of(addresses: list[str], boards: list[str]) -> list[tuple[str, tuple[str, ...]]]:
        return [(one.address, one.boards) for one in devices_of(addresses, boards, lambda: found)]

    # a probe that two boards have is neither: an image for the other would be flashed
    assert of([], []) == [
        ("serial:/dev/a", ("nrf52840_dk",)), ("unicorn://", ("microbit", "nrf52840_dk")),
        ("qemu://", ("qemu-cortex-m55", "esp32c3_devkitm")),
    ]  # fmt: skip
    assert of([], ["host", "microbit"]) == [("", ("host",)), ("", ("microbit",))]
    assert of(["tcp://x", "tcp://y"], ["host", "microbit"]) == [("tcp://x", ("host",)), ("tcp://y", ("microbit",))]
    assert of(["tcp://x", "tcp://y"], ["host"]) == [("tcp://x", ("host",)), ("tcp://y", ("host",))]
    assert of(["unicorn://"], []) == [("unicorn://", ("microbit", "nrf52840_dk"))]
    for addresses, boards, message in [
        (["serial:/dev/b"], [], "it may be nucleo_l4r5zi, nrf52840_dk"),
        (["tcp://x"], [], "which board is tcp://x"),
        (["a:", "b:", "c:"], ["host", "microbit"], "3 devices and 2 boards"),
        (["a:", "a:"], ["host"], "given twice"),
        ([], ["hots"], "host"),
    ]:
        with pytest.raises(UsageError, match=message):
            of(addresses, boards)
    with pytest.raises(NoDeviceError, match="no device of this host"):
        devices_of([], [], lambda: Attached((), ()))
    assert Device("tcp://x", ("host",)).resources == {"board:host": 1.0, f"sdk:{VERSION}": 1.0}


def test_without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "find_spec", lambda name: None)
    with pytest.raises(MissingToolError, match="the package distributed is not installed") as told:
        bench_farm(HERE, "*", [DIGITS], BuildOptions(), {}, 1, warmup=0)
    assert "distributed>=" in (told.value.hint or "")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("bench m.tflite --farm 127.0.0.1 --board host --device local:", "--device and --farm exclude each other"),
        ("bench m.tflite --farm 127.0.0.1 --board host --html x", "--html and --farm exclude each other"),
        ("bench m.tflite --farm 127.0.0.1", "no board"),
        ("bench m.tflite --farm 10.0.0.1 --board host", "a farm at 10.0.0.1 needs TLS"),
        ("bench m.tflite --farm 127.0.0.1 --board host --tls a b c", "there is no file a"),
        ("bench m.tflite --board host --resume x", "--tls and --resume are of a farm"),
        ("bench . --farm 127.0.0.1 --board host", "is a folder"),
        ("bench m.tflite --farm 127.0.0.1 --board host --custom x.py", "--custom is Python of yours"),
        ("farm scheduler --listen 0.0.0.0", "a farm at 0.0.0.0 needs TLS"),
        ("farm worker 10.0.0.1 --board host", "a farm at 10.0.0.1 needs TLS"),
    ],
)
def test_refused(
    line: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.tflite").write_bytes(DIGITS.read_bytes())
    assert run_command(line.split()) == 2
    assert message in capsys.readouterr().err


def test_failures_say_what_errors_say() -> None:
    class OwnError(NoDeviceError):
        """An error of a module's own."""

    assert Failure.of(OwnError("gone", why="x")).kind == "NoDeviceError"
    assert Failure.of(SdkError("x")).elsewhere is False
    assert Failure.of(OSError("disk")).elsewhere is True
