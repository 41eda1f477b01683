"""Choices that do not go together, libraries and programs that cannot be read, references that refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from failures import Fails
from onnx import TensorProto, helper, save_model

import sdk
from sdk import driver
from sdk.boards import load_board
from sdk.driver import counting, measuring, reference
from sdk.driver.files import read_model_file
from sdk.driver.prefix import prefix_of
from sdk.errors import BuildError, LinkError, NoDeviceError, SdkError, UsageError
from sdk.frontends.onnx import engine as onnxruntime
from sdk.frontends.tflite import engine as micro
from sdk.resources import data_dir
from sdk.toolchains.elf import ElfFile

LIBRARY = "module lib typed\n\ngraph @main(%x: f32[4]) {\n  %y = add(%x, %x) : f32[4]\n  return %y\n}\n"
TWO = LIBRARY.replace("lib typed", "two imported") + LIBRARY.split("\n\n", 1)[1].replace("@main", "@other")


@pytest.mark.parametrize(
    ("line", "says", "hints"),
    [
        ("--name sdk_rt_x", ("begins like the runtime's own names",), ("--name",)),
        ("--region ram=1K", ("host has no memories to choose from", "operating system"), ("leave out --region",)),
        ("--arena-limit 1K --region ram=1K", ("each region has a limit of its own",), ("not both",)),
        ("--arena-limit -5", ("not a size: '-5'",), ('"640K"',)),
        ("--region ram", ("not a region: 'ram'",), ("--region dtcm=64K",)),
        ("--region ram=1 --region ram=2", ("'ram' is given twice",), ("keep one --region",)),
        ("--extern none.c", ("cannot read", "No such file"), ("--extern",)),
        ("--dim n=64:65:0", ("empty range", "no multiple of 0"), ("--dim n=1:256",)),
        ("--dim n=65:66:64", ("empty range", "no multiple of 64"), ("multiples of 32",)),
    ],
)
def test_options_of_a_build(fails: Fails, digits: Path, line: str, says: tuple[str, ...], hints: Any) -> None:
    fails(2, "build", digits, "--board", "host", *line.split(), says=says, hints=hints)


@pytest.mark.parametrize(
    ("line", "says", "hints"),
    [
        ("--region sram=1K", ("microbit has no RAM called 'sram'", "--region"), ("ram",)),
        ("--region ram=64K", ("ram of microbit has 16,384 bytes, not 65,536",), ("--region ram=16384",)),
    ],
)
def test_memories_that_a_board_lacks(fails: Fails, digits: Path, line: str, says: Any, hints: Any) -> None:
    fails(2, "build", digits, "--board", "microbit", *line.split(), says=says, hints=hints)


def test_libraries(fails: Fails, digits: Path, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("k.c", "a/k.c", "k.py"):
        (tmp_path / name).write_text("int k;\n")
    (tmp_path / "lib.ir").write_text(LIBRARY)
    line = ("build", digits, "--board", "host", "--extern", tmp_path / "k.c", "--extern")
    fails(2, *line, tmp_path / "a" / "k.c", says=("two library files are called k.c",), hints=("rename",))
    fails(2, *line, tmp_path / "k.py", says=("k.py is no library file",), hints=(".ir",))
    fails(2, *line, tmp_path / "lib.ir", says=("there is a graph or pattern @main already",), hints=("rename",))


def test_programs(fails: Fails, digits: Path, tmp_path: Path) -> None:
    path = tmp_path / "two.ir"
    line = ("build", path, "--board", "host")
    path.write_text(TWO)
    fails(2, *line, "--dim", "n=1:2", says=("states the bounds of its dimensions itself",), hints=("--dim",))
    run = ("--board", "host", "--against", "interp")
    fails(2, "verify", path, *run, says=("the model has 2 entries",), hints=("--entry: main, other",))
    fails(2, "verify", path, *run, "--entry", "none", says=("the model has no entry 'none'",), hints=("main, other",))
    fails(2, "run", path, "--board", "host", says=("the model has 2 entries",), hints=("--entry: main, other",))
    path.write_text("module two imported\n\ngraph @main(%x: f32[4]) {\n  return %z\n}\n")
    fails(1, *line, says=("%z is not defined", "two.ir:4"))
    path.write_bytes(b"module \xff\xfe")
    fails(2, *line, says=("two.ir is not text",), hints=("UTF-8",))
    path.write_text(TWO.replace("two", "three"))  # one that was not built before
    path.with_suffix(".npz").write_text("no archive")
    fails(2, *line, says=("cannot read", "two.npz"), hints=("constants",))
    path.with_suffix(".npz").unlink()
    path.write_text(TWO)
    path.write_text(driver.inspect(path, load_board("host"), driver.BuildOptions(), "planned"))
    fails(1, *line, says=("the program two is planned already",), hints=("an earlier stage",))
    path.write_text(driver.inspect(digits, load_board("host"), driver.BuildOptions(), "imported"))
    fails(1, *line, says=("none of the given blobs",), hints=("beside",))


def test_a_folder_that_another_version_built(fails: Fails, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"schema": 1}')
    says = ("is not a folder that sdk build made", "schema 1")
    fails(2, "run", tmp_path, "--board", "host", says=says, hints=("again",))


def test_references(fails: Fails, digits: Path, tmp_path: Path) -> None:
    line = ("verify", digits, "--board", "host", "--against", "onnxruntime")
    fails(2, *line, says=("onnxruntime runs ONNX models only",), hints=("--against interp",))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", values[:1], values[1:])
    path = tmp_path / "net.onnx"
    save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=99), path)
    line = ("verify", path, "--board", "host", "--cases", "1")
    error = fails(1, *line, says=("onnxruntime does not take this model",), hints=("--against interp",))
    assert "version" in error["why"].lower()
    fails(2, *line, "--against", "tflite-micro", says=("tflite-micro runs TensorFlow Lite models only",))


def test_references_that_break(digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refuses:
        def __init__(self, *_: object, **__: object) -> None: ...

        def get_inputs(self) -> list[object]:
            return []

        def run(self, *_: object) -> None:
            raise RuntimeError("out of luck")

        @staticmethod
        def from_bytes(*_: object, **__: object) -> None:
            raise RuntimeError("no such kernel")

    runtime = SimpleNamespace(
        InferenceSession=Refuses, Interpreter=Refuses, set_default_logger_severity=lambda _: None,
        SessionOptions=Mock, InterpreterConfig=Mock(), GraphOptimizationLevel=Mock(), ExecutionMode=Mock(),
    )  # fmt: skip
    monkeypatch.setattr(micro, "import_module", lambda _: runtime)
    monkeypatch.setattr(onnxruntime, "import_module", lambda _: runtime)
    graph = SimpleNamespace(name="main", dims=(), params=(), results=())
    with pytest.raises(BuildError, match="tflite-micro does not take this model") as caught:
        micro.TfliteMicro(read_model_file(digits), graph)
    assert caught.value.why == "no such kernel"
    with pytest.raises(BuildError, match="onnxruntime fails on this model"):
        onnxruntime.OnnxRuntime(read_model_file(digits), graph).step({}, {})
    monkeypatch.setattr(reference, "entry_graph", lambda *_: graph)
    with pytest.raises(UsageError, match="no reference 'me' for"):
        reference.open_reference("me", digits, SimpleNamespace(), None)


def without(module: str) -> Callable[[str], Any]:
    def load(name: str) -> Any:
        raise ImportError(f"No module named {module!r}")

    return load


def test_references_that_are_not_installed(
    fails: Fails, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(micro, "import_module", without("them"))
    monkeypatch.setattr(onnxruntime, "import_module", without("them"))
    line = ("verify", digits, "--board", "host")
    fails(10, *line, says=("the reference tflite-micro is not installed",), hints=("pip install 'tflite-micro",))
    graph = SimpleNamespace(name="main", dims=(), params=(), results=())
    with pytest.raises(SdkError, match="the reference onnxruntime is not installed") as caught:
        onnxruntime.OnnxRuntime(read_model_file(digits), graph)
    assert caught.value.exit_code == 10


OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"threads": 65}, "65 threads asked for"),
    ({"memory": "less"}, "no memory objective is called 'less'"),
    ({"opt": "speed"}, "code is not made for 'speed'"),
    ({"check": "half"}, "no check is called 'half'"),
    ({"weights": "disk"}, "weights go to no 'disk'"),
    ({"memory": "min", "arena_limit": 5}, "a limit of the arena is an objective"),
]


@pytest.mark.parametrize(("given", "says"), OPTIONS)
def test_options_in_python(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        driver.BuildOptions(**given)
    assert caught.value.message == says
    assert caught.value.hint


def test_values_in_python(digits: Path) -> None:
    with pytest.raises(UsageError, match="'7up' is not a C identifier"):
        prefix_of(digits, driver.BuildOptions(name="7up"))
    with pytest.raises(UsageError, match="no models to join"):
        sdk.compile({})
    with pytest.raises(UsageError, match="dims are bounds by name, not a set"):
        sdk.compile(digits, dims={1, 2})
    with pytest.raises(NoDeviceError, match="has no emulated target that counts instructions"):
        measuring.count(digits, load_board("host"), driver.BuildOptions())


def test_counts_that_did_not_come(digits: Path, tmp_path: Path, root: Path) -> None:
    with pytest.raises(LinkError, match="the emulator ended without its counts"):
        list(counting._read(tmp_path / "counts.txt"))
    image = SimpleNamespace(symbols=(), path=digits)
    with pytest.raises(BuildError, match="the image has no marks to count by"):
        counting._plugin(tmp_path, image, 1, tmp_path)


def test_files_that_are_no_programs(tmp_path: Path, digits: Path) -> None:
    with pytest.raises(BuildError, match="not a little-endian ELF file"):
        ElfFile(digits)
    damaged = tmp_path / "damaged"
    damaged.write_bytes(b"\x7fELF\1\1\1" + bytes(9))
    with pytest.raises(BuildError, match="damaged ELF file"):
        ElfFile(damaged)


def test_an_installation_with_a_part_missing() -> None:
    with pytest.raises(SdkError, match="the installation has no data folder 'toys'") as caught:
        data_dir("toys")
    assert "pip install" in (caught.value.hint or "")
