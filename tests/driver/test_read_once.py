"""What a build is made of is read once: the model, data in files beside it, programs' constants, libraries."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import sdk
from sdk import driver
from sdk.boards import load_board
from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.driver import pipeline
from sdk.driver.artifact import build_sources
from sdk.driver.files import read_model_file
from sdk.driver.options import BuildOptions
from sdk.driver.program import save_program
from sdk.errors import BuildError, UsageError
from sdk.frontends.base import ModelFile
from sdk.graph import ModuleBuilder, f32

HOST = load_board("host")
DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.tflite"
N = 64
WHERES = ("initializer", "constant", "branch", "function", "attribute")
_opened: Counter[str] | None = None


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _opened is not None and event == "open" and isinstance(arguments[0], (str, bytes, os.PathLike)):
        _opened[os.path.basename(os.fsdecode(arguments[0]))] += 1


sys.addaudithook(_hear)  # there is no way to take one away


@contextmanager
def opened() -> Iterator[Counter[str]]:
    """How often files were opened in the block, by their last names."""
    global _opened
    _opened = Counter()
    try:
        yield _opened
    finally:
        _opened = None


def outside(tensor: TensorProto, folder: Path, file: str = "ext.bin") -> TensorProto:
    """The tensor with its data in a file of ``folder``."""
    (folder / file).write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", file), ("offset", "0"), ("length", str((folder / file).stat().st_size))):
        tensor.external_data.add(key=key, value=value)
    return tensor


def weights(value: float) -> np.ndarray[Any, Any]:
    return np.full(N, value, np.float32)


def model(folder: Path, where: str, value: float) -> Path:
    """A model y = x + w whose w lies beside it, and in the file in the given place."""
    w = outside(numpy_helper.from_array(weights(value), "w"), folder)
    add, functions, initializers = helper.make_node("Add", ["x", "w"], ["y"]), [], []
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    constant = helper.make_node("Constant", [], ["w"], value=w)
    match where:
        case "initializer":
            nodes, initializers = [add], [w]
        case "constant":
            nodes = [constant, add]
        case "branch":
            inner = helper.make_tensor_value_info("w", TensorProto.FLOAT, [N])
            take = helper.make_graph([], "take", [], [inner], [w])
            flag = helper.make_node("Constant", [], ["flag"], value=numpy_helper.from_array(np.array(True)))
            nodes = [flag, helper.make_node("If", ["flag"], ["w"], then_branch=take, else_branch=take), add]
        case "function":
            functions = [helper.make_function("own", "F", ["x"], ["y"], [constant, add], opsets[:1])]
            nodes = [helper.make_node("F", ["x"], ["y"], domain="own")]
        case _:
            shape = numpy_helper.from_array(np.array([N]), "shape")
            one = outside(numpy_helper.from_array(weights(value)[:1], "one"), folder)
            of_shape = helper.make_node("ConstantOfShape", ["shape"], ["w"], value=one)
            nodes, initializers = [of_shape, add], [shape]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [N]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], initializers)
    made = helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=8)
    path = folder / "net.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def added(path: Path) -> float:
    """What the model adds to its input."""
    with sdk.compile(path) as compiled:
        return float(compiled(x=np.zeros(N, np.float32))["y"][N // 2])


@pytest.mark.parametrize("where", WHERES)
def test_changed_data_beside_the_model_is_another_build(tmp_path: Path, where: str) -> None:
    path = model(tmp_path, where, 1.0)
    first = read_model_file(path)
    (tmp_path / "ext.bin").write_bytes(weights(2.0).tobytes()[: (tmp_path / "ext.bin").stat().st_size])
    second = read_model_file(path)
    assert first.data == second.data
    assert first.digest != second.digest
    for file, value in ((first, 1.0), (second, 2.0)):
        module = pipeline.import_model(file, BuildOptions(), "net")
        found = run_graph(module, "main", {"x": np.zeros(N, np.float32)}, initial_states(module), {})
        assert set(found["y"].tolist()) == {value}


def test_new_weights_behind_a_constant_from_end_to_end(tmp_path: Path) -> None:
    path = model(tmp_path, "constant", 1.0)
    assert added(path) == 1.0
    (tmp_path / "ext.bin").write_bytes(weights(2.0).tobytes())
    assert added(path) == 2.0
    report = driver.verify(path, HOST, None, BuildOptions(), "onnxruntime", 2)
    assert (report.passed, report.exact_cases) == (True, 2)


def during(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Does something in the middle of every build."""
    lower = pipeline.lower_module

    def lower_module(*arguments: Any) -> Any:
        do()
        return lower(*arguments)

    monkeypatch.setattr(pipeline, "lower_module", lower_module)


def test_a_file_that_is_exchanged_while_it_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSLEVEL_CACHE", str(tmp_path / "cache"))
    path = model(tmp_path, "initializer", 1.0)
    (tmp_path / "other").mkdir()
    other = model(tmp_path / "other", "initializer", 2.0)

    def exchange() -> None:
        shutil.copy(other, path)
        shutil.copy(other.parent / "ext.bin", tmp_path / "ext.bin")

    with monkeypatch.context() as patch:
        during(patch, exchange)
        first = build_sources(path, HOST, BuildOptions())
    own = "".join(map(str, first.sources.model.values()))
    assert "2.0f" not in own
    assert "1.0f" in own
    second = build_sources(path, HOST, BuildOptions())
    assert "2.0f" in "".join(map(str, second.sources.model.values()))
    assert build_sources(path, HOST, BuildOptions()) == second


def each_verb(path: Path, options: BuildOptions, out: Path) -> list[tuple[str, Callable[[], object]]]:
    m4 = load_board("mps2-an386")
    return [
        ("build", lambda: driver.build(path, HOST, options, emit="c", out=out)),
        ("inspect", lambda: driver.inspect(path, HOST, options, None)),
        ("memory", lambda: driver.memory(path, HOST, options)),
        ("draw", lambda: driver.draw(path, options)),
        ("verify", lambda: driver.verify(path, HOST, None, options, "auto", 1)),
        ("fit", lambda: driver.fit(path, BuildOptions(externs=options.externs), boards=[m4])),
    ]


def test_every_verb_reads_each_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = model(tmp_path, "constant", 1.0)
    (tmp_path / "more.ir").write_text("module library typed\n")
    (tmp_path / "more.c").write_text("int more(void); int more(void) { return 1; }\n")
    options = BuildOptions(externs=(tmp_path / "more.ir", tmp_path / "more.c"))
    monkeypatch.setenv("CROSSLEVEL_CACHE", str(tmp_path / "cache"))
    for verb, run in (*each_verb(path, options, tmp_path / "out"), *each_verb(path, options, tmp_path / "out")[:1]):
        with opened() as names:
            run()
        found = {name: names[name] for name in ("net.onnx", "ext.bin", "more.ir")}
        assert found == {"net.onnx": 1, "ext.bin": 1, "more.ir": 0 if verb == "draw" else 1}, verb


def test_a_model_in_python_keeps_to_what_it_read(tmp_path: Path) -> None:
    path = model(tmp_path, "initializer", 3.0)
    with sdk.compile(path) as compiled:
        path.unlink()
        (tmp_path / "ext.bin").unlink()
        assert compiled(x=np.zeros(N, np.float32))["y"][0] == 3.0
        assert compiled.memory.build.model == "net.onnx"
        assert "net.onnx" in compiled._repr_html_()


def test_a_program_and_its_constants(tmp_path: Path) -> None:
    g = ModuleBuilder("net")
    with g.entry("main") as main:
        main.output("y", main.input("x", f32, (4096,)) + g.const("w", np.arange(4096, dtype=np.float32)))
    path = tmp_path / "net.ir"
    save_program(g.module(), path)
    file = read_model_file(path)
    with opened() as names:
        first = pipeline.import_model(file, BuildOptions(), "net")
        path.with_suffix(".npz").unlink()
        assert pipeline.import_model(file, BuildOptions(), "net") == first
    assert names["net.npz"] == 1
    os.mkfifo(path.with_suffix(".npz"))
    with pytest.raises(UsageError, match="cannot read"):
        pipeline.import_model(read_model_file(path), BuildOptions(), "net")


@pytest.mark.parametrize("kind", [".onnx", ".tflite", ".ir"])
def test_a_model_that_is_no_regular_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"net{kind}"
    os.mkfifo(path)
    with pytest.raises(UsageError, match="cannot read") as caught:
        read_model_file(path)
    assert (caught.value.why, caught.value.hint) == ("it is no regular file", "write it to a file first")


def test_a_library_that_is_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lib.c")
    with pytest.raises(UsageError, match="cannot read"):
        build_sources(DIGITS, HOST, BuildOptions(externs=(tmp_path / "lib.c",)))


def test_a_model_larger_than_any_of_its_kind(tmp_path: Path) -> None:
    with (tmp_path / "net.onnx").open("wb") as file:
        file.truncate(1 << 33)
    with pytest.raises(UsageError, match="cannot read") as caught:
        read_model_file(tmp_path / "net.onnx")
    assert "more than 2147483647 bytes" in (caught.value.why or "")


def test_data_that_nothing_uses_may_be_missing(tmp_path: Path) -> None:
    path = model(tmp_path, "initializer", 1.0)
    proto = onnx.load_model(path, load_external_data=False)
    spare = outside(numpy_helper.from_array(weights(9.0), "spare"), tmp_path, "spare.bin")
    proto.graph.initializer.append(spare)
    path.write_bytes(proto.SerializeToString())
    (tmp_path / "spare.bin").unlink()
    assert added(path) == 1.0
    (tmp_path / "ext.bin").unlink()
    with pytest.raises(BuildError, match="'w' cannot be read"):
        pipeline.import_model(read_model_file(path), BuildOptions(), "net")


def test_what_was_read_is_not_read_again(tmp_path: Path) -> None:
    file = read_model_file(model(tmp_path, "initializer", 1.0))
    assert isinstance(file, ModelFile)
    assert read_model_file(file) is file
    options = BuildOptions(externs=()).read()
    assert options.read() == options
