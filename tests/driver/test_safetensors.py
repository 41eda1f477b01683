"""Weights in files of safetensors, named beside a model."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from safetensors.torch import save_file
from torch import Tensor, nn

import sdk
from sdk import driver
from sdk.boards import load_board
from sdk.driver.safetensors import read_safetensors
from sdk.errors import UsageError

OPTIONS = driver.BuildOptions


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(5, 4)
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.norm(self.words(ids)))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("safetensors") / "net.pt2"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(Tied().eval(), (torch.tensor([1, 2]),)), path)
    return path


def _weights(net: nn.Module) -> dict[str, Tensor]:
    found = net.state_dict()
    del found["head.weight"], found["norm.num_batches_tracked"]
    return {k: v.contiguous() for k, v in found.items()}


def test_other_weights_of_a_program(program: Path, tmp_path: Path) -> None:
    torch.manual_seed(7)
    net = Tied().eval()
    nn.init.uniform_(net.norm.running_mean)
    given = _weights(net)
    given["norm.weight"] = given["norm.weight"].bfloat16()  # ones are exact
    first, second = tmp_path / "1.safetensors", tmp_path / "2.safetensors"
    names = sorted(given)
    save_file({k: given[k] for k in names[:2]}, first)
    save_file({k: given[k] for k in names[2:]}, second, metadata={"format": "pt"})
    ids = torch.tensor([4, 0])
    with sdk.compile(program, safetensors=[first, second]) as model:
        np.testing.assert_allclose(model(ids=ids)["output"], net(ids).detach(), atol=1e-5)
    options = OPTIONS(safetensors=(first, second))
    assert driver.verify(program, load_board("host"), None, options, "torch", 2).passed


def test_what_does_not_fit_is_listed(program: Path, tmp_path: Path) -> None:
    given = _weights(Tied())
    given["model.norm.bias"] = given.pop("norm.bias")
    given["norm.running_mean"] = torch.zeros(3)
    given["norm.weight"] = given["norm.weight"].double()
    save_file(given, tmp_path / "w.safetensors")
    with pytest.raises(UsageError, match=r"the tensors of w\.safetensors are not those of the model") as caught:
        sdk.compile(program, safetensors=[tmp_path / "w.safetensors"])
    where = str(caught.value.where)
    assert "model.norm.bias: no parameter or buffer of the model; norm.bias is" in where
    assert "norm.bias: the model has it, the file has not" in where
    assert "norm.running_mean: F32[3] in the file, F32[4] in the model" in where
    assert "norm.weight: F64[4] in the file, F32[4] in the model" in where


def test_initialisers_of_onnx(tmp_path: Path) -> None:
    def tensor(name: str, *shape: int) -> Any:
        return helper.make_tensor(name, TensorProto.FLOAT, shape, np.zeros(shape, np.float32).reshape(-1).tolist())

    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Add", ["y", "b"], ["z"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 3])], [tensor("w", 2, 3), tensor("b", 3)],
    )  # fmt: skip
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)
    save_file({"w": torch.arange(6.0).reshape(2, 3)}, tmp_path / "w.safetensors")
    with sdk.compile(path, safetensors=[tmp_path / "w.safetensors"]) as model:
        assert model(x=np.ones((1, 2), np.float32))["z"].tolist() == [[3.0, 5.0, 7.0]]
    save_file({"v": torch.ones(1)}, tmp_path / "v.safetensors")
    with pytest.raises(UsageError) as caught:
        sdk.compile(path, safetensors=[tmp_path / "v.safetensors"])
    assert "v: no initialiser of the model" in str(caught.value.where)
    with pytest.raises(UsageError, match="two files have a tensor 'w'"):
        sdk.compile(path, safetensors=[tmp_path / "w.safetensors"] * 2)
    with pytest.raises(UsageError, match=r"cannot read .*missing"):
        sdk.compile(path, safetensors=[tmp_path / "missing"])


def test_formats_without_names(tmp_path: Path) -> None:
    save_file({"v": torch.ones(1)}, tmp_path / "v.safetensors")
    with pytest.raises(UsageError, match="does not take tensors by name"):
        sdk.compile("examples/digits/digits_int8.tflite", safetensors=[tmp_path / "v.safetensors"])


def _file(header: Any, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def _one(**given: Any) -> dict[str, Any]:
    return {"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2], **given}}


@pytest.mark.parametrize(
    "data",
    [
        b"", b"123", (1 << 60).to_bytes(8, "little") + b"{}", _file(b"{"), _file(b"[]"), _file(b"[" * 10_000),
        _file(b"\xff"),
        _file(_one(), b"123"), _file(_one(), b"1"), _file(_one(shape=[3]), b"12"), _file(_one(shape=[-2]), b"12"),
        _file(_one(shape=[2.0]), b"12"), _file(_one(shape=[True, 2]), b"12"), _file(_one(shape=2), b"12"),
        _file(_one(data_offsets=[1, 2]), b"12"), _file(_one(data_offsets=[0]), b"12"), _file({"a": 1}),
        _file({"a": {}}),
        _file(_one(data_offsets=["0", "2"]), b"12"), _file({**_one(), "b": _one()["a"]}, b"12"),
        _file(b"{" + b",".join([b'"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}'] * 2) + b"}", b"1"),
    ],
)  # fmt: skip
def test_damaged_files(data: bytes) -> None:
    with pytest.raises(UsageError, match="is no file of safetensors"):
        read_safetensors(data, "w")


def test_element_types() -> None:
    with pytest.raises(UsageError, match="elements of type F8_E4M3"):
        read_safetensors(_file(_one(dtype="F8_E4M3"), b"12"), "w")
    found = read_safetensors(_file({"a": {"dtype": "F16", "shape": [1], "data_offsets": [0, 2]}}, b"\x00\x3c"), "w")
    assert np.frombuffer(found["a"].widened("F32") or b"", np.float32).tolist() == [1.0]
    assert found["a"].widened("F64") is not None
    assert found["a"].widened("I16") is None
