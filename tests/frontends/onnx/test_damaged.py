"""Damaged and malicious ONNX files end in a BuildError that says what is wrong; never in a crash or a hang."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import pytest
from harness import model_of, one_node
from onnx import TensorProto, helper

from sdk.errors import SdkError
from sdk.frontends.onnx.importer import import_onnx

X = np.ones((2, 3), dtype=np.float32)


def net() -> onnx.ModelProto:
    weights = {"x": X, "w": np.ones((3, 4), np.float32), "shape": np.array([4, -1])}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Reshape", ["r", "shape"], ["y"]),
    ]
    return model_of(nodes, weights, ["y"], constants=["w", "shape"], shapes={"x": ["n", 3]})


def refused(model: onnx.ModelProto | bytes, folder: Path | None = None) -> str:
    with pytest.raises(SdkError) as error:
        import_onnx(model, "m", dims={"n": (2, 8, 2)}, folder=folder)
    return str(error.value)


def test_whole_file_is_imported() -> None:
    assert import_onnx(net().SerializeToString(), "m", dims={"n": (4, 8, 4)}).graphs["main"].dims


def test_cut_files() -> None:
    data = net().SerializeToString()
    for size in range(0, len(data) - 1, 3):
        refused(data[:size])


@pytest.mark.parametrize("seed", range(8))
def test_mutated_files(seed: int) -> None:
    data, rng = net().SerializeToString(), random.Random(seed)
    for _ in range(60):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        with suppress(SdkError):
            import_onnx(bytes(changed), "m", dims={"n": (2, 8, 2)})


def test_cycles_and_missing_names() -> None:
    model = net()
    model.graph.node[0].input[0] = "y"
    assert "before it is computed" in refused(model)
    model = net()
    model.graph.node[2].input[0] = "nothing"
    assert "'nothing' is used before it is computed" in refused(model)
    model = net()
    model.graph.output[0].name = "nothing"
    assert "output nothing is never computed" in refused(model)


def test_names_given_twice() -> None:
    model = net()
    model.graph.node[1].output[0] = "h"
    assert "computed twice" in refused(model)
    model = net()
    model.graph.input.append(model.graph.input[0])
    assert "two inputs" in refused(model)


def test_absurd_sizes() -> None:
    model = net()
    model.graph.initializer[0].dims[0] = 1 << 40
    assert "2147483647 bytes" in refused(model)
    model = net()
    model.graph.initializer[0].dims[0] = -3
    assert "shape [-3, 4]" in refused(model)
    model = net()
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 1 << 40
    assert "2147483647 bytes" in refused(model)
    huge = one_node("ConstantOfShape", {"s": np.array([1 << 20, 1 << 20])}, constants=["s"])
    refused(huge)


def test_wrong_lengths() -> None:
    model = net()
    model.graph.initializer[0].raw_data = model.graph.initializer[0].raw_data[:-1]
    assert "47 bytes" in refused(model)


def test_versions() -> None:
    model = net()
    model.opset_import[0].version = 6
    assert "opset 6" in refused(model)
    model.opset_import[0].version = 1000
    assert "upgrade onnx" in refused(model)
    del model.opset_import[:]
    assert "which version" in refused(model)


def test_types_without_counterpart() -> None:
    model = net()
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    assert "string" in refused(model)
    model.graph.input[0].type.tensor_type.elem_type = 250
    assert "number 250" in refused(model)


def external(folder: Path, location: str, **more: str) -> onnx.ModelProto:
    model = net()
    tensor = model.graph.initializer[0]
    (folder / "data.bin").write_bytes(bytes(16) + tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": "16", **more}.items():
        tensor.external_data.add(key=key, value=value)
    return model


def test_external_data(tmp_path: Path) -> None:
    module = import_onnx(external(tmp_path, "data.bin"), "m", dims={"n": (4, 8, 4)}, folder=tmp_path)
    assert any(np.array_equal(c.data, np.ones((3, 4))) for c in module.consts.values())


@pytest.mark.parametrize("location", ["../data.bin", "/etc/hostname", "a/../../data.bin", ""])
def test_external_data_stays_in_the_folder(tmp_path: Path, location: str) -> None:
    inner = tmp_path / "model"
    inner.mkdir()
    assert "outside the model's folder" in refused(external(inner, location), inner)


def test_external_links_stay_in_the_folder(tmp_path: Path) -> None:
    inner = tmp_path / "model"
    inner.mkdir()
    (tmp_path / "secret").write_bytes(bytes(64))
    (inner / "link").symlink_to(tmp_path / "secret")
    assert "outside the model's folder" in refused(external(inner, "link"), inner)


def test_external_lengths(tmp_path: Path) -> None:
    assert "bytes early" in refused(external(tmp_path, "data.bin", offset="20"), tmp_path)
    assert "its shape needs 48" in refused(external(tmp_path, "data.bin", length="12"), tmp_path)
    assert "no proper place" in refused(external(tmp_path, "data.bin", length="all"), tmp_path)
    assert "cannot be read" in refused(external(tmp_path, "other.bin"), tmp_path)
    assert "without a folder" in refused(external(tmp_path, "data.bin"))


def test_functions_that_call_themselves() -> None:
    model = net()
    body = [helper.make_node("F", ["a"], ["b"], domain="own")]
    model.functions.append(helper.make_function("own", "F", ["a"], ["b"], body, [helper.make_opsetid("own", 1)]))
    model.graph.node[1].op_type, model.graph.node[1].domain = "F", "own"
    model.opset_import.append(helper.make_opsetid("own", 1))
    assert "calls itself" in refused(model)
