"""The contract of the command: JSON on stdout, messages on stderr, exit codes, errors with a way out."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sdk
from sdk import errors
from sdk.cli import VERBS, run_command
from sdk.cli.options import parse_at, parse_dims, parse_inputs
from sdk.errors import SdkError, UsageError

SIZES = {
    "ram_bytes": 17000,
    "arena_bytes": 16000,
    "arena_lower_bound_bytes": 16000,
    "state_bytes": 0,
    "weights_bytes": 24376,
    "weights": {"model": 24000, "compiled": 24376},
    "macs": {"main": {"model": 1000, "compiled": None}},
    "sections": {"text": 1, "rodata": 2, "data": 3, "bss": 4},
    "dims": {"n": [1, 256]},
    "files": ["out/m.c"],
}
TIMES = {"runs": 3, "min_ms": 1.5, "median_ms": 2.0, "p90_ms": 2.5}
COUNTS = {"instructions": 5_000_000, "cycles": None, "est_cycles": 6_000_000}
ERRORS = {"max_abs_err": 0.0, "max_rel_err": 0.0}
MATCH = {"reference": "interp", "reference_options": {}, "cases": 3, "exact_cases": 3, "float64_cases": 0, **ERRORS}
MATCH["unsteady_cases"] = 0


@dataclasses.dataclass(frozen=True)
class Options:
    """Stands for the driver's BuildOptions."""

    name: str | None = None
    dims: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    threads: int = 1
    memory: str = "time"
    arena_limit: int | None = None
    isa: str | None = None
    toolchain: str = "auto"
    externs: tuple[Path, ...] = ()
    regions: tuple[tuple[str, int], ...] = ()
    weights: str = "flash"
    opt: str = "time"
    check: str = "sample"
    backend: str | None = None
    custom: tuple[Path, ...] = ()
    safetensors: tuple[Path, ...] = ()
    io: str | None = None
    watchdog: int | None = None
    gpu: str | None = None
    on_processor: frozenset[int] = frozenset()


class Driver:
    """Stands for the driver: records each call and returns a report of the agreed form."""

    BuildOptions = Options

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.failure: BaseException | None = None
        self.passed = True
        self.outputs = {"y": np.array([[1.5, np.nan]], dtype=np.float32)}

    def _record(self, verb: str, args: tuple[Any, ...], more: dict[str, Any]) -> None:
        self.calls.append((verb, args, more))
        if self.failure is not None:
            raise self.failure

    def _report(self, data: dict[str, Any], **fields: Any) -> SimpleNamespace:
        return SimpleNamespace(to_json=lambda: data, **fields)

    def build(self, model: Path, board: Any, options: Options, **more: Any) -> SimpleNamespace:
        self._record("build", (model, board, options), more)
        return self._report({"model": model.stem, "board": board.name, "out": str(more["out"]), **SIZES})

    def memory(self, model: Path, board: Any, options: Options, at: Mapping[str, int]) -> SimpleNamespace:
        self._record("memory", (model, board, options), {})
        data = {"model": model.stem, "board": board.name, "out": None, **SIZES}
        return self._report(data, entries=(), others={})

    def memory_page(self, report: Any, board: Any) -> str:
        return f"<html>{board.name}</html>"

    def memory_svg(self, report: Any) -> str:
        return "<svg/>"

    def inspect(self, *args: Any) -> str:
        self._record("inspect", args, {})
        return "graph @main() {}"

    def run(self, *args: Any) -> SimpleNamespace:
        self._record("run", args, {})
        return self._report({"model": args[0].stem, "board": "host", "at": args[4]}, outputs=self.outputs, notes=())

    def bench(self, *args: Any, **more: Any) -> SimpleNamespace:
        self._record("bench", args, more)
        place = {
            "model": "m",
            "board": "host",
            "device": "local:",
            "emulated": False,
            "at": {},
            "threads": args[6],
        }
        return self._report({**place, **TIMES, **COUNTS})

    def verify(self, *args: Any) -> SimpleNamespace:
        self._record("verify", args, {})
        data = {"model": "m", "board": "host", **MATCH, "passed": self.passed}
        return self._report(data, compared_with="interp (engine numpy)", notes=())


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    """A driver that stands in for the real one."""
    fake = Driver()
    monkeypatch.setitem(sys.modules, "sdk.driver", fake)
    monkeypatch.setattr(sdk, "driver", fake, raising=False)
    return fake


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file for the driver to be given; the working folder is its folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.tflite").write_bytes(b"model")
    return "m.tflite"


Sdk = Callable[..., tuple[int, str, str]]


@pytest.fixture
def sdk_command(capsys: pytest.CaptureFixture[str]) -> Sdk:
    """Run the command in this process: exit code, stdout, stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def shell(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sdk", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **more)


def one_object(text: str) -> dict[str, Any]:
    found = json.loads(text)
    assert next(iter(found)) == "schema"
    assert found["schema"] == 1
    return dict(found)


VERB_LINES = {
    "build": ["build", "m.tflite", "--board", "host"],
    "run": ["run", "m.tflite", "--board", "host"],
    "verify": ["verify", "m.tflite", "--board", "host"],
    "bench": ["bench", "m.tflite", "--board", "host"],
    "memory": ["memory", "m.tflite", "--board", "host"],
    "boards": ["boards"],
}


@pytest.mark.parametrize("verb", VERB_LINES)
def test_json_is_exactly_one_object(driver: Driver, model: str, sdk_command: Sdk, verb: str) -> None:
    code, out, err = sdk_command(*VERB_LINES[verb], "--json")
    assert (code, err) == (0, "")
    one_object(out)


@pytest.mark.parametrize("verb", [*VERB_LINES, "inspect"])
def test_text_is_for_people(driver: Driver, model: str, sdk_command: Sdk, verb: str) -> None:
    code, out, err = sdk_command(*VERB_LINES.get(verb, ["inspect", "m.tflite", "--stage", "planned"]))
    assert (code, err) == (0, "")
    assert not out.startswith("{")
    assert out.strip()


def test_build_passes_every_option_on(driver: Driver, model: str, sdk_command: Sdk) -> None:
    line = "build m.tflite --board l4r5zi -o there --name kws --dim n=1:256 --dim m=64 --threads 2"
    line += " --arena-limit 64K --isa scalar --toolchain gcc --emit firmware --io arena --force --json"
    code, out, _ = sdk_command(*line.split())
    assert code == 0
    data = one_object(out)
    assert data["out"] == "there"
    assert {*SIZES, "model", "board", "out", "schema"} == set(data)
    _, (path, board, options), more = driver.calls[0]
    assert (path, board.name) == (Path("m.tflite"), "nucleo_l4r5zi")
    expected = Options("kws", {"n": (1, 256), "m": (64, 64)}, 2, "time", 65536, "scalar", "gcc", io="arena")
    assert options == expected
    assert (more["emit"], more["out"], more["force"]) == ("firmware", Path("there"), True)


def test_defaults(driver: Driver, model: str, sdk_command: Sdk) -> None:
    sdk_command("build", model, "--board", "host")
    _, (_, _, options), more = driver.calls[0]
    assert options == Options()
    assert (more["emit"], more["out"]) == ("c", Path("out/m-host"))


def test_run_reads_inputs_and_saves_outputs(
    driver: Driver, model: str, sdk_command: Sdk, tmp_path: Path
) -> None:
    np.save("x.npy", np.arange(6, dtype=np.int8).reshape(2, 3))
    line = "run m.tflite --board host --at n=64 --input x=x.npy --output deep/out.npz --json"
    code, out, _ = sdk_command(*line.split())
    assert code == 0
    data = one_object(out)
    assert data["outputs"] == {"y": {"shape": [1, 2], "dtype": "float32", "values": [[1.5, "nan"]]}}
    assert data["saved"] == "deep/out.npz"
    assert data["at"] == {"n": 64}
    _, args, _ = driver.calls[0]
    assert args[4] == {"n": 64}
    np.testing.assert_array_equal(args[5]["x"], np.arange(6, dtype=np.int8).reshape(2, 3))
    with np.load("deep/out.npz") as saved:
        np.testing.assert_array_equal(saved["y"], driver.outputs["y"])


def test_large_outputs_are_not_printed(driver: Driver, model: str, sdk_command: Sdk) -> None:
    driver.outputs = {"y": np.zeros(1000, dtype=np.int8)}
    assert one_object(sdk_command(*VERB_LINES["run"], "--json")[1])["outputs"]["y"]["values"] is None
    assert "1,000 values" in sdk_command(*VERB_LINES["run"])[1]


def test_mismatch_is_exit_code_8(driver: Driver, model: str, sdk_command: Sdk) -> None:
    driver.passed = False
    code, out, _ = sdk_command(*VERB_LINES["verify"], "--json")
    assert code == 8
    assert one_object(out)["passed"] is False


ALL_ERRORS = sorted(
    (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SdkError)),
    key=lambda kind: (kind.exit_code, kind.__name__),
)


@pytest.mark.parametrize("kind", ALL_ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_has_its_exit_code(
    driver: Driver, model: str, sdk_command: Sdk, kind: type[SdkError]
) -> None:
    driver.failure = kind("it broke", where="node 3", why="too\nlarge", hint="make it smaller")
    code, out, err = sdk_command(*VERB_LINES["build"], "--json")
    assert code == kind.exit_code
    error = one_object(out)["error"]
    assert error["message"] == "it broke"
    assert (error["kind"], error["exit_code"]) == (kind.__name__, kind.exit_code)
    assert (error["where"], error["why"], error["hint"]) == ("node 3", "too\nlarge", "make it smaller")
    assert err == "error: it broke\n  where: node 3\n  why: too\n    large\n  hint: make it smaller\n"
    assert sdk_command(*VERB_LINES["build"])[1] == ""


def test_exit_codes_are_those_of_the_contract() -> None:
    assert {kind.exit_code for kind in ALL_ERRORS} == set(range(1, 11))


def test_a_bug_of_ours_is_exit_code_1(
    driver: Driver, model: str, sdk_command: Sdk, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.failure = ZeroDivisionError("oops")
    code, out, err = sdk_command(*VERB_LINES["build"], "--json")
    assert code == 1
    assert "internal error: ZeroDivisionError: oops" in one_object(out)["error"]["message"]
    assert "Traceback" not in err
    monkeypatch.setenv("CROSSLEVEL_DEBUG", "1")
    assert "Traceback" in sdk_command(*VERB_LINES["build"])[2]


def test_interruption_is_exit_code_130(driver: Driver, model: str, sdk_command: Sdk) -> None:
    driver.failure = KeyboardInterrupt()
    assert sdk_command(*VERB_LINES["build"])[0] == 130


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("biuld m.tflite", "unknown verb 'biuld'", "build"),
        ("build", "MODEL", "sdk build --help"),
        ("build m.tflite", "--board", "sdk build --help"),
        ("build m.tflit --board host", "no such file: m.tflit", "m.tflite"),
        ("build no/m.tflite --board host", "no such file", None),
        ("build m.tflite --board hots", "unknown board 'hots'", "host"),
        ("build m.tflite --board host --emit exe", "--emit", None),
        ("build m.tflite --board host --threads 0", "--threads", None),
        ("build m.tflite --board host --name 7up", "not a C identifier", "letters"),
        ("build m.tflite --board host --memory min --arena-limit 1K", "exclude each other", None),
        ("build m.tflite --board host --arena-limit much", "not a size", "640K"),
        ("build m.tflite --board host --dim n", "not a dimension: 'n'", "--dim n=1:256"),
        ("build m.tflite --board host --dim n=9:2", "empty range", None),
        ("build m.tflite --board host --dim n=1 --dim n=2", "given twice", None),
        ("run m.tflite", "no board and no device", "--board host"),
        ("run m.tflite --board host --at n=1:2", "not a value of a dimension", "--at n=64"),
        ("run m.tflite --board host --input x", "not an input", "x=x.npy"),
        ("run m.tflite --board host --input x=none.npy", "cannot read none.npy", None),
        ("run m.tflite --board host --input x=m.tflite", "cannot read m.tflite", None),
        ("bench m.tflite --board host --repeat 0", "--repeat", None),
        ("verify m.tflite --board host --against me", "--against", None),
        ("boards show hots", "unknown board", "host"),
        ("boards show", "NAME", None),
    ],
)
def test_usage_errors(
    driver: Driver, model: str, sdk_command: Sdk, line: str, message: str, hint: str | None
) -> None:
    code, out, err = sdk_command(*line.split())
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("error: ")
    assert hint is None or hint in err.split("hint:")[1]
    if line:
        code, out, _ = sdk_command(*line.split(), "--json")
        assert code == 2
        assert one_object(out)["error"]["exit_code"] == 2


def test_dims_and_values() -> None:
    assert parse_dims(["n=1:256", "seq_len=8"]) == {"n": (1, 256), "seq_len": (8, 8)}
    assert parse_at(["n=0", "m=12"]) == {"n": 0, "m": 12}
    for bad in ("n=-1", "n=1:", "=1", "1n=2", "n=1:2:3", "n=1.5", ""):
        with pytest.raises(UsageError):
            parse_dims([bad])
        with pytest.raises(UsageError):
            parse_at([bad])


def test_inputs_never_unpickle(tmp_path: Path) -> None:
    np.save(tmp_path / "bad.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "many.npz", a=np.zeros(1), b=np.zeros(1))
    (tmp_path / "empty.npy").write_bytes(b"")
    for name in ("bad.npy", "many.npz", "empty.npy"):
        with pytest.raises(UsageError):
            parse_inputs([f"x={tmp_path / name}"])


def test_boards_show(sdk_command: Sdk) -> None:
    data = one_object(sdk_command("boards", "show", "l4r5zi", "--json")[1])
    assert (data["name"], data["ram_bytes"]) == ("nucleo_l4r5zi", 655360)
    text = sdk_command("boards", "show", "microbit")[1]
    assert "16 KiB at 0x20000000" in text
    assert "soc/nrf51822.toml" in text


def test_help_and_version() -> None:
    shown = shell("--help")
    assert shown.returncode == 0
    for verb in VERBS:
        assert re.search(rf"^  {verb} ", shown.stdout, re.MULTILINE)
    assert "..." not in shown.stdout.split("Commands:")[1]  # no line is cut
    assert shell().stdout == shown.stdout  # alone, it is a question for help
    assert re.fullmatch(r"sdk \d+\.\d+\.\d+\n", shell("--version").stdout)


def test_output_into_a_closed_pipe_is_no_error() -> None:
    for reader in ("head -c 1 >/dev/null", "true"):
        command = f"{sys.executable} -m sdk boards --json | {reader}; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("0\n", "")


def test_interrupt_ends_the_process_with_130(tmp_path: Path) -> None:
    # A board file that is a pipe nobody writes to: the command waits in it until the signal arrives.
    os.mkfifo(tmp_path / "waiting.toml")
    environment = {**os.environ, "CROSSLEVEL_BOARDS": str(tmp_path)}
    command = [sys.executable, "-m", "sdk", "boards", "show", "waiting"]
    # a test run started in the background ignores the signal, and its children would inherit that
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heed
    )
    writer = os.open(tmp_path / "waiting.toml", os.O_WRONLY)  # returns once the command has opened it too
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    os.close(writer)
    assert (process.returncode, out, err.strip()) == (130, b"", b"interrupted")
