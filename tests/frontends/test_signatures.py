"""Files of several signatures: an entry for each, named by it as its tensors are, against LiteRT's runners."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert import interpreter as litert
from tflite_files import ModelFile, Signature

from sdk.cli import run_command
from sdk.compiler import ops
from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.compiler.verify.module import check
from sdk.errors import BuildError, UsageError
from sdk.frontends.tflite.importer import import_tflite

WEIGHTS = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
ENCODE: Signature = (0, {"x": 0}, {"code": 2, "raw": 0})
DECODE: Signature = (1, {"code": 0, "gain": 1}, {"x": 4})


def encoder(open_rows: bool = False) -> ModelFile:
    m = ModelFile()
    x = m.input("encode_x:0", (2, 6), "float32", signature=(-1, 6) if open_rows else None)
    w, y = m.const("w", WEIGHTS, "float32"), m.output("encode_y:0", (2, 4), "float32")
    m.op("FULLY_CONNECTED", [x, w, -1], [y], "FullyConnectedOptions", FusedActivationFunction=1, KeepNumDims=True)
    return m


def decoder() -> ModelFile:
    """Its weights are those of the encoder; inputs and outputs are not in the order of the signature."""
    m = ModelFile()
    y, gain = m.input("decode_y:0", (2, 6), "float32"), m.input("decode_gain:0", (), "float32")
    w, z = m.const("other_name", WEIGHTS, "float32"), m.tensor("z", (2, 4), "float32")
    out = m.output("decode_out:0", (2, 4), "float32")
    m.op("FULLY_CONNECTED", [y, w, -1], [z], "FullyConnectedOptions", FusedActivationFunction=0, KeepNumDims=True)
    m.op("MUL", [z, gain], [out], "MulOptions", FusedActivationFunction=0)
    return m


def both(open_rows: bool = False) -> bytes:
    return encoder(open_rows).build(decoder(), signatures={"encode": ENCODE, "de-code": DECODE})


def test_each_signature_is_an_entry() -> None:
    data = both()
    module = import_tflite(data, "m")
    check(module, ops)
    assert list(module.graphs) == ["encode", "de_code"]
    assert [c.data.shape for c in module.consts.values()] == [(4, 6), (6, 4)], "the weights, and turned"
    runtime, rng = litert.Interpreter(model_content=data), np.random.default_rng(1)
    for key, name in (("encode", "encode"), ("de-code", "de_code")):
        graph = module.graphs[name]
        given = {p.name: rng.standard_normal(p.type.static_shape).astype(np.float32) for p in graph.params}
        want = runtime.get_signature_runner(key)(**given)
        got = run_graph(module, name, given)
        assert list(got) == {"encode": ["code", "raw"], "de_code": ["x"]}[name]
        for result, value in got.items():
            np.testing.assert_allclose(value, want[result], rtol=1e-6, atol=1e-6)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(both(open_rows=True))
    given = ["verify", str(path), "--board", "host", "--cases", "6", "--json"]
    for more in ("encode --dim x_0=1:5", "de_code", "encode --dim encode.x_0=3"):
        assert run_command([*given, "--entry", *more.split()]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["passed"]
        assert found["reference"].startswith("litert")
    assert run_command(given) != 0
    assert "name one with --entry: encode, de_code" in capsys.readouterr().err


@pytest.mark.parametrize(("entry", "layers"), [("encode", ["code"]), ("de_code", ["z", "x"])])
def test_layers_are_those_of_the_entry(
    entry: str, layers: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(both())
    given = ["verify", str(path), "--board", "host", "--cases", "3", "--json", "--layers"]
    assert run_command([*given, "--entry", entry]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in found["layers"]] == layers
    assert all(row["passed"] for row in found["layers"])
    assert found["layers_reference"].startswith("litert")
    assert run_command(given) != 0
    assert "name one with --entry: encode, de_code" in capsys.readouterr().err


def test_bounds_of_dims_are_for_all_entries_or_one() -> None:
    data = both(open_rows=True)
    for name in ("x_0", "encode.x_0"):
        module = import_tflite(data, "m", dims={name: (1, 4)})
        assert [len(g.dims) for g in module.graphs.values()] == [1, 0]
    for name in ("y_0", "de_code.x_0", "other.x_0"):
        with pytest.raises(UsageError, match="the model has no dim") as error:
            import_tflite(data, "m", dims={name: (1, 4)})
        assert error.value.hint == "open dims: x_0"


def test_one_signature_says_no_more_than_the_first_subgraph() -> None:
    data = encoder().build(signatures={"encode": ENCODE})
    assert list(import_tflite(data, "m").graphs) == ["main"]


def counter(step: float, key: str = "seen") -> ModelFile:
    """Adds to a variable and gives its new value."""
    m = ModelFile()
    handle, old = m.tensor("handle", (1,), "int32"), m.tensor("old", (3,), "float32")
    x, new = m.input("x", (3,), "float32"), m.output("new", (3,), "float32")
    scaled = m.tensor("scaled", (3,), "float32")
    m.op("VAR_HANDLE", [], [handle], "VarHandleOptions", SharedName=key)
    m.op("READ_VARIABLE", [handle], [old])
    m.op("MUL", [x, m.const("step", step, "float32")], [scaled], "MulOptions", FusedActivationFunction=0)
    m.op("ADD", [old, scaled], [new], "AddOptions", FusedActivationFunction=0)
    m.op("ASSIGN_VARIABLE", [handle, new], [])
    return m


def test_resources_are_shared_by_name() -> None:
    signature: Signature = (0, {"x": 2}, {"y": 3})
    data = counter(1.0).build(counter(-2.0), signatures={"up": signature, "down": (1, *signature[1:])})
    module = import_tflite(data, "m")
    assert list(module.states) == ["seen"]
    states, x = initial_states(module), np.arange(3, dtype=np.float32)
    for entry, total in (("up", 1), ("up", 2), ("down", 0), ("up", 1)):
        np.testing.assert_array_equal(run_graph(module, entry, {"x": x}, states)["y"], total * x)


def test_what_does_not_fit() -> None:
    m, n = encoder(), decoder()
    with pytest.raises(BuildError, match="not a valid TensorFlow Lite model") as error:
        import_tflite(m.build(n, signatures={"a": ENCODE, "b": (2, {}, {})}), "m")
    assert "the subgraph of signature b is number 2 of 2" in str(error.value)
    with pytest.raises(BuildError, match="not a valid") as error:
        import_tflite(m.build(n, signatures={"a": ENCODE, "b": (1, {"x": 99}, {})}), "m")
    assert "the tensor x of signature b is number 99 of 5" in str(error.value)
    with pytest.raises(BuildError, match="cannot be imported") as error:
        import_tflite(m.build(n, signatures={"a": ENCODE, "b": (1, {"code": 0}, {"x": 4})}), "m")
    assert error.value.where is not None
    assert error.value.where.startswith("entry b: node 1 MUL")
