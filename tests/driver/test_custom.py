"""Importers of custom operators in files of the user: both formats, the command and Python, and what goes wrong."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import sdk
from sdk.cli import run_command
from sdk.compiler.interp.graph import run_graph
from sdk.driver.custom import load_custom
from sdk.driver.files import read_model_file
from sdk.driver.importing import import_model
from sdk.driver.options import BuildOptions
from sdk.errors import BuildError, UsageError

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "frontends"))
from tflite_files import ModelFile

ROOT = Path(__file__).resolve().parents[2]

X = np.linspace(-3, 3, 8, dtype=np.float32).reshape(2, 4)


def documented() -> str:
    """The example of docs/adding.md."""
    text = (ROOT / "docs" / "adding.md").read_text(encoding="utf-8")
    (found,) = re.findall(r"```python\n(# my_ops\.py\n.*?)```", text, re.DOTALL)
    return str(found)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """A model of either format with the operator of the example, and the example as a file."""
    m = ModelFile()
    x, y, z = m.input("x", (2, 4), "float32"), m.tensor("y", (2, 4), "float32"), m.output("z", (2, 4), "float32")
    m.op("CUSTOM", [x], [y], custom="ScaledSwish", flags={"slope": 2.0})
    m.op("NEG", [y], [z])
    swish = helper.make_node("ScaledSwish", ["x"], ["y"], domain="my.domain", slope=2.0)
    nodes = [swish, helper.make_node("Neg", ["y"], ["z"])]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 4]) for n in "xz"]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("my.domain", 1)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    found = {name: tmp_path / name for name in ("model.tflite", "model.onnx", "my_ops.py")}
    found["model.tflite"].write_bytes(m.build())
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), str(found["model.onnx"]))
    found["my_ops.py"].write_text(documented())
    return found


def wanted(x: np.ndarray) -> np.ndarray:
    return -x / (1 + np.exp(-2 * x))


@pytest.mark.parametrize("name", ["model.tflite", "model.onnx"])
def test_one_function_serves_both_formats(name: str, files: dict[str, Path]) -> None:
    options = BuildOptions(custom=(files["my_ops.py"],))
    module = import_model(files[name], options, "m")
    np.testing.assert_allclose(run_graph(module, "main", {"x": X})["z"], wanted(X), rtol=1e-6)
    with pytest.raises(BuildError, match="cannot be imported"):
        import_model(files[name], BuildOptions(), "m")


@pytest.mark.parametrize("name", ["model.tflite", "model.onnx"])
def test_the_command_and_python(name: str, files: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    own = {"__name__": "example"}
    exec(documented(), own)
    for custom in ([files["my_ops.py"]], own["IMPORTERS"]):
        with sdk.compile(files[name], custom=custom) as model:
            np.testing.assert_allclose(model(x=X)["z"], wanted(X), rtol=1e-5)
    given = [str(files[name]), "--custom", str(files["my_ops.py"])]
    command = ["verify", *given, "--board", "host", "--against", "interp", "--cases", "3", "--json"]
    assert run_command(command) == 0
    assert json.loads(capsys.readouterr().out)["passed"]
    assert run_command(["inspect", *given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["supported"]
    assert run_command(["inspect", given[0], "--json"]) != 0


def test_another_file_is_another_build(files: dict[str, Path]) -> None:
    path = files["my_ops.py"]
    first = read_model_file(files["model.tflite"], load_custom([path]))
    assert first.digest == read_model_file(files["model.tflite"], load_custom([path])).digest
    assert first.digest != read_model_file(files["model.tflite"]).digest
    path.write_text(documented().replace('"slope", 1.0', '"slope", 4.0'))
    assert first.digest != read_model_file(files["model.tflite"], load_custom([path])).digest


def test_a_helper_beside_the_file_is_part_of_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    helper_file, path = tmp_path / "helper_of_custom_ops.py", tmp_path / "ops.py"
    helper_file.write_text("SLOPE = 1\n")
    path.write_text("import helper_of_custom_ops\nIMPORTERS = {'A': lambda node: node.x(0)}\n")
    first = load_custom([path]).digest
    helper_file.write_text("SLOPE = 2\n")
    assert load_custom([path]).digest != first
    del sys.modules["helper_of_custom_ops"]


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("IMPORTERS = {\n", "ops.py:1", "SyntaxError"),
        ("a = 1\nb = a / 0\n", "ops.py cannot be run", "ops.py:2"),
        ("a = 1\nb = a / 0\n", "ops.py:2", "ZeroDivisionError"),
        ("def f():\n    raise KeyError('k')\n\nf()\n", "ops.py:2", "KeyError"),
        ("OTHER = {}\n", "has no IMPORTERS", "end the file with"),
        ("IMPORTERS = [1]\n", "functions by the names", "ops.py"),
        ("IMPORTERS = {'A': 3}\n", "functions by the names", "ops.py"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_with_its_line(text: str, where: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "ops.py"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        load_custom([path])
    assert {where, why} <= {word for word in (where, why) if word in str(error.value)}


def test_files_that_are_not_there_or_say_a_name_twice(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        load_custom([tmp_path / "none.py"])
    with pytest.raises(UsageError, match="two files import the operator"):
        load_custom([files["my_ops.py"], files["my_ops.py"]])


@pytest.mark.parametrize("name", ["model.tflite", "model.onnx"])
@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return node.x(3)", "input 3 is missing"),
        ("return 7", "gives int, it must give 1 values"),
        ("return node.x(0), node.x(0)", "gives Value, Value, it must give 1"),
        ("return node.nothing", "the importer of "),
        ("return node.nothing", "ops.py:2: AttributeError"),
        ("node.fail('not this one')", "not this one"),
        ("return node.call('relu', node.x(0), lo=1)", "ops.py:2: TypeError"),
        ("return node.data(0)[0]", "ops.py:2: TypeError"),
        ("return node.call('reshape', node.x(0), shape=(8,))", "is f32[8], the file says"),
    ],
)
def test_a_function_that_fails_is_told_with_the_node(name: str, body: str, why: str, files: dict[str, Path]) -> None:
    path = files["my_ops.py"].with_name("ops.py")
    path.write_text(f"def f(node):\n    {body}\n\nIMPORTERS = {{'ScaledSwish': f, 'my.domain::ScaledSwish': f}}\n")
    if "the file says" in why and name == "model.onnx":
        return  # ONNX says nothing of the shapes between nodes
    with pytest.raises(BuildError) as error:
        import_model(files[name], BuildOptions(custom=(path,)), "m")
    assert why in str(error.value)
    assert "ScaledSwish" in str(error.value)


def test_formats_without_custom_operators(tmp_path: Path, files: dict[str, Path]) -> None:
    path = tmp_path / "p.ir"
    path.write_text("module m imported\n\ngraph @main(%x: f32[2]) {\n  %y = relu(%x) : f32[2]\n  return %y\n}\n")
    with pytest.raises(UsageError, match="has no custom operators to import"):
        import_model(path, BuildOptions(custom=(files["my_ops.py"],)), "m")


def test_options_that_are_no_map_are_left_to_the_function(tmp_path: Path) -> None:
    m = ModelFile()
    m.op("CUSTOM", [m.input("x", (3,), "float32")], [m.output("y", (3,), "float32")], custom="Raw", flags=b"raw bytes")
    path, model = tmp_path / "ops.py", tmp_path / "m.tflite"
    model.write_bytes(m.build())
    body = "assert node.raw == b'raw bytes'; return node.call('neg', node.x(0))"
    path.write_text(f"def f(node): {body}\nIMPORTERS = {{'Raw': f}}\n")
    module = import_model(model, BuildOptions(custom=(path,)), "m")
    assert module.graphs["main"].results[0].name == "y"
    path.write_text("def f(node): return node.options['a']\nIMPORTERS = {'Raw': f}\n")
    with pytest.raises(BuildError, match="they are no map of FlexBuffers"):
        import_model(model, BuildOptions(custom=(path,)), "m")
