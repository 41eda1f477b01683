"""Several models as entries of one: shared constants and states, dims by entry, references, what cannot be joined."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import sdk
from sdk.boards import load_board
from sdk.cli import run_command
from sdk.driver.entries import join_files
from sdk.driver.execute import verify
from sdk.driver.importing import import_model
from sdk.driver.options import BuildOptions
from sdk.errors import BuildError, UsageError

WEIGHTS = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)

STEP = """module step imported

state @seen: f32[2] = 0

graph @main(%x: f32[2]) {
  %old = read @seen : f32[2]
  %sum = add(%old, %x) : f32[2]
  write @seen = %sum
  return %sum
}
"""
CLEAR = """module clear imported

state @seen: f32[2] = 0

graph @main(%x: f32[2]) {
  %old = read @seen : f32[2]
  write @seen = %x
  return %old
}
"""


def onnx_file(path: Path, rows: int | str, after: str, name: str = "w") -> Path:
    """A product with the same weights under any name, then another operator."""
    nodes = [helper.make_node("MatMul", ["x", name], ["m"]), helper.make_node(after, ["m"], ["y"])]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [rows, 8]) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [numpy_helper.from_array(WEIGHTS, name)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, str(path))
    return path


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    return {
        "prefill": onnx_file(tmp_path / "a.onnx", "n", "Relu"),
        "decode": onnx_file(tmp_path / "b.onnx", 1, "Tanh", "other"),
    }


def test_weights_are_stored_once_and_each_entry_runs(files: dict[str, Path]) -> None:
    x = np.random.default_rng(1).standard_normal((5, 8)).astype(np.float32)
    with sdk.compile(files, dims={"n": (1, 16)}) as model:
        assert model.report.weights_bytes == WEIGHTS.nbytes
        got = model.run("prefill", {"x": x})["y"]
        np.testing.assert_allclose(got, np.maximum(x @ WEIGHTS, 0), rtol=1e-5, atol=1e-5)
        got = model.run("decode", {"x": x[:1]})["y"]
        np.testing.assert_allclose(got, np.tanh(x[:1] @ WEIGHTS), rtol=1e-5, atol=1e-5)
        with pytest.raises(UsageError, match="2 entries"):
            model(x=x)


@pytest.mark.parametrize("entry", ["prefill", "decode"])
def test_each_entry_is_compared_with_its_own_file(files: dict[str, Path], entry: str) -> None:
    options = BuildOptions(dims={"n": (1, 16)})
    report = verify(join_files(files), load_board("host"), None, options, "auto", 3, None, entry)
    assert report.passed
    assert report.compared_with.startswith("onnxruntime")


def test_dims_of_all_entries_and_of_one(files: dict[str, Path], tmp_path: Path) -> None:
    both = {"a": files["prefill"], "b": onnx_file(tmp_path / "c.onnx", "n", "Abs")}
    module = import_model(join_files(both), BuildOptions(dims={"n": (1, 16), "b.n": (1, 4)}), "m")
    assert [module.graphs[k].dims[0].hi for k in "ab"] == [16, 4]
    with pytest.raises(UsageError, match="no dim q"):
        import_model(join_files(both), BuildOptions(dims={"n": (1, 16), "q": (1, 4)}), "m")
    with pytest.raises(UsageError, match="no dim q"):
        import_model(join_files(both), BuildOptions(dims={"n": (1, 16), "b.q": (1, 4)}), "m")
    with pytest.raises(UsageError, match="open sizes without bounds: n"):
        import_model(join_files(both), BuildOptions(dims={"b.n": (1, 16)}), "m")


def test_states_of_one_name_are_one_state(tmp_path: Path) -> None:
    for name, text in (("step", STEP), ("clear", CLEAR)):
        (tmp_path / f"{name}.ir").write_text(text)
    x = np.array([1, 2], np.float32)
    with sdk.compile({k: tmp_path / f"{k}.ir" for k in ("step", "clear")}) as model:
        assert model.report.state_bytes == 8
        for k in (1, 2):
            np.testing.assert_array_equal(model.run("step", {"x": x})["sum"], k * x)
        np.testing.assert_array_equal(model.run("clear", {"x": 5 * x})["old"], 2 * x)
        np.testing.assert_array_equal(model.run("step", {"x": x})["sum"], 6 * x)
    (tmp_path / "clear.ir").write_text(CLEAR.replace("f32[2]", "f32[3]"))
    with pytest.raises(BuildError, match="the state seen of entry clear is another one"):
        sdk.compile({k: tmp_path / f"{k}.ir" for k in ("step", "clear")})


def test_formats_may_differ(files: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "step.ir").write_text(STEP)
    module = import_model(join_files({"one": files["decode"], "two": tmp_path / "step.ir"}), BuildOptions(), "m")
    assert list(module.graphs) == ["one", "two"]
    assert list(module.states) == ["seen"]


def test_models_that_cannot_be_joined(files: dict[str, Path], tmp_path: Path) -> None:
    second = STEP[STEP.index("graph @main") :].replace("@main", "@more")
    (tmp_path / "two.ir").write_text(STEP + second)
    with pytest.raises(BuildError, match="has 2 entries of its own"):
        import_model(join_files({"a": tmp_path / "two.ir"}), BuildOptions(), "m")
    (tmp_path / "typed.ir").write_text(STEP.replace("imported", "typed"))
    with pytest.raises(BuildError, match="different stages"):
        import_model(join_files({"a": files["decode"], "b": tmp_path / "typed.ir"}), BuildOptions(), "m")
    with pytest.raises(UsageError, match="no name of an entry"):
        join_files({"a b": files["decode"]})
    with pytest.raises(UsageError, match="no models to join"):
        join_files({})
    (tmp_path / "step.ir").write_text(STEP)
    joined = join_files({"one": files["decode"], "two": tmp_path / "step.ir"})
    with pytest.raises(UsageError, match="onnxruntime does not run step"):
        verify(joined, load_board("host"), None, BuildOptions(), "onnxruntime", 1, None, "two")


def test_the_command(files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"{entry}={path}" for entry, path in files.items()]
    out = tmp_path / "out"
    assert run_command(["build", *words, "--board", "host", "--dim", "n=1:16", "-o", str(out)]) == 0
    header = (out / "prefill_decode.h").read_text()
    assert "int prefill_decode_prefill_run(" in header
    assert "int prefill_decode_decode_run(" in header
    np.save(tmp_path / "x.npy", np.ones((3, 8), np.float32))
    assert run_command(["run", str(out), "--entry", "prefill", "--input", f"x={tmp_path / 'x.npy'}"]) == 2
    given = ["--input", f"x={tmp_path / 'x.npy'}", "--board", "host"]
    assert run_command(["run", str(out), "--entry", "prefill", *given]) == 0
    assert run_command(["inspect", *words]) == 0
    assert "prefill+decode" in capsys.readouterr().out
    for wrong, message in (
        ([words[0], str(files["decode"])], "not an entry"),
        ([words[0], words[0]], "two entries are called"),
        (["a=missing.onnx"], "no such file"),
    ):
        assert run_command(["build", *wrong, "--board", "host"]) == 2
        assert message in capsys.readouterr().err
