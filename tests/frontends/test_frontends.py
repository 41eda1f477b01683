"""Formats of model files: told by contents, found in their folder, one package each, loaded when they are needed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import sdk
import sdk.frontends
from sdk import driver
from sdk.boards import load_board
from sdk.driver.files import read_model_file
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import import_model
from sdk.driver.reference import open_reference
from sdk.errors import BuildError, UsageError
from sdk.frontends import claimed, engine_names, frontends, readable, recognise, suffixes
from sdk.frontends.onnx.sniff import BYTES, FIELDS, NUMBER, is_onnx

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_int8.tflite"
HOST = load_board("host")
PROGRAM = b"module net typed\n\ngraph @main(%x: f32[4]) {\n  %y = add(%x, %x) : f32[4]\n  return %y\n}\n"


def relu(producer: str = "") -> onnx.ModelProto:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", values[:1], values[1:])
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name=producer)


FILES = {"tflite": DIGITS.read_bytes(), "onnx": relu().SerializeToString(), "program": PROGRAM}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("ending", ["", ".bin", ".tflite", ".ONNX", ".ir"])
def test_contents_decide(name: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"model{ending}"
    path.write_bytes(FILES[name])
    assert recognise(FILES[name], ending) is claimed(f".{name}" if name != "program" else ".ir")
    file = read_model_file(path)
    assert file.frontend.name == name
    module = import_model(file, BuildOptions(), "model")
    reference = {"tflite": "tflite-micro", "onnx": "onnxruntime", "program": "interp"}[name]
    assert open_reference("auto", file, module).name == reference


@pytest.mark.parametrize(
    "data", [b"", bytes(90), b"PK\x03\x04", b"plain text", b"module load gcc\n", FILES["onnx"][:-1]]
)
def test_contents_that_tell_nothing(data: bytes) -> None:
    assert [recognise(data, ending) for ending in ("", *suffixes())] == [None] * (1 + len(suffixes()))


@pytest.mark.parametrize(
    "begin", [b"// a comment\n\n", b"\t \r\n//\n// module\n", b"//" + b"/ " * 100_000 + b"\n" * 100_000]
)
def test_comments_before_a_program(begin: bytes) -> None:
    assert recognise(begin + PROGRAM, "") is claimed(".ir")
    assert recognise(begin + PROGRAM.replace(b"net", b'"a \\"b:0"'), "") is claimed(".ir")
    assert recognise(begin + PROGRAM[3:], "") is None


def test_contents_of_two_formats() -> None:
    data = relu("TFL3").SerializeToString()
    assert data[4:8] == b"TFL3"
    assert recognise(data, ".onnx") is claimed(".onnx")
    assert recognise(data, ".tflite") is claimed(".tflite")


def test_the_fields_of_an_onnx_model() -> None:
    known = {f.number: NUMBER if f.type == f.TYPE_INT64 else BYTES for f in onnx.ModelProto.DESCRIPTOR.fields}
    assert known.items() <= FIELDS.items()
    later = b"\x98\x06\x05\xa1\x06" + bytes(8) + b"\xa5\x06" + bytes(4)  # fields 99 and 100 of other wire types
    assert is_onnx(FILES["onnx"] + later)
    assert not is_onnx(FILES["onnx"] + b"\x9b\x06")  # a group, which no version of the format has
    assert not is_onnx(helper.make_tensor("t", TensorProto.FLOAT, [2], [1.0, 2.0]).SerializeToString())
    assert not is_onnx(relu().graph.SerializeToString())


@pytest.mark.parametrize("ending", [".tflite", ".onnx"])
def test_a_name_that_the_contents_do_not_keep(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"net{ending}"
    path.write_bytes(b"\x08\x07" * 40)
    with pytest.raises(BuildError, match="is not a valid") as caught:
        import_model(path, BuildOptions(), "net")
    assert caught.value.why
    assert (caught.value.where, readable() in str(caught.value.hint)) == (str(path), True)


@pytest.mark.parametrize("frontend", frontends(), ids=lambda frontend: frontend.name)
def test_records(frontend: Any) -> None:
    assert frontend is sys.modules[f"sdk.frontends.{frontend.name}"].FRONTEND
    assert all(s == s.lower() and s.startswith(".") and suffixes().count(s) == 1 for s in frontend.suffixes)
    assert {engine.name for engine in frontend.engines} <= set(engine_names()) - {"auto", "interp"}


@pytest.mark.parametrize(
    ("name", "spared"), [("onnx", {"tflite", "flatbuffers"}), ("tflite", {"onnx", "google.protobuf"})]
)
def test_only_the_packages_of_the_format_are_imported(name: str, spared: set[str], tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(FILES[name])
    code = (
        "import sys; from pathlib import Path; from sdk.driver.options import BuildOptions\n"
        "from sdk.driver import pipeline\n"
        "pipeline.import_model(Path('model'), BuildOptions(), 'model')\n"
        f"assert not {spared!r} & set(sys.modules), sys.modules"
    )
    environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True, timeout=60)


TOY = '''
"""The toy frontend: ``toy FACTOR`` is y = FACTOR * x."""

from types import SimpleNamespace

import numpy as np

from sdk.errors import BuildError
from sdk.frontends.base import Engine, Frontend, Objects
from sdk.frontends.outline import Outline, OutlineNode, OutlineTensor, Refusal
from sdk.graph import ModuleBuilder, f32


def factor(data):
    try:
        return float(data.split()[1])
    except ValueError as error:
        raise BuildError("no such toy", why=str(error)) from None


def load(file, name, dims, refusals):
    try:
        by = factor(file.data)
    except BuildError as error:
        refusals.append(Refusal(0, error.why))
        raise
    g = ModuleBuilder(name)
    with g.entry("main") as main:
        main.output("y", main.input("x", f32, (4,)) * g.const("by", np.float32(by)))
    return g.module()


def outline(data):
    tensors = tuple(OutlineTensor(name, "f32", (4,)) for name in "xy")
    return Outline((0,), (1,), tensors, (OutlineNode(0, "TOY", "y", (0,), (1,)),))


class Runs:
    name, options = "toy-runs", {}

    def __init__(self, file, graph):
        self.by = factor(file.data)

    def step(self, inputs, dims):
        return {"y": inputs["x"] * np.float32(self.by)}


def pack(model):
    return ("held", b"toy %d" % model["toy"]) if isinstance(model, dict) else None


FRONTEND = Frontend(
    "toy", "toy", (".toy", ".plaything"), lambda data: data.startswith(b"toy "), load, outline=outline,
    engines=(Engine("toy-runs", "toy-package", Runs, lambda graph: True),), objects=Objects("a toy", pack),
)
'''


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A frontend that is nothing but a package where frontends are looked for."""
    (tmp_path / "found" / "toy").mkdir(parents=True)
    (tmp_path / "found" / "toy" / "__init__.py").write_text(TOY)
    monkeypatch.setattr(sdk.frontends, "__path__", [*sdk.frontends.__path__, str(tmp_path / "found")])
    monkeypatch.chdir(tmp_path)
    frontends.cache_clear()
    yield
    frontends.cache_clear()
    del sys.modules["sdk.frontends.toy"], sdk.frontends.toy  # type: ignore[attr-defined]


@pytest.mark.usefixtures("toy")
def test_a_frontend_is_one_package() -> None:
    Path("model.toy").write_bytes(b"toy 3")
    shutil.copy("model.toy", "model.tflite")
    x = np.arange(4, dtype=np.float32)
    for given, wanted in (("model.toy", 3), ("model.tflite", 3), ({"toy": 5}, 5)):
        with sdk.compile(given) as model:
            np.testing.assert_array_equal(model(x=x)["y"], wanted * x)
    found = driver.verify(Path("model.tflite"), HOST, None, BuildOptions(), "auto", 2)
    assert (found.passed, found.reference) == (True, "toy-runs")
    with pytest.raises(UsageError, match="toy-runs runs toys only"):
        driver.verify(DIGITS, HOST, None, BuildOptions(), "toy-runs", 2)
    with pytest.raises(UsageError, match="no reference 'me' for") as caught:
        driver.verify(DIGITS, HOST, None, BuildOptions(), "me", 2)
    assert "toy-runs" in str(caught.value.hint)


@pytest.mark.usefixtures("toy")
def test_what_a_new_frontend_refuses() -> None:
    Path("model.toy").write_bytes(b"toy none")
    drawing, error = driver.draw(Path("model.toy"), BuildOptions())
    assert (drawing.graphs[0].nodes[1].kind, drawing.graphs[0].nodes[1].why != "") == ("TOY", True)
    assert error is not None
    Path("model").write_bytes(b"nothing\0")
    with pytest.raises(UsageError, match="not a model this version reads") as caught:
        read_model_file(Path("model"))
    assert "toys (.toy .plaything)" in str(caught.value.hint)
    with pytest.raises(UsageError, match="a list is no model") as caught:
        sdk.compile([])
    assert "a toy, or a module" in str(caught.value.hint)
